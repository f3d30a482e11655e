"""Every benchmark × variant × program × case × precision gives a sound manifest.

That is: all of the catalog, and all of the files in ``docs/examples`` that show users how to write
their own.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator

import msgspec
import pytest

from k8sbench.adapters.files import catalog, packaged, pools
from k8sbench.model import choices, identity, planning
from k8sbench.model.plan import RunPlan
from k8sbench.model.spec import Impl, LogFormat, Precision
from k8sbench.render import manifests
from k8sbench.render.trainer_sources import TrainerSources
from tests.tiers import ROOT
from tests.unit.model.specs import a_request
from tests.unit.render import plans
from tests.unit.render.pod_security import violations
from tests.unit.render.test_schemas import through_models

PROGRAMS: tuple[Impl, ...] = ("k8sbench", "upstream", "user")
IMAGE = "registry.example.com/it:1"
EXAMPLES = sorted(str(path) for path in (ROOT / "docs" / "examples").glob("*.yaml"))
EVERYTHING = [*catalog.names(), *EXAMPLES]
IDS = [name.rpartition("/")[2] for name in EVERYTHING]


@functools.cache
def sources() -> TrainerSources:
    return packaged.trainer_sources()


def site() -> choices.Site:
    return choices.Site(
        backend="kubernetes", pool=pools.load(environ={}).pool(None), images=packaged.image_table()
    )


def every_plan(name: str) -> Iterator[RunPlan]:
    """Plans of all that a benchmark can be asked for on a cluster's default pool."""
    found = catalog.find(name)
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
                        a_request(
                            framework=variant.framework,
                            variant=variant.name,
                            impl=impl,
                            replicas=replicas,
                            gpus=gpus,
                            precision=precision,
                            image=None if impl == "k8sbench" else IMAGE,
                        ),
                        site(),
                        run_id=f"{found.spec.name}-example",
                        set_name="example",
                        repeat=1,
                        trainers_digest=sources().digest,
                    )


def _reported(found: catalog.LoadedSpec, variant: str, precision: Precision) -> bool:
    upstreams = (each.upstream for each in found.spec.variants if each.name == variant)
    return any(upstream and precision in upstream.command for upstream in upstreams)


@pytest.mark.parametrize("name", EVERYTHING, ids=IDS)
def test_everything_renders_restricted_and_typed(name: str) -> None:
    count = 0
    for wanted in every_plan(name):
        count += 1
        objects = manifests(wanted, templates=plans.ready(), trainers=sources())
        for replica in plans.replicas(objects[-1]).values():
            assert violations(replica["template"]["spec"]) == []
        assert through_models(objects[-1]) == objects[-1]
        assert sum(each["replicas"] for each in plans.replicas(objects[-1]).values()) == (
            wanted.replicas
        )
    assert count >= 3


@pytest.mark.parametrize("name", EXAMPLES, ids=IDS[-len(EXAMPLES) :])
def test_a_user_s_file_gives_a_job_of_his_image_command_and_log(name: str) -> None:
    variants = {(str(v.framework), v.name): v for v in catalog.find(name).spec.variants}
    for wanted in every_plan(name):
        variant = variants[wanted.framework, wanted.variant]
        (job,) = manifests(wanted, templates=plans.ready(), trainers=sources())
        for replica in plans.replicas(job).values():
            (container,) = replica["template"]["spec"]["containers"]
            assert container["image"] == IMAGE
            assert len(container["command"]) == len(variant.command)
            for said, word in zip(variant.command, container["command"], strict=True):
                assert "{" not in word
                assert "{" in said or word == said
        # It reads {data}, so nobody may call that synthetic.
        assert wanted.data == "image"
        # Whoever finds the job can measure it: the plan that it carries holds the format.
        carried = json.loads(job["metadata"]["annotations"][identity.PLAN_ANNOTATION])
        assert msgspec.convert(carried["log"], LogFormat) == variant.log
