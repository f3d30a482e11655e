"""What is known of a run: its state on record, its job on the cluster, requests under way.

A state is derived from the record, a history of transitions with their causes, by one table. What
the next step may be depends on no more: whether a job is certain not to exist, may exist, exists,
is over with its logs owed, or is done with. :func:`state_of` is the only place that knows which
transitions mean which state.

A view is a value. The executor replaces it when an event or an answer comes, and asks
:func:`~k8sbench.lifecycle.decide.decide` again. A kill, an outage, a lost answer and a refused
request are views like any other.
"""

from __future__ import annotations

import math

import msgspec

from k8sbench.model import creation
from k8sbench.model.ownership import Ownership
from k8sbench.model.phase import LOGS_BEING_READ, LOGS_INCOMPLETE, Phase, Transition
from k8sbench.model.run import Run, Wish

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


class JobView(msgspec.Struct, frozen=True):
    """What this process sees of the job of a run's present attempt."""


class Unwatched(JobView, frozen=True):
    """Nothing: this process has taken the run up and does not follow its job yet."""


class NotAsked(JobView, frozen=True):
    """Certainly none: no request was sent for it, or each was refused."""


class Watched(JobView, frozen=True):
    """It is followed; nothing was reported yet since it was taken up."""


class Reported(JobView, frozen=True):
    """It is followed, and its state was reported at least once."""


class Missing(JobView, frozen=True):
    """The cluster has none of the name, and a request for it may still be on its way."""


class Gone(JobView, frozen=True):
    """The cluster has none of the name, or another store's: who collected it is not known yet."""

    end: Transition | None
    """How it ended, as far as it is seen here; None: whether it was ever there is not known."""


class Ended(JobView, frozen=True):
    """It is over, or gone, and every line of it that could be had is archived."""

    end: Transition


class Unreadable(JobView, frozen=True):
    """It is over, and logs that may still exist cannot be read now."""


class Effect(msgspec.Struct, frozen=True):
    """What this process does for a run at the moment."""


class Idle(Effect, frozen=True):
    """Nothing."""


class Busy(Effect, frozen=True):
    """A request was sent, and its answer has not come."""


class Later(Effect, frozen=True):
    """A request did not succeed, and is to be sent again."""

    at: float
    """When, Unix seconds."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What is seen of one run."""

    job: JobView
    effect: Effect = Idle()
    asked_to_end_at: float = math.inf
    """When the cluster was first asked to end the job, Unix seconds; infinite: it was not."""
    is_end_answered: bool = False
    """Whether the cluster has answered that."""
    is_read: bool = True
    """True once the logs printed before the request to end the job are archived, as far as is
    known."""
    read_by: float = math.inf
    """When the job is ended whatever was read, Unix seconds."""
    reported_at: float = -math.inf
    """When the state of a job that was taken up was first reported, Unix seconds: it may have ended
    long before."""
    has_gaps: bool = False
    """Whether lines are missing that the cluster may still have."""
    is_unwanted: bool = False
    """True where a user asked to end the job before this process took it up: it is deleted even if
    its logs are not whole."""
    ownership: Ownership = Ownership()
    """Whose the job is: only its owner cancels, restarts, collects and deletes it."""
    deletes: bool = False
    """Whether this process is to delete what is left of the job of a run that is over."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What is on record of a run, and by which rules it is followed."""

    run: Run
    wish: Wish | None = None
    """Why the job is to end; None: it is to run. It is on record, unless that failed."""
    is_own_wish: bool = False
    """Whether a rule of k8sbench wants it, and no user."""
    keep: bool = False
    """Whether the job and its pods stay on the cluster when they are over, or their time is."""
    wait: bool = False
    """Whether even what cannot recover by itself is waited for."""
    survives: bool = True
    """Whether the job goes on without this process: it runs on a cluster."""
