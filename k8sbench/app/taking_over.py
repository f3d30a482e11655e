"""Taking over what a collector has of a run whose job it has deleted: state, figure and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from k8sbench.app import collectors, connections
from k8sbench.lifecycle import collecting
from k8sbench.model.errors import BenchError
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run

if TYPE_CHECKING:
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.ports import Cluster


def taken_over(
    store: SqlStore,
    runs: Sequence[Run],
    cluster: Cluster,
    access: ClusterAccess,
    note: Callable[[str], None],
) -> list[Run]:
    """Return the runs as they are after a collector was asked for those that have no job any more.

    One that it does not have, or cannot be reached for, stays as it is.
    """
    owing = [run for run in runs if collecting.needs_collection(run) and not run.phase.final]
    if not owing or not connections.configured(access):
        return list(runs)
    jobs = {job.run_id for job in cluster.jobs(sorted(run.run_id for run in owing))}
    gone = {run.run_id for run in owing if run.run_id not in jobs}
    return [_taken_over(store, run, access, note) if run.run_id in gone else run for run in runs]


def _taken_over(
    store: SqlStore, run: Run, access: ClusterAccess, note: Callable[[str], None]
) -> Run:
    run_id, there = run.run_id, connections.access_to(run.location, access)
    status = collectors.run(there, run_id).run(note)
    if status is None or not status.phase.final or not collectors.knows_more(status, run):
        return run
    if not store.claims.claim(run_id):
        return run
    try:
        store.ensure_folder(run_id)
        collectors.Copies(there, run_id, store.folder(run_id)).take("logs", "gpu")
        latest = store.run(run_id).history[-1].at
        for step in status.history:
            if step.at > latest or step.phase.final:
                run = store.move(run_id, step, image=status.image_digest)
        if status.measurement is not None:
            run = store.measured(run_id, status.measurement)
    except (BenchError, OSError) as error:
        note(f"warning: {run_id} cannot be taken over from the collector: {error}")
        return store.run(run_id)
    finally:
        store.claims.release(run_id)
    note(f"{run_id} was collected by the collector: its logs and figures are here now.")
    return run
