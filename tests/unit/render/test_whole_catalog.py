"""The benchmark files of ``docs/examples`` give sound manifests.

The catalog's own do so in ``tests/cluster``.
"""

import itertools
import json
from collections.abc import Iterator

import msgspec
import pytest

from k8sbench.catalog import packaged, plan_choices, planning, pool_files, spec_files
from k8sbench.catalog.spec import Variant
from k8sbench.model import names
from k8sbench.model.log_format import LogFormat
from k8sbench.model.plan import RunPlan
from tests.tiers import ROOT
from tests.unit.model.specs import a_request
from tests.unit.render import plans
from tests.unit.render.schemas import through_models

IMAGE = "registry.example.com/it:1"
EXAMPLES = sorted(str(path) for path in (ROOT / "docs" / "examples").glob("*.yaml"))


def site(variant: Variant) -> plan_choices.Site:
    """The default pool, and for bf16 one of GPUs that have it."""
    name = "h100" if variant.amp_dtype == "bf16" else None
    return plan_choices.Site(
        backend="kubernetes",
        pool=pool_files.load_pools(environ={}).pool(name),
        images=packaged.read_image_table(),
    )


def every_plan(name: str) -> Iterator[RunPlan]:
    """Yield all plans of a benchmark on a cluster."""
    found = spec_files.load_spec(name)
    for variant in found.spec.variants:
        for case, precision in itertools.product(variant.cases, variant.batch_size):
            replicas, gpus = plan_choices.parse_case(case)
            yield planning.make_plan(
                found,
                a_request(
                    framework=variant.framework,
                    variant=variant.name,
                    impl="user",
                    replicas=replicas,
                    gpus=gpus,
                    precision=precision,
                    image=IMAGE,
                ),
                site(variant),
                run_id=f"{found.spec.name}-example",
                set_name="example",
                repeat=1,
                trainers_digest=None,
            )


@pytest.mark.parametrize("name", EXAMPLES, ids=lambda name: name.rpartition("/")[2])
def test_a_user_s_file_gives_a_job_of_his_image_command_and_log(name: str) -> None:
    variants = {(str(v.framework), v.name): v for v in spec_files.load_spec(name).spec.variants}
    for wanted in every_plan(name):
        variant = variants[wanted.framework, wanted.variant]
        (job,) = plans.rendered(wanted)
        assert through_models(job) == job
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
        carried = json.loads(job["metadata"]["annotations"][names.PLAN_ANNOTATION])
        assert msgspec.convert(carried["log"], LogFormat) == variant.log
