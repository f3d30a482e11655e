"""Lookup of runs by name, in the store or on the cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from k8sbench.app import connections, context, foreign_jobs, records
from k8sbench.lifecycle import collecting, lost_runs
from k8sbench.lifecycle.context import RunContext
from k8sbench.model.errors import BenchError, NotFound
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run
from k8sbench.ports import RunFilter

if TYPE_CHECKING:
    from k8sbench.ports import FoundJob, Store


def run_of(store: Store, text: str, access: ClusterAccess) -> Run:
    """Find a run by id prefix in the store, then the cluster.

    A job that another store submitted is recorded here, from its annotations.
    """
    found_run = _find(store, text, access)
    return found_run if isinstance(found_run, Run) else collecting.recorded(*found_run)


def chosen(store: Store, texts: Sequence[str]) -> list[str]:
    """Find recorded runs by id, unique id prefix or set name."""
    ids = all_ids(store)
    run_ids: dict[str, None] = {}
    for text in texts:
        members = [] if text in ids else store.runs(RunFilter(set_name=text))
        for run_id in [run.run_id for run in members] or [records.resolve(ids, text)]:
            run_ids[run_id] = None
    return list(run_ids)


def all_ids(store: Store) -> list[str]:
    """Update runs whose process is gone; return all run ids."""
    lost_runs.reconcile(store, alive=context.alive(), now=context.now())
    return store.ids()


def look_up(store: Store, text: str, access: ClusterAccess) -> tuple[Run, bool]:
    """Find a run as :func:`run_of` does, and say whether it is recorded; records nothing."""
    run_seen = _find(store, text, access)
    if isinstance(run_seen, Run):
        return run_seen, True
    job, here = run_seen
    assert here.location is not None
    return foreign_jobs.as_run(job, here.location), False


def _find(store: Store, text: str, access: ClusterAccess) -> Run | tuple[FoundJob, RunContext]:
    try:
        return context.find(store, text)
    except NotFound as missing:
        try:
            return _foreign_job(store, text, access, missing)
        except NotFound:
            # Another process of this store may have recorded it meanwhile: then it is no foreign
            # job any more.
            with contextlib.suppress(NotFound):
                return context.find(store, text)
            raise


def _foreign_job(
    store: Store, text: str, access: ClusterAccess, missing: NotFound
) -> tuple[FoundJob, RunContext]:
    """Find the job of an unrecorded run, and a context to record it.

    A current cluster that was not named need not answer: then there is no such run, and the error
    names what hindered the search.
    """
    if not connections.configured(access):
        raise missing
    try:
        with connections.glimpsed(connections.connect(access)) as cluster:
            place = cluster.api.place
            here = context.run_context(store, cluster, location=place, clock=cluster.api.time)
            jobs = cluster.jobs()
    except BenchError as error:
        if access.named:
            raise
        why = f"The cluster could not be queried: {error.message}"
        raise NotFound(missing.message, f"{why} {missing.action}") from error
    known = store.ids()
    if any(run_id.startswith(text) for run_id in known):
        raise missing  # it was recorded meanwhile; another job may have a name that begins alike
    return foreign_jobs.named(foreign_jobs.among(jobs, known), text, known, place), here
