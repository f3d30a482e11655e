"""``list`` and ``status``: recorded runs, and their jobs' states on the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized

import msgspec

from k8sbench.adapters import processes
from k8sbench.app import connections, context, lookup, served_runs, stores
from k8sbench.app.stores import Note
from k8sbench.measure.group import grouping
from k8sbench.model import creation
from k8sbench.model.counts import counted
from k8sbench.model.errors import BenchError, NamedNotThere, StoreError, UsageError
from k8sbench.model.group import GroupFilter, no_run_together
from k8sbench.model.identity import check_set
from k8sbench.model.phase import Phase
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run, merged
from k8sbench.ports import FoundJob, JobEvent, RunFilter, Store
from k8sbench.report import run_document
from k8sbench.report.run_document import ListedRun, RunStatus


def list_runs(
    wanted: RunFilter, where: str | None, access: ClusterAccess, note: Note
) -> list[ListedRun]:
    """Return the runs that match, oldest first, with those of an operator.

    Of a named namespace only its runs, and the foreign jobs there besides. Runs that do not match
    are read as well, as for ``results``: with them it is judged which count.
    """
    insist = where == stores.CLUSTER
    place, jobs = None, list[FoundJob]()
    with stores.to_read(stores.NOWHERE if insist else where, note) as store:
        ours = lookup.listing(store)
        if access.named and not insist:
            with connections.glance(connections.connect(access)) as cluster:
                place, jobs = cluster.api.place, list(cluster.jobs())
        theirs = served_runs.runs(access, note, insist=insist, benchmark=wanted.benchmark)
        both, added = merged(ours, theirs)
        runs = [
            run
            for run in both
            if wanted.fits(run.plan, run.created_at) and (place is None or run.is_at(place))
        ]
        # Of a run that the operator has its job is no news.
        still = [run for run in runs if run.run_id not in added]
        if wished := [run for run in still if run.wishes and stores.is_unclaimed(store, run)]:
            note(f"{_are(wished)} still to be cancelled or deleted: k8sbench collect --all")
        alone = [run for run in still if run.location and stores.is_alone(store, run)]
        phases = _on_clusters(alone, note) if place is None else _present(alone, jobs)
        over = [run_id for run_id, phase in phases.items() if phase.final]
        if over:
            note(f"{_are(over)} over on the cluster, and not collected: k8sbench collect --all")
        rows = [run_document.listed(run, on_cluster=phases.get(run.run_id)) for run in runs]
        if place is not None:
            known = {*store.ids(), *added}
            foreign = lookup.foreign_jobs(jobs, known, wanted, note)
            if foreign:
                note(f"{_are(foreign)} not recorded in this store; k8sbench watch records one.")
            rows += [
                run_document.listed(
                    job.as_run(place),
                    phase=job.phase,
                    on_cluster=job.phase,
                    recorded=False,
                )
                for job in foreign
            ]
        if not rows and place is not None:
            note(f"No run matches in namespace {place.namespace} of {place.server}.")
        elif not rows and not insist:
            _check_filters(wanted, both)
            if not store.unreadable:
                stores.note_empty(store, note)
    return sorted(judged(rows, both), key=lambda row: row.created_at)


def judged(rows: Sequence[ListedRun], among: Iterable[Run]) -> list[ListedRun]:
    """Give rows the verdicts that ``results`` shows.

    A run may be valid by itself and still be rejected within its group.
    """
    rejected = grouping.rejected(among)
    return [
        msgspec.structs.replace(
            row, verdict="rejected", reasons=rejected[row.run_id], throughput=None, unit=None
        )
        if row.run_id in rejected and row.phase.final
        else row
        for row in rows
    ]


def _check_filters(wanted: RunFilter, every: Sequence[Run]) -> None:
    """Reject filters that none of some runs fits, and name the nearest values."""
    if wanted.set_name is not None:
        check_set(wanted.set_name, [run.plan.set_name for run in reversed(every)])
    if not every:
        return
    GroupFilter(benchmark=wanted.benchmark).chosen(grouping.groups(every))
    raise no_run_together(wanted.since, max(run.created_at for run in every))


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
                place, jobs = cluster.api.place, cluster.jobs()
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


def status(text: str, where: str | None, access: ClusterAccess, note: Note) -> RunStatus:
    """Return the record of a run and its job's current state.

    The run need not be recorded. If it is open here but closed at an operator, the operator's
    record is returned.
    """
    with stores.run_seen(text, where, access, note) as (store, run, recorded, _):
        if run.source == served_runs.SOURCE:
            return run_document.status(run)
        reported = _look(run, access, note)
        steps = [event.transition for event in reported if event.transition is not None]
        replicas = [event.replica for event in reported if event.replica is not None]
        seen = run if recorded else msgspec.structs.replace(run, history=(*run.history, *steps))
        return run_document.status(
            seen,
            log_files=log_files(store, run) if recorded else (),
            owner_alive=None if run.owner is None else processes.alive(run.owner),
            on_cluster=run_document.on_cluster(steps, replicas, context.now()),
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
        with connections.glance(connections.of_run(run, access), run) as cluster:
            reported = cluster.look(run)
    except BenchError as error:
        if access.named and isinstance(error, UsageError | NamedNotThere):
            raise
        note(f"warning: {error.message} What is shown is on record. {error.action}")
        return ()
    if not reported:
        note(
            f"warning: there is no job {run.run_id} on the cluster any more."
            f" Close the run with: k8sbench collect {run.run_id}"
        )
    return reported
