"""A killed process leaves a store that opens and runs with a reason.

Real processes are killed (SIGKILL): some at any moment, some exactly between writing a file and its
row.
"""

import pathlib
import signal
import subprocess
from collections.abc import Callable

import pytest

from k8sbench.adapters import processes
from k8sbench.lifecycle.lost_runs import mark_lost_runs
from k8sbench.model.phase import Phase
from k8sbench.store.interface import RunFilter
from k8sbench.store.open_store import open_store
from k8sbench.store.sql_store import SqlStore
from tests.harness import children
from tests.processes import killed_writers
from tests.processes.killed_writers import (
    DIES_IN_A_FILE,
    DIES_ONCE_SAVED,
    MEASURES,
    RECORDS,
    RUNS,
    SUCCEEDS,
    WRITES_LAST_WORDS,
)
from tests.unit.store.index_checks import differences, reindexed


def start(function: Callable[..., object], *given: object) -> subprocess.Popen[str]:
    command = children.command(function, *given)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def look(store: SqlStore) -> None:
    mark_lost_runs(store, alive=processes.alive, now=2e9)


@pytest.mark.parametrize("kill_after", [1, 2, 4, 7])
def test_killed_wherever_it_is(root: pathlib.Path, kill_after: int) -> None:
    process = start(killed_writers.write_for_ever, root)
    assert process.stdout is not None
    reported = [process.stdout.readline().strip() for _ in range(kill_after)]
    process.send_signal(signal.SIGKILL)
    reported += process.stdout.read().split()
    process.wait()
    process.stdout.close()
    with open_store(str(root)) as store:
        look(store)
        runs = {run.run_id: run for run in store.runs(RunFilter())}
        assert store.unreadable == {}
        # What was reported was recorded; one more may have been on its way.
        assert set(reported) <= set(runs)
        assert len(runs) <= len(reported) + 1
        for run_id in reported:
            assert runs[run_id].phase is Phase.SUCCEEDED
            assert runs[run_id].measurement is not None
        for run in runs.values():
            assert run.phase in {Phase.SUCCEEDED, Phase.LOST}
            if run.phase is Phase.LOST:
                assert f"pid {process.pid}" in run.history[-1].cause
        reindexed(store)
        assert differences(store) == []
    with open_store(str(root)) as store:
        look(store)
        assert runs == {run.run_id: run for run in store.runs(RunFilter())}


def killed(root: pathlib.Path, *steps: str) -> None:
    process = start(killed_writers.take_steps, root, *steps)
    process.communicate(timeout=100)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("point", ["mkdir", "events.jsonl", "run.json"])
def test_killed_between_the_folder_and_the_row_of_a_new_run(root: pathlib.Path, point: str) -> None:
    dies = {
        "mkdir": killed_writers.DIES_IN_A_FOLDER,
        "events.jsonl": killed_writers.DIES_BEFORE_THE_RUN,
        "run.json": killed_writers.DIES_ONCE_SAVED,
    }[point]
    killed(root, dies, RECORDS)
    with open_store(str(root)) as store:
        look(store)
        # With its run.json it is on record; nothing was started, and the next command says so.
        wanted = [Phase.LOST] if point == "run.json" else []
        assert [run.phase for run in store.runs(RunFilter())] == wanted
        assert differences(store) == []


@pytest.mark.parametrize(
    ("steps", "is_measured"),
    [
        ([DIES_ONCE_SAVED, SUCCEEDS], False),
        ([SUCCEEDS, DIES_ONCE_SAVED, MEASURES], True),
        ([SUCCEEDS, DIES_IN_A_FILE, MEASURES], False),
    ],
    ids=["after the event", "after the measurement", "in the measurement"],
)
def test_killed_before_a_row(root: pathlib.Path, steps: list[str], is_measured: bool) -> None:
    killed(root, RECORDS, RUNS, *steps)
    with open_store(str(root)) as store:
        look(store)
        run = store.run("seg-1")
        assert (run.phase, len(run.history)) == (Phase.SUCCEEDED, 3)
        assert (run.measurement is not None) == is_measured
        assert store.runs(RunFilter()) == [run]


def test_killed_while_it_ran(root: pathlib.Path) -> None:
    killed(root, RECORDS, RUNS, WRITES_LAST_WORDS)
    with open_store(str(root)) as store:
        look(store)
        run = store.run("seg-1")
        assert run.phase is Phase.LOST
        assert run.history[-1].cause_id == "owner-killed"
        (log,) = store.log_files("seg-1")
        assert log.read_text().endswith("Z last words\n")
