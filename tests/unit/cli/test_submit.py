"""Output of ``submit``, and its check of the API server beforehand."""

import importlib.util
from pathlib import Path

import pytest
import yaml

from k8sbench.catalog import planning
from tests.unit.command_line import Cli

WORDS = ("submit", "resnet50", "--backend=local", "--dry-run")


@pytest.mark.parametrize("words", [WORDS, ("render", "resnet50")])
def test_one_manifest_of_several_runs_is_said_to_stand_for_all(
    cli: Cli, words: tuple[str, ...]
) -> None:
    printed = cli(*words, "--repeats=3")
    assert printed.out.count("\nkind: PyTorchJob") == 1
    assert "3 runs a case" in printed.err
    assert "runs a case" not in cli(*words).err


def test_a_dry_run_prints_the_manifest_in_the_format_asked_for(cli: Cli) -> None:
    printed = cli(*WORDS).out
    assert planning.DRAFT_ID not in printed
    as_json = cli.json(*WORDS, "--output=json")
    assert as_json["items"] == list(yaml.safe_load_all(printed))
    assert "PyTorchJob" in {one["kind"] for one in as_json["items"]}


OBJECT = """
apiVersion: k8sbench.io/v1alpha1
kind: Benchmark
metadata: {name: least}
spec: {benchmark: tsm}
"""


def test_a_dry_run_needs_no_framework(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    (tmp_path / "least.yaml").write_text(OBJECT)
    for what in (["tsm"], ["-f", str(tmp_path / "least.yaml")]):
        submit = ("submit", *what, "--backend=local")
        assert "PyTorchJob" in {
            one["kind"] for one in yaml.safe_load_all(cli(*submit, "--dry-run").out)
        }
        assert "torch is not installed" in cli(*submit, code=2).err
