"""``status``: a run's record, with its job's present state."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from k8sbench.adapters import processes
from k8sbench.app import connections, find, stores
from k8sbench.app.answers import StoresRead
from k8sbench.lifecycle.context import Note
from k8sbench.model.errors import BenchError, NamedNotThere, StoreError, UsageError
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run
from k8sbench.ports.cluster import JobEvent
from k8sbench.results.report import document
from k8sbench.results.report.document import RunStatus
from k8sbench.store.interface import Store


def status(text: str, scope: StoresRead, note: Note) -> RunStatus:
    """Return the record of a run, of the store that has it, and its job's current state.

    The run need not be recorded.
    """
    with find.run_seen(text, scope, note) as (run, store):
        if scope.insists:
            return document.status(run)
        recorded = store is not None or run.source == stores.SOURCE
        reported = _look(run, scope.access, note)
        steps = [event.transition for event in reported if event.transition is not None]
        replicas = [event.replica for event in reported if event.replica is not None]
        seen = run if recorded else msgspec.structs.replace(run, history=(*run.history, *steps))
        return document.status(
            seen,
            log_files=() if store is None else log_files(store, run),
            process_alive=None if run.process is None else processes.alive(run.process),
            on_cluster=document.on_cluster(steps, replicas, connections.now()),
            recorded=recorded,
        )


def log_files(store: Store, run: Run) -> Sequence[str]:
    """Return the paths of a run's logs; none if they are on another machine."""
    try:
        return [str(path) for path in store.log_files(run.run_id)]
    except StoreError:
        return ()


def _look(run: Run, access: ClusterAccess, note: Note) -> Sequence[JobEvent]:
    """Query a job's state.

    Returns no events for a final run, or if the cluster does not answer.
    """
    if run.plan.backend != "kubernetes" or run.phase.final:
        return ()
    try:
        with connections.glance(connections.connect_to_run(run, access), run) as cluster:
            reported = cluster.look(run)
    except BenchError as error:
        if access.is_given and isinstance(error, UsageError | NamedNotThere):
            raise
        note(f"warning: {error.message} What is shown is on record. {error.action}")
        return ()
    if not reported:
        note(
            f"warning: there is no job {run.run_id} on the cluster any more."
            f" Close the run with: k8sbench collect {run.run_id}"
        )
    return reported
