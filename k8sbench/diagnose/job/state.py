"""State of one job, from its observed objects. Pure.

A job is as far as its last replica. It runs when all replicas have started; the operator says so
already when the master has. It has ended when the operator says so or, without an operator, when
all replicas have ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from k8sbench.diagnose.job import causes, endings, placing
from k8sbench.diagnose.job.causes import (
    CAUSES,
    EVENTS,
    POD_PHASES,
    Cause,
    Event,
    Waiting,
    finding_of,
)
from k8sbench.diagnose.job.facts import (
    Facts,
    JobSnapshot,
    Replica,
    names,
)
from k8sbench.model.creation import JOB_GONE
from k8sbench.model.errors import Finding
from k8sbench.model.job_kind import JobKind
from k8sbench.model.kube import (
    KubeObject,
    annotations_of,
    conditions,
    is_suspended,
    is_true,
)
from k8sbench.model.names import LABEL_DOMAIN
from k8sbench.model.phase import Phase, ReplicaState
from k8sbench.model.plain_text import counted

__all__ = ["CANCEL_ANNOTATION", "JobSnapshot", "JobState", "kept_by", "read"]

CANCEL_ANNOTATION = f"{LABEL_DOMAIN}/cancelled"
"""Annotation with the end of a job by a user.

JSON ``{"cause", "cause_id", "at", "phase"}``.
"""
SILENT_SECONDS = 30.0
"""Seconds to wait for the operator's condition after all replicas ended.

It usually takes 0.1 s. After that the end is read from the pods.
"""
DESCRIBE = "'kubectl -n {namespace} describe {kind} {job}' and its pods' events show more."
"""Action for a job that somebody else created."""
_FORWARD = (Phase.PENDING, Phase.PULLING, Phase.STARTING, Phase.RUNNING)
"""States of a starting replica; a job has the first of its replicas'."""


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one job."""

    phase: Phase
    cause: str
    """One sentence."""
    cause_id: str | None = None
    """Id of the diagnosis; None if nothing is wrong."""
    action: str | None = None
    unrecoverable: bool = False
    """True if it waits for a change of the cluster or the job."""
    replicas: tuple[ReplicaState, ...]
    """Rank 0's first."""
    over: bool = False
    """True if every replica has ended, is gone or will never start.

    Its logs can be finished now.
    """
    look_again_s: float | None = None
    """Seconds until the state may change by time alone."""


class _Cancelled(msgspec.Struct):
    """The value of the annotation."""

    cause: str = CAUSES["cancelled"].sentence
    cause_id: str | None = None
    phase: str | None = None


_CANCELLED = msgspec.json.Decoder(_Cancelled)
"""Made once: two threads crash msgspec where both resolve a type."""


def read(facts: Facts, lines: Mapping[str, Sequence[str]] | None = None) -> JobState:
    """Return the state of a job.

    ``lines`` are the last lines of the replicas' logs, if known. They show which replica failed by
    itself.
    """
    for look_for in (_ended, _cancelled, _gone, _ended_unnoticed):
        if found_state := look_for(facts, lines or {}):
            return found_state
    return _going(facts)


def phase_alone(job: KubeObject, kind: JobKind) -> Phase:
    """Return a job's phase by the job itself, without pods and events."""
    true = {name for name, condition in conditions(job).items() if is_true(condition)}
    phase = kind.phase(true)
    if phase is not None and phase.final:
        return phase
    if CANCEL_ANNOTATION in annotations_of(job):
        return Phase.CANCELLED
    if is_suspended(job):
        return Phase.QUEUED
    made = kind.pod_counts(job.get("status") or {})
    if phase is None and any(one.get("active") for one in made):
        return Phase.RUNNING if all(one.get("ready") for one in made) else Phase.PENDING
    # The operator has taken note of the job where it has any condition.
    return Phase.PENDING if true and phase in {None, Phase.CREATED} else phase or Phase.CREATED


def kept_by(job: KubeObject) -> str | None:
    """Return what delays the deletion of a job, or None."""
    metadata = job.get("metadata") or {}
    finalizers = metadata.get("finalizers")
    if not finalizers or "deletionTimestamp" not in metadata:
        return None
    return (
        f"its deletion was requested and waits for the finalizer {', '.join(finalizers)}; the "
        f"job and its pods stay until that is removed."
    )


def _ended(facts: Facts, lines: Mapping[str, Sequence[str]]) -> JobState | None:
    """Read a job that has a condition of its end."""
    if facts.condition(Phase.FAILED):
        return _failed(facts, lines)
    if not facts.condition(Phase.SUCCEEDED):
        return None
    # It says so as soon as the master has succeeded, whatever the workers do.
    final = facts.never_restarts
    if any(
        replica.phase == "Failed" or (final and endings.has_failed(replica))
        for replica in facts.replicas
    ):
        return _failed(facts, lines)
    others = [
        replica
        for replica in facts.replicas
        if replica.phase != "Succeeded" and not (final and replica.stopped)
    ]
    running = [replica for replica in others if _may_write(facts, replica)]
    unended = [replica for replica in others if replica not in running]
    parts = [f"{facts.replicas[0].name if others else _all(facts.replicas)} succeeded"]
    parts += [f"{names(running)} still ran"] if running else []
    parts += [f"of {names(unended)} no end was seen"] if unended else []
    return _state(facts, Phase.SUCCEEDED, f"{'; '.join(parts)}.")


def _failed(facts: Facts, lines: Mapping[str, Sequence[str]]) -> JobState:
    # The operator may write its own end before a job that was cancelled is deleted.
    return _cancelled(facts, lines) or _state(facts, Phase.FAILED, endings.failure(facts, lines))


def _cancelled(facts: Facts, _: Mapping[str, Sequence[str]]) -> JobState | None:
    annotation = _annotation(facts)
    if annotation is None:
        return None
    kept = None if facts.seen.deleted else kept_by(facts.job)
    return JobState(
        phase=Phase.FAILED if annotation.phase == Phase.FAILED else Phase.CANCELLED,
        cause=f"{annotation.cause.rstrip('.')}; {kept}" if kept else annotation.cause,
        cause_id=annotation.cause_id or "cancelled",
        action=_action(facts, CAUSES["cancelled"]),
        replicas=_states(facts),
        over=_over(facts),
    )


def _gone(facts: Facts, _: Mapping[str, Sequence[str]]) -> JobState | None:
    if not facts.seen.deleted:
        return None
    if facts.seen.job is None:
        gone = Finding(
            id=JOB_GONE,
            severity="fail",
            sentence="It was removed from the cluster while nobody collected for this store.",
            action="Submit it again, unless another store has collected it (k8sbench results"
            " there); what was archived of its logs is kept.",
        )
        return _state(facts, Phase.LOST, gone)
    return _state(facts, Phase.LOST, finding_of("job-deleted"))


def _ended_unnoticed(facts: Facts, lines: Mapping[str, Sequence[str]]) -> JobState | None:
    """Return the state of an ended job without a condition of its end.

    The operator is gone, or waits for pods in which a sidecar still runs.
    """
    if not facts.never_restarts or not all(replica.stopped for replica in facts.replicas):
        return None
    ends = [replica.ending.at for replica in facts.replicas if replica.ending and replica.ending.at]
    if not ends or facts.now - max(ends) < SILENT_SECONDS:
        return None
    if any(endings.has_failed(replica) for replica in facts.replicas):
        return _failed(facts, lines)
    return _state(facts, Phase.SUCCEEDED, f"{_all(facts.replicas)} succeeded.")


def _going(facts: Facts) -> JobState:
    """Read a job that is on its way."""
    phase = _phase(facts)
    trouble, again = placing.cause(facts) if facts.seen.job is not None else (None, None)
    if phase is Phase.RUNNING:
        # What delayed the start is past.
        trouble = None
        again = SILENT_SECONDS if all(replica.stopped for replica in facts.replicas) else None
    trouble = trouble or endings.replaced(facts)
    return _state(facts, phase, trouble or _calm(facts, phase), again=again)


def _phase(facts: Facts) -> Phase:
    if facts.seen.job is None:
        return Phase.CREATED
    if facts.suspended:
        return Phase.QUEUED
    if all(replica.pod is None for replica in facts.replicas):
        return Phase.PENDING if facts.job.get("status") or facts.events else Phase.CREATED
    # One that has ended or is gone has run, or the operator will say what became of it; but of a
    # job that was suspended and goes on, pods that are gone come anew.
    again = facts.condition(Phase.QUEUED, only_true=False) is not None
    gone = Phase.PENDING if again else Phase.RUNNING
    ways = {Phase.LOST: gone, Phase.SUCCEEDED: Phase.RUNNING, Phase.FAILED: Phase.RUNNING}
    seen = map(_replica_phase, facts.replicas)
    phases = [ways.get(phase, phase) for phase in seen]
    endings_seen = (replica.ending.reason for replica in facts.replicas if replica.ending)
    if not causes.NEVER_STARTED.isdisjoint(endings_seen):
        phases.append(Phase.STARTING)
    return min(phases, key=_FORWARD.index)


def _calm(facts: Facts, phase: Phase) -> str:
    """Write the progress of a job without problems."""
    replicas = facts.replicas
    match phase:
        case Phase.CREATED:
            return "The job is created."
        case Phase.PULLING:
            pulling = [replica for replica in replicas if _replica_phase(replica) is phase]
            return f"Image being pulled for {names(pulling)}."
        case Phase.RUNNING if not any(replica.ended for replica in replicas):
            return f"{_all(replicas)} run{'s' * (len(replicas) == 1)}."
        case Phase.RUNNING:
            what = "have ended"
            count = sum(replica.ended for replica in replicas)
        case Phase.STARTING:
            what = "have started"
            count = sum(replica.started for replica in replicas)
        case _:
            what = "have a node"
            count = sum(replica.node is not None for replica in replicas)
    return f"{count} of {counted(len(replicas), 'replica')} {what}."


def _all(replicas: Sequence[Replica]) -> str:
    return f"All {len(replicas)} replicas" if len(replicas) > 1 else replicas[0].name


def _state(
    facts: Facts, phase: Phase, why: Finding | str, *, again: float | None = None
) -> JobState:
    """Build the state of a job; ``why`` is a sentence if nothing is wrong."""
    finding = None if isinstance(why, str) else why
    return JobState(
        phase=phase,
        cause=why if isinstance(why, str) else why.sentence,
        cause_id=finding.id if finding else None,
        action=_action(facts, finding),
        unrecoverable=finding is not None and finding.severity == "fail" and not phase.final,
        replicas=_states(facts),
        over=phase.final and _over(facts),
        look_again_s=again,
    )


def _action(facts: Facts, cause: Finding | Cause | None) -> str | None:
    """Return what helps against a cause.

    Of a job of others: what shows more, since the options of a submit do not help.
    """
    if cause is None:
        return None
    if facts.plan.observed is None:
        return cause.action
    return None if facts.seen.deleted else DESCRIBE.format_map(facts.names())


def _over(facts: Facts) -> bool:
    return not any(_may_write(facts, replica) for replica in facts.replicas)


def _may_write(facts: Facts, replica: Replica) -> bool:
    """True if a replica of an ended job may still write its log."""
    is_stopped = replica.ended or (replica.stopped and facts.never_restarts)
    is_there = replica.pod is not None and not replica.gone and not replica.on_lost_node
    return is_there and replica.started and not is_stopped


def _states(facts: Facts) -> tuple[ReplicaState, ...]:
    return tuple(
        ReplicaState(
            replica=replica.name,
            phase=_replica_phase(replica),
            node=replica.node,
            restarts=replica.restarts,
            exit_code=replica.ending.code
            if replica.ending and (replica.ended or replica.gone)
            else None,
            detail=_detail(replica),
            image=_digest(replica),
        )
        for replica in facts.replicas
    )


def _replica_phase(replica: Replica) -> Phase:
    phase = POD_PHASES.get(replica.phase or "", Phase.PENDING)
    if replica.ended:
        return phase
    if replica.gone:
        return Phase.LOST
    if replica.pod is None or not replica.node:
        return Phase.PENDING
    # Its container may have ended, and the pod not: that is a second behind.
    if phase is not Phase.PENDING and "waiting" not in (replica.main.get("state") or {}):
        return phase
    return Phase.PULLING if _pulls(replica) else Phase.STARTING


def _pulls(replica: Replica) -> bool:
    states = (status.get("state") or {} for status in (*replica.inits, replica.main))
    if any(
        causes.waiting((state.get("waiting") or {}).get("reason", "")) is Waiting.IMAGE
        for state in states
    ):
        return True
    last = replica.last_event(Event.PULL_BEGAN, Event.PULL_ENDED)
    return last is not None and EVENTS[last["reason"]] is Event.PULL_BEGAN


def _detail(replica: Replica) -> str:
    if replica.pod is None:
        return "no pod yet"
    if replica.gone and not replica.ended:
        return "its pod was deleted"
    if replica.ended:
        ending = replica.ending
        reason = str(replica.status.get("reason") or (ending.reason if ending else ""))
        return "" if reason == "Completed" else reason
    if replica.terminating:
        return "its node does not answer" if replica.on_lost_node else "ending"
    if not replica.node:
        return "no node yet"
    for status in (*replica.inits, replica.main):
        waits = (status.get("state") or {}).get("waiting")
        if waits and waits.get("reason"):
            return str(waits["reason"])
    return ""


def _digest(replica: Replica) -> str | None:
    """Return the digest of ``docker.io/library/x@sha256:…``, or None.

    A bare id is the node's own.
    """
    _, at, digest = str(replica.main.get("imageID") or "").rpartition("@")
    return digest if at and digest.startswith("sha256:") else None


def _annotation(facts: Facts) -> _Cancelled | None:
    text = annotations_of(facts.job).get(CANCEL_ANNOTATION)
    if text is None:
        return None
    try:
        return _CANCELLED.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Cancelled()
