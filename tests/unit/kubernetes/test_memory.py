"""How much memory a followed job takes."""

from __future__ import annotations

from k8sbench.adapters.kubernetes.watching.packed import Packed
from tests.bench.sides import followed_jobs
from tests.unit.kubernetes.objects import pod

MOST_BYTES = 36_000
"""Of a job of four pods. With the program's own 60 MB, 5,000 jobs then take less than 300 MB."""


def test_five_thousand_jobs_of_four_pods_fit_into_300_megabytes() -> None:
    assert followed_jobs.bytes_each(30) < MOST_BYTES


def test_objects_are_kept_by_name_in_their_order_and_come_back_as_they_were() -> None:
    kept = Packed()
    for replica in ("worker-1", "master-0"):
        kept[replica] = pod(replica)
    assert dict(kept) == {"worker-1": pod("worker-1"), "master-0": pod("master-0")}
    assert list(kept) == ["worker-1", "master-0"]
    assert kept.pop("worker-1")["metadata"]["uid"] == "worker-1"
    assert kept.get("worker-1") is None


def test_what_is_changed_in_an_object_that_was_read_is_not_kept() -> None:
    kept = Packed()
    kept["worker-0"] = pod("worker-0")
    kept["worker-0"]["status"].clear()
    assert kept["worker-0"] == pod("worker-0")
