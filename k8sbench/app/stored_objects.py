"""Benchmark objects of a store as commands find them by name, and the statuses of those left.

The process that reconciles an object holds the claim ``benchmark NAME``. After its end, whoever
collects or watches the object's runs writes its status.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from k8sbench.adapters import processes
from k8sbench.app import stores
from k8sbench.app.connections import now
from k8sbench.lifecycle import benchmark_status
from k8sbench.lifecycle.context import Note
from k8sbench.lifecycle.status_writer import StatusWriter
from k8sbench.model.benchmark_object import Benchmark, claim_name
from k8sbench.model.errors import NotFound, UsageError, list_few
from k8sbench.model.names import resolve
from k8sbench.model.run import Process, Run
from k8sbench.results.groups import grouping
from k8sbench.store.interface import RunFilter
from k8sbench.threads import Inline

if TYPE_CHECKING:
    from k8sbench.store.benchmark_objects import StoredObjects
    from k8sbench.store.sql_store import SqlStore

WRITE_SECONDS = 5.0
"""Longest wait for another process that writes the status of an object."""
LOOK_SECONDS = 0.05


def of_store(store: SqlStore) -> StoredObjects:
    """Return the objects of a store."""
    from k8sbench.store.benchmark_objects import StoredObjects  # reads the catalog

    return StoredObjects(store.root, now)


# -- names -----------------------------------------------------------------------------------------


def is_here(where: str | None, text: str) -> bool:
    """Return True if a store has an object of this name, or a run whose id begins so."""
    with stores.open_readonly(where, lambda _: None) as store:
        is_run = any(run_id.startswith(text) for run_id in store.ids())
        return is_run or of_store(store).find(text) is not None


def run_id_of(store: SqlStore, text: str) -> str:
    """Return the id of the run that a text names.

    It is a run's id, the name of an object with one run, or the beginning of an id. Raises
    :class:`UsageError` for an object with several runs.
    """
    ids = store.ids()
    benchmark = None if text in ids else of_store(store).find(text)
    if benchmark is None:
        return resolve(ids, text)
    runs = [run.run_id for run in runs_of(store, benchmark)]
    if not runs:
        raise NotFound(f"Benchmark {text} has no run.", f"End it with: k8sbench cancel {text}")
    if len(runs) > 1:
        raise UsageError(
            f"Benchmark {text} has {len(runs)} runs: {list_few(runs)}.", "Name one of them."
        )
    return runs[0]


def runs_of(store: SqlStore, benchmark: Benchmark) -> list[Run]:
    """Return the runs of an object, oldest first; also those of others that it has joined."""
    of_set = store.runs(RunFilter(set_name=benchmark.set_name))
    found = {run.run_id: run for run in of_set if is_of(run, benchmark)}
    for name in _told(benchmark):
        with contextlib.suppress(NotFound):
            found[name] = store.run(name)
    return sorted(found.values(), key=lambda run: (run.created_at, run.run_id))


def is_of(run: Run, benchmark: Benchmark) -> bool:
    """Return True if an object has requested a run, or joined it."""
    return run.plan.requested_by == benchmark.uid or run.run_id in _told(benchmark)


def _told(benchmark: Benchmark) -> set[str]:
    """Return the names of the runs that an object's status tells of."""
    return {run["name"] for run in benchmark.status.get("runs") or ()}


# -- places ----------------------------------------------------------------------------------------


def elsewhere(store: SqlStore) -> list[tuple[Benchmark, UsageError]]:
    """Return the objects that other machines may go on with, and the error for each.

    Locks on files exclude the processes of one machine alone, so what they say does not count.
    """
    every = of_store(store).list_all(is_open=True)
    return [(one, error) for one in every if (error := error_elsewhere(store, one)) is not None]


def held_elsewhere(store: SqlStore, run: Run) -> tuple[Benchmark, UsageError] | None:
    """Return a run's object and its error if another machine may go on with it; else None."""
    return next(((one, error) for one, error in elsewhere(store) if is_of(run, one)), None)


def check_place(store: SqlStore, run: Run) -> None:
    """Reject a run whose object another machine may go on with."""
    if (held := held_elsewhere(store, run)) is not None:
        raise held[1]


def error_elsewhere(store: SqlStore, one: Benchmark) -> UsageError | None:
    """Return the error for an object that another machine may go on with; None without one."""
    process = process_elsewhere(store, one)
    if process is None:
        return None
    return error_of(one, f"on {process.host}, which cannot be seen from here")


def process_elsewhere(store: SqlStore, one: Benchmark) -> Process | None:
    """Return the process of another machine that may go on with an object."""
    stored = of_store(store).read_stored(one)
    process = None if stored is None or one.is_over else stored.place.process
    return process if process is not None and processes.is_elsewhere(process) else None


def error_of(one: Benchmark, where: str) -> UsageError:
    """Return the error for an object that another process has."""
    return UsageError(
        f"Benchmark {one.name} was submitted by k8sbench {where}.",
        f"Wait for its end there, or go on with it here: k8sbench collect --take-over {one.name}",
    )


# -- statuses --------------------------------------------------------------------------------------


def write_statuses(
    store: SqlStore,
    note: Note,
    runs: Sequence[Run] | None = None,
    names: Collection[str] = (),
) -> None:
    """Write the statuses of the objects that are not over and whose processes have ended.

    With ``runs`` only of those that have one of them, or one of the ``names``.
    """
    for benchmark in of_store(store).list_all(is_open=True):
        is_meant = runs is None or benchmark.name in names
        if is_meant or any(is_of(run, benchmark) for run in runs or ()):
            with held(store, benchmark) as is_ours:
                if is_ours:
                    write_status(store, benchmark, note)


def write_status(store: SqlStore, benchmark: Benchmark, note: Note) -> Benchmark | None:
    """Write the status of an object that this process holds; return it, None if it is gone."""
    stores.reconcile(store)  # a killed process cannot tell the end of its runs
    objects = of_store(store)
    current = objects.find(benchmark.name)
    if current is None or current.uid != benchmark.uid:
        return None
    statuses = StatusWriter(objects, now, Inline(), note, grouping.groups)
    statuses.write_left(current, runs_of(store, current))
    return objects.find(benchmark.name)


def _has_more(store: SqlStore, benchmark: Benchmark) -> bool:
    """Return True if runs of an object may still be begun."""
    planned = benchmark_status.planned_runs(benchmark.status)
    return not planned or planned > len(runs_of(store, benchmark))


@contextlib.contextmanager
def held(store: SqlStore, benchmark: Benchmark) -> Iterator[bool]:
    """Hold an object; False if another process reconciles it, or may do so on another machine."""
    claim = claim_name(benchmark.name)
    stored = of_store(store).read_stored(benchmark)
    is_ours = stored is not None and not (
        process_elsewhere(store, benchmark) and _has_more(store, benchmark)
    )
    until = time.monotonic() + WRITE_SECONDS
    while is_ours and not store.claims.claim(claim):
        assert stored is not None
        # It belongs to its process, or another one just writes its status.
        process = stored.place.process
        is_alive = process is not None and processes.alive(process)
        is_ours = not is_alive and time.monotonic() < until
        time.sleep(LOOK_SECONDS)
    try:
        yield is_ours
    finally:
        if is_ours:
            store.claims.release(claim)
