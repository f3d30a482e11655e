"""Which ends of an attempt are followed by another one: those that may be better next time.

One table by cause. What is not in it is not restarted: a job that was cancelled, deleted or gone,
one whose time is up, and one that has no job.
"""

from __future__ import annotations

from collections.abc import Mapping

from k8sbench.model.phase import Phase, Transition

RESTARTED: Mapping[str, str] = {
    "replica-failed": "a signal, NCCL and exit code 1 are often a node's or the network's",
    "oom": "a loader's memory grows with time, and that of others on the node does not stay",
    "evicted": "the next pod may have another node",
    "preempted": "it waits for its turn",
    "node-lost": "the next pod has another node",
    "node-cannot-start": "the next pod may have another node",
    "pod-deleted": "whoever deletes a pod and not its job makes room, or moves it",
    "replica-replaced": "the same, seen later",
    "init-failed": "the master's name was not known in time",
    "port-taken": "the next attempt takes another port",
    "job-failed": "the pods are gone, which is seldom the program's doing",
}
"""Cause id → why another attempt may end better."""
NOT_RESTARTED: Mapping[str, str] = {
    "usage-error": "the program would refuse the same words again",
    "start-error": "the image lacks the command",
    "backoff-limit": "someone has set how often it may fail",
    "deadline": "someone has set how long it may take",
    "cancelled": "someone has ended it",
    "job-deleted": "someone has ended it",
}
"""Cause id of an end → why another attempt would end the same, or is not wanted."""


def may_be_better(end: Transition) -> bool:
    """Whether another attempt may end better than this one did."""
    return end.phase is Phase.FAILED and end.cause_id in RESTARTED
