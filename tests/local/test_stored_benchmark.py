"""The Benchmark of a submit lies in the store, and what a process leaves of it is resumed."""

import contextlib
import fcntl
import json
import os
import platform
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from k8sbench.adapters import processes
from k8sbench.cli.main import main
from k8sbench.store.open_store import open_store
from tests.harness import benchmark_files, hosts, old_store
from tests.local.jobs import wait_for

PROGRAM = """
import os, pathlib, random, time
for step in range(1, 21):  # no log is a copy of another one
    print(f"step {step} 8.00{random.randrange(1000):03} samples/s", flush=True)
    while step == 10 and pathlib.Path(os.environ["HELD"]).exists():
        time.sleep(0.01)
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
        lost, *_ = sorted((store / "runs").iterdir())
        assert main(["store", "remove", lost.name, "--yes"]) == 0
    assert said["observedRetry"] == 1
    assert list((store / "benchmarks" / "open").iterdir()) == []


def test_a_submit_without_names_draws_one_for_its_object_its_set_and_its_runs(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(store)) == 0
    (name,) = names(store)
    assert re.fullmatch(r"mine-\d{4}-[a-z0-9]{6}", name)
    capsys.readouterr()
    assert main(["list", "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {one["run_id"]: one["set_name"] for one in listed} == {
        f"{name}-1": name,
        f"{name}-2": name,
    }


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_resumption_of_a_set_that_is_complete_stores_nothing(
    store: Path, repeats: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(store, "--set=night")) == 0
    before = files(store)
    capsys.readouterr()
    again = words(store, "--resume=night", f"--repeats={repeats}")
    assert main([*again, "-o", "json"]) == 0
    assert files(store) == before
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert len(row["members"]) == 2


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
        try:
            wait_for(lambda: any(store.glob("runs/*/logs/*.log")), "the first line", PATIENCE)
            yield process
        except BaseException:
            process.kill()  # its first run waits for ever
            raise


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


@contextlib.contextmanager
def in_terminal(*command: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run k8sbench in a terminal of its own; yields it and the terminal's other side."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "k8sbench", *command],
        env=os.environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
    ) as process:
        os.close(theirs)
        try:
            yield process, ours
        except BaseException:
            process.kill()
            raise
        finally:
            os.close(ours)


def shown(terminal: int, until: bytes | None = None) -> bytes:
    """Read what is shown, until a text or the end."""
    read = b""
    with contextlib.suppress(OSError):  # which is how the other side ends
        while until is None or until not in read:
            read += os.read(terminal, 4096)
    return read


@pytest.mark.parametrize("how", ["Ctrl-C", "closed"])
def test_a_terminal_that_is_interrupted_or_lost_ends_the_run_and_a_resumption_goes_on(
    store: Path, how: str
) -> None:
    (store.parent / "held").touch()
    with in_terminal(*words(store, "--set=night")) as (process, terminal):
        wait_for(lambda: any(store.glob("runs/*/logs/*.log")), "the first line", PATIENCE)
        if how == "Ctrl-C":
            os.write(terminal, b"\x03")
            process.wait(PATIENCE)
    (store.parent / "held").unlink()
    assert process.returncode == 130
    assert [run["phase"] for run in status(store)["runs"]] == ["Cancelled"]
    assert not is_open(store)
    assert main(words(store, "--resume=night")) == 0
    assert status(store)["summary"]["runs"] == "3/3"


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_program_of_ones_own_is_asked_for_once_for_all_of_its_runs(
    store: Path, answer: str
) -> None:
    unasked = [word for word in words(store, "--set=night") if word != "--yes"]
    with in_terminal(*unasked) as (process, terminal):
        said = shown(terminal, until=b"[y/N]")
        assert not store.exists()
        os.write(terminal, f"{answer}\n".encode())
        said += shown(terminal)
        assert process.wait(PATIENCE) == (0 if answer == "y" else 2)
    assert said.count(b"[y/N]") == 1
    assert store.exists() == (answer == "y")
    assert answer == "n" or status(store)["summary"]["runs"] == "2/2"


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
    first, _ = sorted((store / "runs").iterdir())
    assert main(["store", "remove", first.name, "--yes"]) == 0
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
    assert process.returncode == 1, "its second run was not started"
    assert (said["phase"], said["summary"]["runs"]) == ("Cancelled", "1/2")
    assert complete(store) == ("True", "Cancelled")
    assert stored(store, name)["object"]["spec"]["cancel"]
    assert not is_open(store)
    assert main(["cancel", name]) == 0  # nothing is left to do


def test_a_submit_whose_object_is_removed_ends_its_run_and_fails(store: Path) -> None:
    with begun(store) as process:
        (name,) = names(store)
        for path in store.glob(f"benchmarks/**/{name}*"):
            path.unlink()
        (run,) = (store / "runs").iterdir()
        (store.parent / "held").unlink()
    assert process.returncode == 1, "its second run was not started"
    assert (run / "measurement.json").exists()
    assert [path.name for path in (store / "runs").iterdir()] == [run.name]


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


def elsewhere(store: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command on another host, which sees this store and none of its claims."""
    command = hosts.entering("another", store, [sys.executable, "-m", "k8sbench", *words])
    return subprocess.run(
        command, env=os.environ, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def phases(store: Path, name: str) -> list[str]:
    """Phases of the runs that an object's status tells of; none before it is written."""
    is_told = (store / "benchmarks" / f"{name}.status.json").exists()
    return [run["phase"] for run in status_of(store, name).get("runs", ())] if is_told else []


def files(store: Path) -> dict[Path, bytes]:
    """All that is on record of objects and runs."""
    found = [*store.glob("benchmarks/**/*"), *store.glob("runs/*/*.json*")]
    return {path: path.read_bytes() for path in found if path.is_file()}


def test_another_host_whose_locks_say_yes_leaves_what_a_process_here_runs(store: Path) -> None:
    with begun(store) as process:
        (name,) = names(store)
        (run,) = (store / "runs").iterdir()
        wait_for(lambda: phases(store, name) == ["Running"], "the last status", PATIENCE)
        before = files(store)
        again = words(store, "--resume=night")
        for command in (again, ["cancel", name], ["collect", "--take-over", name]):
            refused = elsewhere(store, *command)
            assert refused.returncode == 2
            assert name in refused.stderr
        assert f"k8sbench collect --take-over {name}" in elsewhere(store, *again).stderr
        assert elsewhere(store, "cancel", run.name).returncode == 2
        for command in (["collect", name], ["collect", "--all"], ["list"]):
            assert elsewhere(store, *command).returncode == 0
        assert files(store) == before
        assert process.poll() is None
        process.kill()
    (store.parent / "held").unlink()
    assert "Running" in elsewhere(store, "list").stdout  # what it cannot see may run
    elsewhere(store, "collect", "--take-over", "--yes", name)
    assert stored(store, name)["place"]["process"]["host"] == "another"
    assert [run["phase"] for run in status(store)["runs"]] == ["Lost"]
    assert complete(store) == ("True", "NotStarted")
    assert elsewhere(store, *again).returncode == 0
    assert status(store)["summary"]["runs"] == "3/3"
    assert main(again) == 0  # it is over, and anybody's
    assert len(list((store / "runs").iterdir())) == 3


# -- runs of no object -----------------------------------------------------------------------------


def as_of_0_4_0(store: Path) -> str:
    """Make a store with one run a store of 0.4.0; return the run's id."""
    old_store.make(store)
    (run,) = (store / "runs").iterdir()
    return run.name


def test_an_open_run_of_0_4_0_is_collected_and_what_its_set_lacks_is_submitted_by_a_resumption(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped(store, signal.SIGKILL)
    run = as_of_0_4_0(store)
    for command in (["collect", "--all"], ["watch", run], ["cancel", run]):
        main(command)
        assert [path.name for path in (store / "runs").iterdir()] == [run]
        assert names(store) == set()
    capsys.readouterr()
    assert main(["status", run, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["phase"] == "Lost"
    assert main(words(store, "--resume=night")) == 0
    said = status(store)
    assert said["summary"]["runs"] == "2/2"  # its own: what was lost is no run of the object
    assert run not in {one["name"] for one in said["runs"]}
    assert len(list((store / "runs").iterdir())) == 3


def test_a_run_of_0_4_0_that_a_process_follows_takes_no_place_of_its_set(store: Path) -> None:
    stopped(store, signal.SIGKILL)
    run = as_of_0_4_0(store)
    file = store / "runs" / run / "run.json"
    found = json.loads(file.read_text())
    found["owner"] = msgspec.to_builtins(processes.describe(os.getppid()))
    file.write_text(json.dumps(found))
    with open_store(str(store)) as other:
        assert other.claims.claim(run)
        assert main(words(store, "--set=night", "--parallel=1")) == 0
        assert str(other.run(run).phase) == "Running"
    assert status(store)["summary"]["runs"] == "2/2"


# -- several submits of a set ----------------------------------------------------------------------

CROWD = """
import json, os, pathlib, random, time
crowd, me = pathlib.Path(os.environ["CROWD"]), pathlib.Path.cwd().parents[1].name
(crowd / "now" / me).touch()
print("begun", flush=True)
while True:
    now = sorted(path.name for path in (crowd / "now").iterdir())
    if len(now) >= int((crowd / "wanted").read_text() or 99):
        (crowd / "met").touch()
    if (crowd / "met").exists():
        break
    time.sleep(0.01)
for step in range(1, 21):  # no log is a copy of another one
    print(f"step {step} 8.00{random.randrange(1000):03} samples/s", flush=True)
now = sorted(path.name for path in (crowd / "now").iterdir())
(crowd / "seen" / me).write_text(json.dumps(now))
(crowd / "now" / me).unlink()
"""
"""Run that begins its steps when as many as are wanted have met, and tells who was there."""


@pytest.mark.parametrize(
    ("limits", "wanted", "most"),
    [
        (("--parallel=1", "--parallel=1", "--parallel=1"), 1, 1),
        (("--parallel=1", None), 1, 1),
        ((None, None, None), 3, 3),  # each object runs one job at a time, and limits no other
    ],
)
def test_a_limit_that_is_given_counts_over_all_submits_of_a_set_at_once(
    store: Path, limits: tuple[str | None, ...], wanted: int, most: int
) -> None:
    crowd = store.parent / "crowd"
    for name in ("now", "seen"):
        (crowd / name).mkdir(parents=True)
    (crowd / "wanted").write_text("99")
    (store.parent / "train.py").write_text(CROWD)
    spec = yaml.safe_load((store.parent / "mine.yaml").read_text())
    spec["variants"][0]["env"] = {"CROWD": str(crowd)}
    (store.parent / "mine.yaml").write_text(yaml.safe_dump(spec))
    with contextlib.ExitStack() as stack:
        submits: list[subprocess.Popen[bytes]] = []
        for limit in limits:
            given = () if limit is None else (limit,)
            command = [sys.executable, "-m", "k8sbench", *words(store, "--set=night", *given)]
            submit = subprocess.Popen(command, env=os.environ, stderr=subprocess.DEVNULL)
            submits.append(stack.enter_context(submit))
            stack.callback(submit.kill)
            # The limit of an object counts from when it is stored.
            wait_for(lambda: len(opened(store)) == len(submits), "its object", PATIENCE)
        # Each has counted the runs of the set, and begun those that it may.
        wait_for(lambda: all(is_planned(store, name) for name in names(store)), "plans", PATIENCE)
        assert len(list((store / "runs").iterdir())) == most
        (crowd / "wanted").write_text(str(wanted))
        assert {one.wait(PATIENCE) for one in submits} == {0}
    seen = [json.loads(path.read_text()) for path in (crowd / "seen").iterdir()]
    assert len(seen) == 2 * len(limits)
    assert max(len(now) for now in seen) == most
    assert {status_of(store, name)["summary"]["runs"] for name in names(store)} == {"2/2"}


def is_planned(store: Path, name: str) -> bool:
    """Return True if an object's runs are planned, and those that may have begun."""
    path = store / "benchmarks" / f"{name}.status.json"
    return path.exists() and '"RunsActive"' in path.read_text()


def opened(store: Path) -> set[str]:
    """Names of the objects; of a store that does not exist yet, too."""
    return names(store) if store.exists() else set()
