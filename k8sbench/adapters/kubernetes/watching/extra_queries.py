"""Queries that are made only while a job waits: for the nodes, and for its place in a queue.

Kept with the answers is when the operator last changed any job.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.adapters.kubernetes.watching.followed import Followed, is_short_of_nodes
from k8sbench.diagnose.job.facts import JobSnapshot
from k8sbench.model.kube import KubeObject

NODES_SECONDS, QUEUE_SECONDS = 60.0, 15.0
"""Longest age of the list of nodes, and of a job's place in a queue."""


class ExtraQueries:
    """The answers to the extra queries, for all jobs that are followed."""

    def __init__(
        self,
        api: Api,
        run: Callable[[Callable[[], Any], Callable[[Any], None]], None],
        on_answer: Callable[[Collection[str]], None],
    ) -> None:
        """``run`` executes a query on another thread, and its callback on this one.

        ``on_answer`` gets the ids of the runs about which more is known.
        """
        self._api, self._run, self._on_answer = api, run, on_answer
        self._short_of_nodes: set[str] = set()
        self._operator_seen_at: float | None = None
        self._queried_at: dict[str, float] = defaultdict(lambda: -NODES_SECONDS)
        """Monotonic seconds: of a run's Workload by run id, of the nodes by the empty string."""
        self._nodes: Sequence[KubeObject] | None = None
        self._may_list_nodes = True
        self._workloads: dict[str, KubeObject | None] = {}

    def start(self, followed: Followed, seen: JobSnapshot) -> None:
        """Start the queries that a waiting job needs."""
        run_id, uid = followed.plan.run_id, followed.uid
        if not is_short_of_nodes(seen):
            self._short_of_nodes.discard(run_id)
        else:
            self._short_of_nodes.add(run_id)
            if self._may_list_nodes and self._is_due("", NODES_SECONDS):
                self._run(partial(nodes, self._api), self._take_nodes)
        if followed.is_queued() and self._is_due(run_id, QUEUE_SECONDS):
            self._run(partial(workload, self._api, uid), partial(self._take_workload, run_id))

    def take_operator_change(self, at: float | None) -> None:
        """Take in when the operator last changed a job, Unix seconds; None: not known."""
        if at is not None and at > (self._operator_seen_at or 0.0):
            self._operator_seen_at = at

    def complete(self, snapshot: JobSnapshot, run_id: str) -> None:
        """Add to the snapshot of a job what is known beyond the job."""
        snapshot.nodes = self._nodes
        snapshot.operator_seen_at = self._operator_seen_at
        snapshot.workload = self._workloads.get(run_id)

    def forget(self, run_id: str) -> None:
        """Forget a job."""
        self._short_of_nodes.discard(run_id)
        self._queried_at.pop(run_id, None)
        self._workloads.pop(run_id, None)

    def _is_due(self, key: str, seconds: float) -> bool:
        moment = time.monotonic()
        if moment - self._queried_at[key] < seconds:
            return False
        self._queried_at[key] = moment
        return True

    def _take_nodes(self, found: Sequence[KubeObject] | None) -> None:
        self._nodes, self._may_list_nodes = found, found is not None
        self._on_answer(self._short_of_nodes)

    def _take_workload(self, run_id: str, found: KubeObject | None) -> None:
        if run_id in self._queried_at:
            self._workloads[run_id] = found
            self._on_answer({run_id})


def nodes(api: Api) -> Sequence[KubeObject] | None:
    """Return the cluster's nodes; None: the user may not list them."""
    try:
        return api.list(kinds.path("Node"), keep=trimming.node)[0]
    except ApiFault:  # the diagnosis goes without
        return None


def workload(api: Api, uid: str | None) -> KubeObject | None:
    """Return Kueue's Workload of a job; None: there is none, or the user may not list them."""
    try:
        path = kinds.path("Workload", api.place.namespace)
        found, _ = api.list(path, labels=f"kueue.x-k8s.io/job-uid={uid}")
    except ApiFault:
        return None
    return found[0] if found else None
