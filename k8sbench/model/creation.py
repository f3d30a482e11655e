"""What is known of the creation of a run's job: the transitions that say it, and what they mean.

The API server may create a job and its answer may be lost, and k8sbench may be killed in between.
So a recorded run has a job for certain, or has none for certain, or may have one; the latest of
these transitions says which.
"""

from __future__ import annotations

import math

from k8sbench.model.errors import BenchError, CreationUnknown
from k8sbench.model.phase import RESTARTING, Phase, Transition
from k8sbench.model.run import Run

JOB_CREATED = "job-created"
CREATION_UNKNOWN = "creation-unknown"
QUOTA_FULL = "quota-full"
NOT_CREATED = "not-created"
RESTART_WAITS = "restart-waits"
"""Cause id of a run whose next attempt waits for the one before to be gone."""
OPEN = frozenset({None, CREATION_UNKNOWN, RESTART_WAITS})
"""Cause ids of runs in the state Created that may have no job."""
AGAIN = "Submit it again, under its name with --run-id {run_id}."
JOB_GONE = "job-gone"
"""Cause id of the end of a job that the cluster does not have and that was not seen there."""
TRY_SECONDS = 300.0
"""How long a job that is to be followed is tried to be created without an answer."""
SETTLE_SECONDS = 90.0
"""After the last request for a job, until it does not come any more: the API server gives up a
request after 60 s."""


def created(at: float, uid: str | None = None) -> Transition:
    """Build the transition of a run whose job the API server has confirmed."""
    return Transition(
        phase=Phase.CREATED,
        at=at,
        cause="Its job was created.",
        cause_id=JOB_CREATED,
        job_uid=uid,
    )


def again(at: float) -> Transition:
    """Build the transition of a run that is submitted again; it had no job before."""
    return Transition(phase=Phase.CREATED, at=at, cause="Submitted again; nothing was started yet.")


def unknown_error(run_id: str, why: str) -> CreationUnknown:
    """Build the error of a run whose job may exist; ``why`` ends the sentence."""
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
    """Build the final transition of a run whose job was certainly not created."""
    return _without_job(run_id, f"Its job was not created: {error.message}", error.action, at)


def failed(run_id: str, error: BaseException, at: float) -> Transition:
    """Build the transition of a run whose creation has raised an error."""
    if isinstance(error, BenchError) and not isinstance(error, CreationUnknown):
        return refused(run_id, error, at)
    if not isinstance(error, CreationUnknown):
        error = unknown_error(run_id, f"k8sbench broke off ({type(error).__name__}).")
    return unknown(error, at)


def never(run_id: str, at: float) -> Transition:
    """Build the final transition of a run whose job was looked for and does not exist."""
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
    """Whether the job of the run's attempt is known to have existed since it was submitted last."""
    for step in reversed(run.history):
        if step.cause_id in {NOT_CREATED, RESTARTING}:
            return False
        is_open = step.phase is Phase.CREATED and step.cause_id in OPEN
        if not is_open and step.cause_id != QUOTA_FULL:
            return True
    return False


def may_be_submitted_again(run: Run) -> bool:
    """Whether the run has ended without ever having had a job."""
    return run.phase.final and run.history[-1].cause_id == NOT_CREATED


def missing(run: Run, now: float) -> Transition | None:
    """Say what follows where the cluster has no job of a run that is not known to have had one.

    Final when a request for it cannot be on its way any more; None: nothing new.
    """
    settled_at = _settled_at(run)
    if now >= settled_at:
        return never(run.run_id, now)
    if settled_at <= now + SETTLE_SECONDS:
        return None
    why = "the cluster has none, but a request for it may still be on its way."
    return unknown(unknown_error(run.run_id, why), now)


def settles_in(run: Run, now: float) -> float:
    """Seconds after which a job that the cluster does not have will not come any more."""
    return max(0.0, _settled_at(run) - now)


def _settled_at(run: Run) -> float:
    latest = run.history[-1]
    if latest.cause_id == CREATION_UNKNOWN:
        return latest.at + SETTLE_SECONDS
    # Of one that waits for a quota it is not known when its creation was tried last.
    return math.inf if latest.cause_id == QUOTA_FULL else latest.at + TRY_SECONDS + SETTLE_SECONDS
