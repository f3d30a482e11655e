"""The cases of a Benchmark object, planned: for an operator, and for a file that is submitted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import cases, targets
from k8sbench.app.targets import RunTarget
from k8sbench.catalog import spec_files
from k8sbench.catalog.training import mounted_claims
from k8sbench.lifecycle.context import Note
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.model.benchmark_object import Benchmark
from k8sbench.model.errors import NotFound, UsageError
from k8sbench.model.pool import NodePool, widened_fields
from k8sbench.model.request import CollectOptions, SubmitRequest

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.catalog.planning import LoadedSpec
    from k8sbench.model.plan import RunPlan

OWN_POOLS = (
    "Name one of its pools as nodePool; an administrator may allow others with --allow-own-pools"
    " (operator.allowOwnPools of the chart)."
)


def plan_object(
    api: Api, note: Note, options: CollectOptions, benchmark: Benchmark
) -> Sequence[PlannedCase]:
    """Plan and render the cases of an object for an operator, baselines (1x1) first.

    Raises :class:`~k8sbench.model.errors.UsageError` for what cannot run, names a reserved claim or
    Secret, or brings a pool that it may not.
    """
    from k8sbench.adapters.kubernetes import preflight

    pool = own_pool(benchmark)
    request = benchmark.request()
    if pool is not None and not options.allow_own_pools:
        check_narrows(api, request, pool)
    target = targets.target_on_cluster(api, request, pool)
    planned = plan_on(target, request, benchmark, note)
    drafts = [case.draft for case in planned]
    refuse_reserved(drafts, api.place.namespace, options.reserved)
    preflight.refuse(api, drafts)
    return planned


def own_pool(benchmark: Benchmark) -> NodePool | None:
    """Return the pool that an object brings along; None without one."""
    from k8sbench.catalog import pool_files

    given = benchmark.spec.pool
    return (
        None if given is None else pool_files.check_pool(given, f"Benchmark {benchmark.name}: pool")
    )


def plan_on(
    target: RunTarget, request: SubmitRequest, benchmark: Benchmark, note: Note
) -> Sequence[PlannedCase]:
    """Plan and render the cases of an object for a target, baselines (1x1) first.

    ``request`` is what the object asks for. Raises :class:`~k8sbench.model.errors.UsageError` for
    what cannot run.
    """
    planned: Sequence[PlannedCase] = cases.plan_cases(_specs(benchmark), request, target.site, note)
    if target.api is None and not request.dry_run:
        from k8sbench.adapters.local import cluster

        planned = cases.drop_refused(planned, cluster.missing_framework, note)
    elif target.api is not None and request.all_cases:
        planned = cases.drop_too_large(planned, target.api, note)
    if nodes := benchmark.spec.nodes:
        planned = [case.on_node(node) for case in planned for node in nodes]
    for case in planned:  # a mistake in the last one must not show after hours
        case.manifests(case.plan(benchmark.run_id(1), benchmark.set_name))
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
    if wider := ", ".join(widened_fields(pool, base)):
        raise UsageError(
            f"The Benchmark's pool asks for more than the operator's pool {pool.name}: {wider}.",
            OWN_POOLS,
        )


def refuse_reserved(plans: Sequence[RunPlan], namespace: str, reserved: Collection[str]) -> None:
    """Raise :class:`UsageError` if a plan names a reserved claim or Secret of the namespace."""
    for one in plans:
        secrets = {secret.name for secret in one.secret_env.values()}
        for name in sorted({*mounted_claims(one), *secrets, *one.pool.image_pull_secrets}):
            if f"{namespace}/{name}" in reserved:
                raise UsageError(
                    f"{name} is the operator's own, and no Benchmark may name it.",
                    "Create a Benchmark with another claim or Secret.",
                )


def _specs(benchmark: Benchmark) -> list[LoadedSpec]:
    spec = benchmark.spec
    if spec.file is None:
        assert spec.benchmark is not None
        return spec_files.load_specs(spec.benchmark)
    return [spec_files.load_text(spec.file, f"Benchmark {benchmark.name}")]
