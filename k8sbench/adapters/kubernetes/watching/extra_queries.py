"""Queries that are made only while a job waits: for the nodes, and for its place in a queue.

Kept with them is what the objects of one job say about another: two jobs that block each other,
and when the operator last changed anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.diagnose.job.facts import JobSnapshot
from k8sbench.model.kube import KubeObject

NODES_SECONDS, QUEUE_SECONDS = 60.0, 15.0
"""How old what is known of the nodes, or of a job's place in a queue, may be."""


class Nodes(NamedTuple):
    """The nodes of the cluster; None: they may not be seen."""

    nodes: Sequence[KubeObject] | None


class Workload(NamedTuple):
    """A job's place in its queue, where that may be seen."""

    run_id: str
    workload: KubeObject | None


class _Asked(msgspec.Struct):
    """What was asked, when, and what the cluster said."""

    at: float
    answer: Any = None
    allowed: bool = True


class ExtraQueries:
    """The answers to the extra queries, for all jobs that are followed."""

    def __init__(
        self,
        api: Api,
        ask: Callable[[Callable[[], None]], None],
        on_answer: Callable[[Nodes | Workload], None],
    ) -> None:
        """``ask`` has a request made by another thread, ``on_answer`` takes the answer there."""
        self._api, self._ask, self._on_answer = api, ask, on_answer
        self._half_placed: set[str] = set()
        self._operator_seen_at: float | None = None
        self._nodes = _Asked(at=-NODES_SECONDS)
        self._workloads: dict[str, _Asked] = {}

    def look(self, followed: Followed, now: float) -> None:
        """Start the queries that a waiting job needs; ``now`` is Unix seconds."""
        run_id, moment = followed.plan.run_id, time.monotonic()
        if not followed.is_short_of_nodes():
            self._half_placed.discard(run_id)
        else:
            if followed.is_half_placed(now):
                self._half_placed.add(run_id)
            if self._nodes.allowed and moment - self._nodes.at >= NODES_SECONDS:
                self._nodes.at = moment
                self._ask(lambda: self._on_answer(Nodes(nodes(self._api))))
        if followed.is_queued():
            asked = self._workloads.setdefault(run_id, _Asked(at=-QUEUE_SECONDS))
            if moment - asked.at >= QUEUE_SECONDS:
                asked.at = moment
                uid = followed.uid
                self._ask(lambda: self._on_answer(Workload(run_id, workload(self._api, uid))))

    def take(self, news: Nodes | Workload) -> None:
        """Take in an answer."""
        match news:
            case Nodes():
                self._nodes.answer = news.nodes
                self._nodes.allowed = news.nodes is not None
            case Workload():
                if (asked := self._workloads.get(news.run_id)) is not None:
                    asked.answer = news.workload

    def take_sign(self, at: float | None) -> None:
        """Take in when the operator last changed a job, Unix seconds; None: not known."""
        if at is not None and at > (self._operator_seen_at or 0.0):
            self._operator_seen_at = at

    def complete(self, snapshot: JobSnapshot, run_id: str) -> None:
        """Add to the snapshot of a job what is known beyond the job."""
        snapshot.nodes = self._nodes.answer
        snapshot.operator_seen_at = self._operator_seen_at
        if (asked := self._workloads.get(run_id)) is not None:
            snapshot.workload = asked.answer
        if run_id in self._half_placed:
            snapshot.rivals = sorted(self._half_placed - {run_id})

    def forget(self, run_id: str) -> None:
        """Forget a job."""
        self._half_placed.discard(run_id)
        self._workloads.pop(run_id, None)


def nodes(api: Api) -> Sequence[KubeObject] | None:
    """Return the cluster's nodes; None: the user may not list them."""
    try:
        return api.list(kinds.path("Node"), keep=trimming.node)[0]
    except ApiFault:  # then no diagnosis needs it
        return None


def workload(api: Api, uid: str | None) -> KubeObject | None:
    """Return Kueue's Workload of a job; None: there is none, or the user may not list them."""
    try:
        path = kinds.path("Workload", api.place.namespace)
        found, _ = api.list(path, labels=f"kueue.x-k8s.io/job-uid={uid}")
    except ApiFault:
        return None
    return found[0] if found else None
