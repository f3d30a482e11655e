"""Attempts of a run, and the transitions between them.

An attempt is one job of the run. Attempt 2 gets the same name once the objects of attempt 1 are
gone, so that two attempts never write the same checkpoints. k8sbench restarts a failed training as
often as its plan allows; a user can continue one that has ended.
"""

from __future__ import annotations

import msgspec

from k8sbench.model import creation
from k8sbench.model.errors import BenchError, UsageError
from k8sbench.model.identity import case_values, fields_for
from k8sbench.model.phase import RESTARTING, Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import TAKEN_OVER, Run

RESTART_REFUSED = "restart-refused"
LENGTHENED = frozenset({"training", "window", "command"})
"""Case fields that a longer continuation of a training may change.

The trainer checks the rest of the command against the checkpoints.
"""


def restarting(plan: RunPlan, attempt: int, why: str, at: float) -> Transition:
    """Build the transition before an ended attempt's objects are deleted.

    ``attempt`` is the ended attempt's number, ``why`` the sentence on its end.
    """
    cause = f"{_which(plan, attempt + 1)}: {why}"
    return Transition(phase=Phase.CREATED, at=at, cause=cause, cause_id=RESTARTING)


def continued(plan: RunPlan, attempt: int, at: float) -> Transition:
    """Build the transition of a continued training.

    ``attempt`` is the number of its last attempt.
    """
    return restarting(plan, attempt, "It is continued, from its newest checkpoint if any.", at)


def is_continued(run: Run) -> bool:
    """True if a user's request began the present attempt."""
    steps = zip(run.history, run.history[1:], strict=False)
    begun = [end for end, again in steps if again.cause_id == RESTARTING]
    return bool(begun) and begun[-1].phase.final


def keeps_checkpoints(run: Run) -> bool:
    """True if an ended run may have left checkpoints."""
    is_over = run.phase.final and not creation.may_be_submitted_again(run)
    return is_over and run.plan.training is not None and run.plan.checkpoints is not None


def may_be_continued(run: Run, asked: RunPlan | None = None) -> bool:
    """True if a training can continue, by its own plan or a longer one."""
    is_ours = keeps_checkpoints(run) and run.history[-1].cause_id != TAKEN_OVER
    longer = asked is not None and is_longer(asked, run.plan)
    return is_ours and (longer or run.phase is not Phase.SUCCEEDED)


def is_longer(asked: RunPlan, before: RunPlan) -> bool:
    """True if a plan trains longer or to a higher target."""
    new, old = asked.training, before.training
    if new is None or old is None or new.unit != old.unit or new.length < old.length:
        return False
    goes_beyond = not new.stop_at_target or (new.target or 0.0) > (old.target or 0.0)
    return new.length > old.length or (old.stop_at_target and goes_beyond)


def check_same_case(wanted: RunPlan, existing: RunPlan) -> None:
    """Raise :class:`UsageError` unless a plan may take up an existing run."""
    there, asked = case_values(existing), case_values(wanted)
    differing = [name for name in fields_for("case") if there.get(name) != asked.get(name)]
    if LENGTHENED.issuperset(differing) and is_longer(wanted, existing):
        differing = []
    # No part of the case; but with another seed, or without them, no checkpoint is gone on from.
    others = ["seed"] if existing.seed not in {None, wanted.seed} else []
    others += ["checkpoints"] if existing.checkpoints and not wanted.checkpoints else []
    if differing or others:
        case_name = f"{existing.benchmark} {existing.framework} {existing.case}"
        what = "is another case" if differing else "cannot be taken up with another option"
        raise UsageError(
            f"Run {existing.run_id} exists and {what}: {case_name} {existing.precision}"
            f" (other: {', '.join(differing + others)}).",
            "Take another --run-id, or the options that it was submitted with.",
        )


def elsewhere(plan: RunPlan, attempt: int, at: float, uid: str | None) -> Transition:
    """Build the transition of a run that another store has restarted.

    ``attempt`` is the number of the attempt before, ``uid`` that of the job that follows it.
    """
    again = restarting(plan, attempt, "It was begun by another store.", at)
    return msgspec.structs.replace(again, job_uid=uid)


def waiting(run: Run, error: BenchError, at: float) -> Transition:
    """Build the transition of a run whose next attempt cannot be created yet."""
    return _not_created(run, Phase.CREATED, "is not created yet", error, at)


def refused(run: Run, error: BenchError, at: float) -> Transition:
    """Build the end of a run whose next attempt cannot be created at all."""
    return _not_created(run, Phase.FAILED, "was not created", error, at)


def _not_created(run: Run, phase: Phase, what: str, error: BenchError, at: float) -> Transition:
    return Transition(
        phase=phase,
        at=at,
        cause=f"{_which(run.plan, run.attempt)} {what}: {error.message}",
        cause_id=RESTART_REFUSED if phase.final else creation.RESTART_WAITS,
        action=error.action or None,
    )


def numbered(run: Run, end: Transition) -> Transition:
    """Return a run's end with its attempt's number, if there were several."""
    if not run.restarts or end.phase not in {Phase.FAILED, Phase.LOST}:
        return end
    return msgspec.structs.replace(end, cause=f"{_which(run.plan, run.attempt)} ended: {end.cause}")


def is_restarting(run: Run) -> bool:
    """True if the attempt's job is not yet created, by the record."""
    return bool(run.restarts) and not run.phase.final and not creation.is_known_created(run)


def _which(plan: RunPlan, number: int) -> str:
    return f"Attempt {number} of {max(number, plan.max_restarts + 1)}"
