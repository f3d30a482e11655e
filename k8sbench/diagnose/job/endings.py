"""Reason of a job's failure: the replica that failed first, and how.

When one replica dies, its peers lose their connections and die too, often within the second that is
Kubernetes' resolution. So an ending from outside or by the kernel (evicted, out of memory, its node
lost) goes before a program's exit code, and among those the earliest. One that began long after the
first failure does not, unless that one had lost its peer. If the replicas' last lines are known,
they decide as for local runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from k8sbench.diagnose.job import causes, exits
from k8sbench.diagnose.job.causes import finding_of
from k8sbench.diagnose.job.facts import (
    ContainerEnd,
    Facts,
    Replica,
    earlier,
    ending_of,
    message_of,
    quoted,
)
from k8sbench.model.errors import Finding
from k8sbench.model.kube import parse_time
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import counted

Lines = Mapping[str, Sequence[str]]
"""Last lines of replicas' logs, by replica."""
_BACKOFF = "backoff limit"
_DEADLINE = re.compile(r"longer than (?:the )?specified deadline")
FAILED_SECONDS = 10.0
"""Longest wait for other replicas after one has failed.

They log what they saw of the failure, and wait for the failed replica in vain. What begins later is
no cause of it.
"""
_LOOPS = 3
"""Restarts that indicate a crash loop."""


def failure(facts: Facts, lines: Lines) -> Finding:
    """Say why a job that failed did."""
    message = _failure_message(facts)
    first = _first_failure(facts, lines)
    if limit_struck(facts):
        limit = f"The job's {'backoffLimit' if _BACKOFF in message else 'activeDeadlineSeconds'}"
        is_own = first is not None and first.id != "pod-deleted"
        why = first.sentence if first and is_own else "no replica is seen to have failed"
        return finding_of("job-limit", limit=limit, why=why.rstrip("."))
    if first is not None:
        return first
    why = quoted(message) if message else "the operator does not say why"
    return finding_of("job-failed", facts.names(), why=why)


def has_failed(replica: Replica) -> bool:
    """Return True if a replica that never restarts has failed.

    Other containers of its pod may still run.
    """
    return replica.phase == "Failed" or bool(
        replica.stopped and replica.ending and replica.ending.code
    )


def limit_struck(facts: Facts) -> bool:
    """Return True if a limit of the job struck.

    The operator then deletes pods, and may create new ones.
    """
    message = _failure_message(facts)
    return _BACKOFF in message or _DEADLINE.search(message) is not None


def _failure_message(facts: Facts) -> str:
    return str((facts.condition(Phase.FAILED) or {}).get("message", ""))


def replaced(facts: Facts) -> Finding | None:
    """Return the finding of a restarted replica.

    For a job with restarts, from the third one on.
    """
    if facts.condition(Phase.QUEUED, only_true=False) is not None:
        return None  # its queue may have stopped it
    worst = max(facts.replicas, key=lambda replica: replica.restarts)
    if worst.restarts < (1 if facts.never_restarts else _LOOPS):
        return None
    return finding_of(
        "replica-replaced", facts.names(worst), restarts=counted(worst.restarts, "restart")
    )


def describe_end(facts: Facts, replica: Replica) -> Finding:
    """Say how one replica ended, or last ended."""
    return _outside(facts, replica) or _inside(facts, replica)


def start_error(facts: Facts, replica: Replica, reason: str, message: str) -> Finding:
    """Return the cause of a container's failed start: GPU driver or command."""
    if driver := causes.DRIVER.search(message):
        return finding_of("gpu-driver", facts.names(replica), why=quoted(driver[0]))
    why = f"{reason}, {quoted(message)}" if message else reason
    return finding_of("start-error", facts.names(replica), said=message, why=why)


def _first_failure(facts: Facts, lines: Lines) -> Finding | None:
    """Return the replica that failed by itself first; None without one."""
    candidates = [
        replica for replica in (*earlier(facts), *facts.replicas) if _has_failed(facts, replica)
    ]
    if not candidates:
        return _deleted(facts)
    earliest = min(candidates, key=_order)
    last_at = _order(earliest)[0] + FAILED_SECONDS
    is_peer = exits.lost_its_peer(lines.get(earliest.name, ()))
    from_outside = [
        replica
        for replica in candidates
        if (outside := _outside(facts, replica))
        and (is_peer or outside.id == "node-lost" or _begun(replica) <= last_at)
    ]
    if from_outside:
        return describe_end(facts, min(from_outside, key=_order))
    first, *others = sorted(candidates, key=_order)
    if deleted := _deleted_before(facts, first):
        return deleted
    if (init := _init_ending(first)) and first.ending is None:
        return finding_of("init-failed", facts.names(first), code=f" with exit code {init.code}")
    if lines.get(first.name) and first.ending is not None:
        return _by_lines(facts, first, others, lines)
    return describe_end(facts, first)


def _by_lines(facts: Facts, first: Replica, others: Sequence[Replica], lines: Lines) -> Finding:
    endings = {replica.name: replica.ending for replica in (first, *others)}
    first_at = first.ending.at if first.ending else None

    def ended(name: str) -> exits.Ended:
        ending = endings.get(name)
        code = ending.code if ending else None
        at = ending.at if ending else None
        is_soon = at is not None and first_at is not None and at <= first_at + FAILED_SECONDS
        return exits.Ended(replica=name, code=code, last=lines.get(name, ()), is_soon=is_soon)

    peers = [ended(replica.name) for replica in facts.replicas if replica.name != first.name]
    cause = exits.cause(ended(first.name), peers)
    return _failed(facts, cause.replica, cause.sentence, cause.id)


def _has_failed(facts: Facts, replica: Replica) -> bool:
    itself = replica.ending and replica.ending.code != 0 and replica.phase != "Succeeded"
    return bool(itself) or replica.phase == "Failed" or _outside(facts, replica) is not None


def _begun(replica: Replica) -> float:
    """Return when a replica's end began, Unix seconds; 0 where that is not known."""
    ending = replica.ending or _init_ending(replica)
    asked = parse_time((replica.disruption or {}).get("lastTransitionTime"))
    known = (ending.at if ending else None, asked, replica.deletion_asked_at)
    return min((at for at in known if at is not None), default=0.0)


def _order(replica: Replica) -> tuple[float, float, str]:
    """Sort key: earliest first, then killed ones, then rank 0."""
    ending = replica.ending or _init_ending(replica)
    at = ending.at if ending else None
    if at is None:
        at = (
            parse_time((replica.disruption or {}).get("lastTransitionTime"))
            or replica.deletion_asked_at
        )
    by_signal = ending is not None and ending.code > 128
    return (math.inf if at is None else at, 0 if by_signal else 1, replica.name)


def _outside(facts: Facts, replica: Replica) -> Finding | None:
    """Return an ending by the kernel, the node or the cluster, if any."""
    reason = str(replica.status.get("reason") or "")
    by, message = _disruption(replica)
    ending = replica.ending
    names = facts.names(replica)
    cause_id = by or causes.ended_by(reason)
    if replica.tainted and (
        replica.ended or replica.ready
    ):  # its node goes on, and ends it in order
        return finding_of("evicted", names, why="a taint (NoExecute) was put on its node")
    if ending and ending.reason == causes.OUT_OF_MEMORY and cause_id != "evicted":
        end = f"A process of {replica.name} ran out of its memory and was killed{names['where']}."
        return finding_of("oom", end=end)
    if cause_id is not None:
        why = quoted(str(replica.status.get("message") or "") or message or reason)
        if cause_id == "node-cannot-start":
            why = f"{reason}, {why}"
        limit = f"activeDeadlineSeconds of {replica.name}"
        return finding_of(cause_id, names, limit=limit, why=why)
    if ending and ending.reason in causes.NEVER_STARTED:
        return start_error(facts, replica, ending.reason, ending.message)
    return None


def _disruption(replica: Replica) -> tuple[str | None, str]:
    """Return the external cause of a pod's end, and Kubernetes' message."""
    disruption = replica.disruption or {}
    return causes.ended_by(str(disruption.get("reason"))), str(disruption.get("message") or "")


def _inside(facts: Facts, replica: Replica) -> Finding:
    ending = replica.ending
    if ending is None:
        why = str(
            replica.status.get("message") or replica.status.get("reason") or "no exit code is known"
        )
        return _failed(facts, replica.name, f"{replica.name} failed: {quoted(why)}.")
    if ending.code == 0 and replica.phase != "Succeeded":
        return _failed(
            facts, replica.name, f"{replica.name} ended before its time, with exit code 0."
        )
    restarts = f", after {counted(replica.restarts, 'restart')}" if replica.restarts else ""
    message = f": {quoted(ending.message)}" if ending.message else ""
    text = f"{replica.name} {exits.ending_text(ending.code)}{restarts}{message}."
    return _failed(facts, replica.name, text, exits.cause_id(ending.code, ending.message))


def _deleted_before(facts: Facts, first: Replica) -> Finding | None:
    """Return the finding for pods deleted before the first failure, which caused it."""
    policy = ((facts.job.get("spec") or {}).get("runPolicy") or {}).get("cleanPodPolicy")
    if limit_struck(facts) or policy not in (None, "None"):
        return None  # the operator deletes pods itself
    failed_at = _order(first)[0]
    # The Job controller ends the peers of a pod that failed, often within the same second.
    by_operator = {
        message_of(event).rpartition(": ")[2]
        for event in facts.events
        if event.get("reason") == "SuccessfulDelete"
    }
    deleted = [
        (at, one)
        for one in (*earlier(facts), *facts.replicas)
        if (at := one.deletion_asked_at) is not None
        and at <= failed_at
        and one.pod_name not in by_operator
        and (one.ending is None or one.ending.at is None or one.ending.at >= at)
    ]
    if not deleted:
        return None
    _, one = min(deleted, key=lambda each: each[0])
    return finding_of("pod-deleted", facts.names(one), when="while")


def _deleted(facts: Facts) -> Finding | None:
    """Return the finding for deleted pods that had not failed."""
    left = [
        replica
        for replica in (*earlier(facts), *facts.replicas)
        if (replica.gone or replica.terminating) and not replica.ended
    ]
    if left:
        first = min(left, key=_order)
        return finding_of(
            "pod-deleted", facts.names(first), when="while" if first.started else "before"
        )
    return replaced(facts)


def _failed(
    facts: Facts, name: str, sentence: str, cause_id: str = exits.REPLICA_FAILED
) -> Finding:
    return finding_of(cause_id, {**facts.names(), "replica": name}, end=sentence)


def _init_ending(ending: Replica) -> ContainerEnd | None:
    states = ((status.get("state") or {}).get("terminated") for status in ending.inits)
    return next((ending for ending in map(ending_of, states) if ending and ending.code), None)
