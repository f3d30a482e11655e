"""Every benchmark × variant × program × case × precision of the catalog gives a sound manifest."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from k8sbench.adapters import catalog, image_table, pools, trainer_sources
from k8sbench.model import choices, planning
from k8sbench.model.plan import RunPlan
from k8sbench.model.spec import Impl, Precision
from k8sbench.render import manifests
from k8sbench.render.trainer_sources import TrainerSources
from tests.unit.render import plans
from tests.unit.render.pod_security import violations
from tests.unit.render.test_schemas import Schemas, strict, through_models

PROGRAMS: tuple[Impl, ...] = ("k8sbench", "upstream", "user")


@functools.cache
def sources() -> TrainerSources:
    return trainer_sources.read()


def every_plan(name: str) -> Iterator[RunPlan]:
    """Plans of all that a built-in benchmark can be asked for on a cluster's default pool."""
    found = catalog.find(name)
    site = choices.Site(
        backend="kubernetes", pool=pools.load(environ={}).pool(None), images=image_table.load()
    )
    for variant in found.spec.variants:
        has = {
            "k8sbench": variant.trainer is not None,
            "upstream": variant.upstream is not None,
            "user": bool(variant.command),
        }
        for impl in PROGRAMS:
            for case in variant.cases if has[impl] else ():
                for precision in variant.batch_size:
                    if impl == "upstream" and not _reported(found, variant.name, precision):
                        continue
                    replicas, gpus = choices.parse_case(case)
                    yield planning.make_plan(
                        found.spec,
                        planning.SpecSource(digest=found.digest, source=found.source),
                        choices.Request(
                            framework=variant.framework,
                            variant=variant.name,
                            impl=impl,
                            replicas=replicas,
                            gpus=gpus,
                            precision=precision,
                            image=None if impl == "k8sbench" else "registry.example.com/it:1",
                        ),
                        site,
                        run_id=f"{name}-example",
                        set_name="example",
                        repeat=1,
                        trainers_digest=sources().digest,
                    )


def _reported(found: catalog.LoadedSpec, variant: str, precision: Precision) -> bool:
    upstreams = (each.upstream for each in found.spec.variants if each.name == variant)
    return any(upstream and precision in upstream.command for upstream in upstreams)


@pytest.mark.parametrize("name", catalog.names())
def test_everything_in_the_catalog_renders_restricted_and_typed(name: str) -> None:
    count = 0
    for wanted in every_plan(name):
        count += 1
        objects = manifests(wanted, templates=plans.texts(), trainers=sources())
        for replica in plans.replicas(objects[-1]).values():
            assert violations(replica["template"]["spec"]) == []
        assert through_models(objects[-1]) == objects[-1]
        assert sum(each["replicas"] for each in plans.replicas(objects[-1]).values()) == (
            wanted.replicas
        )
    assert count >= 3


@pytest.mark.tier("go")
@pytest.mark.parametrize("name", catalog.names())
def test_everything_in_the_catalog_fits_the_operator_s_schema(
    name: str, crd_schemas: Schemas
) -> None:
    checks = {kind: strict(schema) for kind, schema in crd_schemas.items()}
    for wanted in every_plan(name):
        job = manifests(wanted, templates=plans.texts(), trainers=sources())[-1]
        checks[job["kind"]].validate(job)
