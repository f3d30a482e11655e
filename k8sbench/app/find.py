"""Find a run by its id's prefix: in the store, on the cluster, or at the operator.

A foreign job of a cluster was submitted from another store. Its own annotations are enough to look
at it. Nothing is recorded by looking.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from k8sbench.app import answers, connections, run_contexts, stored_objects, stores
from k8sbench.app.answers import Holder, StoresRead
from k8sbench.lifecycle import collecting
from k8sbench.lifecycle.context import Note, RunContext
from k8sbench.model.errors import BenchError, NotFound, OwnedElsewhere
from k8sbench.model.names import resolve
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run
from k8sbench.ports.cluster import FoundJob
from k8sbench.results.groups.sides import Fit

if TYPE_CHECKING:
    from k8sbench.store.sql_store import SqlStore


def find_recorded(store: SqlStore, text: str) -> Run:
    """Return the current record of the run with this id prefix, or of this Benchmark."""
    run_id = stored_objects.run_id_of(store, text)
    return stores.reconcile(store).get(run_id) or store.run(run_id)


def look_up(store: SqlStore, text: str, access: ClusterAccess, *, records: bool = False) -> Run:
    """Find a run by id prefix in the store, then the cluster.

    With ``records`` a job without a record is recorded here, from its annotations. Raises
    :class:`OwnedElsewhere` for one of another store.
    """
    try:
        return find_recorded(store, text)
    except NotFound as missing:
        job, here = foreign_job(store, text, access, missing, acts=records)
    if records and not job.ownership.is_ours:
        raise OwnedElsewhere(job.run_id, job.ownership.holder)
    return collecting.recorded(job, here) if records else job.as_run(here.location)


def find_run_to_change(
    store: SqlStore,
    text: str,
    access: ClusterAccess,
    note: Note,
    *,
    records: bool = False,
) -> Run:
    """Find a run that a command follows or ends.

    A run that the operator has is left to it, which is noted.
    """
    try:
        return look_up(store, text, access, records=records)
    except NotFound:
        theirs = stores.operator_run(access, text, note)
        if theirs is None:
            raise
    state = "has collected" if theirs.is_closed else "follows"
    note(f"The operator {state} run {theirs.run_id}: nothing is left to do here.")
    return theirs


def foreign_job(
    store: SqlStore, text: str, access: ClusterAccess, missing: NotFound, *, acts: bool
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
            here = run_contexts.run_context(store, cluster, cluster.api)
            jobs = cluster.jobs()
    except BenchError as error:
        if access.is_given:
            raise
        why = f"The cluster could not be queried: {error.message}"
        raise NotFound(missing.message, f"{why} {missing.action}") from error
    known = store.ids()
    foreign = {job.run_id: job for job in jobs if job.run_id not in known}
    places = f"in the store or in namespace {place.namespace} of {place.server}"
    return foreign[resolve([*foreign], text, other_ids=known, where=places)], here


@contextlib.contextmanager
def run_seen(text: str, scope: StoresRead, note: Note) -> Iterator[tuple[Run, SqlStore | None]]:
    """Find a run to look at, of the store that has it; give the own store if that is it.

    A run that is recorded here under this whole id is that run, wherever else its record is. A run
    that no store has may be on the cluster alone.
    """
    with contextlib.ExitStack() as stack:
        missing = NotFound(f"The operator has no such run: {text}.")
        found: dict[Holder, Run] = {}
        store = None
        if not scope.insists:
            store = stack.enter_context(stores.open_readonly(scope.where, note))
            try:
                found["own"] = find_recorded(store, text)
            except NotFound as error:
                missing = error
        if scope.asks and ("own" not in found or found["own"].run_id != text):
            theirs = stores.operator_run(scope.access, text, note, insist=scope.insists)
            found |= {} if theirs is None else {"operator": theirs}
        holder = answers.decided([text], lambda name, of: _fit(name, found.get(of)), scope)
        if found:
            yield found[holder], store if holder == "own" else None
        elif store is None or scope.where == stores.LOCAL:
            raise missing
        else:
            job, here = foreign_job(store, text, scope.access, missing, acts=False)
            yield job.as_run(here.location), None


def _fit(text: str, run: Run | None) -> Fit:
    """Return how well a run that was found fits its name."""
    if run is None:
        return Fit.NONE
    return Fit.WHOLE if run.run_id == text else Fit.BEGINS
