"""Where a run is on its way: its state, derived from its record by one table.

The record holds what happened, as a history of transitions with their causes. What the next step
may be depends on no more than a state: whether a job is certain not to exist, may exist, exists, is
over with its logs owed, or is done with. :func:`state_of` is the only place that knows which
transitions mean which state.
"""

from __future__ import annotations

import msgspec

from k8sbench.model import creation
from k8sbench.model.phase import LOGS_BEING_READ, LOGS_INCOMPLETE, Phase, Transition
from k8sbench.model.run import Run

UNTIMED = frozenset({Phase.CREATED, Phase.QUEUED})
"""Phases in which a run's time does not count: it waits for its turn."""


class State(msgspec.Struct, frozen=True):
    """What is known of the job of a run's present attempt."""


class Planned(State, frozen=True):
    """Recorded; no job of this attempt is known to exist, and no request for one is known."""


class Creating(State, frozen=True):
    """The job was asked for, and whether it exists is not known: the answer was lost."""


class Queued(State, frozen=True):
    """The job exists and waits for its turn; its time does not count."""


class Running(State, frozen=True):
    """The job exists and its pods are being started, or run."""


class Ending(State, frozen=True):
    """The job is over, and lines of its logs are still to be archived."""


class Over(State, frozen=True):
    """The run has its final phase."""

    is_measured: bool
    """Whether nothing is left to be measured: it is, or the run did not succeed."""


def state_of(run: Run) -> State:
    """Return the state of a run."""
    latest = run.history[-1]
    if latest.phase.final:
        return Over(is_measured=not run.owes_measurement)
    if latest.cause_id in {LOGS_BEING_READ, LOGS_INCOMPLETE}:
        return Ending()
    if creation.is_known_created(run):
        return Queued() if latest.phase in UNTIMED else Running()
    if latest.cause_id == creation.CREATION_UNKNOWN:
        return Creating()
    return Planned()


def time_is_up_at(run: Run) -> float | None:
    """Until when a run may take, Unix seconds, from the beginning of its first attempt.

    Of one that was over and is continued, of the first one since. What it waits in a queue again
    does not count. None while it waits and before it has begun, and for a run without a limit.
    """
    began, limit = None, run.plan.timeout_s
    for step in run.history:
        if step.phase.final:
            began = None
        elif began is None and step.phase not in UNTIMED:
            began = step.at
    if began is None or limit is None or run.phase is Phase.QUEUED:
        return None
    return began + limit + (run.queued_s(began) or 0.0)


def is_final(transition: Transition) -> bool:
    """Whether a job that reports this is followed no further."""
    return transition.phase.final or transition.cause_id == LOGS_INCOMPLETE
