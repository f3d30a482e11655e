"""The next step of a run: pure functions of its record and view.

:func:`state_of` derives a run's state from its history; no other code knows which transitions mean
which state. A *view* is what this process knows of the job. The executor changes it after an event
or an answer. A lost answer, an outage and a rejected request are views like any
other. :func:`advance` returns what to record, :func:`decide` what to do. Both are total: they have
an answer for each combination of record and view. The table in ``docs/architecture.md`` is
generated from here.
"""

from __future__ import annotations

import enum
import math

import msgspec

from k8sbench.diagnose.job.causes import may_be_better
from k8sbench.model import creation, times
from k8sbench.model.phase import (
    LOGS_BEING_READ,
    LOGS_INCOMPLETE,
    RESTARTING,
    TIMEOUT,
    WAIT_TIMEOUT,
    Phase,
    Transition,
)
from k8sbench.model.run import TAKEN_OVER, Run, Wish

PENDING = math.inf
"""Value of :attr:`View.next_at` while a request has no answer."""
UNTIMED = frozenset({Phase.CREATED, Phase.QUEUED})
"""Phases in which a run's time does not count: it is queued."""
WAIT_SECONDS = 7 * 86400.0
"""Default of ``--wait-timeout``: no run waits without end."""
_OTHERS_WAITS = frozenset({creation.WAITS_FOR_TURN, RESTARTING})
"""Cause ids of waits that other limits end: of the runs before, and of this one."""


class Now(msgspec.Struct, frozen=True):
    """The time by two clocks, which are never subtracted from each other."""

    at: float
    """Unix seconds by the clock that stamps records, which may be set."""
    monotonic: float
    """Seconds of this process's clock that nobody sets: waits go by it."""


class RunState(enum.Enum):
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
        return self in {RunState.UNMEASURED, RunState.OVER}


def state_of(run: Run) -> RunState:
    """Return the state of a run."""
    latest = run.history[-1]
    if latest.phase.final:
        return RunState.UNMEASURED if run.owes_measurement else RunState.OVER
    if latest.cause_id in {LOGS_BEING_READ, LOGS_INCOMPLETE}:
        return RunState.ENDING
    if creation.is_known_created(run):
        return RunState.QUEUED if latest.phase in UNTIMED else RunState.RUNNING
    return RunState.CREATING if latest.cause_id == creation.CREATION_UNKNOWN else RunState.PLANNED


def time_used(run: Run, now: float) -> float:
    """Return the seconds of a run's time limit that have passed, by the stamps of its history.

    The time counts from the first attempt, for a continued run from its latest continuation. Time
    in a queue does not count.
    """
    if (began_at := _began_at(run)) is None:
        return 0.0
    until = run.history[-1].at if run.phase is Phase.QUEUED else now
    return max(0.0, until - began_at - (run.queued_s(began_at) or 0.0))


def _began_at(run: Run) -> float | None:
    """Return the stamp of the state from which a run's time counts; None before it."""
    began_at = None
    for step in run.history:
        if step.phase.final:
            began_at = None
        elif began_at is None and step.phase not in UNTIMED:
            began_at = step.at
    return began_at


def waits_since(run: Run) -> float | None:
    """Return the stamp of the state from which a run's wait for its start counts.

    It counts from its turn, or from when its queue stopped it. None if it does not wait.
    """
    since = None
    for step in reversed(run.history):
        if step.phase not in UNTIMED or step.cause_id in _OTHERS_WAITS:
            break
        since = step.at
    return since


def _longest_wait(run: Run) -> float:
    limit = run.plan.wait_timeout_s
    return WAIT_SECONDS if limit is None else limit


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
    UNREADABLE = "Unreadable"
    """Over; logs that may still exist cannot be read now."""


class View(msgspec.Struct, kw_only=True):
    """This process's view of a run; its times are monotonic seconds."""

    job: JobView
    end: Transition | None = None
    """End of an ``ENDED`` job; None before."""
    next_at: float = -math.inf
    """Earliest time of the next request.

    −inf is now; :data:`PENDING` is when the current request is answered.
    """
    settles_at: float = -math.inf
    """Time from which a missing job cannot appear any more; −inf if no request can be on its way.

    It counts from the last request that may be on its way, in a resumed run from the resumption:
    when the process before sent its last one is not known by this clock.
    """
    asked_to_end_at: float = math.inf
    """Time of the first cancel request; infinite if there was none."""
    is_end_answered: bool = False
    """True if the cluster has answered the cancel request."""
    read_by: float = -math.inf
    """Deadline for reading logs before the job is cancelled.

    −inf: all lines that were known at the request are archived.
    """
    reported_at: float = -math.inf
    """Time of the first report on a resumed job.

    The job may have ended long before.
    """
    taken_by: str = ""
    """Name of the store that has taken the job over; empty: it is ours."""
    deletes: bool = False
    """True if this process deletes the job after the run is over."""


class RecordedRun(msgspec.Struct, kw_only=True):
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
    time_up_at: float = math.inf
    """End of its time limit, monotonic seconds; infinite while no time counts."""
    time_left_s: float | None = None
    """Rest of the limit when its time last began to count, or stopped.

    None: this process has not seen the run yet, or it has no limit.
    """
    waits_since: float | None = None
    """Stamp from which its wait for its start counts, as last seen; None if it does not wait."""
    wait_up_at: float = math.inf
    """End of its longest wait, monotonic seconds; infinite if it does not wait."""


# -- actions ---------------------------------------------------------------------------------------

CANCEL_SECONDS = 600.0
"""Longest wait for a cancelled job on a cluster to end.

Its API server may be away. Then the job is left on the cluster: no wait is endless.
"""
RESUME_SECONDS = 1.0
"""Time from a resumed job's first event to its end report.

The job may have ended long before the resumption.
"""


class ActionKind(enum.Enum):
    """Actions of the executor."""

    CREATE = "Create"
    """Create the job of the current attempt, after clearing earlier attempts."""
    FOLLOW = "Follow"
    """Look for the job, and follow it from the end of its archived logs."""
    CANCEL = "Cancel"
    """Request the end of the job; without a wish on record, record one first."""
    RESTART = "Restart"
    """Record that another attempt follows."""
    MEASURE = "Measure"
    """Measure the run from its archived logs."""
    DELETE = "Delete"
    """Delete the rest of the job."""
    WAIT = "Wait"
    """Wait for an event, or until a time."""
    DONE = "Done"
    """Nothing is left for this process."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """The next action for one run."""

    kind: ActionKind
    until: float = math.inf
    """``WAIT`` or ``CREATE``: time of the next decision, monotonic seconds.

    Infinite if only an event or an answer ends it.
    """
    cause: str = ""
    """``CANCEL``: why."""
    cause_id: str = ""


def wait(until: float = math.inf) -> Action:
    """Wait for an event, or until a time in monotonic seconds."""
    return Action(kind=ActionKind.WAIT, until=until)


_OF_JOB = {
    JobView.ENDED: Action(kind=ActionKind.RESTART),
    JobView.UNREADABLE: Action(kind=ActionKind.DONE),
    JobView.UNWATCHED: Action(kind=ActionKind.FOLLOW),
    JobView.MISSING: Action(kind=ActionKind.FOLLOW),
}
"""The action by the view of the job alone."""


def see_time(record: RecordedRun, now: Now) -> None:
    """Let the time of a run count, or stand still, as its record says.

    By its stamps is known only how much had passed when this process first saw it: from then on a
    clock that is set ends no run.
    """
    _see_wait(record, now)
    run, limit = record.run, record.run.plan.timeout_s
    if limit is None:
        return
    if record.time_left_s is None:
        record.time_left_s = limit - time_used(run, now.at)
    counts = _began_at(run) is not None and run.phase is not Phase.QUEUED
    if counts and record.time_up_at == math.inf:
        record.time_up_at = now.monotonic + record.time_left_s
    elif not counts and record.time_up_at < math.inf:
        record.time_left_s = record.time_up_at - now.monotonic
        record.time_up_at = math.inf


def _see_wait(record: RecordedRun, now: Now) -> None:
    """Let the wait of a run count from a new stamp."""
    since = waits_since(record.run)
    if since == record.waits_since:
        return
    record.waits_since, record.wait_up_at = since, math.inf
    if since is not None:
        left_s = _longest_wait(record.run) - max(0.0, now.at - since)
        record.wait_up_at = now.monotonic + left_s


def _limit(record: RecordedRun) -> tuple[float, str]:
    """Return when a run reaches the first of its limits, monotonic seconds, and its cause id."""
    return min((record.time_up_at, TIMEOUT), (record.wait_up_at, WAIT_TIMEOUT))


def decide(record: RecordedRun, view: View, now: Now) -> Action:
    """Return the next action of a run. Call :func:`advance` first."""
    if view.next_at == PENDING:
        return wait()
    state = state_of(record.run)
    if state is RunState.UNMEASURED:
        return Action(kind=ActionKind.MEASURE)
    if state is RunState.OVER:
        return Action(kind=ActionKind.DELETE if view.deletes else ActionKind.DONE)
    due = time_limit(record, view)
    if now.monotonic < min(view.next_at, due):
        return wait(min(view.next_at, due))
    if view.job is JobView.NOT_ASKED and now.monotonic < due:
        return Action(kind=ActionKind.CREATE, until=due)
    return _OF_JOB.get(view.job) or _decide_followed(record, view, now)


def _decide_followed(record: RecordedRun, view: View, now: Now) -> Action:
    """Decide on a run whose job is followed."""
    if (wish := record.wish) is not None:
        if view.is_end_answered:
            return wait(view.asked_to_end_at + CANCEL_SECONDS)
        if now.monotonic < view.read_by:
            return wait(view.read_by)
        return _cancel(wish.cause, wish.cause_id)
    latest = record.run.history[-1]
    if latest.unrecoverable and not record.wait and view.job is JobView.REPORTED:
        return _cancel(latest.cause, latest.cause_id)
    due = time_limit(record, view)
    return wait(due) if now.monotonic < due else _cancel(f"{_too_long(record)}.", _limit(record)[1])


def _cancel(cause: str, cause_id: str | None) -> Action:
    return Action(kind=ActionKind.CANCEL, cause=cause, cause_id=cause_id or "cannot-start")


def advance(record: RecordedRun, view: View, now: Now) -> Transition | None:
    """Return the transition to record next; None if there is none."""
    run, wish = record.run, record.wish
    if state_of(run).is_over:
        return None
    if view.taken_by:
        return _taken(run, view.taken_by, now.at)
    match view.job:
        case JobView.ENDED:
            assert view.end is not None
            end = known_end(record, view.end)
            if is_restarted(record, end, now):
                return None
            return end if wish is not None else creation.with_attempt_number(run, end)
        case JobView.MISSING:
            # That it does not come any more is known when it was looked for after that time.
            missing = creation.job_missing(run, now.at, left_s=view.settles_at - now.monotonic)
            return None if missing is None or missing.phase.final else missing
        case JobView.NOT_ASKED if wish is not None and view.next_at != PENDING:
            return msgspec.structs.replace(run.ended_by(wish), at=now.at)
        case JobView.WATCHED | JobView.REPORTED if record.survives:
            return _left_alone(record, view, now)
    return None


def _taken(run: Run, holder: str, now: float) -> Transition:
    """Return the end, for this store, of a run whose job is another's now."""
    return Transition(
        phase=Phase.LOST,
        at=now,
        cause=f"{holder[0].upper()}{holder[1:]} has taken over its job, and collects it.",
        cause_id=TAKEN_OVER,
        action=f"See it there: k8sbench status {run.run_id}",
    )


def _left_alone(record: RecordedRun, view: View, now: Now) -> Transition | None:
    """Return the end of a run whose job stays on the cluster.

    None: the job does not stay.
    """
    if now.monotonic >= view.asked_to_end_at + CANCEL_SECONDS and record.wish is not None:
        minutes = times.duration(CANCEL_SECONDS)
        wish = record.run.ended_by(record.wish)
        cause = f"{wish.cause} For {minutes} its job could not be cancelled; it may go on."
        cause_id = wish.cause_id
    elif record.keep and now.monotonic >= time_limit(record, view) and _limit(record)[1] == TIMEOUT:
        cause = f"{_too_long(record)}; its pods go on (--keep)."
        cause_id = TIMEOUT
    else:
        return None
    return Transition(
        phase=Phase.FAILED,
        at=now.at,
        cause=cause,
        cause_id=cause_id,
        action=f"End it with: k8sbench delete {record.run.run_id}",
    )


def known_end(record: RecordedRun, reported: Transition) -> Transition:
    """Return the recorded end if k8sbench ended the job, else the reported one.

    A job that ended by itself before it could be cancelled has the reported end.
    """
    run = record.run
    if record.wish is not None:
        end = run.ended_by(record.wish)
        if reported.phase in {Phase.CANCELLED, Phase.LOST} or reported.cause_id == end.cause_id:
            return msgspec.structs.replace(end, at=max(reported.at, end.at))
    if reported.cause_id == creation.JOB_GONE and not creation.is_known_created(run):
        return creation.never_created(run.run_id, reported.at)
    return reported


def is_restarted(record: RecordedRun, end: Transition, now: Now) -> bool:
    """Return True if another attempt follows this end; a Benchmark must want the run."""
    run = record.run
    return (
        record.wish is None
        and run.plan.requested_by is not None
        and not record.keep  # the job is to stay
        and run.restarts < run.plan.max_restarts
        and may_be_better(end)
        and now.monotonic < record.time_up_at
    )


def time_limit(record: RecordedRun, view: View) -> float:
    """Return when the run reaches the first of its limits, monotonic seconds.

    Infinite while no time counts. The limit leaves a moment in which a resumed job that
    has ended can report its end.
    """
    state = state_of(record.run)
    if record.wish is not None:
        return math.inf
    if state is RunState.ENDING or state.is_over:
        return math.inf
    at, _ = _limit(record)
    return math.inf if at == math.inf else max(at, view.reported_at + RESUME_SECONDS)


def _too_long(record: RecordedRun) -> str:
    """Begin the sentence on a run that reached a limit."""
    run, latest = record.run, record.run.history[-1]
    text = f"The run took longer than its --timeout of {times.duration(run.plan.timeout_s)}"
    if _limit(record)[1] == WAIT_TIMEOUT:
        limit = times.duration(_longest_wait(run))
        text = f"The run waited for its start longer than its --wait-timeout of {limit}"
    if latest.cause_id is not None:
        text += f", {latest.phase} ({latest.cause_id}): {latest.cause.rstrip('.')}"
    return text
