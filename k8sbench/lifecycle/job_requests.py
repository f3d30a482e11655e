"""What is asked of the cluster for one run, and what is done with the answers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial

from k8sbench.lifecycle import decide, requests
from k8sbench.lifecycle.active_runs import ActiveRuns, Until
from k8sbench.lifecycle.followed import FollowedRun
from k8sbench.lifecycle.views import Idle, Later, NotAsked, Unwatched, Watched
from k8sbench.model import attempts, creation, times
from k8sbench.model.errors import BenchError, CreationUnknown, NoRoom, StoreError, Unreachable
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Run, Wish
from k8sbench.ports import LogMark

AGAIN_SECONDS = 2.0
"""Until a request is sent again that did not succeed; twice as long each time."""
LONGEST_AGAIN = 30.0

# -- a job is created -----------------------------------------------------------------------------


def send_creation(active: ActiveRuns, followed: FollowedRun) -> None:
    """Ask for the job of a run's present attempt."""
    call = partial(requests.create, followed.run, followed.manifests, active.context)
    active.ask(followed, "create", call, _take_created)


def _take_created(active: ActiveRuns, followed: FollowedRun, answer: Future[None]) -> None:
    error, now = answer.exception(), active.context.clock()
    if followed.run_id not in active.runs:
        return  # its end was seen before the answer came
    if error is None:
        if not followed.is_watched:
            followed.see(job=Watched())
        if active.survives and not creation.is_known_created(followed.run):
            active.move(followed, creation.created(now))
        _leave_created(active, followed)
    elif isinstance(error, NoRoom) and active.rules.until is not Until.CREATED:
        _create_later(active, followed, creation.waiting(error, now))
    elif not followed.run.restarts:
        refuse(active, followed, requests.unless_on_its_way(followed.run, error, now))
    elif not isinstance(error, BenchError):
        raise error
    elif requests.was_created(followed.run, error):
        followed.see(job=Unwatched())
    elif requests.may_pass(error):
        _create_later(active, followed, attempts.waiting(followed.run, error, now))
        if isinstance(error, CreationUnknown):
            followed.see(job=Unwatched())  # it may be there: it is looked for first
    else:
        end_run(active, followed, attempts.refused(followed.run, error, now))


def _create_later(active: ActiveRuns, followed: FollowedRun, why: Transition) -> None:
    followed.see(job=NotAsked())
    _try_later(active, followed)
    active.lacking[followed.run_id] = followed
    if followed.run.history[-1].cause != why.cause:
        active.move(followed, why)
        active.report(followed, why)
    _leave_created(active, followed)


def refuse(active: ActiveRuns, followed: FollowedRun, error: BaseException) -> None:
    """Record that a run has no job, or may have none, and leave it alone.

    Of one that is restarted it is on record already.
    """
    if not followed.run.restarts:
        now, run_id = active.context.clock(), followed.run_id
        active.move(followed, requests.refusal(run_id, error, now, survives=active.survives))
    active.leave(followed)
    active.refused.append((followed.run, error))


# -- a job is followed ----------------------------------------------------------------------------


def follow(active: ActiveRuns, followed: FollowedRun) -> None:
    """Follow the job of a run that was taken up, or is looked for again."""
    run, store = followed.run, active.context.store
    if attempts.is_restarting(run):
        try:
            is_there = requests.exists(run, active.context)
        except Unreachable:
            if not followed.is_restarted:
                raise
            _try_later(active, followed)
            active.changed[run.run_id] = None
            return
        if not is_there:
            _begin_attempt(active, followed)
            return
        active.move(followed, creation.created(active.context.clock()))
    marks: Mapping[str, LogMark] = {}
    if isinstance(followed.view.job, Unwatched):
        marks = store.log_marks(run.run_id)
    active.context.cluster.resume(followed.run, marks)
    followed.read_until = {replica: mark.at for replica, mark in marks.items()}
    followed.see(job=Watched(), effect=Idle())
    active.lacking.pop(run.run_id, None)
    active.changed[run.run_id] = None
    if not followed.view.is_read:
        call = partial(requests.printed, run, active.context)
        active.ask(followed, "printed", call, _take_printed)
    _leave_created(active, followed)


def _take_printed(
    active: ActiveRuns, followed: FollowedRun, answer: Future[Mapping[str, float]]
) -> None:
    error = answer.exception()
    if error is None:
        followed.printed = answer.result()
    elif not isinstance(error, BenchError):
        raise error
    elif error.cause_id in requests.NO_ANSWER and active.rules.on_refusal is not None:
        raise error  # who asked for its end waits for that alone
    else:
        followed.printed = None
        _note_unread(active, followed, str(error))
    followed.see_what_is_read()


def _note_unread(active: ActiveRuns, followed: FollowedRun, why: str) -> None:
    run_id = followed.run_id
    active.reporter.note(f"warning: what {run_id} has printed cannot all be read: {why}")


# -- a job is ended -------------------------------------------------------------------------------


def cancel(active: ActiveRuns, followed: FollowedRun, action: decide.Cancel) -> None:
    """Ask for the end of a job; one for which there is no job yet is over without that."""
    run_id, now = followed.run_id, active.context.clock()
    if followed.request is not None:  # it is still being read
        seconds = times.duration(requests.READ_SECONDS)
        _note_unread(active, followed, f"that takes longer than {seconds}.")
    if not action.is_asked_for:
        wish = Wish(kind="cancel", at=now, cause=action.cause, cause_id=action.cause_id)
        followed.note(wish=wish, is_own_wish=True)
        if active.survives:
            # Where it cannot be recorded the job is to end all the more.
            with contextlib.suppress(StoreError):
                active.context.store.wish(run_id, wish)
    active.changed[run_id] = None
    if not isinstance(followed.view.job, NotAsked):
        followed.see(asked_to_end_at=min(now, followed.view.asked_to_end_at))
        ask = active.context.cluster.cancel
        call = partial(ask, run_id, action.cause, action.cause_id)
        active.ask(followed, "cancel", call, _take_cancelled)


def _take_cancelled(active: ActiveRuns, followed: FollowedRun, answer: Future[None]) -> None:
    """Take the answer; where the cluster refuses it, the job goes on."""
    error = answer.exception()
    if error is None:
        followed.see(is_end_answered=True)
    elif not isinstance(error, BenchError):
        raise error
    elif followed.run_id not in active.runs:
        return
    elif not requests.is_refused(error):
        if followed.tries == 0:
            _note_refusal(active, followed.run, error)
        _try_later(active, followed)
    elif followed.record.is_own_wish:
        followed.see(is_end_answered=True)
        _note_refusal(active, followed.run, error)
    else:
        followed.note(wish=None)
        followed.see(asked_to_end_at=math.inf)
        with contextlib.suppress(StoreError):
            active.context.store.fulfilled(followed.run_id, "cancel")
        if active.rules.on_refusal is not None:
            active.rules.on_refusal(followed.run, error)
        else:
            _note_refusal(active, followed.run, error)


def _try_later(active: ActiveRuns, followed: FollowedRun) -> None:
    """Send a request again, each time after twice as long."""
    pause = min(AGAIN_SECONDS * 2.0 ** min(followed.tries, 10), LONGEST_AGAIN)
    followed.tries += 1
    followed.see(effect=Later(active.context.clock() + pause))


def _note_refusal(active: ActiveRuns, run: Run, error: BenchError) -> None:
    active.reporter.note(f"warning: run {run.run_id} could not be cancelled: {error}")


def end_run(active: ActiveRuns, followed: FollowedRun, final: Transition) -> None:
    """Record the end of a run, and stop following a job that goes on."""
    if followed.is_watched:
        active.context.cluster.release(followed.run_id)
    is_kept = followed.view.has_gaps and final.phase is Phase.SUCCEEDED
    deletes = not active.rules.keep and (followed.view.is_unwanted or not is_kept)
    followed.see(deletes=deletes)
    active.record_end(followed, final)


# -- another attempt ------------------------------------------------------------------------------


def restart(active: ActiveRuns, followed: FollowedRun, end: Transition) -> None:
    """Record that another attempt comes, and begin it."""
    run, store = followed.run, active.context.store
    try:
        active.context.manifests(run)
    except StoreError:
        raise
    except BenchError as error:
        end = attempts.refused_now(run, attempts.numbered(run, end), error)
        end_run(active, followed, end)
        return
    assert followed.archive is not None
    followed.archive.close()
    again = attempts.restarting(run.plan, run.attempt, end.cause, end.at)
    active.move(followed, again)
    store.begin_attempt(run.run_id)
    active.report(followed, again)
    _begin_attempt(active, followed)


def _begin_attempt(active: ActiveRuns, followed: FollowedRun) -> None:
    """Create the next attempt of a run, of which nothing was archived yet."""
    followed.is_restarted, followed.tries = True, 0
    followed.printed, followed.read_until = {}, {}
    now = active.context.clock()
    followed.see(job=NotAsked(), reported_at=now, is_read=True, is_end_answered=False)
    followed.see(asked_to_end_at=math.inf)
    active.changed[followed.run_id] = None


def _leave_created(active: ActiveRuns, followed: FollowedRun) -> None:
    """Leave a run alone that was to be brought no further than to a new job."""
    is_restarted = followed.is_restarted and active.rules.until is Until.LOOKED_AT
    if is_restarted or active.rules.until is Until.CREATED:
        active.context.cluster.release(followed.run_id)
        active.leave(followed)
        active.left.append(followed.run)
