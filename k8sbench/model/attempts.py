"""The attempts of a run: the transitions between them, and what of a run says that one is due.

An attempt is one job of the run. Attempt 2 is created under the same name when the objects of
attempt 1 are gone, so that never two of them write the same checkpoints. A training that failed is
restarted by itself, as often as its plan says; one that is over is continued when a user asks.
"""

from __future__ import annotations

import msgspec

from k8sbench.model import creation
from k8sbench.model.errors import BenchError
from k8sbench.model.phase import RESTARTING, Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run

RESTART_REFUSED = "restart-refused"


def restarting(plan: RunPlan, attempt: int, why: str, at: float) -> Transition:
    """Build the transition that is recorded before anything of the attempt that ended is deleted.

    ``attempt`` is the number of that one, and ``why`` the sentence on its end.
    """
    cause = f"{_which(plan, attempt + 1)}: {why}"
    return Transition(phase=Phase.CREATED, at=at, cause=cause, cause_id=RESTARTING)


def continued(plan: RunPlan, attempt: int, at: float) -> Transition:
    """Build the transition of a training that is over and goes on; ``attempt`` was its last one."""
    return restarting(plan, attempt, "It is continued, from its newest checkpoint if any.", at)


def is_continued(run: Run) -> bool:
    """Whether the run's present attempt was begun because a user asked for it."""
    steps = zip(run.history, run.history[1:], strict=False)
    begun = [end for end, again in steps if again.cause_id == RESTARTING]
    return bool(begun) and begun[-1].phase.final


def keeps_checkpoints(run: Run) -> bool:
    """Whether a run that is over has left what another attempt may go on from."""
    is_over = run.phase.final and not creation.may_be_submitted_again(run)
    return is_over and run.plan.training is not None and run.plan.checkpoints is not None


def may_be_continued(run: Run, asked: RunPlan | None = None) -> bool:
    """Whether a training of this store ended before its time, or before that of a longer plan."""
    is_ours = keeps_checkpoints(run) and not run.is_collected_elsewhere
    longer = asked is not None and is_longer(asked, run.plan)
    return is_ours and (longer or run.phase is not Phase.SUCCEEDED)


def is_longer(asked: RunPlan, before: RunPlan) -> bool:
    """Whether a plan trains on where that of a run ended: for longer, or beyond its target."""
    new, old = asked.training, before.training
    if new is None or old is None or new.unit != old.unit or new.length < old.length:
        return False
    goes_beyond = not new.stop_at_target or (new.target or 0.0) > (old.target or 0.0)
    return new.length > old.length or (old.stop_at_target and goes_beyond)


def elsewhere(plan: RunPlan, attempt: int, at: float) -> Transition:
    """Build the same of a run that another store has restarted."""
    return restarting(plan, attempt, "It was begun by another store.", at)


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


def refused_now(run: Run, end: Transition, error: BenchError) -> Transition:
    """Build the end of a run that would be restarted if its objects could be made here."""
    cause = f"{end.cause} {_which(run.plan, run.attempt + 1)} is not created: {error.message}"
    return msgspec.structs.replace(end, cause=cause)


def numbered(run: Run, end: Transition) -> Transition:
    """Return the end of a run with the attempt that it is of, where there were several."""
    if not run.restarts or end.phase not in {Phase.FAILED, Phase.LOST}:
        return end
    return msgspec.structs.replace(end, cause=f"{_which(run.plan, run.attempt)} ended: {end.cause}")


def is_restarting(run: Run) -> bool:
    """Whether the job of the run's attempt is still to be created, as far as is on record."""
    return bool(run.restarts) and not run.phase.final and not creation.is_known_created(run)


def _which(plan: RunPlan, number: int) -> str:
    return f"Attempt {number} of {max(number, plan.max_restarts + 1)}"
