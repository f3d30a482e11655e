"""Jobs that someone has changed since they were created: what is unlike the plan is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.diagnose.job import facts
from k8sbench.model.plan import RunPlan
from tests.unit.kubernetes.objects import JOB, PLAN
from tests.unit.render import plans
from tests.unit.render.plans import plan

Change = Callable[[dict[str, Any]], object]
PLANS = [
    PLAN,
    plan("1x8", run_id=JOB),
    plan("2x8", run_id=JOB, framework="paddle"),
    plan("2x1-cpu", run_id=JOB),
]


def differences(found: dict[str, Any], of: RunPlan = PLAN) -> list[str]:
    """What is unlike the plan in a job as it is kept while it is followed."""
    return list(facts.differences(trimming.job(found), of))


@pytest.mark.parametrize("of", PLANS, ids=lambda one: f"{one.framework}-{one.case}")
def test_a_job_that_nobody_has_touched_is_as_it_was_planned(of: RunPlan) -> None:
    assert differences(plans.job(of), of) == []


def test_of_a_job_that_was_not_seen_nothing_is_said() -> None:
    assert list(facts.differences({}, PLAN)) == []


def container(roles: dict[str, Any], role: str = "Worker") -> dict[str, Any]:
    found: dict[str, Any] = roles[role]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda roles: roles["Worker"].update(replicas=3), "3 Worker replicas, 1 planned"),
        (lambda roles: roles.pop("Worker"), "0 Worker replicas, 1 planned"),
        (
            lambda roles: container(roles)["resources"]["limits"].update({"nvidia.com/gpu": "4"}),
            "4 nvidia.com/gpu for each Worker, 8 planned",
        ),
        (
            lambda roles: container(roles, "Master").update(image="nvcr.io/nvidia/pytorch:1"),
            f"image nvcr.io/nvidia/pytorch:1 for Master, {PLAN.image} planned",
        ),
    ],
)
def test_what_was_changed_is_named_with_what_was_planned(change: Change, said: str) -> None:
    found = plans.job(PLAN)
    change(found["spec"]["pytorchReplicaSpecs"])
    assert differences(found) == [said]


@pytest.mark.parametrize("digest", ["", "@sha256:0123"])
def test_the_same_image_from_a_mirror_is_no_other_one(digest: str) -> None:
    found = plans.job(PLAN)
    for role in ("Master", "Worker"):
        one = container(found["spec"]["pytorchReplicaSpecs"], role)
        one["image"] = f"mirror.example.com/cache/{one['image'].rpartition('/')[2]}{digest}"
    assert differences(found) == []
