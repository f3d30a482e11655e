"""Programs that write into a store and kill themselves, or are killed, at a step of it."""

import itertools
import os
import signal
from collections.abc import Callable
from typing import Any, NoReturn

from k8sbench.adapters import processes
from k8sbench.model.phase import Phase
from k8sbench.model.replica_logs import LogLine
from k8sbench.store import disk
from k8sbench.store.open_store import open_store
from k8sbench.store.run_folder import RunFolder
from k8sbench.store.sql_store import SqlStore
from tests.unit.model.measurements import measurement
from tests.unit.store.examples import NOW, plan, step

Step = Callable[[SqlStore], object]


def write_for_ever(root: str) -> None:
    """Record whole runs; prints the id of each that is there."""
    store = open_store(root)
    for number in itertools.count(1):
        run_id = f"seg-{os.getpid()}-{number}"
        new = plan(run_id, set_name=run_id)
        store.record(new, at=NOW + number, process=processes.this_process())
        archive = store.archive(run_id)
        store.move(run_id, step(Phase.RUNNING))
        for line in range(20):
            text = f"iter {line} " + "x" * 300
            archive.write(LogLine(replica="master-0", at=NOW, text=text))
        store.move(run_id, step(Phase.SUCCEEDED))
        store.save_measurement(run_id, measurement())
        print(run_id, flush=True)


def take_steps(root: str, *names: str) -> None:
    """Take steps of :data:`STEPS`, by name."""
    store = open_store(root)
    for name in names:
        STEPS[name](store)


def _die(*_: object, **__: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("It lives on.")


def _die_once_saved(_: SqlStore) -> None:
    real = RunFolder.save

    def save(*given: Any) -> None:
        real(*given)
        _die()

    setattr(RunFolder, "save", save)  # noqa: B010


def _die_before_the_run(_: SqlStore) -> None:
    real = RunFolder.write

    def write(*given: Any) -> Any:
        return _die() if given[1] == "run.json" else real(*given)

    setattr(RunFolder, "write", write)  # noqa: B010


def _write_last_words(store: SqlStore) -> None:
    archive = store.archive("seg-1")
    archive.write(LogLine(replica="master-0", at=NOW, text="last words"))
    _die()


RECORDS, RUNS, SUCCEEDS, MEASURES = "records", "runs", "succeeds", "measures"
WRITES_LAST_WORDS = "writes last words"
DIES_ONCE_SAVED, DIES_BEFORE_THE_RUN = "dies once a run is saved", "dies before run.json"
DIES_IN_A_FOLDER, DIES_IN_A_FILE = "dies syncing a folder", "dies syncing a file"
STEPS: dict[str, Step] = {
    RECORDS: lambda store: store.record(plan(), at=NOW, process=processes.this_process()),
    RUNS: lambda store: store.move("seg-1", step(Phase.RUNNING)),
    SUCCEEDS: lambda store: store.move("seg-1", step(Phase.SUCCEEDED, NOW + 2)),
    MEASURES: lambda store: store.save_measurement("seg-1", measurement()),
    WRITES_LAST_WORDS: _write_last_words,
    # These let a later step kill the process.
    DIES_ONCE_SAVED: _die_once_saved,
    DIES_BEFORE_THE_RUN: _die_before_the_run,
    DIES_IN_A_FOLDER: lambda _: setattr(disk, "sync_folder", _die),
    DIES_IN_A_FILE: lambda _: setattr(os, "fsync", _die),
}
