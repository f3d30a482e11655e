"""The options that ``submit`` and ``render`` share, from the command line to the container."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8sbench.model.request import SubmitRequest
from tests.unit.command_line import Cli


def render(cli: Cli, *options: str) -> tuple[list[str], str]:
    """The container's command, and what was printed beside it."""
    printed = cli("render", "resnet50", "--gpus", "1", *options)
    job: Any = list(yaml.safe_load_all(printed.out))[-1]
    master = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    return master["containers"][0]["command"], printed.err


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of data, start weights, and the folder in which commands are typed."""
    (tmp_path / "pictures").mkdir()
    (tmp_path / "start.pth").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_paths_are_made_absolute_and_reach_the_trainer(cli: Cli, files: Path) -> None:
    command, reported = render(
        cli,
        "--backend=local",
        "--mode=train",
        "--data=pictures",
        "--weights=./x/../start.pth",
        "--checkpoints=kept",
        "--epochs=2",
        "--target=90",
    )
    told = {name: command[command.index(f"--{name}") + 1] for name in ("data", "weights")}
    assert told == {"data": f"{files}/pictures", "weights": f"{files}/start.pth"}
    assert command[command.index("--checkpoints") + 1] == f"{files}/kept/$(K8SBENCH_RUN_ID)"
    assert " · train 2 epochs, evaluated every 1, to top-1 90 % · local · " in reported
    assert f" · data path:{files}/pictures · weights path:{files}/start.pth · " in reported
    assert f"checkpoints path:{files}/kept · up to 3 restarts" in reported


def test_each_batch_size_is_a_case_with_a_name_of_its_own(cli: Cli) -> None:
    printed = cli("render", "deeplabv3p", "--gpus=1", "--batch-size=2,8", "--framework=all")
    jobs = [one for one in yaml.safe_load_all(printed.out) if one["kind"] != "ConfigMap"]
    assert len({job["metadata"]["name"] for job in jobs}) == len(jobs) == 4
    assert printed.err.count("batch 2 × 1") == printed.err.count("batch 8 × 1") == 2
    asked = cli("render", "resnet50", "--batch-size=64,128", "-o", "benchmark").out
    assert yaml.safe_load(asked)["spec"]["batchSizes"] == [64, 128]


@pytest.mark.parametrize("wrong", ["64,,128", "0", "64,128,64", "x", "64;128", "-1", "1000001", ""])
def test_a_wrong_batch_size_is_one_error(cli: Cli, wrong: str) -> None:
    err = cli("render", "resnet50", f"--batch-size={wrong}", code=2).err
    assert err.count("error: ") == 1
    assert f"--batch-size {wrong!r} is no list of batch sizes." in err


def test_a_sweep_is_resumed_as_it_was_typed() -> None:
    asked = SubmitRequest(benchmark="resnet50", set_name="s", batch_sizes=(64, 128))
    assert asked.resume_command() == "k8sbench submit resnet50 --batch-size 64,128 --resume s"


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_render_prints_the_job_alone_and_names_what_it_needs(cli: Cli, form: str) -> None:
    def kinds(out: str) -> list[str]:
        found = list(yaml.safe_load_all(out))
        return [one["kind"] for one in (found[0]["items"] if form == "json" else found)]

    out, err = cli("render", "resnet50", "-o", form)
    assert kinds(out) == ["PyTorchJob"]
    every = cli("render", "resnet50", "--with-trainers", "-o", form).out
    assert kinds(every) == ["ConfigMap", "PyTorchJob"]
    name = next(iter(yaml.safe_load_all(every)))
    config_map = name["items"][0] if form == "json" else name
    assert config_map["metadata"]["name"] in err


def test_the_first_line_of_render_on_a_terminal_is_the_plan() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "k8sbench", "render", "resnet50"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("resnet50 · pytorch · dle · fp32 · 1 replica × 8 GPUs")
