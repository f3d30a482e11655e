"""``collect``: close finished runs that no process follows, and make rows.

``collect --all --follow`` and the operator serve: every run of some namespaces is collected, until
a stop. That ends with an error where the store cannot be used; the operator begins again then.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from k8sbench.app import cases, catalog, connections, results, stores
from k8sbench.app.connections import on_cluster
from k8sbench.app.results import RunRows
from k8sbench.app.runs import to_act_on
from k8sbench.lifecycle import collecting, serving
from k8sbench.lifecycle.collecting import CollectResult
from k8sbench.lifecycle.context import Agree, Note, PlannedCase, Reporter, RunContext, Stop
from k8sbench.lifecycle.serving import Serving
from k8sbench.model.benchmark_object import Benchmark, ObjectSpec
from k8sbench.model.errors import UsageError
from k8sbench.model.pool import problems
from k8sbench.model.request import ClusterAccess, CollectOptions
from k8sbench.model.run import Location, Run
from k8sbench.model.training import claims
from k8sbench.ports import Store
from k8sbench.threads import decoder

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.adapters.kubernetes.leadership import Leadership
    from k8sbench.model.plan import RunPlan
    from k8sbench.model.planning import LoadedSpec


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
    site = cases.target_on_cluster(api, request, pool).site
    planned: Sequence[PlannedCase] = cases.prepare(_specs(benchmark), request, site, note)
    if request.all_cases:
        planned = cases.that_fit(planned, api, note)
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
    with stores.to_write(options.store) as store:
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
        run = to_act_on(store, text, options.access, note)
        if run.source == stores.SOURCE:
            (result.closed if run.is_closed else result.going_on).append(run)
            continue
        connections.check_on_cluster(run)
        place = None if options.access.named else run.location
        locations.setdefault(place, {})[run.run_id] = None
    return {place: list(names) for place, names in locations.items()}


# -- serving --------------------------------------------------------------------------------------


def serve(options: CollectOptions, reporter: Reporter, stop: Stop) -> Collected:
    """Collect every run of a namespace, and new ones, until asked to stop.

    New are jobs that are created there, and runs that another process of the store abandons.
    Returns what was collected, and which runs go on.
    """
    closed: dict[str, Run] = {}
    with stores.to_write(options.store) as store:
        result = serve_all(
            store,
            [options.access],
            options,
            reporter,
            stop,
            closed=lambda run: closed.update({run.run_id: run}),
        )
        result.closed = list(closed.values())
        return result, results.rows(store, result.closed, reporter.note, accept=options.accept)


def serve_all(
    store: Store,
    places: Sequence[ClusterAccess],
    options: CollectOptions,
    reporter: Reporter,
    stop: Stop,
    closed: Callable[[Run], None],
    look: Callable[[Sequence[Serving], Mapping[str, int]], None] | None = None,
) -> CollectResult:
    """Collect every run of several namespaces into an open store, until asked to stop.

    With ``look`` it is the operator that does so: patient with API servers, and for everybody. In
    each turn ``look`` takes the namespaces, and the numbers of failed requests by HTTP status.
    """
    from k8sbench.adapters.kubernetes.benchmark_objects import BenchmarkObjects

    is_all = look is not None
    if is_all:
        resolve_types()
    note_once = lru_cache(serving.MOST_NOTES)(reporter.note)
    apis = [connections.connect(access) for access in places]
    with contextlib.ExitStack() as stack:
        served = []
        for api in apis:
            context = stack.enter_context(
                on_cluster(store, api, reporter.note, options, is_operator=is_all)
            )
            objects = None
            if is_all:
                objects = stack.enter_context(contextlib.closing(BenchmarkObjects(api)))
            place = Serving(
                context,
                reporter,
                options,
                patient=is_all,
                objects=objects,
                plan=partial(plan_object, api, note_once, options.reserved),
            )
            served.append(stack.enter_context(place))
        stack.enter_context(stop)

        def seen(places: Sequence[Serving]) -> None:
            if look is not None:
                look(places, sum((Counter(api.sender.errors) for api in apis), Counter()))

        return serving.serve(served, stop, closed, seen)


def leadership(name: str, namespaces: Sequence[str], note: Note) -> Leadership:
    """Make the holder of the Leases of namespaces; by default of this process's own."""
    from k8sbench.adapters.kubernetes.leadership import Leadership

    return Leadership(partial(connections.connect, ClusterAccess()), name, namespaces, note)
