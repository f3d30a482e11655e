"""What is asked of the cluster for one run, and what is done with the answers.

A run that is over is measured, and what is left of its job is deleted.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial

import msgspec

from k8sbench.diagnose.job.causes import may_be_better
from k8sbench.diagnose.job.exits import REPLICA_FAILED
from k8sbench.lifecycle import decide, requests
from k8sbench.lifecycle.active_runs import ActiveRuns, Until
from k8sbench.lifecycle.followed import FollowedRun
from k8sbench.lifecycle.views import Ended, Gone, Idle, Later, NotAsked, Unwatched, Watched
from k8sbench.model import attempts, creation, times
from k8sbench.model.errors import (
    BenchError,
    CreationUnknown,
    EarlierAttempt,
    NoRoom,
    OwnedElsewhere,
    StoreError,
    Unreachable,
    is_refused,
)
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import COLLECTED_ELSEWHERE, Run, Wish
from k8sbench.ports import FoundJob

AGAIN_SECONDS = 2.0
"""Until a request is sent again that did not succeed; twice as long each time."""
LONGEST_AGAIN = 30.0
ASK_SECONDS = 15.0
"""Between two looks at what another store, which owns the job of a run, has of it."""
OWNER_SECONDS = 30.0
"""For that store to collect a job that has ended; then it is left alone."""

# -- a job is created -----------------------------------------------------------------------------


def send_creation(active: ActiveRuns, followed: FollowedRun) -> None:
    """Ask for the job of a run's present attempt."""
    call = partial(requests.create, followed.run, followed.manifests, active.context)
    active.ask(followed, "create", call, _take_created)


def _take_created(active: ActiveRuns, followed: FollowedRun, answer: Future[str | None]) -> None:
    error, now = answer.exception(), active.context.clock()
    if followed.run_id not in active.runs:
        return  # its end was seen before the answer came
    if error is None:
        if not followed.is_watched:
            followed.see(job=Watched())
        uid, latest = answer.result(), followed.run.history[-1]
        if active.survives and not creation.is_known_created(followed.run):
            active.move(followed, creation.created(now, uid))
        elif uid is not None and followed.run.job_uid is None:
            # Its state was reported before the answer came: the same again, with the uid.
            active.move(followed, msgspec.structs.replace(latest, job_uid=uid))
        _leave_created(active, followed)
    elif isinstance(error, NoRoom) and active.rules.until is not Until.CREATED:
        _create_later(active, followed, creation.waiting(error, now))
    elif not followed.run.restarts:
        refuse(active, followed, requests.unless_on_its_way(followed.run, error, now))
    elif not isinstance(error, BenchError):
        raise error
    elif isinstance(error, OwnedElsewhere) or (
        isinstance(error, CreationUnknown) and creation.is_known_created(followed.run)
    ):
        followed.see(job=Unwatched())
    elif isinstance(error, EarlierAttempt) or (
        isinstance(error, Unreachable) and not is_refused(error)
    ):
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
            job = requests.job_named(run.run_id, active.context)
        except Unreachable:
            if not followed.is_restarted:
                raise
            _try_later(active, followed)
            active.changed[run.run_id] = None
            return
        if job is None or job.attempt < run.attempt:
            # Whoever asked for it may have been killed, and a collector have collected it since.
            followed.see(job=Gone(None))
            active.changed[run.run_id] = None
            return
        active.move(followed, creation.created(active.context.clock()))
    marks = store.log_marks(run.run_id) if isinstance(followed.view.job, Unwatched) else {}
    active.context.cluster.resume(followed.run, marks)
    followed.read_until = {replica: mark.at for replica, mark in marks.items()}
    followed.see(job=Watched(), effect=Idle())
    active.lacking.pop(run.run_id, None)
    active.changed[run.run_id] = None
    if not followed.view.is_read:
        active.ask(followed, "printed", partial(_printed, active, run), _take_printed)
    _leave_created(active, followed)


def _printed(active: ActiveRuns, run: Run) -> Mapping[str, float]:
    """Return when each replica of a job has printed its latest line, Unix seconds.

    A server that serves a log may be silent for as long as it likes.
    """
    return {line.replica: line.at for line in active.context.cluster.printed(run)}


def _take_printed(
    active: ActiveRuns, followed: FollowedRun, answer: Future[Mapping[str, float]]
) -> None:
    try:
        followed.printed = answer.result()
    except BenchError as error:
        if error.cause_id in requests.NO_ANSWER and active.rules.on_refusal is not None:
            raise  # who asked for its end waits for that alone
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
        call = partial(active.context.cluster.cancel, run_id, action.cause, action.cause_id)
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
    elif isinstance(error, OwnedElsewhere):
        active.context.cluster.release(followed.run_id)
        followed.see(job=Unwatched(), asked_to_end_at=math.inf)
    elif not is_refused(error):
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
    followed.see(deletes=deletes and followed.view.ownership.is_ours)
    active.record_end(followed, final)


# -- another store has the job, or had it ---------------------------------------------------------


def ask_collector(active: ActiveRuns, followed: FollowedRun, end: Transition | None) -> None:
    """Ask who has collected a run whose job is gone, or is another store's."""
    assert followed.archive is not None
    followed.archive.close()  # files of the collector's may come in place of ours
    call = partial(requests.collected, followed.run, active.context)
    active.ask(followed, "collector", call, partial(_take_collected, end=end))


def _take_collected(
    active: ActiveRuns,
    followed: FollowedRun,
    answer: Future[tuple[Run | None, FoundJob | None]],
    *,
    end: Transition | None,
) -> None:
    """Record what the collector has: its measurement is the run's."""
    error, store = answer.exception(), active.context.store
    if error is not None and not isinstance(error, BenchError):
        raise error
    theirs, job = (None, None) if error is not None else answer.result()
    if theirs is None:
        _take_uncollected(active, followed, end, job, error)
        return
    run_id, latest = followed.run_id, followed.run.history[-1].at
    for step in theirs.history[:-1]:
        if step.at > latest:
            active.move(followed, step)
    if theirs.measurement is not None:
        # First: a run that is over and not measured would be measured here.
        store.measured(run_id, theirs.measurement)
    active.record_end(followed, theirs.history[-1])
    active.reporter.note(
        f"{run_id} was collected by the collector: its logs and figures are here now."
    )


def _take_uncollected(
    active: ActiveRuns,
    followed: FollowedRun,
    end: Transition | None,
    job: FoundJob | None,
    error: BenchError | None,
) -> None:
    """Take in that no collector has a run, and what its job says; with an error neither is known.

    Then a run whose job is gone is not lost: the collector may have it.
    """
    whose, run_id, is_known = followed.view.ownership, followed.run_id, error is None
    if end is None and job is not None and not job.ownership.is_ours:
        # The attempt before, which another store has adopted: it ended as is on record.
        whose, cause = job.ownership, followed.run.history[-1].cause
        end = Transition(phase=Phase.FAILED, at=active.context.clock(), cause=cause)
        followed.see(ownership=whose, job=Gone(end))
    if end is None and is_known:
        _begin_attempt(active, followed)
    elif end is not None and whose.is_ours and is_known:
        followed.see(job=Ended(end))
    elif job is not None and (job.ownership.is_ours or job.attempt > followed.run.attempt):
        # Another process of this store has adopted it, or its owner has begun the next attempt.
        followed.archive = active.context.store.archive(run_id)
        followed.see(job=Unwatched(), ownership=job.ownership)
    elif end is not None and is_known and job is None and not _may_restart(active, followed, end):
        cause, action = f"{whose.holder} has collected it.", f"See k8sbench status {run_id} there."
        followed.see(job=Ended(collected_by(end, cause, action)))
    elif end is not None and job is not None and (receipt := job.ownership.receipt) is not None:
        followed.see(job=Ended(collected_by(end, receipt.sentence, receipt.action)))
    else:
        _wait_for_owner(active, followed, error)


def _may_restart(active: ActiveRuns, followed: FollowedRun, end: Transition) -> bool:
    """Whether the owner of a job that is gone may be about to create the next attempt."""
    run, since = followed.run, followed.asked_since
    is_recent = since is None or active.context.clock() < since + OWNER_SECONDS
    return is_recent and run.restarts < run.plan.max_restarts and may_be_better(end)


def _wait_for_owner(active: ActiveRuns, followed: FollowedRun, error: BenchError | None) -> None:
    """Ask again later who has collected a run, or leave it alone."""
    now, run_id = active.context.clock(), followed.run_id
    holder = followed.view.ownership.holder
    if followed.asked_since is None:
        followed.asked_since = now
        known = f"{holder} collects it." if error is None else f"who has it is not known: {error}"
        active.reporter.note(f"{run_id} has ended, and {known}")
    is_waited_for = active.rules.until is Until.OVER and now < followed.asked_since + OWNER_SECONDS
    if is_waited_for:
        followed.see(effect=Later(now + ASK_SECONDS))
        return
    if error is None:
        way = f"to collect it here: k8sbench collect --adopt {run_id}"
        active.reporter.note(f"{holder} has not collected {run_id} yet; {way}")
    elif active.rules.until is Until.OVER:
        active.reporter.note(f"How {run_id} ended is not known. See later: k8sbench watch {run_id}")
    active.leave(followed)
    active.left.append(followed.run)


def collected_by(end: Transition, cause: str, action: str | None) -> Transition:
    """Build the end of a run that another store has collected."""
    return msgspec.structs.replace(
        end,
        cause=f"{end.cause} {cause}",
        cause_id=COLLECTED_ELSEWHERE,
        action=action,
    )


# -- another attempt ------------------------------------------------------------------------------


def restart(active: ActiveRuns, followed: FollowedRun, end: Transition) -> None:
    """Record that another attempt comes, and begin it."""
    run, store = followed.run, active.context.store
    try:
        active.context.manifests(run)
    except StoreError:
        raise
    except BenchError as error:
        end_run(active, followed, attempts.refused_now(run, attempts.numbered(run, end), error))
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
        (active.left if is_restarted else active.closed).append(followed.run)


# -- a run is over --------------------------------------------------------------------------------


def close(active: ActiveRuns, followed: FollowedRun) -> None:
    """Measure a run that is over, and have what is left of its job deleted."""
    action = decide.decide(followed.record, followed.view, active.context.clock())
    if isinstance(action, decide.Measure) or _may_have_finished(followed.run):
        measured = active.context.measure(followed.run, followed.gaps)
        if measured is not None:
            measured = active.gathering.promised(followed.run, measured)
            followed.note(run=active.context.store.measured(followed.run_id, measured))
    if followed.archive is not None or isinstance(action, decide.Measure):
        active.reporter.ended(followed.run)
    active.gathering.add(followed.run)
    _note_kept(active, followed)
    active.over.remove(followed)
    if followed.view.deletes:
        active.to_delete[followed.run_id] = followed
    else:
        active.finish(followed)


def _may_have_finished(run: Run) -> bool:
    """True if a run's own program failed, perhaps after the last planned iteration."""
    end = run.history[-1]
    has_failed = end.phase is Phase.FAILED and end.cause_id == REPLICA_FAILED
    return has_failed and run.plan.mode == "throughput" and run.measurement is None


def _note_kept(active: ActiveRuns, followed: FollowedRun) -> None:
    is_kept = followed.view.has_gaps and followed.run.phase is Phase.SUCCEEDED
    if is_kept and not (followed.view.is_unwanted or active.rules.keep):
        run_id = followed.run_id
        why = f"its logs are not whole. To delete it: k8sbench delete {run_id}"
        active.reporter.note(f"{run_id} stays on the cluster: {why}")


def send_deletion(active: ActiveRuns, followed: FollowedRun) -> None:
    """Delete what is left of the job of a run that is over."""
    call = partial(requests.delete, active.context, followed.run_id)
    active.ask(followed, "delete", call, _take_deleted)


def _take_deleted(
    active: ActiveRuns, followed: FollowedRun, answer: Future[tuple[Run, str | None]]
) -> None:
    run_id = followed.run_id
    followed.see(deletes=False)
    try:
        run, why = answer.result()
    except BenchError as error:
        active.reporter.note(
            f"warning: what is left of {run_id} on the cluster stays there: {error}"
            f" Then: k8sbench delete {run_id}"
        )
    else:
        followed.note(run=run)
        if why is not None:
            active.reporter.note(f"{run_id} stays on the cluster: {why}")
        _try_creations_now(active)
    active.finish(followed)


def _try_creations_now(active: ActiveRuns) -> None:
    """Try those again for which a quota had no room: there may be some."""
    for followed in active.lacking.values():
        is_refused = isinstance(followed.view.effect, Later)
        if is_refused and isinstance(followed.view.job, NotAsked):
            followed.tries = 0
            followed.see(effect=Idle())
            active.changed[followed.run_id] = None
