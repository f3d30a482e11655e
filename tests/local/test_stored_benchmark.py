"""The Benchmark of a submit lies in the store, and what a process leaves of it is resumed."""

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from k8sbench.adapters import processes
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
    """Return the status of the store's oldest object."""
    paths = (store / "benchmarks").glob("*.status.json")
    path = min(paths, key=lambda path: path.name)
    return status_of(store, path.name.removesuffix(".status.json"))


def status_of(store: Path, name: str) -> dict[str, Any]:
    text = (store / "benchmarks" / f"{name}.status.json").read_text()
    found: dict[str, Any] = json.loads(text)["status"]
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
    assert listed[0]["run_id"] == f"{object_name}-1"


def stopped(store: Path, number: int, *more: str) -> str:
    """Stop a submit of set night in its first run; return the name of its object."""
    with begun(store, *more) as process:
        process.send_signal(number)
    (store.parent / "held").unlink()
    assert len(list((store / "runs").iterdir())) == 1
    (name,) = names(store)
    return name


@contextlib.contextmanager
def begun(store: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Begin a submit of set night, and wait for the first line of its first run."""
    (store.parent / "held").touch()
    command = [sys.executable, "-m", "k8sbench", *words(store, "--set=night", *more)]
    with subprocess.Popen(command, env=os.environ, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: any(store.glob("runs/*/logs/*.log")), "the first line", PATIENCE)
        yield process


def complete(store: Path) -> tuple[str, str]:
    """Return status and reason of ``Complete``."""
    (found,) = [one for one in status(store)["conditions"] if one["type"] == "Complete"]
    return found["status"], found["reason"]


def stored(store: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((store / "benchmarks" / f"{name}.json").read_text())
    return found


def is_open(store: Path) -> bool:
    return any((store / "benchmarks" / "open").iterdir())


@pytest.mark.parametrize(
    ("number", "phase", "left"),
    [(signal.SIGKILL, "Lost", "Running"), (signal.SIGTERM, "Cancelled", "Cancelled")],
)
def test_what_a_process_leaves_is_run_when_it_is_resumed(
    store: Path, number: int, phase: str, left: str
) -> None:
    """The object alone tells of the second run; a process that is not killed writes its end."""
    stopped(store, number)
    assert status(store)["phase"] == left
    assert is_open(store) == (left == "Running")
    assert main(words(store, "--resume=night")) == 0
    said = status(store)
    assert sorted(run["phase"] for run in said["runs"]) == [phase, "Succeeded", "Succeeded"]
    assert said["summary"]["runs"] == "3/3"
    assert not is_open(store)


@pytest.mark.parametrize("command", ["watch", "collect", "cancel"])
def test_who_looks_at_what_a_killed_process_has_left_writes_its_end_and_starts_nothing(
    store: Path, command: str
) -> None:
    name = stopped(store, signal.SIGKILL)
    assert status(store)["summary"]["runs"] == "0/2"
    main([command, name])
    said = status(store)
    assert [run["phase"] for run in said["runs"]] == ["Lost"]
    assert (said["phase"], said["summary"]["runs"]) == ("Failed", "1/2")
    assert complete(store) == ("True", "NotStarted")
    assert stored(store, name)["object"]["spec"].get("cancel", False) == (command == "cancel")
    assert len(list((store / "runs").iterdir())) == 1
    assert not is_open(store)
    # What is cancelled stays so: another object of the set completes it.
    assert main(words(store, "--resume=night")) == 0
    assert len(names(store)) == (2 if command == "cancel" else 1)


def test_without_a_cluster_all_that_is_collected_is_local(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(store.parent))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    stopped(store, signal.SIGKILL)
    assert main(["collect", "--all"]) == 0
    assert complete(store) == ("True", "NotStarted")


def test_an_object_that_is_not_over_is_resumed_before_one_that_is(store: Path) -> None:
    assert main(words(store, "--set=night")) == 0
    (over,) = names(store)
    for name in (store / "benchmarks").glob(f"{over}*"):
        text = name.read_text().replace(over, "rest")
        (name.parent / name.name.replace(over, "rest")).write_text(text)
    said = json.loads((store / "benchmarks" / "rest.status.json").read_text())
    said["status"]["phase"], said["status"]["conditions"] = "Running", []
    (store / "benchmarks" / "rest.status.json").write_text(json.dumps(said))
    (store / "benchmarks" / "open" / "rest").touch()
    assert main(words(store, "--resume=night")) == 0
    assert stored(store, "rest")["object"]["spec"]["retry"] == 1
    assert "retry" not in stored(store, over)["object"]["spec"]


def test_an_object_without_a_run_ends_when_it_is_collected(store: Path) -> None:
    name = stopped(store, signal.SIGKILL)
    (run,) = (store / "runs").iterdir()
    assert main(["store", "remove", run.name, "--yes"]) == 0
    main(["collect", name])
    assert (status(store)["phase"], status(store)["summary"]["runs"]) == ("Failed", "0/2")
    assert complete(store) == ("True", "NotStarted")
    assert not is_open(store)


def test_the_process_of_an_object_cancels_it(store: Path) -> None:
    with begun(store) as process:
        (name,) = names(store)
        assert main(["watch", name, "--store", str(store / "none")]) == 2
        assert main(["cancel", name]) == 0
        said = status(store)
        assert [run["phase"] for run in said["runs"]] == ["Cancelled"]
    assert process.returncode == 3
    assert (said["phase"], said["summary"]["runs"]) == ("Cancelled", "1/2")
    assert complete(store) == ("True", "Cancelled")
    assert stored(store, name)["object"]["spec"]["cancel"]
    assert not is_open(store)
    assert main(["cancel", name]) == 0  # nothing is left to do


def test_an_object_is_deleted_and_the_records_of_its_runs_stay(store: Path) -> None:
    assert main(words(store)) == 0
    (name,) = names(store)
    assert main(["delete", name]) == 0
    assert names(store) == set()
    assert len(list((store / "runs").iterdir())) == 2


@pytest.mark.parametrize("command", ["status", "logs", "watch"])
def test_the_name_of_an_object_is_that_of_its_only_run(
    store: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words(store), "--repeats=1"]) == 0
    (name,) = names(store)
    assert main([command, name]) == 0
    assert main(words(store, "--resume=" + stored(store, name)["object"]["spec"]["set"])) == 0
    (other,) = names(store) - {name}
    assert main([command, other]) == 0
    capsys.readouterr()
    assert main(words(store, "--set=night")) == 0
    (third,) = names(store) - {name, other}
    assert main([command, third]) == 2
    found = {run["name"] for run in status_of(store, third)["runs"]}
    error = capsys.readouterr().err
    assert len(found) == 2
    assert all(run in error.rpartition("error:")[2] for run in found)


# -- another machine -------------------------------------------------------------------------------


def test_another_machine_goes_on_with_an_object_when_it_has_taken_it_over(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = stopped(store, signal.SIGKILL)
    monkeypatch.setattr(platform, "node", lambda: "another")
    named = words(store, "--repeats=1", f"--run-id={name}")
    for command in (words(store, "--resume=night"), named, ["cancel", name]):
        capsys.readouterr()
        assert main(command) == 2
        assert f"k8sbench collect --take-over {name}" in capsys.readouterr().err
    main(["collect", name])
    assert status(store)["phase"] == "Running"  # its process may still run there
    assert len(list((store / "runs").iterdir())) == 1
    main(["collect", "--take-over", "--yes", name])
    assert stored(store, name)["place"]["process"]["host"] == "another"
    assert [run["phase"] for run in status(store)["runs"]] == ["Lost"]
    assert complete(store) == ("True", "NotStarted")
    assert main(words(store, "--resume=night")) == 0
    assert status(store)["summary"]["runs"] == "3/3"


def test_another_machine_writes_the_end_of_an_object_whose_runs_have_all_begun(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = stopped(store, signal.SIGKILL, "--repeats=1")
    assert main(["list"]) == 0  # which tells that the run is lost
    monkeypatch.setattr(platform, "node", lambda: "another")
    main(["collect", name])
    assert complete(store) == ("True", "RunsFailed")
    assert not is_open(store)


def test_an_object_of_a_process_that_lives_is_not_resumed_whatever_the_locks_say(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = stopped(store, signal.SIGKILL)
    found = stored(store, name)
    found["place"]["process"] = msgspec.to_builtins(processes.describe(os.getppid()))
    (store / "benchmarks" / f"{name}.json").write_text(json.dumps(found))
    capsys.readouterr()
    assert main(words(store, "--resume=night")) == 2
    assert f"k8sbench collect --take-over {name}" in capsys.readouterr().err
    assert len(list((store / "runs").iterdir())) == 1


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
