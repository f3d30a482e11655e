"""Which logs are read first where not all can be read at once."""

from __future__ import annotations

from typing import Any

import pytest

from k8sbench.adapters.kubernetes.logs import order
from k8sbench.adapters.kubernetes.logs.order import AT_ANY_MOMENT, NEVER
from k8sbench.diagnose.job import facts
from k8sbench.diagnose.job.facts import JobSnapshot
from tests.unit.kubernetes.objects import FAILED, PLAN, START, condition, ended, job, pod, stamp

DONE = condition("Succeeded", at=60)


def lost_at(of: dict[str, Any], **more: Any) -> float:
    """When the worker's log will be lost, seconds after the job was created."""
    seen = JobSnapshot(job=of, pods={"job-worker-0": pod(**more)})
    (worker,) = (
        one for one in facts.look(seen, PLAN, START + 90).replicas if one.name == "worker-0"
    )
    at = order.lost_at(worker, of)
    return at - START if AT_ANY_MOMENT < at < NEVER else at


def started(**policy: Any) -> dict[str, Any]:
    made = job(**policy)
    made["status"]["startTime"] = stamp(10)
    return made


def test_nothing_deletes_a_pod_of_ours() -> None:
    assert lost_at(started(cleanPodPolicy="None")) == NEVER
    assert lost_at(job(DONE, cleanPodPolicy="None"), state=ended(0)) == NEVER
    assert lost_at(started(), restarts=2) == NEVER


def test_a_pod_that_is_being_deleted_goes_when_its_time_to_end_is_over() -> None:
    assert lost_at(started(), metadata={"deletionTimestamp": stamp(75)}) == 75


def test_a_job_with_a_deadline_has_its_pods_deleted_then() -> None:
    assert lost_at(started(activeDeadlineSeconds=300)) == 310
    assert lost_at(job(activeDeadlineSeconds=300)) == NEVER  # it has not started


def test_where_failures_are_counted_the_next_one_may_be_the_last() -> None:
    assert lost_at(started(backoffLimit=3)) == NEVER
    assert lost_at(started(backoffLimit=3), restarts=1) == AT_ANY_MOMENT
    assert lost_at(started(backoffLimit=3), state=ended(1)) == AT_ANY_MOMENT


@pytest.mark.parametrize("end", [DONE, FAILED], ids=["succeeded", "failed"])
def test_a_job_that_has_ended_is_deleted_after_its_time_to_live(end: dict[str, Any]) -> None:
    assert lost_at(job(end, ttlSecondsAfterFinished=30), state=ended(0)) == 90
    assert lost_at(job(end, activeDeadlineSeconds=1), state=ended(0)) == NEVER  # it met that


def test_the_pods_of_a_job_that_has_ended_go_as_its_policy_says() -> None:
    assert lost_at(job(DONE, cleanPodPolicy="All"), state=ended(0)) == 60
    assert lost_at(job(DONE, cleanPodPolicy="Running"), state=ended(0)) == NEVER
    assert lost_at(job(DONE, cleanPodPolicy="Running")) == 60


def test_what_will_be_lost_comes_first_then_rank_0_then_what_fails() -> None:
    urgency = order.urgency
    assert urgency(5, failing=False, lost_at=10.0) == 0
    assert urgency(0, failing=True, lost_at=NEVER) == 1
    assert urgency(5, failing=True, lost_at=NEVER) == 2
    assert urgency(5, failing=False, lost_at=NEVER) == 3
