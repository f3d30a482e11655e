"""``list``: the runs of the store that answers, and a namespace's foreign jobs.

Nothing is recorded by looking.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from typing import TypeVar

import msgspec

from k8sbench.app import answers, connections, stores
from k8sbench.app.answers import Answer, StoresRead
from k8sbench.lifecycle.context import Note
from k8sbench.model import creation
from k8sbench.model.errors import BenchError, PlanUnreadable
from k8sbench.model.facts import facts_of
from k8sbench.model.group import GroupRow
from k8sbench.model.group_filter import GroupFilter, no_run_together
from k8sbench.model.names import check_set
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import counted
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Location, Run
from k8sbench.ports.cluster import FoundJob
from k8sbench.results.groups import grouping
from k8sbench.results.groups.known import KnownGroups
from k8sbench.results.report import document
from k8sbench.results.report.document import ListedRun
from k8sbench.results.stored_groups import StoredGroups
from k8sbench.store.interface import RunFilter

T = TypeVar("T")


class Listing:
    """The runs that a list has, oldest first; each is read when its row is asked for."""

    def __init__(self, recorded: Sequence[str], read: Callable[[str], Run | None]) -> None:
        self.recorded = recorded
        """Ids of the runs of the store."""
        self._read = read
        """Reads a run by id; None if it is not listed."""
        self.place: Location | None = None
        self.phases: Mapping[str, Phase] = {}
        """Phases of jobs on clusters, by run id."""
        self.foreign: Sequence[ListedRun] = ()
        """Jobs without a record."""
        self.rejected: Mapping[str, tuple[str, ...]] = {}
        """Ids of the reasons against runs that are rejected within their groups, by run id."""

    def run_ids(self) -> Iterator[str]:
        """Return the ids of the runs; without a namespace no run is read."""
        if self.place is None:
            return iter(self.recorded)
        return (row.run_id for row in self.rows())

    def rows(self) -> Iterator[ListedRun]:
        """Return the rows of the runs."""
        runs = (run for run_id in self.recorded if (run := self._read(run_id)) is not None)
        known = (self._row(run) for run in runs if self.place is None or run.is_at(self.place))
        return heapq.merge(known, self.foreign, key=lambda row: row.created_at)

    def _row(self, run: Run) -> ListedRun:
        row = document.listed(run, on_cluster=self.phases.get(run.run_id))
        return with_rejection(row, self.rejected)


@answers.completed
def list_runs(wanted: RunFilter, scope: StoresRead, note: Note, write: Callable[[Listing], T]) -> T:
    """Give the runs of the store that answers to ``write``; returns its answer.

    If a namespace is named, has only its runs, and the jobs there that the store has not recorded.
    """
    place = None
    jobs = list[FoundJob]()
    if scope.access.is_given and not scope.insists:
        with connections.glance(connections.connect(scope.access)) as cluster:
            place = cluster.api.place
            jobs = list(cluster.jobs())
    names = [] if wanted.set_name is None else [f"set:{wanted.set_name}"]
    with answers.answering(scope, note, names) as answer:
        if answer.served is not None:
            runs = {run.run_id: run for run in answer.served.newest_runs(wanted)}
            listing = Listing([*runs], runs.get)
            listing.place = place
        else:
            listing = _recorded(answer, wanted, scope, note, place, jobs)
        if place is not None:
            _add_foreign(listing, foreign_jobs(jobs, {*answer.groups.runs}, wanted, note), note)
        elif not listing.recorded:
            _check_filters(wanted, answer.groups.rows)
            if answer.store is not None and not answer.store.unreadable:
                stores.note_empty(answer.store, note)
        sets = answer.groups.sets_of(listing.recorded)
        listing.rejected = rejections(sets, answer.groups)
        return write(listing)


def _recorded(
    answer: Answer,
    wanted: RunFilter,
    scope: StoresRead,
    note: Note,
    place: Location | None,
    jobs: Sequence[FoundJob],
) -> Listing:
    """List runs of the own store, with the present states of those that nobody follows."""
    store, groups = answer.store, answer.groups
    assert store is not None, "the operator has no jobs to look for"
    assert isinstance(groups, StoredGroups), "of the own store"
    listing = Listing(store.ids(wanted), groups.readable)
    listing.place = place
    own = set(listing.recorded)
    still = [
        run
        for run in groups.recorded(msgspec.structs.replace(wanted, unfinished=True, limit=None))
        if run.run_id in own and (place is None or run.is_at(place))
    ]
    if wished := [run for run in still if run.wishes and stores.is_unclaimed(store, run)]:
        note(f"{_are(wished)} still to be cancelled or deleted: k8sbench collect --all")
    alone = [run for run in still if run.location and stores.is_alone(store, run)]
    if place is not None:
        listing.phases = _present(alone, jobs)
    elif scope.where != stores.LOCAL:
        listing.phases = _on_clusters(alone, note)
    over = [run_id for run_id, phase in listing.phases.items() if phase.final]
    if over:
        note(f"{_are(over)} over on the cluster, and not collected: k8sbench collect --all")
    return listing


def _add_foreign(listing: Listing, jobs: Sequence[FoundJob], note: Note) -> None:
    """Add the jobs of a namespace that the store has not recorded."""
    place = listing.place
    assert place is not None, "a namespace was named"
    if jobs:
        note(f"{_are(jobs)} not recorded in this store; k8sbench status says who has one.")
    listing.foreign = [
        document.listed(job.as_run(place), phase=job.phase, on_cluster=job.phase, recorded=False)
        for job in jobs
    ]
    if next(listing.rows(), None) is None:
        note(f"No run matches in namespace {place.namespace} of {place.server}.")


def foreign_jobs(
    jobs: Sequence[FoundJob],
    known: Collection[str],
    wanted: RunFilter,
    note: Note,
) -> list[FoundJob]:
    """Return the jobs without a record that match a filter, oldest first.

    Those whose plans cannot be read are noted.
    """
    found = []
    for job in jobs:
        try:
            if job.run_id not in known and wanted.fits(facts_of(job.plan), job.created_at):
                found.append(job)
        except PlanUnreadable as wrong:
            note(f"warning: left out: {wrong}")
    return found


def rejections(sets: Collection[str], known: KnownGroups) -> dict[str, tuple[str, ...]]:
    """Return the runs of some sets that are rejected within their groups, with the reasons' ids."""
    groups = known.groups(row for row in known.rows if row.rejects and row.set_name in sets)
    return grouping.rejected(groups)


def with_rejection(row: ListedRun, rejected: Mapping[str, tuple[str, ...]]) -> ListedRun:
    """Give a row the verdict that ``results`` shows.

    A run may be valid by itself and still be rejected within its group.
    """
    if row.run_id not in rejected or not row.phase.final:
        return row
    return msgspec.structs.replace(
        row, verdict="rejected", reasons=rejected[row.run_id], throughput=None, unit=None
    )


def _check_filters(wanted: RunFilter, rows: Sequence[GroupRow]) -> None:
    """Reject filters that no run fits, and name the nearest values."""
    if wanted.set_name is not None:
        newest_first = sorted(rows, key=lambda row: -row.latest)
        check_set(wanted.set_name, [row.set_name for row in newest_first])
    if not rows:
        return
    GroupFilter(benchmark=wanted.benchmark).chosen(rows)
    raise no_run_together(wanted.since, max(row.latest for row in rows))


def _on_clusters(alone: Sequence[Run], note: Note) -> dict[str, Phase]:
    """Query the phases of runs that no process follows.

    Runs on unreachable clusters are missing from the result.
    """
    phases: dict[str, Phase] = {}
    for location in dict.fromkeys(run.location for run in alone):
        assert location is not None
        there = [run for run in alone if run.location == location]
        try:
            with connections.glance(connections.connect(ClusterAccess(), location)) as cluster:
                place = cluster.api.place
                jobs = cluster.jobs()
        except BenchError as error:
            note(f"warning: {_are(there)} shown as last seen: {error.message}")
            continue
        # By another URL it may be the same cluster or not: a job that is not found is not lost.
        if not location.is_same(place):
            seen = {job.run_id for job in jobs}
            if unseen := [run for run in there if run.run_id not in seen]:
                note(
                    f"warning: {_are(unseen)} shown as last seen: submitted to {location.server},"
                    f" and that kubeconfig now leads to {place.server}."
                )
            there = [run for run in there if run.run_id in seen]
        phases |= _present(there, jobs)
    return phases


def _present(runs: Sequence[Run], jobs: Sequence[FoundJob]) -> dict[str, Phase]:
    """Return job phases by run.

    A run whose job may never have been created does not count as lost.
    """
    phases = {job.run_id: job.phase for job in jobs}
    return {
        run.run_id: phases.get(run.run_id, Phase.LOST)
        for run in runs
        if run.run_id in phases or creation.is_known_created(run)
    }


def _are(runs: Sized) -> str:
    return counted(len(runs), "run", ("is", "are"))
