"""The options that ``submit`` and ``render`` share, from the command line to the container."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from k8sbench.cli.main import main


def render(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[list[str], str]:
    """The container's command, and what was printed beside it."""
    assert main(["render", "resnet50", "--gpus", "1", *options]) == 0
    printed = capsys.readouterr()
    job: Any = list(yaml.safe_load_all(printed.out))[-1]
    master = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    return master["containers"][0]["command"], printed.err


def test_data_and_speed_options_reach_the_trainer(capsys: pytest.CaptureFixture[str]) -> None:
    command, reported = render(
        capsys,
        *("--data", "synthetic-host", "--speed-option", "workers=3"),
        *("--speed-option", "channels-last", "--speed-option", "cudnn-benchmark=false"),
    )
    assert command[command.index("--data") + 1] == "synthetic-host"
    assert command[command.index("--workers") + 1] == "3"
    assert {"--channels-last", "--no-cudnn-benchmark"} <= {*command}
    assert " · data synthetic-host · channels-last · no cudnn-benchmark · workers 3 · " in reported


def test_without_them_data_lie_on_the_device_and_speed_is_upstream_s(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, reported = render(capsys)
    assert command[command.index("--data") + 1] == "synthetic"
    assert not {"--workers", "--channels-last", "--no-cudnn-benchmark", "--compile"} & {*command}
    assert "data" not in reported.partition("note:")[0]


@pytest.mark.parametrize("command", ["render", "submit"])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--data", "pvc:imagenet"), "not available yet"),
        (("--data", "synthetik"), "Write synthetic or synthetic-host"),
        (("--speed-option", "worker=2"), "Did you mean workers?"),
        (("--speed-option", "workers"), "Write workers=8"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], command: str, options: tuple[str, ...], says: str
) -> None:
    assert main([command, "resnet50", "--backend", "local", *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert says in printed.err
