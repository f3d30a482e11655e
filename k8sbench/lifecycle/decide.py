"""What is to be done next with a run: pure functions of its record and of what is seen of it.

:func:`advance` says what is to be recorded, :func:`decide` what is to be done. Both are total: each
combination of a state (:mod:`.states`), of what is wanted and of a view (:mod:`.views`) has an
answer, and the table of them in ``docs/architecture.md`` is generated from here.
:func:`admit` gives out what runs share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from k8sbench.diagnose.job.causes import may_be_better
from k8sbench.lifecycle.views import (
    Busy,
    Ended,
    Ending,
    Gone,
    Later,
    Missing,
    NotAsked,
    Over,
    Record,
    Reported,
    Unreadable,
    Unwatched,
    View,
    Watched,
    state_of,
    time_is_up_at,
)
from k8sbench.model import attempts, creation, times
from k8sbench.model.phase import Phase, Transition

REQUESTS = 4
"""Jobs that are created, and jobs that are deleted, at a time."""
CANCEL_SECONDS = 600.0
"""For a job of a cluster to end after it was cancelled. Its API server may be away; after so long
the job is left alone, for nothing waits without end."""
RESUME_SECONDS = 1.0
"""After the first event of a job that is taken up, for its end to be reported if it has ended."""


class Action(msgspec.Struct, frozen=True):
    """What the executor does next for one run."""


class Create(Action, frozen=True):
    """Ask for the job of the present attempt, when nothing of an earlier one is left."""


class Follow(Action, frozen=True):
    """Look for the job, and follow it from where its archived logs end."""


class Cancel(Action, frozen=True):
    """Ask for the end of the job."""

    cause: str
    cause_id: str
    is_asked_for: bool
    """Whether it is on record that somebody wants it; else a rule does, which is recorded first."""


class AskCollector(Action, frozen=True):
    """Ask the collector of the namespace for what it has of the run."""

    end: Transition | None
    """How the job ended, as far as it is seen here; None: whether there was one is not known."""


class Restart(Action, frozen=True):
    """Record that another attempt comes."""

    end: Transition
    """How the present one ended."""


class Measure(Action, frozen=True):
    """Measure the run from its archived logs."""


class Delete(Action, frozen=True):
    """Delete what is left of the job."""


class Wait(Action, frozen=True):
    """Do nothing until something is seen, or a time comes."""

    until: float
    """Unix seconds; infinite: there is no such time."""
    why: str


class Done(Action, frozen=True):
    """Nothing is left to be done by this process."""


def decide(record: Record, view: View, now: float) -> Action:
    """Return what is to be done next with a run, when :func:`advance` has nothing to record.

    ``now`` is in Unix seconds.
    """
    if isinstance(view.effect, Busy):
        return Wait(math.inf, "the answer to a request")
    state = state_of(record.run)
    if isinstance(state, Over):
        if not state.is_measured:
            return Measure()
        return Delete() if view.deletes else Done()
    due = time_limit(record, view)
    if isinstance(view.effect, Later) and now < min(view.effect.at, due):
        return Wait(min(view.effect.at, due), "another try")
    match view.job:
        case Ended(end=end):
            return Restart(known_end(record, end))
        case Gone(end=end):
            return AskCollector(end)
        case Unreadable():
            return Done()
        case Unwatched() | Missing():
            return Follow()
        case NotAsked() if now < due:
            return Create()
    return _of_existing(record, view, now)


def _of_existing(record: Record, view: View, now: float) -> Action:
    """Decide on a run whose job is followed."""
    wish = record.wish
    if not view.ownership.is_ours:
        return Wait(math.inf, "its owner")
    if wish is not None:
        if view.is_end_answered:
            return Wait(view.asked_to_end_at + CANCEL_SECONDS, "its end")
        if view.is_read or now >= view.read_by:
            return Cancel(wish.cause, wish.cause_id or "cannot-start", is_asked_for=True)
        return Wait(view.read_by, "its logs")
    latest = record.run.history[-1]
    if latest.unrecoverable and not record.wait and isinstance(view.job, Reported):
        return Cancel(latest.cause, latest.cause_id or "cannot-start", is_asked_for=False)
    due = time_limit(record, view)
    if now >= due:
        return Cancel(f"{_too_long(record)}.", "timeout", is_asked_for=False)
    return Wait(due, "its job")


def advance(record: Record, view: View, now: float) -> Transition | None:
    """Return what is to be recorded next of a run, or None: nothing that is not on record."""
    run, wish = record.run, record.wish
    if isinstance(state_of(run), Over):
        return None
    match view.job:
        case Ended(end=end):
            end = known_end(record, end)
            if is_restarted(record, end, now):
                return None
            return end if wish is not None else attempts.numbered(run, end)
        case Missing():
            # That it does not come any more is known when it was looked for after that time.
            missing = creation.missing(run, now)
            return None if missing is None or missing.phase.final else missing
        case NotAsked() if wish is not None and not isinstance(view.effect, Busy):
            return msgspec.structs.replace(run.ended_by(wish), at=now)
        case Watched() | Reported() if record.survives and view.ownership.is_ours:
            return _left_alone(record, view, now)
    return None


def _left_alone(record: Record, view: View, now: float) -> Transition | None:
    """Return the end of a run whose job goes on, or cannot be cancelled; None: it is not left."""
    if now >= view.asked_to_end_at + CANCEL_SECONDS and record.wish is not None:
        minutes, wish = times.duration(CANCEL_SECONDS), record.run.ended_by(record.wish)
        cause = f"{wish.cause} For {minutes} its job could not be cancelled; it may go on."
        cause_id = wish.cause_id
    elif record.keep and now >= time_limit(record, view):
        cause, cause_id = f"{_too_long(record)}; its pods go on (--keep).", "timeout"
    else:
        return None
    return Transition(
        phase=Phase.FAILED,
        at=now,
        cause=cause,
        cause_id=cause_id,
        action=f"End it with: k8sbench delete {record.run.run_id}",
    )


def known_end(record: Record, reported: Transition) -> Transition:
    """Return the end of a job as it is on record where k8sbench ended it, else as reported.

    A job that ended by itself before it could be cancelled has that end.
    """
    run = record.run
    if record.wish is not None:
        end = run.ended_by(record.wish)
        if reported.phase in {Phase.CANCELLED, Phase.LOST} or reported.cause_id == end.cause_id:
            return msgspec.structs.replace(end, at=max(reported.at, end.at))
    if reported.cause_id == creation.JOB_GONE and not creation.is_known_created(run):
        return creation.never(run.run_id, reported.at)
    return reported


def is_restarted(record: Record, end: Transition, now: float) -> bool:
    """Whether another attempt follows one that ended so."""
    run, time_is_up = record.run, time_is_up_at(record.run)
    return (
        record.wish is None
        and not record.keep  # the job is to stay
        and run.restarts < run.plan.max_restarts
        and may_be_better(end)
        and (time_is_up is None or now < time_is_up)
    )


def time_limit(record: Record, view: View) -> float:
    """When a run has taken as long as it may, Unix seconds; infinite while its time does not count.

    Of a job that was taken up and has ended meanwhile the end is waited for.
    """
    if record.wish is not None or isinstance(state_of(record.run), (Ending, Over)):
        return math.inf
    if not view.ownership.is_ours:
        return math.inf
    time_is_up = time_is_up_at(record.run)
    return math.inf if time_is_up is None else max(time_is_up, view.reported_at + RESUME_SECONDS)


def _too_long(record: Record) -> str:
    """Begin the sentence on a run that has taken as long as it may."""
    run, latest = record.run, record.run.history[-1]
    text = f"The run took longer than its --timeout of {times.duration(run.plan.timeout_s)}"
    if latest.cause_id is not None:
        text += f", {latest.phase} ({latest.cause_id}): {latest.cause.rstrip('.')}"
    return text


# -- what runs share: places, requests at a time --------------------------------------------------


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """Who goes on."""

    create: Sequence[str]
    """Runs whose jobs are asked for now."""
    delete: Sequence[str]
    """Runs whose jobs are deleted now."""
    has_room: bool
    """Whether a further run may begin."""


def admit(
    *,
    going_on: int,
    creating: int,
    deleting: int,
    to_create: Sequence[str] = (),
    to_delete: Sequence[str] = (),
    parallel: float = math.inf,
) -> Admission:
    """Say which requests are sent now, and whether another run may begin.

    ``going_on`` runs take a place, of ``parallel`` at most; so many requests to create and to
    delete jobs have no answer yet, and these runs wait for theirs. First come, first served.
    """
    create = to_create[: max(0, REQUESTS - creating)]
    delete = to_delete[: max(0, REQUESTS - deleting)]
    has_room = going_on < parallel and creating + len(create) < REQUESTS
    return Admission(create=create, delete=delete, has_room=has_room)
