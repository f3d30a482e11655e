"""``list``: the runs of a store and an operator, and a namespace's foreign jobs.

Nothing is recorded by looking.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Sized

import msgspec

from k8sbench.app import connections, stores
from k8sbench.app.stores import StoresRead
from k8sbench.lifecycle.context import Note
from k8sbench.measure.group import grouping
from k8sbench.measure.group.known import KnownGroups
from k8sbench.model import creation
from k8sbench.model.errors import BenchError, PlanUnreadable
from k8sbench.model.group import GroupFilter, GroupRow, no_run_together
from k8sbench.model.identity import check_set
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import counted
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run, merged
from k8sbench.ports import FoundJob, RunFilter
from k8sbench.report import document
from k8sbench.report.document import ListedRun


@stores.completed
def list_runs(wanted: RunFilter, scope: StoresRead, note: Note) -> list[ListedRun]:
    """Return the runs that match, oldest first, with those of an operator.

    If a namespace is named, returns only its runs and the jobs of other stores there.
    """
    place = None
    jobs = list[FoundJob]()
    if scope.access.named and not scope.insists:
        with connections.glance(connections.connect(scope.access)) as cluster:
            place = cluster.api.place
            jobs = list(cluster.jobs())
    with stores.with_operator(scope, note) as (store, groups):
        both, added = merged(groups.recorded(wanted), groups.theirs.newest_runs(wanted))
        runs = [
            run
            for run in both
            if wanted.fits(run.plan, run.created_at) and (place is None or run.is_at(place))
        ]
        if wanted.limit is not None:
            runs = runs[max(len(runs) - wanted.limit, 0) :]
        # Of a run that the operator has its job is no news.
        still = [run for run in runs if run.run_id not in added]
        if wished := [run for run in still if run.wishes and stores.is_unclaimed(store, run)]:
            note(f"{_are(wished)} still to be cancelled or deleted: k8sbench collect --all")
        alone = [run for run in still if run.location and stores.is_alone(store, run)]
        if place is not None:
            phases = _present(alone, jobs)
        else:
            phases = {} if scope.where == stores.LOCAL else _on_clusters(alone, note)
        over = [run_id for run_id, phase in phases.items() if phase.final]
        if over:
            note(f"{_are(over)} over on the cluster, and not collected: k8sbench collect --all")
        rows = [document.listed(run, on_cluster=phases.get(run.run_id)) for run in runs]
        if place is not None:
            known = {*store.ids(), *added}
            foreign = foreign_jobs(jobs, known, wanted, note)
            if foreign:
                note(
                    f"{_are(foreign)} not recorded in this store; k8sbench status says who has one."
                )
            rows += [
                document.listed(
                    job.as_run(place),
                    phase=job.phase,
                    on_cluster=job.phase,
                    recorded=False,
                )
                for job in foreign
            ]
        if not rows and place is not None:
            note(f"No run matches in namespace {place.namespace} of {place.server}.")
        elif not rows and not scope.insists:
            _check_filters(wanted, groups.rows)
            if not store.unreadable:
                stores.note_empty(store, note)
        return sorted(judged(rows, groups), key=lambda row: row.created_at)


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
            if job.run_id not in known and wanted.fits(job.plan, job.created_at):
                found.append(job)
        except PlanUnreadable as wrong:
            note(f"warning: left out: {wrong}")
    return found


def judged(rows: Sequence[ListedRun], known: KnownGroups) -> list[ListedRun]:
    """Give rows the verdicts that ``results`` shows.

    A run may be valid by itself and still be rejected within its group.
    """
    sets = {row.set_name for row in rows}
    groups = known.groups(row for row in known.rows if row.rejects and row.set_name in sets)
    rejected = grouping.rejected(groups)
    return [
        msgspec.structs.replace(
            row, verdict="rejected", reasons=rejected[row.run_id], throughput=None, unit=None
        )
        if row.run_id in rejected and row.phase.final
        else row
        for row in rows
    ]


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
