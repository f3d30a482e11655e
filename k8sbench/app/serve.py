"""The work of an operator: plan Benchmark objects, and serve namespaces until a stop.

Every run of the namespaces is collected. Serving ends with an error where the store cannot be used;
the operator begins again then.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import benchmarks, cases, connections, targets
from k8sbench.app.connections import on_cluster
from k8sbench.json_decoders import decoder
from k8sbench.lifecycle import serving
from k8sbench.lifecycle.context import Note, Reporter
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.serving import Serving
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.benchmark_object import Benchmark, ObjectSpec
from k8sbench.model.errors import NotFound, UsageError
from k8sbench.model.pool import NodePool, widened
from k8sbench.model.request import ClusterAccess, CollectOptions, SubmitRequest
from k8sbench.model.run import Run
from k8sbench.model.training import claims

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.adapters.kubernetes.leadership import Leadership
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.model.plan import RunPlan
    from k8sbench.model.planning import LoadedSpec


OWN_POOLS = (
    "Name one of its pools as nodePool; an administrator may allow others with --allow-own-pools"
    " (operator.allowOwnPools of the chart)."
)


def serve(
    store: SqlStore,
    places: Sequence[ClusterAccess],
    options: CollectOptions,
    reporter: Reporter,
    stop: Stop,
    closed: Callable[[Run], None],
    look: Callable[[Sequence[Serving], Mapping[str, int]], None],
) -> None:
    """Serve namespaces as their operator, until a stop.

    Every run is collected, those too that another process of the store abandoned, the runs of
    Benchmark objects are created, and labelled jobs of others are observed. In each turn ``look``
    takes the namespaces, and the numbers of failed requests by HTTP status.
    """
    from k8sbench.adapters.kubernetes.benchmark_objects import BenchmarkObjects
    from k8sbench.app.labelled_jobs import LabelledJobs

    resolve_types()
    note_once = lru_cache(serving.MOST_NOTES)(reporter.note)
    apis = [connections.connect(access) for access in places]
    with contextlib.ExitStack() as stack:
        served = []
        labelled = []
        for api in apis:
            opened = on_cluster(store, api, reporter.note, options, is_operator=True)
            context = stack.enter_context(opened)
            objects = stack.enter_context(contextlib.closing(BenchmarkObjects(api)))
            plan = partial(plan_object, api, note_once, options)
            served.append(stack.enter_context(Serving(context, reporter, objects, plan)))
            if options.observe:
                jobs = LabelledJobs(store, api, reporter, options.prometheus, stop)
                labelled.append(stack.enter_context(jobs))
        stack.enter_context(stop)

        def seen(places: Sequence[Serving]) -> None:
            for jobs in labelled:
                for run in jobs.step():
                    closed(run)
            look(places, sum((Counter(api.sender.errors) for api in apis), Counter()))

        serving.serve(served, stop, closed, seen)


def plan_object(
    api: Api, note: Note, options: CollectOptions, benchmark: Benchmark
) -> Sequence[PlannedCase]:
    """Plan and render the cases of an object, baselines (1x1) first.

    Raises :class:`~k8sbench.model.errors.UsageError` for what cannot run, names a reserved claim or
    Secret, or brings a pool that it may not.
    """
    from k8sbench.adapters.files import catalog as files
    from k8sbench.adapters.kubernetes import preflight

    given = benchmark.spec.pool
    pool = None if given is None else files.given_pool(given, f"Benchmark {benchmark.name}: pool")
    request = benchmark.request()
    if pool is not None and not options.allow_own_pools:
        check_narrows(api, request, pool)
    site = targets.target_on_cluster(api, request, pool).site
    planned: Sequence[PlannedCase] = cases.plan_cases(_specs(benchmark), request, site, note)
    if request.all_cases:
        planned = cases.drop_too_large(planned, api, note)
    if nodes := benchmark.spec.nodes:
        planned = [case.on_node(node) for case in planned for node in nodes]
    for case in planned:  # a mistake in the last one must not show after hours
        case.manifests(case.plan(benchmark.run_id(1), benchmark.set_name))
    drafts = [case.draft for case in planned]
    refuse_reserved(drafts, api.place.namespace, options.reserved)
    preflight.refuse(api, drafts)
    return sorted(planned, key=lambda case: case.draft.world_size > 1)


def check_narrows(api: Api, request: SubmitRequest, pool: NodePool) -> None:
    """Raise :class:`UsageError` unless a pool narrows the operator's pool of its name."""
    named = msgspec.structs.replace(request, node_pool=pool.name)
    try:
        base = targets.target_on_cluster(api, named).site.pool
    except NotFound as error:
        raise UsageError(
            f"The operator has no node pool {pool.name}, and Benchmarks bring none. {error.action}",
            OWN_POOLS,
        ) from error
    if wider := ", ".join(widened(pool, base)):
        raise UsageError(
            f"The Benchmark's pool asks for more than the operator's pool {pool.name}: {wider}.",
            OWN_POOLS,
        )


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
    spec = benchmark.spec
    if spec.file is None:
        assert spec.benchmark is not None
        return benchmarks.load(spec.benchmark)
    from k8sbench.adapters.files import catalog as files

    return [files.given(spec.file, f"Benchmark {benchmark.name}")]


def resolve_types() -> None:
    """Resolve the types that planning reads, before there are threads."""
    from k8sbench.model.image import ImageTable
    from k8sbench.model.pool import PoolsFile
    from k8sbench.model.run import Run
    from k8sbench.model.spec import BenchmarkSpec

    for type_ in (ObjectSpec, BenchmarkSpec, PoolsFile, ImageTable, Run):
        decoder(type_)


def leadership(name: str, namespaces: Sequence[str], note: Note) -> Leadership:
    """Make the holder of the Leases of namespaces; by default of this process's own."""
    from k8sbench.adapters.kubernetes.leadership import Leadership

    return Leadership(partial(connections.connect, ClusterAccess()), name, namespaces, note)
