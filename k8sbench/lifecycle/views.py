"""The state of a run, its record, and this process's view of its job.

:func:`state_of` derives the state from the run's history. No other code knows which transitions
mean which state.

A view is a value. The executor replaces it after an event or an answer, and calls
:func:`~k8sbench.lifecycle.decide.decide` again. A lost answer, an outage and a rejected request are
views like any other.
"""

from __future__ import annotations

import enum
import math

import msgspec

from k8sbench.model import creation
from k8sbench.model.ownership import Ownership
from k8sbench.model.phase import LOGS_BEING_READ, LOGS_INCOMPLETE, Phase, Transition
from k8sbench.model.run import Run, Wish

PENDING = math.inf
"""Value of :attr:`View.next_at` while a request has no answer."""
UNTIMED = frozenset({Phase.CREATED, Phase.QUEUED})
"""Phases in which a run's time does not count: it is queued."""


class State(enum.Enum):
    """State of a run, derived from its history."""

    PLANNED = "Planned"
    """Recorded; no job of the current attempt is known, and none was requested."""
    CREATING = "Creating"
    """The creation was requested, and its answer was lost: the job may exist."""
    QUEUED = "Queued"
    """The job exists and waits in a queue; this time does not count."""
    RUNNING = "Running"
    """The job exists; its pods start or run."""
    ENDING = "Ending"
    """The job is over; lines of its logs are still to be archived."""
    UNMEASURED = "Over, not measured"
    """The run is final and has succeeded; its measurement is missing."""
    OVER = "Over"
    """The run is final; no measurement is missing."""

    @property
    def is_over(self) -> bool:
        """True if the run has its final phase."""
        return self in {State.UNMEASURED, State.OVER}


def state_of(run: Run) -> State:
    """Return the state of a run."""
    latest = run.history[-1]
    if latest.phase.final:
        return State.UNMEASURED if run.owes_measurement else State.OVER
    if latest.cause_id in {LOGS_BEING_READ, LOGS_INCOMPLETE}:
        return State.ENDING
    if creation.is_known_created(run):
        return State.QUEUED if latest.phase in UNTIMED else State.RUNNING
    return State.CREATING if latest.cause_id == creation.CREATION_UNKNOWN else State.PLANNED


def time_is_up_at(run: Run) -> float | None:
    """Return when the run reaches its time limit, Unix seconds.

    The time counts from the first attempt, for a continued run from its latest continuation. Time
    in a queue does not count. None before the start, while queued, and without a limit.
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
    """Return True if a job with this transition is not followed further."""
    return transition.phase.final or transition.cause_id == LOGS_INCOMPLETE


class JobView(enum.Enum):
    """This process's view of the current attempt's job."""

    UNWATCHED = "Unwatched"
    """Not followed yet: the run was just resumed."""
    NOT_ASKED = "NotAsked"
    """Does not exist: no creation was requested, or each request was rejected."""
    WATCHED = "Watched"
    """Followed; no state was reported since."""
    REPORTED = "Reported"
    """Followed; its state was reported at least once."""
    MISSING = "Missing"
    """Not on the cluster; a creation request may still be pending."""
    ENDED = "Ended"
    """Over or gone; every line of its logs that was available is archived."""
    GONE = "Gone"
    """Not on the cluster, or another store's; who collected it is not known yet."""
    UNREADABLE = "Unreadable"
    """Over; logs that may still exist cannot be read now."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """This process's view of a run."""

    job: JobView
    end: Transition | None = None
    """End of an ``ENDED`` or ``GONE`` job; None if unknown."""
    next_at: float = -math.inf
    """Earliest time of the next request, Unix seconds.

    −inf is now; :data:`PENDING` is when the current request is answered.
    """
    asked_to_end_at: float = math.inf
    """Time of the first cancel request, Unix seconds; infinite if there was none."""
    is_end_answered: bool = False
    """True if the cluster has answered the cancel request."""
    is_read: bool = True
    """True if all known log lines from before the cancel request are archived."""
    read_by: float = math.inf
    """Deadline for reading logs before the job is cancelled, Unix seconds."""
    reported_at: float = -math.inf
    """Time of the first report on a resumed job, Unix seconds.

    The job may have ended long before.
    """
    has_gaps: bool = False
    """True if lines are missing that the cluster may still have."""
    is_unwanted: bool = False
    """True if a user cancelled the run before it was resumed.

    The job is then deleted even with incomplete logs.
    """
    ownership: Ownership = Ownership()
    """The job's owner, which alone cancels, restarts, collects and deletes it."""
    deletes: bool = False
    """True if this process deletes the job after the run is over."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run, and the rules by which it is followed."""

    run: Run
    wish: Wish | None = None
    """Requested cancellation; None: the job is to run.

    The wish is on record, unless recording it failed.
    """
    is_own_wish: bool = False
    """True if a rule of k8sbench wants the cancellation, not a user."""
    keep: bool = False
    """True if the job and its pods stay on the cluster.

    They stay after their end or their time limit.
    """
    wait: bool = False
    """True to wait even for jobs that cannot start unless somebody changes something."""
    survives: bool = True
    """True if the job runs on a cluster, and goes on without this process."""
