"""Find, ``list``, ``status`` and ``collect`` runs; what an operator serves.

A foreign job of a cluster was submitted from another store. Its own annotations are enough to look
at it. Nothing is recorded by looking. ``collect`` closes finished runs that no process follows, and
makes rows. An operator serves: every run of some namespaces is collected, until a stop. That ends
with an error where the store cannot be used; the operator begins again then.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import msgspec

from k8sbench.adapters import processes
from k8sbench.app import catalog, connections, results, stores
from k8sbench.app.connections import on_cluster
from k8sbench.app.known_groups import StoredGroups
from k8sbench.app.results import RunRows
from k8sbench.lifecycle import collecting, serving
from k8sbench.lifecycle.collecting import CollectResult
from k8sbench.lifecycle.context import Agree, Note, Reporter, RunContext, Stop
from k8sbench.lifecycle.serving import Serving
from k8sbench.lifecycle.submitting import PlannedCase
from k8sbench.measure.group import grouping
from k8sbench.measure.group.known import KnownGroups
from k8sbench.model import creation
from k8sbench.model.benchmark_object import Benchmark, ObjectSpec
from k8sbench.model.errors import (
    BenchError,
    NamedNotThere,
    NotFound,
    OwnedElsewhere,
    PlanUnreadable,
    StoreError,
    UsageError,
)
from k8sbench.model.group import GroupFilter, GroupRow, no_run_together
from k8sbench.model.identity import check_set, resolve
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import counted
from k8sbench.model.pool import problems
from k8sbench.model.request import ClusterAccess, CollectOptions
from k8sbench.model.run import Location, Run, knows_more, may_know_more, merged
from k8sbench.model.training import claims
from k8sbench.ports import FoundJob, JobEvent, RunFilter, Store
from k8sbench.report import document
from k8sbench.report.document import ListedRun, RunStatus
from k8sbench.threads import decoder

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.adapters.kubernetes.leadership import Leadership
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.model.plan import RunPlan
    from k8sbench.model.planning import LoadedSpec


def find(store: Store, text: str) -> Run:
    """Return the current record of the run with this id prefix."""
    run_id = resolve(store.ids(), text)
    return stores.reconcile(store).get(run_id) or store.run(run_id)


def look_up(store: Store, text: str, access: ClusterAccess, *, records: bool = False) -> Run:
    """Find a run by id prefix in the store, then the cluster.

    With ``records`` a job without a record is recorded here, from its annotations. Raises
    :class:`OwnedElsewhere` for one of another store.
    """
    try:
        return find(store, text)
    except NotFound as missing:
        job, here = _foreign_job(store, text, access, missing, acts=records)
    if records and not job.ownership.is_ours:
        raise OwnedElsewhere(job.run_id, job.ownership.holder)
    return collecting.recorded(job, here) if records else job.as_run(here.location)


def find_run_to_change(
    store: Store,
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
            here = connections.run_context(store, cluster, cluster.api)
            jobs = cluster.jobs()
    except BenchError as error:
        if access.named:
            raise
        why = f"The cluster could not be queried: {error.message}"
        raise NotFound(missing.message, f"{why} {missing.action}") from error
    known = store.ids()
    foreign = {job.run_id: job for job in jobs if job.run_id not in known}
    places = f"in the store or in namespace {place.namespace} of {place.server}"
    return foreign[resolve([*foreign], text, other_ids=known, where=places)], here


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


@contextlib.contextmanager
def run_seen(
    text: str, where: str | None, access: ClusterAccess, note: Note
) -> Iterator[tuple[SqlStore, Run, bool, ClusterAccess]]:
    """Open a store to read one run.

    Says if it is recorded there, and how its cluster is reached. The run may be on the cluster
    alone, and is the operator's if that knows more.
    """
    insist = where == stores.CLUSTER
    found = None
    missing = NotFound(f"The operator has no such run: {text}.")
    with stores.open_readonly(stores.NOWHERE if insist else where, note) as store:
        if not insist:
            try:
                found = look_up(store, text, access)
            except NotFound as error:
                missing = error
        there = access if found is None else connections.access_to(found.location, access)
        if found is None or may_know_more(found):
            run_id = text if found is None else found.run_id
            theirs = stores.operator_run(there, run_id, note, insist=insist)
            if theirs is not None and knows_more(theirs, found):
                found = theirs
        if found is None:
            raise missing
        yield store, found, found.run_id in store.ids(), there


def list_runs(
    wanted: RunFilter, where: str | None, access: ClusterAccess, note: Note
) -> list[ListedRun]:
    """Return the runs that match, oldest first, with those of an operator.

    If a namespace is named, returns only its runs and the jobs of other stores there.
    """
    insist = where == stores.CLUSTER
    place = None
    jobs = list[FoundJob]()
    with stores.open_readonly(stores.NOWHERE if insist else where, note) as store:
        lost = stores.reconcile(store)
        ours = [lost.get(run.run_id, run) for run in store.runs(wanted)]
        if access.named and not insist:
            with connections.glance(connections.connect(access)) as cluster:
                place = cluster.api.place
                jobs = list(cluster.jobs())
        theirs = stores.operator_runs(access, note, insist=insist, benchmark=wanted.benchmark)
        both, added = merged(ours, theirs)
        runs = [
            run
            for run in both
            if wanted.fits(run.plan, run.created_at) and (place is None or run.is_at(place))
        ]
        if wanted.limit is not None:
            runs = runs[max(len(runs) - wanted.limit, 0) :]
        groups = StoredGroups(store, note, lost=lost, theirs=theirs)
        # Of a run that the operator has its job is no news.
        still = [run for run in runs if run.run_id not in added]
        if wished := [run for run in still if run.wishes and stores.is_unclaimed(store, run)]:
            note(f"{_are(wished)} still to be cancelled or deleted: k8sbench collect --all")
        alone = [run for run in still if run.location and stores.is_alone(store, run)]
        phases = _on_clusters(alone, note) if place is None else _present(alone, jobs)
        over = [run_id for run_id, phase in phases.items() if phase.final]
        if over:
            note(f"{_are(over)} over on the cluster, and not collected: k8sbench collect --all")
        rows = [document.listed(run, on_cluster=phases.get(run.run_id)) for run in runs]
        if place is not None:
            known = {*store.ids(), *added}
            foreign = foreign_jobs(jobs, known, wanted, note)
            if foreign:
                note(f"{_are(foreign)} not recorded in this store; k8sbench watch records one.")
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
        elif not rows and not insist:
            _check_filters(wanted, groups.rows)
            if not store.unreadable:
                stores.note_empty(store, note)
        return sorted(judged(rows, groups), key=lambda row: row.created_at)


def judged(rows: Sequence[ListedRun], known: KnownGroups) -> list[ListedRun]:
    """Give rows the verdicts that ``results`` shows.

    A run may be valid by itself and still be rejected within its group.
    """
    sets = {row.set_name for row in rows}
    groups = known.groups(row for row in known.rows if row.set_name in sets)
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


def status(text: str, where: str | None, access: ClusterAccess, note: Note) -> RunStatus:
    """Return the record of a run and its job's current state.

    The run need not be recorded. If it is open here but closed at an operator, the operator's
    record is returned.
    """
    with run_seen(text, where, access, note) as (store, run, recorded, _):
        if run.source == stores.SOURCE:
            return document.status(run)
        reported = _look(run, access, note)
        steps = [event.transition for event in reported if event.transition is not None]
        replicas = [event.replica for event in reported if event.replica is not None]
        seen = run if recorded else msgspec.structs.replace(run, history=(*run.history, *steps))
        return document.status(
            seen,
            log_files=log_files(store, run) if recorded else (),
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


# -- collect ---------------------------------------------------------------------------------------


def resolve_types() -> None:
    """Resolve the types that planning reads, before there are threads."""
    from k8sbench.model.image import ImageTable
    from k8sbench.model.pool import PoolsFile
    from k8sbench.model.run import Run
    from k8sbench.model.spec import BenchmarkSpec

    for type_ in (ObjectSpec, BenchmarkSpec, PoolsFile, ImageTable, Run):
        decoder(type_)


def plan_object(
    api: Api, note: Note, reserved: Collection[str], benchmark: Benchmark
) -> Sequence[PlannedCase]:
    """Plan and render the cases of an object, baselines (1x1) first.

    Raises :class:`~k8sbench.model.errors.UsageError` for what cannot run, or names a ``reserved``
    claim or Secret (``NAMESPACE/NAME``).
    """
    from k8sbench.adapters.kubernetes import preflight

    pool = benchmark.wanted.pool
    for path, wrong in () if pool is None else problems(pool):
        raise UsageError(f"pool.{'.'.join(map(str, path))} {wrong}.", "Create another Benchmark.")
    request = benchmark.request()
    site = catalog.target_on_cluster(api, request, pool).site
    planned: Sequence[PlannedCase] = catalog.prepare(_specs(benchmark), request, site, note)
    if request.all_cases:
        planned = catalog.drop_too_large(planned, api, note)
    if nodes := benchmark.wanted.nodes:
        planned = [case.on_node(node) for case in planned for node in nodes]
    for case in planned:  # a mistake in the last one must not show after hours
        case.manifests(case.plan(benchmark.run_id(1), benchmark.set_name))
    drafts = [case.draft for case in planned]
    refuse_reserved(drafts, api.place.namespace, reserved)
    preflight.refuse(api, drafts)
    return sorted(planned, key=lambda case: case.draft.world_size > 1)


def refuse_reserved(plans: Sequence[RunPlan], namespace: str, reserved: Collection[str]) -> None:
    """Raise :class:`UsageError` if a plan names a reserved claim or Secret of the namespace."""
    for one in plans:
        secrets = {secret.name for secret in one.secret_env.values()}
        for name in sorted({*claims(one), *secrets, *one.pool.image_pull_secrets}):
            if f"{namespace}/{name}" in reserved:
                raise UsageError(
                    f"{name} is the operator's own, and no Benchmark may name it.",
                    "Create a Benchmark with another claim or Secret.",
                )


def _specs(benchmark: Benchmark) -> list[LoadedSpec]:
    wanted = benchmark.wanted
    if wanted.file is None:
        assert wanted.benchmark is not None
        return catalog.named(wanted.benchmark)
    from k8sbench.adapters.files import catalog as files

    return [files.given(wanted.file, f"Benchmark {benchmark.name}")]


Collected = tuple[CollectResult, RunRows]
"""Collected runs, and the rows of the closed ones."""


def collect(options: CollectOptions, reporter: Reporter, stop: Stop, agree: Agree) -> Collected:
    """Collect the named runs, or every run of the namespace that needs it.

    Asked to stop it returns early, with the runs that go on. ``agree`` is asked before a job is
    taken over.
    """
    results.check_accepted(options.accept)
    result = CollectResult()
    with stores.open_writable(options.store, note=reporter.note) as store:
        for location, run_ids in _by_location(store, options, result, reporter.note).items():
            api = connections.connect(options.access, location)
            with on_cluster(store, api, reporter.note, options) as context, stop:
                for run_id in run_ids if options.take_over else ():
                    collecting.take_over(run_id, context, agree, reporter.note)
                runs = [_known(run_id, context) for run_id in run_ids]
                if not options.runs:
                    runs = collecting.pending_runs(context, reporter.note)
                    runs += collecting.owed_runs(context)
                for run in runs:
                    if run.needs_collection:
                        collecting.check_place(run, context.cluster, context.location)
                collected = collecting.collect(
                    runs, context, reporter, stop, options, follow=options.until_over
                )
                result.add(collected)
            if stop.cause is not None:
                break
        for run_id, error in (stores.damaged(store) if not options.runs else {}).items():
            reporter.note(f"warning: run {run_id} is damaged: {error.message} {error.action}")
            result.failed.setdefault(run_id, error)
        return result, results.rows(store, result.closed, reporter.note, accept=options.accept)


def _known(run_id: str, context: RunContext) -> Run:
    """Return the record of a run; a missing one is made."""
    store = context.store
    if run_id in store.ids():
        job = collecting.job_of(run_id, context)
        if job is None or not collecting.is_late(job, context):
            return store.run(run_id)
    return collecting.adopted(run_id, context)


def _by_location(
    store: Store, options: CollectOptions, result: CollectResult, note: Note
) -> dict[Location | None, list[str]]:
    """Group the named runs by cluster; runs that the operator alone has are closed.

    The key None stands for the named or current cluster, the only one if no run is named.
    """
    locations: dict[Location | None, dict[str, None]] = {} if options.runs else {None: {}}
    for text in options.runs:
        run = find_run_to_change(store, text, options.access, note)
        if run.source == stores.SOURCE:
            (result.closed if run.is_closed else result.going_on).append(run)
            continue
        connections.check_on_cluster(run)
        place = None if options.access.named else run.location
        locations.setdefault(place, {})[run.run_id] = None
    return {place: list(names) for place, names in locations.items()}


# -- serving: what an operator does ----------------------------------------------------------------


def serve(
    store: Store,
    places: Sequence[ClusterAccess],
    options: CollectOptions,
    reporter: Reporter,
    stop: Stop,
    closed: Callable[[Run], None],
    look: Callable[[Sequence[Serving], Mapping[str, int]], None],
) -> None:
    """Serve namespaces as their operator, until a stop.

    Every run is collected, and what Benchmark objects want is created. New are
    also runs that another process of the store abandons. In each turn ``look`` takes the
    namespaces, and the numbers of failed requests by HTTP status.
    """
    from k8sbench.adapters.kubernetes.benchmark_objects import BenchmarkObjects

    resolve_types()
    note_once = lru_cache(serving.MOST_NOTES)(reporter.note)
    apis = [connections.connect(access) for access in places]
    with contextlib.ExitStack() as stack:
        served = []
        for api in apis:
            opened = on_cluster(store, api, reporter.note, options, is_operator=True)
            context = stack.enter_context(opened)
            objects = stack.enter_context(contextlib.closing(BenchmarkObjects(api)))
            plan = partial(plan_object, api, note_once, options.reserved)
            served.append(stack.enter_context(Serving(context, reporter, objects, plan)))
        stack.enter_context(stop)

        def seen(places: Sequence[Serving]) -> None:
            look(places, sum((Counter(api.sender.errors) for api in apis), Counter()))

        serving.serve(served, stop, closed, seen)


def leadership(name: str, namespaces: Sequence[str], note: Note) -> Leadership:
    """Make the holder of the Leases of namespaces; by default of this process's own."""
    from k8sbench.adapters.kubernetes.leadership import Leadership

    return Leadership(partial(connections.connect, ClusterAccess()), name, namespaces, note)
