"""Job creation status and its transitions.

The API server may create a job and its answer may be lost, and k8sbench may be killed in between. A
recorded run therefore has a job, has none, or may have one; the latest of these transitions tells
which.
"""

from __future__ import annotations

import math

from k8sbench import limits
from k8sbench.model.errors import BenchError, CreationUnknown
from k8sbench.model.phase import RESTARTING, Phase, Transition
from k8sbench.model.run import Run

JOB_CREATED = "job-created"
CREATION_UNKNOWN = "creation-unknown"
QUOTA_FULL = "quota-full"
NOT_CREATED = "not-created"
WAITS_FOR_TURN = "waits-for-turn"
"""Cause id of a run without a job that waits for its set."""
RESTART_WAITS = "restart-waits"
"""Cause id of a run whose next attempt waits for the previous job's deletion."""
OPEN = frozenset({None, CREATION_UNKNOWN, RESTART_WAITS, WAITS_FOR_TURN})
"""Cause ids of Created runs that may have no job."""
AGAIN = "Submit it again, under its name with --run-id {run_id}."
JOB_GONE = "job-gone"
"""Cause id of a job that ended unseen and is gone."""
TRY_SECONDS = 300.0
"""Seconds for which a creation is retried without an answer."""


def created(at: float, uid: str | None = None) -> Transition:
    """Build the transition after the API server confirmed the job."""
    return Transition(
        phase=Phase.CREATED, at=at, cause="Its job was created.", cause_id=JOB_CREATED, job_uid=uid
    )


def in_turn(parallel: int, set_name: str, at: float) -> Transition:
    """Build the transition of a run that waits for its turn in its set."""
    return Transition(
        phase=Phase.CREATED,
        at=at,
        cause=f"It waits for its turn: of set {set_name} run {parallel} at a time.",
        cause_id=WAITS_FOR_TURN,
    )


def admitted(at: float) -> Transition:
    """Build the transition of a run whose turn has come."""
    return Transition(phase=Phase.CREATED, at=at, cause="Its turn has come.")


def waits_for_turn(run: Run) -> bool:
    """Return True if a run is not to have a job yet.

    Also True for the run of an object that is only recorded: a kill came before its turn was.
    """
    is_bare = run.plan.requested_by is not None and len(run.history) == 1
    return is_bare or run.history[-1].cause_id == WAITS_FOR_TURN


def again(at: float) -> Transition:
    """Build the transition of a run without a job that is submitted again."""
    return Transition(phase=Phase.CREATED, at=at, cause="Submitted again; nothing was started yet.")


def unknown_error(run_id: str, why: str) -> CreationUnknown:
    """Build the error of a run whose job may exist.

    ``why`` ends the sentence.
    """
    return CreationUnknown(
        f"Whether the job {run_id} exists is not known: {why}",
        f"Find out with: k8sbench collect {run_id}; end it with: k8sbench cancel {run_id}",
    )


def unknown(error: CreationUnknown, at: float) -> Transition:
    """Build the transition of a run whose job may exist."""
    return Transition(
        phase=Phase.CREATED,
        at=at,
        cause=error.message,
        cause_id=CREATION_UNKNOWN,
        action=error.action,
    )


def waiting(error: BenchError, at: float) -> Transition:
    """Build the transition of a run that waits for room in a quota."""
    return Transition(
        phase=Phase.QUEUED,
        at=at,
        cause=error.message,
        cause_id=QUOTA_FULL,
        action="It is tried again until there is room.",
    )


def refused(run_id: str, error: BenchError, at: float) -> Transition:
    """Build the final transition of a run whose job was not created."""
    return _without_job(run_id, f"Its job was not created: {error.message}", error.action, at)


def failed(run_id: str, error: BaseException, at: float) -> Transition:
    """Build the transition after an error during the creation."""
    if isinstance(error, BenchError) and not isinstance(error, CreationUnknown):
        return refused(run_id, error, at)
    if not isinstance(error, CreationUnknown):
        error = unknown_error(run_id, f"k8sbench broke off ({type(error).__name__}).")
    return unknown(error, at)


def refusal(run_id: str, error: BaseException, at: float, *, survives: bool) -> Transition:
    """Build the transition of a run whose first creation failed.

    The job may exist all the same if the answer was lost.
    """
    if survives:
        return failed(run_id, error, at)
    error = error if isinstance(error, BenchError) else BenchError(type(error).__name__)
    return Transition(
        phase=Phase.FAILED,
        at=at,
        cause=f"k8sbench could not go on: {error.message}",
        cause_id="k8sbench-failed",
        action=error.action or None,
    )


def never(run_id: str, at: float) -> Transition:
    """Build the final transition of a run whose job was not found."""
    cause = "Its job was never created: the cluster has none of its name."
    return _without_job(run_id, cause, "", at)


def _without_job(run_id: str, cause: str, action: str, at: float) -> Transition:
    return Transition(
        phase=Phase.FAILED,
        at=at,
        cause=cause,
        cause_id=NOT_CREATED,
        action=action or AGAIN.format(run_id=run_id),
    )


def is_known_created(run: Run) -> bool:
    """True if the attempt's job is known to have existed."""
    for step in reversed(run.history):
        if step.cause_id in {NOT_CREATED, RESTARTING}:
            return False
        is_open = step.phase is Phase.CREATED and step.cause_id in OPEN
        if not is_open and step.cause_id != QUOTA_FULL:
            return True
    return False


def may_be_submitted_again(run: Run) -> bool:
    """True if the run ended without ever having a job."""
    return run.phase.final and run.history[-1].cause_id == NOT_CREATED


def missing(run: Run, now: float) -> Transition | None:
    """Return the transition of a run whose job the cluster does not have.

    Final if no request can still be on its way; None if nothing changes.
    """
    settled_at = _settled_at(run)
    if now >= settled_at:
        return never(run.run_id, now)
    if settled_at <= now + limits.now.creation_settle:
        return None
    why = "the cluster has none, but a request for it may still be on its way."
    return unknown(unknown_error(run.run_id, why), now)


def settles_in(run: Run, now: float) -> float:
    """Return the seconds after which a missing job cannot appear any more."""
    return max(0.0, _settled_at(run) - now)


def unless_on_its_way(run: Run, error: BaseException, now: float) -> BaseException:
    """Return ``error``, or CreationUnknown while an earlier request may still succeed.

    The earlier request's answer was lost: that another one is rejected says nothing about it.
    """
    is_unsure = run.history[-1].cause_id == CREATION_UNKNOWN
    if isinstance(error, CreationUnknown) or not (is_unsure and settles_in(run, now)):
        return error
    return unknown_error(
        run.run_id, f"an earlier request may still be on its way, and another one fails: {error}"
    )


def _settled_at(run: Run) -> float:
    latest = run.history[-1]
    if latest.cause_id == CREATION_UNKNOWN:
        return latest.at + limits.now.creation_settle
    # Of one that waits for a quota it is not known when its creation was tried last.
    return (
        math.inf
        if latest.cause_id == QUOTA_FULL
        else latest.at + TRY_SECONDS + limits.now.creation_settle
    )
