"""What surrounds jobs and is asked for only where one waits: nodes, and its place in a queue.

Beside that, what one job's story tells of another's: two that block each other, and when the
operator last did anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault, Object
from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.adapters.kubernetes.watching.followed import Followed, Surroundings

NODES_SECONDS, QUEUE_SECONDS = 60.0, 15.0
"""How old what is known of the nodes, or of a job's place in a queue, may be."""


class Nodes(NamedTuple):
    """The nodes of the cluster; None: they may not be seen."""

    nodes: Sequence[Object] | None


class Workload(NamedTuple):
    """A job's place in its queue, where that may be seen."""

    run_id: str
    workload: Object | None


class _Asked(msgspec.Struct):
    """What was asked, when, and what the cluster said."""

    at: float
    answer: Any = None
    allowed: bool = True


class Lookout:
    """What is known of the surroundings of all jobs that are followed."""

    def __init__(
        self,
        api: Api,
        ask: Callable[[Callable[[], None]], None],
        tell: Callable[[Nodes | Workload], None],
    ) -> None:
        """``ask`` has a request made by another thread, ``tell`` takes the answer from there."""
        self._api, self._ask, self._tell = api, ask, tell
        self._half_placed: set[str] = set()
        self._operator_seen_at: float | None = None
        self._nodes = _Asked(at=-NODES_SECONDS)
        self._workloads: dict[str, _Asked] = {}

    def look(self, followed: Followed, now: float) -> None:
        """Have the cluster asked what a job waits for, where it waits; ``now`` is Unix seconds."""
        run_id, moment = followed.plan.run_id, time.monotonic()
        if not followed.is_short_of_nodes():
            self._half_placed.discard(run_id)
        else:
            if followed.is_half_placed(now):
                self._half_placed.add(run_id)
            if self._nodes.allowed and moment - self._nodes.at >= NODES_SECONDS:
                self._nodes.at = moment
                self._ask(lambda: self._tell(Nodes(nodes(self._api))))
        if followed.is_queued():
            asked = self._workloads.setdefault(run_id, _Asked(at=-QUEUE_SECONDS))
            if moment - asked.at >= QUEUE_SECONDS:
                asked.at = moment
                uid = followed.uid
                self._ask(lambda: self._tell(Workload(run_id, workload(self._api, uid))))

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
        """Take in when the operator did something, Unix seconds; None: no sign of it."""
        if at is not None and at > (self._operator_seen_at or 0.0):
            self._operator_seen_at = at

    def of(self, run_id: str) -> Surroundings:
        """Return what is known for one job."""
        asked = self._workloads.get(run_id)
        rivals = sorted(self._half_placed - {run_id}) if run_id in self._half_placed else ()
        return Surroundings(
            nodes=self._nodes.answer,
            workload=asked.answer if asked is not None else None,
            rivals=rivals,
            operator_seen_at=self._operator_seen_at,
        )

    def forget(self, run_id: str) -> None:
        """Forget a job."""
        self._half_placed.discard(run_id)
        self._workloads.pop(run_id, None)


def nodes(api: Api) -> Sequence[Object] | None:
    """Ask for the cluster's nodes; None: the Role alone does not allow it."""
    try:
        return api.list(kinds.path("Node"), keep=trimming.node)[0]
    except ApiFault:  # then no diagnosis needs it
        return None


def workload(api: Api, uid: str | None) -> Object | None:
    """Ask for Kueue's Workload of a job; None: there is none, no Kueue here, or not for us."""
    try:
        path = kinds.path("Workload", api.place.namespace)
        found, _ = api.list(path, labels=f"kueue.x-k8s.io/job-uid={uid}")
    except ApiFault:
        return None
    return found[0] if found else None
