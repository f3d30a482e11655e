"""Processes that write at once lose nothing, and read while others write."""

import json
import pathlib
import subprocess

from k8sbench.model.phase import Phase
from k8sbench.store.interface import RunFilter
from k8sbench.store.open_store import open_store
from tests.harness import children
from tests.processes import programs
from tests.unit.store.index_checks import differences

RUNS = 50


def begun(root: pathlib.Path, names: str) -> list[subprocess.Popen[str]]:
    """Let processes begin at one moment."""
    writers = [children.ready(programs.write_runs, root, name, RUNS) for name in names]
    children.begin(*writers)
    return writers


def test_two_processes_that_write_at_once_lose_nothing(root: pathlib.Path) -> None:
    given: list[int] = []
    for writer in begun(root, "ab"):
        out, err = writer.communicate(timeout=100)
        assert (writer.returncode, err) == (0, "")
        given += json.loads(out)
    assert sorted(given) == list(range(1, 2 * RUNS + 1))
    with open_store(str(root)) as store:
        runs = store.runs(RunFilter())
        assert sorted(run.plan.repeat for run in runs) == sorted(given)
        for run in runs:
            assert run.phase is Phase.SUCCEEDED
            assert len(run.history) == 3
            assert run.measurement is not None
            assert run.measurement.final_loss == run.plan.repeat
        assert differences(store) == []


def test_a_reader_is_never_in_the_way(root: pathlib.Path) -> None:
    open_store(str(root)).close()
    (writer,) = begun(root, "a")
    seen = 0
    while writer.poll() is None:
        with open_store(str(root), create=False) as store:
            now = len(store.runs(RunFilter()))
        assert now >= seen
        seen = now
    writer.communicate()
    assert writer.returncode == 0
    with open_store(str(root)) as store:
        assert len(store.ids()) == RUNS
