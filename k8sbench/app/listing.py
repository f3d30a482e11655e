"""``list`` and ``status``: recorded runs, and their jobs' states on the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import collectors, connections, context, foreign_jobs, lookup, records, stores
from k8sbench.app.records import ListedRun, RunStatus
from k8sbench.app.stores import Note
from k8sbench.lifecycle import collecting
from k8sbench.measure.group import grouping
from k8sbench.model import creation
from k8sbench.model.counts import counted
from k8sbench.model.errors import BenchError, NamedNotThere, NotFound, UsageError
from k8sbench.model.group import no_run_of, no_run_together
from k8sbench.model.phase import Phase
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Location, Run
from k8sbench.ports import JobEvent, RunFilter, Store

if TYPE_CHECKING:
    pass


def list_runs(
    wanted: RunFilter,
    where: str | None,
    access: ClusterAccess,
    note: Note,
) -> list[ListedRun]:
    """Return the runs that match, oldest first, with those of a collector.

    Of a named namespace only its runs, and the foreign jobs there besides. Runs that do not match
    are read as well, as for ``results``: with them it is judged which count.
    """
    insist = where == stores.CLUSTER
    in_namespace = access.named and not insist
    with stores.to_read(stores.NOWHERE if insist else where, note) as store:
        ours = records.listing(store, RunFilter(), alive=context.alive(), now=context.now())
        runs = [run for run in ours if wanted.fits(run.plan, run.created_at)]
        rows: list[ListedRun] = []
        place: Location | None = None
        if in_namespace:
            rows, place = _of_namespace(store, runs, wanted, access, note)
        theirs = collectors.runs(access, note, insist=insist, benchmark=wanted.benchmark)
        both, added = collectors.merged(ours, theirs)
        if not in_namespace:
            # Of a run that the collector has its job is no news.
            still = [run for run in runs if run.run_id not in added]
            _note_wishes(store, still, note)
            rows = _rows(still, _on_clusters(store, still, note), note)
        rows = [row for row in rows if row.run_id not in added]
        rows += [
            records.listed(run)
            for run in both
            if run.run_id in added
            and wanted.fits(run.plan, run.created_at)
            and (place is None or run.location is None or run.location.namespace == place.namespace)
        ]
        if foreign := [row for row in rows if not row.recorded]:
            note(f"{_are(foreign)} not recorded in this store; k8sbench watch records one.")
        if not rows and place is not None:
            note(f"No run matches in namespace {place.namespace} of {place.server}.")
        elif not rows and not insist:
            _check_filters(wanted, both)
            if not store.unreadable:
                stores.note_empty(store, note)
        rows = judged(rows, both)
    return sorted(rows, key=lambda row: row.created_at)


def judged(rows: Sequence[ListedRun], among: Iterable[Run]) -> list[ListedRun]:
    """Give rows the verdicts that ``results`` shows.

    A run may be valid by itself and still be rejected within its group.
    """
    rejected = {
        member.run_id: tuple(reason.id for reason in member.reasons)
        for group in grouping.groups(among)
        for member in group.members
        if member.verdict == "rejected"
    }
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
        records.check_set(wanted.set_name, [run.plan.set_name for run in reversed(every)])
    if not every:
        return
    names = sorted({run.plan.benchmark for run in every})
    if wanted.benchmark is not None and wanted.benchmark not in names:
        raise no_run_of("benchmark", wanted.benchmark, names)
    raise no_run_together(wanted.since, max(run.created_at for run in every))


def _of_namespace(
    store: Store, runs: Sequence[Run], wanted: RunFilter, access: ClusterAccess, note: Note
) -> tuple[list[ListedRun], Location]:
    """Make the rows of a namespace, including unrecorded jobs.

    Also returns the namespace. Raises if the cluster does not answer.
    """
    with connections.glimpsed(connections.connect(access)) as cluster:
        place, jobs = cluster.api.place, cluster.jobs()
    recorded = [run for run in runs if collecting.same_place(run.location, place)]
    _note_wishes(store, recorded, note)
    by_id = {job.run_id: job.phase for job in jobs}
    phases = _present([run for run in recorded if stores.is_alone(store, run)], by_id)
    unrecorded = foreign_jobs.among(jobs, store.ids())
    foreign = foreign_jobs.matching(unrecorded, wanted)
    rows = _rows(recorded, phases, note) + [foreign_jobs.listed(job, place) for job in foreign]
    foreign_jobs.note_unreadable(unrecorded, note)
    return rows, place


def _rows(runs: Sequence[Run], phases: Mapping[str, Phase], note: Note) -> list[ListedRun]:
    over = [run_id for run_id, phase in phases.items() if phase.final]
    if over:
        note(f"{_are(over)} over on the cluster, and not collected: k8sbench collect --all")
    return [
        msgspec.structs.replace(records.listed(run), on_cluster=phases.get(run.run_id))
        for run in runs
    ]


def _note_wishes(store: Store, runs: Sequence[Run], note: Note) -> None:
    """Note pending cancellations and deletions that no process carries out."""
    wished = [run for run in runs if run.wishes and stores.is_unclaimed(store, run)]
    if count := sum(run.phase.final for run in wished):
        has = counted(count, "run", ("still has its job", "still have their jobs"))
        note(f"{has} on the cluster: k8sbench collect --all")
    if going_on := [run for run in wished if not run.phase.final]:
        note(f"{_are(going_on)} still to be cancelled: k8sbench collect --all")


def _on_clusters(store: Store, runs: Sequence[Run], note: Note) -> dict[str, Phase]:
    """Query the phases of runs that no process follows.

    Runs on unreachable clusters are missing from the result.
    """
    alone = [run for run in runs if run.location and stores.is_alone(store, run)]
    phases: dict[str, Phase] = {}
    for location in dict.fromkeys(run.location for run in alone):
        assert location is not None
        there = [run for run in alone if run.location == location]
        try:
            with connections.glimpsed(connections.connect_to(location, ClusterAccess())) as cluster:
                place = cluster.api.place
                by_id = {job.run_id: job.phase for job in cluster.jobs()}
        except BenchError as error:
            note(f"warning: {_are(there)} shown as last seen: {error.message}")
            continue
        # By another URL it may be the same cluster or not: a job that is not found is not lost.
        is_same = collecting.same_place(location, place)
        unseen = [] if is_same else [run for run in there if run.run_id not in by_id]
        phases |= _present([run for run in there if run not in unseen], by_id)
        if unseen:
            note(
                f"warning: {_are(unseen)} shown as last seen: submitted to {location.server},"
                f" and that kubeconfig now leads to {place.server}."
            )
    return phases


def _present(runs: Sequence[Run], phases: Mapping[str, Phase]) -> dict[str, Phase]:
    """Return job phases by run.

    A run whose job may never have been created does not count as lost.
    """
    return {
        run.run_id: phases.get(run.run_id, Phase.LOST)
        for run in runs
        if run.run_id in phases or creation.is_known_created(run)
    }


def _are(runs: Sized) -> str:
    return counted(len(runs), "run", ("is", "are"))


def status(text: str, where: str | None, access: ClusterAccess, note: Note) -> RunStatus:
    """Return the record of a run and its job's current state.

    The run need not be recorded. If it is open here but closed at a collector, the collector's
    record is returned.
    """
    if where == stores.CLUSTER:
        status_there = collectors.run(access, text, note, insist=True)
        assert status_there is not None
        return records.status(None, status_there)
    with stores.to_read(where, note) as store:
        try:
            run, recorded = lookup.look_up(store, text, access)
        except NotFound:
            if (status_there := collectors.run(access, text, note)) is None:
                raise
            return records.status(None, status_there)
        if collectors.may_know_more(run):
            there = connections.access_to(run.location, access)
            status_there = collectors.run(there, run.run_id, note)
            if status_there is not None and collectors.knows_more(status_there, run):
                return records.status(None, status_there)
        reported = _look(run, access, note)
        return records.status(
            store,
            run if recorded else foreign_jobs.as_reported(run, reported),
            alive=context.alive(),
            on_cluster=records.on_cluster(reported, context.now()),
            recorded=recorded,
        )


def _look(run: Run, access: ClusterAccess, note: Note) -> Sequence[JobEvent]:
    """Query a job's state.

    Returns no events for a final run, or if the cluster does not answer.
    """
    if run.plan.backend != "kubernetes" or run.phase.final:
        return ()
    from k8sbench.adapters.kubernetes import ownership

    try:
        with connections.glimpse_of(run, access) as cluster:
            reported = cluster.look(run)
            unlabelled = None if reported else ownership.look_for(cluster.api, run.run_id)[1]
    except BenchError as error:
        if access.named and isinstance(error, UsageError | NamedNotThere):
            raise
        note(f"warning: {error.message} What is shown is on record. {error.action}")
        return ()
    if unlabelled is not None:
        note(f"warning: {unlabelled} What is shown is on record.")
    elif not reported:
        note(
            f"warning: there is no job {run.run_id} on the cluster any more."
            f" Close the run with: k8sbench collect {run.run_id}"
        )
    return reported
