"""Which logs are read first where not all can be read at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from k8sbench.adapters.kubernetes.logs import order, streams
from k8sbench.adapters.kubernetes.logs.order import AT_ANY_MOMENT, NEVER
from k8sbench.adapters.kubernetes.logs.streams import LogStreams
from k8sbench.diagnose.job import facts
from k8sbench.diagnose.job.facts import JobSnapshot
from tests.unit.kubernetes.objects import FAILED, PLAN, START, condition, ended, job, pod, stamp

SECONDS = 20.0
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


class Node:
    """Serves logs without a line, each until it is closed or let go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.changed = threading.Condition()
        self.held: set[str] = set()

    def stream(self, path: str, *, silence_s: float | None = None, **query: str) -> Stream:
        name = path.split("/")[-2]
        with self.changed:
            self.asked.append(name)
            self.changed.notify_all()
        return Stream(self, name, "follow" in query)

    def until_asked(self, *names: str) -> None:
        with self.changed:
            came = self.changed.wait_for(
                lambda: list(dict.fromkeys(self.asked)) == list(names), SECONDS
            )
        assert came, self.asked


class Stream:
    def __init__(self, node: Node, name: str, follows: bool) -> None:
        self.node, self.name, self.waits = node, name, follows

    def chunks(self) -> Iterator[bytes]:
        with self.node.changed:
            assert self.node.changed.wait_for(lambda: not self._is_held(), SECONDS)
        yield from ()

    def _is_held(self) -> bool:
        return self.waits or self.name in self.node.held

    def close(self) -> None:
        with self.node.changed:
            self.waits = False
            self.node.changed.notify_all()


def want(logs: LogStreams, name: str, rank: int = 5, **more: Any) -> None:
    logs.want(name, f"worker-{rank}", pod=name, uid=name, container="c", rank=rank, **more)


def test_free_streams_go_to_what_is_lost_first() -> None:
    node = Node()
    logs = LogStreams(node, "ns", lambda _: None, limit=1)
    want(logs, "first", lost_at=1.0)  # what is as urgent takes no stream from it
    node.until_asked("first")
    want(logs, "any")
    want(logs, "failing", failing=True)
    want(logs, "rank-0", rank=0)
    want(logs, "later", lost_at=200.0)
    want(logs, "sooner", lost_at=100.0)
    names = ["first"]
    for name in ("sooner", "later", "rank-0", "failing", "any"):
        logs.forget(names[-1])
        names.append(name)
        node.until_asked(*names)
    logs.close()


def test_a_log_that_will_be_lost_takes_the_stream_of_one_that_will_not() -> None:
    node = Node()
    logs = LogStreams(node, "ns", lambda _: None, limit=1)
    want(logs, "rank-0", rank=0)
    node.until_asked("rank-0")
    want(logs, "lost", lost_at=100.0)
    node.until_asked("rank-0", "lost")
    logs.close()


def test_of_the_logs_that_ended_the_one_that_is_lost_first_is_fetched_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "FETCHERS", 1)
    node = Node()
    node.held.add("busy")
    logs = LogStreams(node, "ns", lambda _: None, limit=0)
    for name, at in (("busy", NEVER), ("any", NEVER), ("later", 200.0), ("sooner", 100.0)):
        want(logs, name, lost_at=at)
        logs.ended(name, "worker-5")
        node.until_asked("busy")
    want(logs, "any", lost_at=50.0)  # its pod is being deleted now
    with node.changed:
        node.held.clear()
        node.changed.notify_all()
    node.until_asked("busy", "any", "sooner", "later")
    logs.close()
