"""Lookup of runs by name, in the store or on the cluster.

A foreign job of a cluster was submitted from another store. Its own annotations are enough to look
at it. Nothing is recorded by looking.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence

from k8sbench.adapters import processes
from k8sbench.app import connections, context, served_runs
from k8sbench.lifecycle import collecting, lost_runs
from k8sbench.lifecycle.context import RunContext
from k8sbench.model.errors import BenchError, NotFound, OwnedElsewhere, PlanUnreadable
from k8sbench.model.identity import resolve
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run
from k8sbench.ports import FoundJob, RunFilter, Store


def chosen(store: Store, texts: Sequence[str]) -> list[str]:
    """Find recorded runs by id, unique id prefix or set name."""
    _reconcile(store)
    ids = store.ids()
    run_ids: dict[str, None] = {}
    for text in texts:
        members = [] if text in ids else store.runs(RunFilter(set_name=text))
        for run_id in [run.run_id for run in members] or [resolve(ids, text)]:
            run_ids[run_id] = None
    return list(run_ids)


def listing(store: Store) -> list[Run]:
    """Return all recorded runs, oldest first, as they are now."""
    changed = _reconcile(store)
    return [changed.get(run.run_id, run) for run in store.runs(RunFilter())]


def find(store: Store, text: str) -> Run:
    """Return the current record of the run with this id prefix."""
    run_id = resolve(store.ids(), text)
    return _reconcile(store).get(run_id) or store.run(run_id)


def _reconcile(store: Store) -> dict[str, Run]:
    """Update runs whose process is gone; return them by id."""
    return lost_runs.reconcile(store, alive=processes.alive, now=context.now())


def look_up(store: Store, text: str, access: ClusterAccess, *, records: bool = False) -> Run:
    """Find a run by id prefix in the store, then the cluster.

    With ``records`` a job without a record is recorded here, from its annotations. Raises
    :class:`OwnedElsewhere` for one of another store.
    """
    try:
        return find(store, text)
    except NotFound as missing:
        try:
            job, here = _foreign_job(store, text, access, missing, acts=records)
        except NotFound:
            # Another process of this store may have recorded it meanwhile: then it is no foreign
            # job any more.
            with contextlib.suppress(NotFound):
                return find(store, text)
            raise
    if records and not job.ownership.is_ours:
        raise OwnedElsewhere(job.run_id, job.ownership.holder)
    return collecting.recorded(job, here) if records else job.as_run(here.location)


def to_act_on(
    store: Store,
    text: str,
    access: ClusterAccess,
    note: Callable[[str], None],
    *,
    records: bool = False,
) -> Run:
    """Find a run that a command follows or ends.

    A run that the operator has is left to it, which is noted.
    """
    try:
        return look_up(store, text, access, records=records)
    except NotFound:
        theirs = served_runs.run(access, text, note)
        if theirs is None:
            raise
    state = "has collected" if theirs.is_closed else "follows"
    note(f"The operator {state} run {theirs.run_id}: nothing is left to do here.")
    return theirs


def _foreign_job(
    store: Store, text: str, access: ClusterAccess, missing: NotFound, *, acts: bool
) -> tuple[FoundJob, RunContext]:
    """Find the job of an unrecorded run, and a context to record it.

    A current cluster that was not named need not answer: then there is no such run, and the error
    names what hindered the search.
    """
    if not connections.configured(access):
        raise missing
    try:
        user = store if acts else None
        with connections.glance(connections.connect(access), user=user) as cluster:
            place = cluster.api.place
            here = context.run_context(store, cluster, cluster.api)
            jobs = cluster.jobs()
    except BenchError as error:
        if access.named:
            raise
        why = f"The cluster could not be queried: {error.message}"
        raise NotFound(missing.message, f"{why} {missing.action}") from error
    known = store.ids()
    if any(run_id.startswith(text) for run_id in known):
        raise missing  # it was recorded meanwhile; another job may have a name that begins alike
    foreign = {job.run_id: job for job in jobs if job.run_id not in known}
    places = f"in the store or in namespace {place.namespace} of {place.server}"
    return foreign[resolve([*foreign], text, other_ids=known, where=places)], here


def foreign_jobs(
    jobs: Sequence[FoundJob],
    known: Collection[str],
    wanted: RunFilter,
    note: Callable[[str], None],
) -> list[FoundJob]:
    """Return the jobs without a record that match a filter, oldest first.

    Those whose plans cannot be read are noted.
    """
    found = []
    for job in jobs:
        try:
            if job.run_id not in known and wanted.fits(job.plan, job.created_at):
                found.append(job)
        except PlanUnreadable as wrong:
            note(f"warning: left out: {wrong}")
    return found
