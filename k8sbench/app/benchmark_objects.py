"""Planning of Benchmark objects, with the same code as ``submit``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from k8sbench.app import cases, catalog, targets
from k8sbench.decoding import decoder
from k8sbench.lifecycle.context import PlannedCase
from k8sbench.model import sources
from k8sbench.model.benchmark_object import Benchmark, Wanted
from k8sbench.model.errors import UsageError
from k8sbench.model.pool import problems

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.model.plan import RunPlan
    from k8sbench.model.planning import LoadedSpec


def resolve_types() -> None:
    """Resolve the types that planning reads, before there are threads."""
    from k8sbench.model.image import ImageTable
    from k8sbench.model.pool import PoolsFile
    from k8sbench.model.run import Run
    from k8sbench.model.spec import BenchmarkSpec

    for type_ in (Wanted, BenchmarkSpec, PoolsFile, ImageTable, Run):
        decoder(type_)


def plan(
    api: Api, note: Callable[[str], None], reserved: Collection[str], benchmark: Benchmark
) -> Sequence[PlannedCase]:
    """Plan and render the cases of an object, baselines (1x1) first.

    Raises :class:`~k8sbench.model.errors.UsageError` for what cannot run, or names a ``reserved``
    claim or Secret (``NAMESPACE/NAME``).
    """
    from k8sbench.adapters.kubernetes import preflight

    planned: list[PlannedCase] = []
    pool = benchmark.wanted.pool
    for path, wrong in () if pool is None else problems(pool):
        raise UsageError(f"pool.{'.'.join(map(str, path))} {wrong}.", "Create another Benchmark.")
    for request in benchmark.requests():
        site = targets.on_cluster(api, request, pool).site
        planned += cases.prepare(_specs(benchmark), request, site, note)
        if request.all_cases:
            planned = list(cases.that_fit(planned, api, note))
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
        for name in sorted({*sources.claims(one), *secrets, *one.pool.image_pull_secrets}):
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
