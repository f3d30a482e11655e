"""A killed process leaves a store that opens and runs with a reason.

Real processes are killed (SIGKILL): some at any moment, some exactly between writing a file and its
row.
"""

import pathlib
import signal
import subprocess
import sys

import pytest

from k8sbench.adapters import processes
from k8sbench.adapters.store.opening import open_store
from k8sbench.adapters.store.sql_store import SqlStore
from k8sbench.lifecycle.lost_runs import mark_lost_runs
from k8sbench.model.phase import Phase
from k8sbench.ports.store import RunFilter
from tests.tiers import ROOT
from tests.unit.store.index_checks import differences, reindexed

BEGIN = """
import itertools, os, signal, sys
sys.path.insert(0, sys.argv[2])
from k8sbench.adapters import processes
from k8sbench.adapters.store import disk, index
from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.adapters.store.opening import open_store
from k8sbench.adapters.store.sql_store import SqlStore
from k8sbench.model.errors import RepeatTaken
from k8sbench.model.identity import case_key
from k8sbench.model.phase import Phase
from k8sbench.ports.cluster import LogLine
from tests.unit.store.examples import NOW, measurement, plan, step

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

store = open_store(sys.argv[1])
me = processes.this_process()
"""

WRITES_FOR_EVER = (
    BEGIN
    + """
for number in itertools.count(1):
    run_id = f"seg-{os.getpid()}-{number}"
    store.record(plan(run_id, set_name=run_id), at=NOW + number, process=me)
    archive = store.archive(run_id)
    store.move(run_id, step(Phase.RUNNING))
    for line in range(20):
        archive.write(LogLine(replica="master-0", at=NOW, text=f"iter {line} " + "x" * 300))
    store.move(run_id, step(Phase.SUCCEEDED))
    store.measured(run_id, measurement())
    print(run_id, flush=True)
"""
)


def start(code: str, root: pathlib.Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(root), str(ROOT)], stdout=subprocess.PIPE, text=True
    )


def look(store: SqlStore) -> None:
    mark_lost_runs(store, alive=processes.alive, now=2e9)


@pytest.mark.parametrize("kill_after", [1, 2, 4, 7])
def test_killed_wherever_it_is(root: pathlib.Path, kill_after: int) -> None:
    process = start(WRITES_FOR_EVER, root)
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


SAVED = "RunFolder.save = lambda *a, real=RunFolder.save: (real(*a), die())"


def killed(code: str, root: pathlib.Path) -> None:
    process = start(BEGIN + code, root)
    process.communicate(timeout=100)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("point", ["mkdir", "events.jsonl", "run.json"])
def test_killed_between_the_folder_and_the_row_of_a_new_run(root: pathlib.Path, point: str) -> None:
    patch = {
        "mkdir": "disk.sync_folder = die",
        "events.jsonl": "real = RunFolder.write\n"
        "RunFolder.write = lambda *a: die() if a[1] == 'run.json' else real(*a)",
        "run.json": SAVED,
    }[point]
    killed(f"{patch}\nstore.record(plan(), at=NOW, process=me)", root)
    with open_store(str(root)) as store:
        look(store)
        # With its run.json it is on record; nothing was started, and the next command says so.
        wanted = [Phase.LOST] if point == "run.json" else []
        assert [run.phase for run in store.runs(RunFilter())] == wanted
        assert differences(store) == []


SUCCEEDS = "store.move('seg-1', step(Phase.SUCCEEDED, NOW + 2))"
MEASURES = "store.measured('seg-1', measurement())"


@pytest.mark.parametrize(
    ("steps", "is_measured"),
    [
        ([SAVED, SUCCEEDS], False),
        ([SUCCEEDS, SAVED, MEASURES], True),
        ([SUCCEEDS, "os.fsync = die", MEASURES], False),
    ],
    ids=["after the event", "after the measurement", "in the measurement"],
)
def test_killed_before_a_row(root: pathlib.Path, steps: list[str], is_measured: bool) -> None:
    begin = ["store.record(plan(), at=NOW, process=me)", "store.move('seg-1', step(Phase.RUNNING))"]
    killed("\n".join(begin + steps), root)
    with open_store(str(root)) as store:
        look(store)
        run = store.run("seg-1")
        assert (run.phase, len(run.history)) == (Phase.SUCCEEDED, 3)
        assert (run.measurement is not None) == is_measured
        assert store.runs(RunFilter()) == [run]


def test_killed_while_it_ran(root: pathlib.Path) -> None:
    killed(
        "store.record(plan(), at=NOW, process=me)\n"
        "store.move('seg-1', step(Phase.RUNNING))\n"
        "archive = store.archive('seg-1')\n"
        "archive.write(LogLine(replica='master-0', at=NOW, text='last words'))\n"
        "die()",
        root,
    )
    with open_store(str(root)) as store:
        look(store)
        run = store.run("seg-1")
        assert run.phase is Phase.LOST
        assert run.history[-1].cause_id == "owner-killed"
        (log,) = store.log_files("seg-1")
        assert log.read_text().endswith("Z last words\n")
