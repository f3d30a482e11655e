"""``store reindex --measure``: archived logs complete or replace measurements of their runs."""

import json
import pathlib
from typing import Any

import pytest

from k8sbench.app import archived_logs
from k8sbench.model import rules
from k8sbench.store.open_store import open_store
from tests.harness import children
from tests.reader.measuring.support import FIXTURES, run
from tests.unit.command_line import Cli
from tests.unit.imports import foreign
from tests.unit.store import programs

LOGS = ("llm_c.log", "maxtext.log", "nemo_1.log")
OF_MMSEG = ("--gpus", "1", "--batch-size", "4", "--precision", "fp32")
REINDEX = ("store", "reindex", "--measure")


@pytest.fixture
def root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return the commands' store."""
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "store"


@pytest.fixture
def cli(root: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Commands that read this store alone."""
    return Cli(capsys)


@pytest.fixture
def runs(root: pathlib.Path, cli: Cli) -> dict[str, dict[str, Any]]:
    """Import logs as a version without profiles did; return what measurements had been."""
    for name in LOGS:
        options = ("--case", "1x8", "--precision", "bf16")
        cli("import", str(FIXTURES / name), "--set", name.partition(".")[0], *options)
    made = measurements(root)
    assert len(made) == len(LOGS)
    for run_id, found in made.items():
        assert found["profile"]["points"]
        write(root, run_id, {key: value for key, value in found.items() if key != "profile"})
    return made


def path_of(root: pathlib.Path, run_id: str) -> pathlib.Path:
    return root / "runs" / run_id / "measurement.json"


def measurements(root: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Read the measurement of each run, by its id."""
    paths = sorted(root.glob("runs/*/measurement.json"))
    return {path.parent.name: json.loads(path.read_text()) for path in paths}


def write(root: pathlib.Path, run_id: str, found: dict[str, Any]) -> None:
    path_of(root, run_id).write_text(json.dumps(found))


def with_profile(root: pathlib.Path) -> set[str]:
    """Return the ids of the runs that have a profile."""
    return {run_id for run_id, found in measurements(root).items() if found.get("profile")}


def counts(root: pathlib.Path) -> tuple[int, int, int]:
    """Measure the logs; return how many runs were completed, replaced, and have no logs."""
    outcome = archived_logs.measure_logs(str(root), lambda _: None)
    assert outcome.failed == {}
    return outcome.profiles, outcome.replaced, outcome.without_logs


def log_of(root: pathlib.Path, run_id: str) -> pathlib.Path:
    (log,) = (root / "runs" / run_id / "logs").iterdir()
    return log


def test_profiles_are_those_of_an_import_and_nothing_else_changes(
    root: pathlib.Path, cli: Cli, runs: dict[str, dict[str, Any]]
) -> None:
    for run_id in runs:  # as another version with other rules had it
        found = measurements(root)[run_id]
        found["throughput"]["median"] = 1.5
        write(root, run_id, found)
        runs[run_id]["throughput"]["median"] = 1.5
    assert counts(root) == (3, 0, 0)
    assert measurements(root) == runs


def test_the_profile_of_a_format_of_a_users_own_is_made_from_the_recorded_plan(
    root: pathlib.Path, cli: Cli, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "one.txt").write_text(foreign.log(end=900))
    cli("import", str(tmp_path / "one.txt"), *foreign.OF, "--set", "one")
    ((run_id, made),) = measurements(root).items()
    write(root, run_id, {key: value for key, value in made.items() if key != "profile"})
    cli(*REINDEX)
    assert measurements(root)[run_id] == made


def test_the_profile_of_a_resumed_training_counts_from_its_own_first_iteration(
    root: pathlib.Path, cli: Cli, tmp_path: pathlib.Path
) -> None:
    log = tmp_path / "resumed.log"
    log.write_text("\n".join(run([0.5] * 40, first=5000, total=5400)) + "\n")
    cli("import", str(log), "--format", "mmseg", *OF_MMSEG, "--set", "resumed")
    ((run_id, made),) = measurements(root).items()
    assert made["profile"]["points"][-1] == 400
    write(root, run_id, {key: value for key, value in made.items() if key != "profile"})
    assert counts(root) == (1, 0, 0)
    assert measurements(root)[run_id] == made


def test_a_log_that_gives_no_profile_is_measured_once(root: pathlib.Path, cli: Cli) -> None:
    """It states rates and no batch; the recorded reason says that it was measured."""
    cli("import", str(FIXTURES / "torchtune.log"), "--gpus", "8", "--set", "rates")
    ((run_id, made),) = measurements(root).items()
    assert made["profile"] is None
    former = {
        name: {path: why for path, why in made[name].items() if path != "profile"}
        for name in ("missing", "missing_notes")
    }
    write(root, run_id, made | former)
    assert counts(root) == (1, 0, 0)
    assert measurements(root)[run_id] == made
    assert counts(root) == (0, 0, 0)


def test_killed_in_the_middle_it_goes_on_where_it_was(
    root: pathlib.Path, cli: Cli, runs: dict[str, dict[str, Any]]
) -> None:
    children.killed_at("os.rename", "measurement.json", programs.measure_logs, root, count=2)
    done = with_profile(root)
    assert len(done) == 1
    (first,) = done
    log_of(root, first).write_text("No training line.\n")  # it is not read again
    assert counts(root) == (2, 0, 0)
    assert measurements(root) == runs


def test_runs_without_logs_are_counted_and_stay(
    root: pathlib.Path, cli: Cli, runs: dict[str, dict[str, Any]]
) -> None:
    first, second, third = runs
    for run_id in (first, second):
        log_of(root, run_id).unlink()
    before = path_of(root, first).read_text()
    (told,) = (line for line in cli(*REINDEX).err.splitlines() if "no log" in line)
    assert "2 runs" in told
    assert counts(root) == (0, 0, 2)
    assert path_of(root, first).read_text() == before
    assert with_profile(root) == {third}


def test_a_log_that_cannot_be_read_is_named_and_costs_no_other_run_its_profile(
    root: pathlib.Path, cli: Cli, runs: dict[str, dict[str, Any]]
) -> None:
    damaged, *others = runs
    log_of(root, damaged).write_bytes(b"\x1f\x8b\x08\x00 cut off")
    before = path_of(root, damaged).read_text()
    printed = cli(*REINDEX, code=1)
    assert damaged in printed.out
    assert path_of(root, damaged).read_text() == before
    assert with_profile(root) == {*others}


def test_a_run_that_another_process_follows_is_left_out(
    root: pathlib.Path, cli: Cli, runs: dict[str, dict[str, Any]]
) -> None:
    followed, *others = runs
    with children.ready(programs.claim, followed) as other:
        assert followed in cli(*REINDEX, code=1).out
        other.communicate()
    assert with_profile(root) == {*others}


def test_a_measurement_of_another_program_is_replaced_as_a_whole(
    root: pathlib.Path, cli: Cli, runs: dict[str, dict[str, Any]]
) -> None:
    theirs, *_ = runs
    figures = {"throughput": {"time_weighted": 1.0, "unit": "images/s"}}
    write(root, theirs, runs[theirs] | figures | {"measured_by": "meter 1.3"})
    assert counts(root) == (2, 1, 0)
    found = measurements(root)[theirs]
    assert found["throughput"] == runs[theirs]["throughput"]
    assert found["profile"] == runs[theirs]["profile"]
    assert found["measured_by"] is None
    assert rules.MEASURED_ELSEWHERE.id not in json.dumps(found["reasons"])


def test_a_measurement_of_another_program_stays_if_its_log_has_no_training_line(
    root: pathlib.Path, cli: Cli, runs: dict[str, dict[str, Any]]
) -> None:
    theirs, *_ = runs
    write(root, theirs, runs[theirs] | {"measured_by": "meter 1.3"})
    log_of(root, theirs).write_text("No training line.\n")
    before = path_of(root, theirs).read_text()
    assert theirs in cli(*REINDEX, code=1).out
    assert path_of(root, theirs).read_text() == before


@pytest.mark.usefixtures("runs")
def test_an_export_from_before_is_the_same_run_afterwards(
    root: pathlib.Path, cli: Cli, tmp_path: pathlib.Path
) -> None:
    file = str(tmp_path / "before.tar.gz")
    cli("store", "export", file)
    cli(*REINDEX)
    assert "0 runs imported; 3 runs were here already" in cli("store", "import", file).err
    found = next(iter(measurements(root)))
    changed = measurements(root)[found] | {"records": 1}
    write(root, found, changed)
    cli("store", "import", file, code=2)


def test_without_the_option_no_log_is_measured(
    root: pathlib.Path, cli: Cli, runs: dict[str, dict[str, Any]]
) -> None:
    cli("store", "reindex")
    assert with_profile(root) == set()
    with open_store() as store:
        assert set(store.ids()) == {*runs}
