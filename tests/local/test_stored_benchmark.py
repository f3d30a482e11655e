"""The Benchmark of a submit lies in the store, and what a process leaves of it is resumed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8sbench.cli.main import main
from tests.harness import benchmark_files
from tests.local.jobs import wait_for

PROGRAM = """
import os, pathlib, random, signal
for step in range(1, 21):  # no log is a copy of another one
    print(f"step {step} 8.00{random.randrange(1000):03} samples/s", flush=True)
    if step == 10 and pathlib.Path(os.environ["HELD"]).exists():
        signal.pause()  # until its command ends
"""
PATIENCE = 60.0
"""Timeout of a condition, seconds."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    spec = benchmark_files.benchmark(
        base=benchmark_files.variant(
            ("python3", "train.py"),
            "registry.example.com/team/mine:1",
            r"step (?P<iteration>\d+) (?P<rate>[\d.]+) samples/s",
            title="As it is",
            env={"HELD": str(tmp_path / "held")},
            batch_size={"fp32": 4},
            window={"warmup": 4, "iterations": 16, "rule": "ours"},
        )
    )
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(spec))
    return tmp_path / "store"


def words(store: Path, *more: str) -> list[str]:
    path = str(store.parent / "mine.yaml")
    return ["submit", path, "--backend=local", "--yes", "--repeats=2", *more]


def status(store: Path) -> dict[str, Any]:
    (path,) = (store / "benchmarks").glob("*.status.json")
    found: dict[str, Any] = json.loads(path.read_text())["status"]
    return found


def names(store: Path) -> set[str]:
    """Names of the store's objects."""
    found = {path.name for path in (store / "benchmarks").glob("*.json")}
    return {name.removesuffix(".json") for name in found if not name.endswith(".status.json")}


def test_an_object_of_the_same_set_is_retried_and_says_how_it_ended(store: Path) -> None:
    for line in ("--set=night", "--resume=night"):
        assert main(words(store, line)) == 0
        said = status(store)
        assert (said["phase"], said["summary"]["runs"]) == ("Succeeded", "2/2")
        assert said["summary"]["throughput"] == pytest.approx(8.0, abs=0.01)
    assert said["observedRetry"] == 1
    assert list((store / "benchmarks" / "open").iterdir()) == []


def test_each_row_of_a_run_names_its_object(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(store, "--set=night")) == 0
    (object_name,) = names(store)

    def rows(*command: str) -> Any:
        capsys.readouterr()
        assert main([*command, "-o", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    listed = rows("list")
    (group,) = rows("results")["rows"]
    found = [*listed, *group["members"], rows("status", listed[0]["run_id"])]
    assert [one["object_name"] for one in found] == [object_name] * 5


@pytest.mark.parametrize(("number", "phase"), [(signal.SIGKILL, "Lost"), (15, "Cancelled")])
def test_what_a_process_leaves_is_run_when_it_is_resumed(
    store: Path, number: int, phase: str
) -> None:
    """The object alone tells of the second run."""
    held = store.parent / "held"
    held.touch()
    command = [sys.executable, "-m", "k8sbench", *words(store, "--set=night")]
    with subprocess.Popen(command, env=os.environ, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: any(store.glob("runs/*/logs/*.log")), "the first line", PATIENCE)
        process.send_signal(number)
    held.unlink()
    assert len(list((store / "runs").iterdir())) == 1
    assert status(store)["phase"] == "Running"
    (mark,) = (store / "benchmarks" / "open").iterdir()
    assert main(words(store, "--resume=night")) == 0
    said = status(store)
    assert sorted(run["phase"] for run in said["runs"]) == [phase, "Succeeded", "Succeeded"]
    assert said["summary"]["runs"] == "3/3"
    assert not mark.exists()


def test_another_benchmark_of_a_name_joins_its_run_and_set(store: Path) -> None:
    """The time limit may be another, as may the length of a training."""
    for limit in ("1m", "2m"):
        assert main([*words(store, "--run-id=mine", "--repeats=1"), f"--timeout={limit}"]) == 0
    (run,) = (store / "runs").iterdir()
    assert run.name == "mine"
    found = [json.loads(path.read_text()) for path in (store / "benchmarks").glob("*.status.json")]
    assert [one["status"]["phase"] for one in found] == ["Succeeded"] * 2
    kept = [json.loads(path.read_text()) for path in (store / "benchmarks").glob("*[!s].json")]
    assert {one["object"]["spec"]["set"] for one in kept} == {"mine"}
