"""A handful of manifests, whole, as a person has read them.

They come after the checks: structure, schema and Pod Security are held by other tests, for every
plan; these show what a change does to the whole. ``K8SBENCH_UPDATE_GOLDEN=1`` (``make golden``)
writes them anew; the difference is then reviewed like any other.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from k8sbench.model import names
from k8sbench.model.plan import RunPlan
from k8sbench.model.spec_values import Framework, Precision
from tests.unit import goldens
from tests.unit.render.plans import POOLS, PROGRAMS, SOURCES, container, plan, rendered, upstream

FOLDER = Path(__file__).parent / "golden"
GOLDENS: dict[str, RunPlan] = {
    "pytorch-1x1": plan("1x1"),
    "pytorch-4x8-amp-full-pool": plan("4x8", precision="amp", pool=POOLS["full"]),
    "pytorch-2x1-cpu": plan("2x1-cpu"),
    "pytorch-upstream-pvc": plan(
        "2x8", data="pvc:imagenet/train", env={"NCCL_DEBUG": "INFO"}, **PROGRAMS["upstream"]
    ),
    "pytorch-2x8-training": plan(
        "2x8",
        data="pvc:sets/imagenet",
        weights="pvc:weights/resnet50/start.pth",
        checkpoints="pvc:kept/team",
    ),
    "paddle-2x8": plan("2x8", framework="paddle"),
    "paddle-4x8-rdma-queue": plan(
        "4x8", framework="paddle", pool=POOLS["rdma"], queue="team-queue"
    ),
    "trainjob-pytorch-2x8-queue": plan(
        "2x8", kind="TrainJob", pool=POOLS["full"], queue="team-queue", data="pvc:sets/imagenet"
    ),
    "trainjob-paddle-2x1-cpu": plan("2x1-cpu", framework="paddle", kind="TrainJob"),
}
CITYSCAPES = "pvc:data/cityscapes"
# The reports' own commands: the largest case of each, and one GPU where that starts otherwise.
UPSTREAM: tuple[tuple[str, Framework, str, Precision, dict[str, Any]], ...] = (
    ("deeplabv3p", "pytorch", "4x8", "amp", {"data": CITYSCAPES}),
    ("deeplabv3p", "pytorch", "1x1", "fp32", {"data": CITYSCAPES}),
    ("deeplabv3p", "paddle", "4x8", "amp", {"data": CITYSCAPES}),
    ("deeplabv3p", "paddle", "1x1", "fp32", {"data": CITYSCAPES}),
    ("resnet50", "pytorch", "1x8", "fp32", {"data": "pvc:data/imagenet"}),
    ("tsm", "pytorch", "4x8", "amp", {"data": "pvc:data/kinetics"}),
    ("arcface", "paddle", "4x8", "fp32", {}),
    ("arcface", "paddle", "1x1", "fp32", {}),
)
PUBLISHED = {
    f"{benchmark} {framework} {case} {precision}": upstream(
        benchmark, framework, case, precision, **more
    )
    for benchmark, framework, case, precision, more in UPSTREAM
}


@pytest.mark.parametrize("name", GOLDENS)
def test_the_manifest_is_the_one_that_was_reviewed(name: str) -> None:
    text = goldens.objects(elided(each) for each in rendered(GOLDENS[name]))
    goldens.check(FOLDER / f"{name}.yaml", text)


def test_the_containers_of_published_programs_are_those_that_were_reviewed() -> None:
    shown = ("command", "workingDir", "env", "resources", "volumeMounts")
    found = []
    for name, wanted in PUBLISHED.items():
        one = container(wanted)
        set_here = [each for each in one["env"] if "value" in each]
        parts = {key: one[key] for key in shown if key in one} | {"env": set_here}
        found.append({name: parts})
    goldens.check(FOLDER / "upstream.yaml", goldens.objects(found))


def test_no_golden_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == {*GOLDENS, "upstream"}


def elided(manifest: dict[str, Any]) -> Any:
    """Remove parts that other tests cover, and repeated pods."""
    found = copy.deepcopy(manifest)
    for key in [key for key in found.get("spec", {}) if key.endswith("ReplicaSpecs")]:
        first, *others = found["spec"][key].values()
        for other in others:
            if other["template"] == first["template"]:
                other["template"] = "<the same>"
    if found["kind"] == "ConfigMap":
        found["data"] = dict.fromkeys(found["data"], "<source>")
    elif names.PLAN_ANNOTATION in found["metadata"].get("annotations", {}):
        found["metadata"]["annotations"][names.PLAN_ANNOTATION] = "<plan>"
    return json.loads(json.dumps(found).replace(SOURCES.digest, "<digest>"))
