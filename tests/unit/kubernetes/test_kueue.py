"""What is read of Kueue's Workloads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from k8sbench.adapters.kubernetes import kueue
from k8sbench.adapters.kubernetes.client.api import Api
from tests.unit.kubernetes.objects import condition, stamp


def workload(job: str, queue: str, at: float, status: str = "False", **spec: Any) -> dict[str, Any]:
    labels = {"kueue.x-k8s.io/job-uid": job}
    return {
        "metadata": {"labels": labels, "creationTimestamp": stamp(at)},
        "spec": {"podSets": [{"template": {}}], **spec} | ({"queueName": queue} if queue else {}),
        "status": {"conditions": [condition("QuotaReserved", status=status)]},
    }


def test_a_workload_that_waits_has_its_place_in_its_queue_by_priority_and_age() -> None:
    found = [
        workload("last", "gpus", 5),
        workload("first", "gpus", 9, priority=1),
        workload("second", "gpus", 4),
        workload("of-no-queue", "", 1),
        workload("runs", "gpus", 2, "True"),
    ]

    def listed(path: str, *, labels: str, keep: Any) -> Any:
        assert (path.split("/")[-2:], labels) == (["team", "workloads"], "kueue.x-k8s.io/job-uid")
        return [keep(one) for one in found], ""

    api = cast(Api, SimpleNamespace(place=SimpleNamespace(namespace="team"), list=listed))
    known = kueue.workloads(api)
    assert {job: one["place"] for job, one in known.items()} == {
        "first": ", number 1 there",
        "second": ", number 2 there",
        "last": ", number 3 there",
        "of-no-queue": ", number 1 there",
        "runs": "",
    }
    assert not any(one["spec"]["podSets"] for one in known.values())
