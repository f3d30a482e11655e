"""Creation and restarts of a run's jobs: status and transitions.

The API server may create a job and its answer may be lost, and k8sbench may be killed in between. A
recorded run therefore has a job, has none, or may have one; the latest of these transitions tells
which.
"""

from __future__ import annotations

import msgspec

from k8sbench.model.errors import (
    JOB_DENIED,
    OF_JOB_OR_PLACE,
    BenchError,
    CreationUnknown,
    UsageError,
)
from k8sbench.model.identity import case_values, fields_for
from k8sbench.model.phase import RESTARTING, Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import TAKEN_OVER, Run

JOB_CREATED = "job-created"
CREATION_UNKNOWN = "creation-unknown"
QUOTA_FULL = "quota-full"
NOT_CREATED = "not-created"
WITHOUT_JOB = frozenset({NOT_CREATED, JOB_DENIED})
"""Cause ids of runs that ended without ever having a job."""
WAITS_FOR_TURN = "waits-for-turn"
"""Cause id of a run without a job that waits for its set."""
RESTART_WAITS = "restart-waits"
"""Cause id of a run whose next attempt waits for the previous job's deletion."""
CREATION_WAITS = "creation-waits"
"""Cause id of a run whose job cannot be created before its place is repaired."""
OPEN = frozenset({None, CREATION_UNKNOWN, CREATION_WAITS, RESTART_WAITS, WAITS_FOR_TURN})
"""Cause ids of Created runs that may have no job."""
AGAIN = "Submit it again, under its name with --run-id {run_id}."
JOB_GONE = "job-gone"
"""Cause id of a job that ended unseen and is gone."""
TRY_SECONDS = 300.0
"""Seconds for which a creation is retried without an answer."""


def job_created(at: float, uid: str | None = None) -> Transition:
    """Build the transition after the API server confirmed the job."""
    return Transition(
        phase=Phase.CREATED, at=at, cause="Its job was created.", cause_id=JOB_CREATED, job_uid=uid
    )


def wait_for_turn(parallel: int | None, set_name: str, at: float) -> Transition:
    """Build the transition of a run that waits for its turn in its set.

    ``parallel`` are the runs of the set at a time; None: one of its Benchmark.
    """
    which = f"of set {set_name} run {parallel}" if parallel else "of its Benchmark runs one"
    return Transition(
        phase=Phase.CREATED,
        at=at,
        cause=f"It waits for its turn: {which} at a time.",
        cause_id=WAITS_FOR_TURN,
    )


def turn_came(at: float) -> Transition:
    """Build the transition of a run whose turn has come."""
    return Transition(phase=Phase.CREATED, at=at, cause="Its turn has come.")


def waits_for_turn(run: Run) -> bool:
    """Return True if a run must not have a job yet.

    Also True for a run that an operator recorded or reopened and did not admit before it was
    killed.
    """
    *before, latest = run.history
    is_new = not latest.phase.final and (not before or before[-1].phase.final)
    is_bare = run.plan.is_asked_of_operator and is_new
    return is_bare or latest.cause_id == WAITS_FOR_TURN


def job_created_again(at: float) -> Transition:
    """Build the transition before a missing job of a Benchmark object is created again."""
    return Transition(
        phase=Phase.CREATED, at=at, cause="The cluster has no job of it: it is created again."
    )


def submitted_again(at: float) -> Transition:
    """Build the transition of a run without a job that is submitted again."""
    return Transition(phase=Phase.CREATED, at=at, cause="Submitted again; nothing was started yet.")


def creation_unknown_error(run_id: str, why: str) -> CreationUnknown:
    """Build the error of a run whose job may exist.

    ``why`` ends the sentence.
    """
    return CreationUnknown(
        f"Whether the job {run_id} exists is not known: {why}",
        f"Find out with: k8sbench collect {run_id}; end it with: k8sbench cancel {run_id}",
    )


def creation_unknown(error: CreationUnknown, at: float) -> Transition:
    """Build the transition of a run whose job may exist."""
    return Transition(
        phase=Phase.CREATED,
        at=at,
        cause=error.message,
        cause_id=CREATION_UNKNOWN,
        action=error.action,
    )


def wait_for_quota(error: BenchError, at: float) -> Transition:
    """Build the transition of a run that waits for room in a quota."""
    return Transition(
        phase=Phase.QUEUED,
        at=at,
        cause=error.message,
        cause_id=QUOTA_FULL,
        action="It is tried again until there is room.",
    )


def wait_for_place(error: BenchError, at: float, *, is_of_job: bool) -> Transition:
    """Build the transition of a run that waits until its job or its place is repaired.

    ``is_of_job``: the place takes other jobs.
    """
    is_unknown = error.cause_id in OF_JOB_OR_PLACE and not is_of_job
    more = " It is not known if other jobs are refused, too." if is_unknown else ""
    return Transition(
        phase=Phase.CREATED,
        at=at,
        cause=f"Its job is not created yet: {error.message}{more}",
        cause_id=CREATION_WAITS,
        action=error.action or None,
    )


def job_refused(run_id: str, error: BenchError, at: float) -> Transition:
    """Build the final transition of a run whose job was not created."""
    if error.cause_id == JOB_DENIED:
        return job_denied(run_id, error, at)
    return _without_job(run_id, f"Its job was not created: {error.message}", error.action, at)


def job_denied(run_id: str, error: BenchError, at: float) -> Transition:
    """Build the final transition of a run whose job alone is refused."""
    cause = f"Its job was not created: {error.message}"
    return _without_job(run_id, cause, error.action, at, JOB_DENIED)


def creation_failed(run_id: str, error: BaseException, at: float) -> Transition:
    """Build the transition after an error during the creation."""
    if isinstance(error, BenchError) and not isinstance(error, CreationUnknown):
        return job_refused(run_id, error, at)
    if not isinstance(error, CreationUnknown):
        error = creation_unknown_error(run_id, f"k8sbench broke off ({type(error).__name__}).")
    return creation_unknown(error, at)


def first_creation_failed(
    run_id: str, error: BaseException, at: float, *, survives: bool
) -> Transition:
    """Build the transition of a run whose first creation failed.

    The job may exist nevertheless, if the answer was lost.
    """
    if survives:
        return creation_failed(run_id, error, at)
    error = error if isinstance(error, BenchError) else BenchError(type(error).__name__)
    return Transition(
        phase=Phase.FAILED,
        at=at,
        cause=f"k8sbench could not go on: {error.message}",
        cause_id="k8sbench-failed",
        action=error.action or None,
    )


def never_created(run_id: str, at: float) -> Transition:
    """Build the final transition of a run whose job was not found."""
    cause = "Its job was never created: the cluster has none of its name."
    return _without_job(run_id, cause, "", at)


def _without_job(
    run_id: str, cause: str, action: str, at: float, cause_id: str = NOT_CREATED
) -> Transition:
    return Transition(
        phase=Phase.FAILED,
        at=at,
        cause=cause,
        cause_id=cause_id,
        action=action or AGAIN.format(run_id=run_id),
    )


def is_known_created(run: Run) -> bool:
    """True if the attempt's job is known to have existed."""
    for step in reversed(run.history):
        if step.cause_id in WITHOUT_JOB or step.cause_id == RESTARTING:
            return False
        is_open = step.phase is Phase.CREATED and step.cause_id in OPEN
        if not is_open and step.cause_id != QUOTA_FULL:
            return True
    return False


def may_be_submitted_again(run: Run) -> bool:
    """True if the run ended without ever having a job."""
    return run.phase.final and run.history[-1].cause_id in WITHOUT_JOB


def job_missing(run: Run, at: float, *, left_s: float) -> Transition | None:
    """Return the transition of a run whose job the cluster does not have.

    A request may still be on its way for ``left_s`` seconds; with none left the run ends. None if
    nothing changes.
    """
    if left_s <= 0.0:
        return never_created(run.run_id, at)
    if run.history[-1].cause_id == CREATION_UNKNOWN:
        return None
    why = "the cluster has none, but a request for it may still be on its way."
    return creation_unknown(creation_unknown_error(run.run_id, why), at)


def error_or_unknown(run: Run, error: BaseException, *, left_s: float) -> BaseException:
    """Return ``error``, or CreationUnknown while an earlier request may still succeed.

    The answer to the earlier request was lost, and the rejection of another one does not tell its
    outcome.
    ``left_s`` are the seconds for which it may be on its way.
    """
    is_unsure = run.history[-1].cause_id == CREATION_UNKNOWN
    if isinstance(error, CreationUnknown) or not (is_unsure and left_s > 0.0):
        return error
    return creation_unknown_error(
        run.run_id, f"an earlier request may still be on its way, and another one fails: {error}"
    )


# -- attempts --------------------------------------------------------------------------------------
#
# An attempt is one job of the run. Attempt 2 gets the same name once the objects of attempt 1 are
# gone, so that two attempts never write the same checkpoints. k8sbench restarts a failed training
# as often as its plan allows; a user can continue one that has ended.


RESTART_REFUSED = "restart-refused"
LENGTHENED = frozenset({"training", "window", "command"})
"""Case fields that a longer continuation of a training may change.

The trainer checks the rest of the command against the checkpoints.
"""


def attempt_restarts(plan: RunPlan, attempt: int, why: str, at: float) -> Transition:
    """Build the transition before an ended attempt's objects are deleted.

    ``attempt`` is the ended attempt's number, ``why`` the sentence on its end.
    """
    cause = f"{_attempt_in_words(plan, attempt + 1)}: {why}"
    return Transition(phase=Phase.CREATED, at=at, cause=cause, cause_id=RESTARTING)


def training_continues(plan: RunPlan, attempt: int, at: float) -> Transition:
    """Build the transition of a continued training.

    ``attempt`` is the number of its last attempt.
    """
    return attempt_restarts(
        plan, attempt, "It is continued, from its newest checkpoint if any.", at
    )


def is_continued(run: Run) -> bool:
    """True if a user's request began the present attempt."""
    steps = zip(run.history, run.history[1:], strict=False)
    begun = [end for end, again in steps if again.cause_id == RESTARTING]
    return bool(begun) and begun[-1].phase.final


def keeps_checkpoints(run: Run) -> bool:
    """True if an ended run may have left checkpoints."""
    is_over = run.phase.final and not may_be_submitted_again(run)
    return is_over and run.plan.training is not None and run.plan.checkpoints is not None


def may_be_continued(run: Run, plan: RunPlan | None = None) -> bool:
    """True if a training can continue, by its own plan or a longer one."""
    is_ours = keeps_checkpoints(run) and run.history[-1].cause_id != TAKEN_OVER
    longer = plan is not None and is_longer(plan, run.plan)
    return is_ours and (longer or run.phase is not Phase.SUCCEEDED)


def is_longer(plan: RunPlan, before: RunPlan) -> bool:
    """True if a plan trains longer or to a higher target."""
    new, old = plan.training, before.training
    if new is None or old is None or new.unit != old.unit or new.length < old.length:
        return False
    goes_beyond = not new.stop_at_target or (new.target or 0.0) > (old.target or 0.0)
    return new.length > old.length or (old.stop_at_target and goes_beyond)


def check_same_case(plan: RunPlan, existing: RunPlan) -> None:
    """Raise :class:`UsageError` unless an existing run may continue with a plan."""
    values_before = case_values(existing)
    values_now = case_values(plan)
    differing = [
        name for name in fields_for("case") if values_before.get(name) != values_now.get(name)
    ]
    if LENGTHENED.issuperset(differing) and is_longer(plan, existing):
        differing = []
    # Not part of the case; but a checkpoint cannot be continued with another seed, or elsewhere.
    other_options = ["seed"] if existing.seed not in {None, plan.seed} else []
    other_options += ["checkpoints"] if existing.checkpoints and not plan.checkpoints else []
    if differing or other_options:
        case_name = f"{existing.benchmark} {existing.framework} {existing.case}"
        what = "is another case" if differing else "cannot be taken up with another option"
        raise UsageError(
            f"Run {existing.run_id} exists and {what}: {case_name} {existing.precision}"
            f" (other: {', '.join(differing + other_options)}).",
            "Take another --run-id, or the options that it was submitted with.",
        )


def restarted_elsewhere(plan: RunPlan, attempt: int, at: float, uid: str | None) -> Transition:
    """Build the transition of a run that another store has restarted.

    ``attempt`` is the number of the attempt before, ``uid`` that of the job that follows it.
    """
    again = attempt_restarts(plan, attempt, "It was begun by another store.", at)
    return msgspec.structs.replace(again, job_uid=uid)


def attempt_waits(run: Run, error: BenchError, at: float) -> Transition:
    """Build the transition of a run whose next attempt cannot be created yet."""
    return _attempt_not_created(run, Phase.CREATED, "is not created yet", error, at)


def attempt_refused(run: Run, error: BenchError, at: float) -> Transition:
    """Build the end of a run whose next attempt cannot be created at all."""
    return _attempt_not_created(run, Phase.FAILED, "was not created", error, at)


def _attempt_not_created(
    run: Run, phase: Phase, what: str, error: BenchError, at: float
) -> Transition:
    return Transition(
        phase=phase,
        at=at,
        cause=f"{_attempt_in_words(run.plan, run.attempt)} {what}: {error.message}",
        cause_id=RESTART_REFUSED if phase.final else RESTART_WAITS,
        action=error.action or None,
    )


def with_attempt_number(run: Run, end: Transition) -> Transition:
    """Return a run's end with its attempt's number, if there were several."""
    if not run.restarts or end.phase not in {Phase.FAILED, Phase.LOST}:
        return end
    return msgspec.structs.replace(
        end, cause=f"{_attempt_in_words(run.plan, run.attempt)} ended: {end.cause}"
    )


def is_restarting(run: Run) -> bool:
    """True if the attempt's job is not yet created, by the record."""
    return bool(run.restarts) and not run.phase.final and not is_known_created(run)


def _attempt_in_words(plan: RunPlan, number: int) -> str:
    return f"Attempt {number} of {max(number, plan.max_restarts + 1)}"
