"""The one executor: does what :mod:`.decide` says, for any number of runs, in one thread.

What the cluster reports goes to the store first and to the user second. An intent is recorded
before it is carried out: a process may be killed at any moment, and whoever takes the run up then
finds what was intended. Requests are made by a pool of threads, as many at a time as :mod:`.admit`
gives out, and their answers are taken by this thread. Measuring takes longer than recording, so
runs that are over are closed one at a time, when nothing has happened. What is done at each turn
does not grow with the number of runs.
"""

from __future__ import annotations

import contextlib
import enum
import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import msgspec

from k8sbench.lifecycle import admit, decide, requests
from k8sbench.lifecycle.admit import Limits, Standing
from k8sbench.lifecycle.artifacts import GAPS, kept_gaps
from k8sbench.lifecycle.context import INTERRUPTED, Reporter, RunContext, Stop
from k8sbench.lifecycle.followed import FollowedRun, Request
from k8sbench.lifecycle.gathering import Gathering
from k8sbench.lifecycle.states import Over, is_final, state_of
from k8sbench.lifecycle.views import (
    Busy,
    Ended,
    Idle,
    Later,
    Missing,
    NotAsked,
    Record,
    Reported,
    Unreadable,
    Unwatched,
    View,
    Watched,
)
from k8sbench.model import attempts, creation, times
from k8sbench.model.errors import BenchError, NoRoom, StoreError
from k8sbench.model.phase import RESTARTING, Phase, Transition
from k8sbench.model.run import Run, Wish
from k8sbench.ports import JobEvent, LogMark, Manifest, RunFilter

LOOK_SECONDS = 0.25
"""Longest wait for an event before stop requests and time limits are checked."""
ANSWER_SECONDS = 5.0
"""For the answer to a creation when k8sbench is asked to stop."""
AGAIN_SECONDS = 2.0
"""Until a request is sent again that did not succeed; twice as long each time."""
LONGEST_AGAIN = 30.0
ABSENT_SECONDS = 5.0
"""Until a job is looked for again that may still come."""
WISHES_SECONDS = 15.0
"""Between two looks at what other processes of the store wish for the runs that are followed."""
STARTING = frozenset({Phase.CREATED, Phase.PENDING, Phase.PULLING, Phase.STARTING})
"""Phases of a run whose pods are being created and started."""


class Until(enum.Enum):
    """How far runs are brought."""

    OVER = "over"
    """They are over, measured, and what is left of their jobs is deleted."""
    CREATED = "created"
    """Their jobs exist."""
    LOOKED_AT = "looked at"
    """Over, for those whose jobs are over; a job that may still come, and another attempt, are not
    waited for."""


class Executor:
    """The runs that this process brings to their ends.

    With ``keep`` jobs and pods stay on the cluster when they are over, or their time is; with
    ``wait`` even what cannot recover by itself is waited for. ``parallel`` runs may go on at once.
    A run whose files cannot be read or written is an error, or, with ``on_failure``, left alone
    after that is called: it must not stop the others. ``on_refusal`` is called where the cluster
    does not cancel a job that is to be cancelled, and which goes on; by default that is noted.
    """

    def __init__(
        self,
        context: RunContext,
        reporter: Reporter,
        *,
        keep: bool = False,
        wait: bool = False,
        until: Until = Until.OVER,
        parallel: float = math.inf,
        gathering: Gathering | None = None,
        on_failure: Callable[[Run, StoreError], None] | None = None,
        on_refusal: Callable[[Run, BenchError], None] | None = None,
    ) -> None:
        self._context, self._reporter = context, reporter
        self._keep, self._wait, self._until = keep, wait, until
        self._survives = context.cluster.jobs_outlive_us
        self._gathering = gathering or Gathering(context, reporter)
        self._on_failure = on_failure
        self._on_refusal = on_refusal or self._note_refusal
        self._pool = context.pool
        self._limits = Limits(parallel=parallel)
        self._runs: dict[str, FollowedRun] = {}
        """Not over, by run id."""
        self._over: deque[FollowedRun] = deque()
        """Final or left alone, and still to be measured and deleted."""
        self._changed: dict[str, None] = {}
        """Runs of which something was seen since they were decided on."""
        self._due: list[tuple[float, str]] = []
        """A heap of the times at which to decide again."""
        self._asked: dict[str, FollowedRun] = {}
        """Runs with a request whose answer has not come."""
        self._to_create: dict[str, FollowedRun] = {}
        self._lacking: dict[str, FollowedRun] = {}
        """Runs whose jobs could not be created yet."""
        self._to_delete: dict[str, FollowedRun] = {}
        self._put_off_since = math.inf
        """Since when the first of them waits, Unix seconds."""
        self._starts: FollowedRun | None = None
        """A run whose pods are being created."""
        self._wishes_at = -math.inf
        """When to look at other processes' wishes, Unix seconds."""
        self._closed: list[Run] = []
        self.refused: list[tuple[Run, BaseException]] = []
        """The runs whose jobs were not created, or not for certain, and why. Each is recorded and
        left alone; who asked for it takes it from here."""
        self.left: list[Run] = []
        """The runs that go on and were left alone because they were to be brought no further."""

    # -- which runs -----------------------------------------------------------------------------

    def __len__(self) -> int:
        """Count the runs that take a place: those not over, or not closed where one has it alone.

        Measuring one run must not take time from the next on the same machine.
        """
        if self._limits.parallel > 1:
            return len(self._runs)
        others = {*self._runs, *self._to_delete, *self._asked} - {run.run_id for run in self._over}
        return len(others) + len(self._over)

    @property
    def has_room(self) -> bool:
        """Whether a further run may begin."""
        return self._admission().has_room

    def has(self, run_id: str) -> bool:
        """Whether a run is followed, or over and still to be closed."""
        return (
            run_id in self._runs
            or run_id in self._to_delete
            or run_id in self._asked
            or any(followed.run_id == run_id for followed in self._over)
        )

    def runs(self) -> list[Run]:
        """The runs that are not over."""
        return [followed.run for followed in self._runs.values()]

    def unclosed(self) -> list[Run]:
        """The runs that are not over, and those that are and are still to be closed."""
        return [*self.runs(), *(followed.run for followed in self._over)]

    def create(self, run: Run, manifests: Sequence[Manifest]) -> None:
        """Create a recorded run's job and follow it; see :attr:`refused`."""
        archive = self._context.store.archive(run.run_id)
        record, view = self._record(run), View(job=NotAsked())
        self._begin(FollowedRun(record=record, view=view, archive=archive, manifests=manifests))

    def take(self, run: Run) -> bool:
        """Take up a run that was recorded before; False if another process follows it.

        What its archive lacks is read. If it is to be cancelled, that is done when what its job has
        printed until now is archived, and after :data:`~.requests.READ_SECONDS` in any case. One
        that is over is measured, and what is left of its job deleted, where that is still to come.
        """
        store, run_id = self._context.store, run.run_id
        try:
            if not store.claims.claim(run_id):
                return False
            run = store.run(run_id)  # another process may have gone on with it since it was read
            if isinstance(state_of(run), Over):
                self._take_over(run)
            else:
                self._reporter.planned(run)
                self._begin(self._taken(run))
        except StoreError as error:
            if self._on_failure is None:
                raise
            store.claims.release(run_id)
            self._on_failure(run, error)
        return True

    def _take_over(self, run: Run) -> None:
        """Do what another process left of a run that is over."""
        store, run_id = self._context.store, run.run_id
        if self._keep and run.wishes and not requests.is_by_name(run):
            run = store.fulfilled(run_id, "delete")
        followed = FollowedRun(
            record=self._record(run),
            view=View(job=Ended(run.history[-1]), deletes=run.wishes != ()),
            gaps=kept_gaps(store, run_id),
        )
        self._over.append(followed)

    def _taken(self, run: Run) -> FollowedRun:
        store, run_id = self._context.store, run.run_id
        store.ensure_folder(run_id)
        if attempts.is_restarting(run):
            # Who recorded it may have been killed before this, and another store have gone on.
            store.begin_attempt(run_id)
        gaps, wish = kept_gaps(store, run_id), run.wish("cancel")
        view = View(
            job=Unwatched(),
            reported_at=math.inf,
            has_gaps=bool(gaps),
            is_unwanted=wish is not None,
            is_read=wish is None,
            read_by=self._context.clock() + requests.READ_SECONDS,
        )
        record, archive = self._record(run, wish), store.archive(run_id)
        return FollowedRun(record=record, view=view, archive=archive, gaps=gaps)

    def _record(self, run: Run, wish: Wish | None = None) -> Record:
        return Record(run=run, wish=wish, keep=self._keep, wait=self._wait, survives=self._survives)

    def _begin(self, followed: FollowedRun) -> None:
        self._runs[followed.run_id] = followed
        with self._guarded(followed):
            self._work(followed)
            self._send_admitted()

    # -- the loop -------------------------------------------------------------------------------

    def step(self, seconds: float) -> list[Run]:
        """Do what there is to do, or wait so long for it; returns the runs that were closed.

        One that is not final was left alone: its logs cannot be read now.
        """
        self._work_due()
        patience = 0.0 if self._closed or self._ready() else seconds
        is_followed = self._until is not Until.CREATED
        if patience and (len(self._runs) <= self._unfollowed() or not is_followed):
            # The cluster follows none of them, and would return at once.
            self._pool.wait(patience)
        events = self._context.cluster.wait(patience) if is_followed else ()
        self._take_answers()
        self._take_events(events)
        self._read_wishes()
        self._work_due()
        self._gathering.step()
        if not events and (followed := self._ready()) is not None:
            with self._guarded(followed):
                self._close(followed)
        return self._hand_over()

    def to_the_end(self, stop: Stop, more: Callable[[], bool] = lambda: False) -> Iterator[Run]:
        """Follow until all is over; ``more`` begins further runs while it can, and says if any.

        Yields the runs as they are closed. Asked to stop, local jobs are ended and that is waited
        for; jobs of a cluster are left to go on.
        """
        is_asked = False
        while True:
            if stop.cause is not None and not is_asked:
                is_asked = True
                if self._survives:
                    yield from self._close_what_is_over()
                    return
                self._end_all(stop.cause)
            begun = not is_asked and more()
            if not (begun or self._runs or self._over or self._to_delete or self._asked):
                yield from self._hand_over()
                return
            yield from self.step(0.0 if begun else LOOK_SECONDS)

    def _close_what_is_over(self) -> list[Run]:
        """Close the runs whose logs are on disk already: their figures are a moment away."""
        sent = [followed.request.answer for followed in self._over if followed.request]
        self._pool.join(sent, ANSWER_SECONDS)
        self._take_answers()
        while (followed := self._ready()) is not None:
            with self._guarded(followed):
                self._close(followed)
        self._send_admitted()
        self._wait_for("delete")
        self._take_answers()
        # What is still to be deleted is on record.
        self._closed += [followed.run for followed in self._to_delete.values()]
        return self._hand_over()

    def _hand_over(self) -> list[Run]:
        closed, self._closed = self._closed, []
        return closed

    def _end_all(self, cause: str) -> None:
        """End the local jobs."""
        at = self._context.clock()
        for followed in list(self._runs.values()):
            followed.note(wish=Wish(kind="cancel", at=at, cause=cause, cause_id=INTERRUPTED))
            self._work(followed)

    def stop_creating(self) -> None:
        """Wait a moment for the creations that go on, and leave alone what has no job by then."""
        self._wait_for("create", ANSWER_SECONDS)
        self._take_answers()
        why = "k8sbench was asked to stop before that."
        for followed in list(self._runs.values()):
            if isinstance(followed.view.job, NotAsked):
                is_sent = followed.request is not None
                error = creation.unknown_error(followed.run_id, why) if is_sent else BenchError(why)
                self._refuse(followed, error)

    def close(self) -> None:
        """Release what is followed still; archives are whole up to here."""
        for followed in list(self._runs.values()):
            self._leave(followed)
        self._wait_for("delete")

    def _wait_for(self, kind: str, seconds: float | None = None) -> None:
        sent = [followed.request for followed in self._asked.values() if followed.request]
        self._pool.join([request.answer for request in sent if request.kind == kind], seconds)

    def _unfollowed(self) -> int:
        """Count the runs that the cluster does not follow: their jobs are waited for."""
        begun = sum(followed.is_restarted for followed in self._asked.values())
        return len(self._lacking) + len(self._to_create) + begun

    # -- what is seen ---------------------------------------------------------------------------

    def _take_events(self, events: Sequence[JobEvent]) -> None:
        for (run_id, replica), some in itertools.groupby(events, _printed_by):
            if (followed := self._runs.get(run_id)) is not None and replica is not None:
                with self._guarded(followed):
                    self._take_lines(followed, replica, list(some))
                continue
            for event in some:
                followed = self._runs.get(run_id)
                if not run_id and event.note is not None:
                    self._reporter.note(event.note)
                elif followed is not None:
                    self._changed[run_id] = None
                    with self._guarded(followed):
                        self._take_event(followed, event)

    def _take_lines(self, followed: FollowedRun, replica: str, events: Sequence[JobEvent]) -> None:
        assert followed.archive is not None
        lines = [event.line for event in events if event.line is not None]
        followed.archive.write(*lines)
        followed.read_until[replica] = lines[-1].at
        if not followed.view.is_read:
            followed.see_what_is_read()
            self._changed[followed.run_id] = None
        for event in () if followed.view.is_unwanted else events:
            self._reporter.on_event(followed.run, event)

    def _take_event(self, followed: FollowedRun, event: JobEvent) -> None:
        store, step = self._context.store, event.transition
        if event.replica is not None or step is not None:
            if followed.view.reported_at == math.inf:
                followed.see(reported_at=self._context.clock())
            # Replicas are reported of a job that is still to be created, too.
            if step is not None or not isinstance(followed.view.job, NotAsked):
                followed.see(job=Reported())
            followed.see_what_is_read()
        if event.replica is not None:
            self._gathering.seen(followed.run, event.replica)
            if event.replica.image is not None:
                followed.images = {*followed.images, event.replica.image}
        elif event.gap is not None:
            followed.gaps = [*followed.gaps, event.gap]
            store.keep(event.run_id, GAPS, msgspec.json.encode(followed.gaps).decode() + "\n")
            followed.see(has_gaps=True)
        elif step is not None and is_final(step):
            self._take_end(followed, step)
            return
        elif step is not None:
            self._move(followed, step)
            if step.cause_id == RESTARTING:  # by another store
                store.begin_attempt(event.run_id)
        self._reporter.on_event(followed.run, event)

    def _take_end(self, followed: FollowedRun, end: Transition) -> None:
        """Take in that a job is over, is gone, or is left because its logs cannot be read."""
        run, now = followed.run, self._context.clock()
        if not end.phase.final:
            followed.see(job=Unreadable())
            self._record_end(followed, end)
            return
        if end.cause_id == creation.JOB_GONE and not creation.is_known_created(run):
            missing = creation.missing(run, now)
            if missing is None or not missing.phase.final:
                self._look_again(followed, missing)
                return
        if followed.record.wish is None and (
            end.phase is Phase.LOST or decide.is_restarted(followed.record, end, now)
        ):
            # Another process of the store may have ended it, or recorded that it is to end.
            followed.note(wish=self._context.store.run(run.run_id).wish("cancel"))
        followed.see(job=Ended(end))

    def _look_again(self, followed: FollowedRun, missing: Transition | None) -> None:
        """Look for a job later that the cluster does not have and that may still come."""
        now, run_id = self._context.clock(), followed.run_id
        if missing is not None:
            self._move(followed, missing)
        left_s = creation.settles_in(followed.run, now)
        if self._until is Until.LOOKED_AT:
            cause = followed.run.history[-1].cause
            self._reporter.note(f"{cause} Collect it again in {times.duration(left_s)}.")
            self._leave(followed)
            self.left.append(followed.run)
            return
        if followed.tries == 0:
            self._reporter.note(
                f"The cluster has no job {run_id}. It is looked for another"
                f" {times.duration(left_s)}: a request for it may still be on its way."
            )
        followed.tries += 1
        again = Later(now + min(left_s, ABSENT_SECONDS))
        followed.see(job=Missing(), effect=again, asked_to_end_at=math.inf, is_end_answered=False)
        self._lacking[run_id] = followed

    def _read_wishes(self) -> None:
        """Take in which runs other processes of the store wish to cancel.

        They ask the cluster themselves, and may not have reached it.
        """
        now = self._context.clock()
        if now < self._wishes_at or not (self._runs and self._survives):
            return
        self._wishes_at = now + WISHES_SECONDS
        with contextlib.suppress(StoreError):  # a database may be away for a while
            for run in self._context.store.runs(RunFilter(wished=True)):
                followed, wish = self._runs.get(run.run_id), run.wish("cancel")
                if followed is not None and followed.record.wish is None and wish is not None:
                    followed.note(wish=wish)
                    self._changed[run.run_id] = None

    # -- what is done ---------------------------------------------------------------------------

    def _work_due(self) -> None:
        """Decide on the runs of which something was seen, or whose time has come."""
        now = self._context.clock()
        while self._due and self._due[0][0] <= now:
            self._changed[heapq.heappop(self._due)[1]] = None
        while self._changed:
            changed, self._changed = self._changed, {}
            for run_id in changed:
                if (followed := self._runs.get(run_id)) is not None:
                    with self._guarded(followed):
                        self._work(followed)
        self._send_admitted()

    def _work(self, followed: FollowedRun) -> None:
        """Record and do what is next for a run that is not over."""
        now = self._context.clock()
        step = decide.advance(followed.record, followed.view, now)
        if step is not None and step.phase.final:
            self._end(followed, step)
            return
        if step is not None:
            self._move(followed, step)
        match decide.decide(followed.record, followed.view, now):
            case decide.Create():
                self._lacking.pop(followed.run_id, None)
                self._to_create[followed.run_id] = followed
            case decide.Follow():
                self._follow(followed)
            case decide.Cancel() as cancel:
                self._cancel(followed, cancel)
            case decide.Restart(end=end):
                self._restart(followed, end)
            case decide.Wait(until=until) if until < math.inf:
                heapq.heappush(self._due, (until, followed.run_id))

    def _admission(self) -> admit.Admission:
        kinds = [one.request.kind for one in self._asked.values() if one.request is not None]
        standing = Standing(
            going_on=len(self),
            creating=kinds.count("create"),
            deleting=kinds.count("delete"),
            to_create=tuple(self._to_create),
            to_delete=tuple(self._to_delete),
            are_starting=bool(self._to_delete) and self._any_starts(),
            lack_room=any(one.lacks_room for one in self._lacking.values()),
            put_off_since=self._put_off_since,
        )
        return admit.admit(standing, self._limits, self._context.clock())

    def _send_admitted(self) -> None:
        """Send the requests that are admitted now."""
        if not (self._to_create or self._to_delete):
            return
        admission = self._admission()
        for run_id in admission.create:
            followed = self._to_create.pop(run_id)
            call = partial(requests.create, followed.run, followed.manifests, self._context)
            self._ask(followed, "create", call, self._take_created)
        for run_id in admission.delete:
            followed = self._to_delete.pop(run_id)
            delete = partial(requests.delete, self._context, run_id)
            self._ask(followed, "delete", delete, self._take_deleted)

    def _ask(
        self,
        followed: FollowedRun,
        kind: str,
        call: Callable[[], Any],
        take: Callable[[FollowedRun, Future[Any]], None],
    ) -> None:
        """Have a request sent by another thread, and its answer taken by this one.

        What a job has printed is read beside whatever else is done.
        """
        if kind != "printed":
            followed.see(effect=Busy())
        answer = self._pool.start(call, kind)
        followed.request = Request(kind=kind, answer=answer, take=partial(take, followed))
        self._asked[followed.run_id] = followed
        if answer.done():
            self._take_answers([followed])

    def _take_answers(self, of: Iterable[FollowedRun] | None = None) -> None:
        for followed in list(self._asked.values() if of is None else of):
            request = followed.request
            if request is not None and request.answer.done():
                del self._asked[followed.run_id]
                followed.request = None
                followed.see(effect=Idle())
                with self._guarded(followed):
                    request.take(request.answer)
                self._changed[followed.run_id] = None

    def _move(self, followed: FollowedRun, transition: Transition) -> None:
        followed.note(run=self._context.store.move(followed.run_id, transition))

    def _report(self, followed: FollowedRun, transition: Transition) -> None:
        self._reporter.on_event(
            followed.run, JobEvent(run_id=followed.run_id, transition=transition)
        )

    # -- a job is created -----------------------------------------------------------------------

    def _take_created(self, followed: FollowedRun, answer: Future[None]) -> None:
        error, now = answer.exception(), self._context.clock()
        if followed.run_id not in self._runs:
            return  # its end was seen before the answer came
        if error is None:
            if not followed.is_watched:
                followed.see(job=Watched())
            if self._survives and not creation.is_known_created(followed.run):
                self._move(followed, creation.created(now))
            self._leave_created(followed)
        elif isinstance(error, NoRoom) and self._until is not Until.CREATED:
            self._create_later(followed, creation.waiting(error, now))
        elif not followed.run.restarts:
            self._refuse(followed, requests.unless_on_its_way(followed.run, error, now))
        elif not isinstance(error, BenchError):
            raise error
        elif requests.was_created(followed.run, error):
            followed.see(job=Unwatched())
        elif requests.may_pass(error):
            self._create_later(followed, attempts.waiting(followed.run, error, now))
        else:
            self._end(followed, attempts.refused(followed.run, error, now))

    def _create_later(self, followed: FollowedRun, why: Transition) -> None:
        followed.see(job=NotAsked())
        self._try_later(followed)
        self._lacking[followed.run_id] = followed
        if followed.run.history[-1].cause != why.cause:
            self._move(followed, why)
            self._report(followed, why)
        self._leave_created(followed)

    def _refuse(self, followed: FollowedRun, error: BaseException) -> None:
        """Record that a run has no job, or may have none, and leave it alone.

        Of one that is restarted it is on record already.
        """
        if not followed.run.restarts:
            now, run_id = self._context.clock(), followed.run_id
            self._move(followed, requests.refusal(run_id, error, now, survives=self._survives))
        self._leave(followed)
        self.refused.append((followed.run, error))

    # -- a job is followed ----------------------------------------------------------------------

    def _follow(self, followed: FollowedRun) -> None:
        """Follow the job of a run that was taken up, or is looked for again."""
        run, store = followed.run, self._context.store
        if attempts.is_restarting(run):
            if not requests.exists(run, self._context):
                self._begin_attempt(followed)
                return
            self._move(followed, creation.created(self._context.clock()))
        marks: Mapping[str, LogMark] = {}
        if isinstance(followed.view.job, Unwatched):
            marks = store.log_marks(run.run_id)
        self._context.cluster.resume(followed.run, marks)
        followed.read_until = {replica: mark.at for replica, mark in marks.items()}
        followed.see(job=Watched(), effect=Idle())
        self._lacking.pop(run.run_id, None)
        self._changed[run.run_id] = None
        if not followed.view.is_read:
            call = partial(requests.printed, run, self._context)
            self._ask(followed, "printed", call, self._take_printed)
        self._leave_created(followed)

    def _take_printed(self, followed: FollowedRun, answer: Future[Mapping[str, float]]) -> None:
        error = answer.exception()
        if error is None:
            followed.printed = answer.result()
        elif not isinstance(error, BenchError) or error.cause_id in requests.NO_ANSWER:
            raise error
        else:
            followed.printed = None
            self._note_unread(followed, str(error))
        followed.see_what_is_read()

    def _note_unread(self, followed: FollowedRun, why: str) -> None:
        run_id = followed.run_id
        self._reporter.note(f"warning: what {run_id} has printed cannot all be read: {why}")

    # -- a job is ended -------------------------------------------------------------------------

    def _cancel(self, followed: FollowedRun, cancel: decide.Cancel) -> None:
        """Ask for the end of a job; one for which there is no job yet is over without that."""
        run_id, now = followed.run_id, self._context.clock()
        if followed.request is not None:  # it is still being read
            seconds = times.duration(requests.READ_SECONDS)
            self._note_unread(followed, f"that takes longer than {seconds}.")
        if not cancel.is_asked_for:
            wish = Wish(kind="cancel", at=now, cause=cancel.cause, cause_id=cancel.cause_id)
            followed.note(wish=wish, is_own_wish=True)
            if self._survives:
                # Where it cannot be recorded the job is to end all the more.
                with contextlib.suppress(StoreError):
                    self._context.store.wish(run_id, wish)
        self._changed[run_id] = None
        if not isinstance(followed.view.job, NotAsked):
            followed.see(asked_to_end_at=min(now, followed.view.asked_to_end_at))
            cluster = self._context.cluster
            call = partial(cluster.cancel, run_id, cancel.cause, cancel.cause_id)
            self._ask(followed, "cancel", call, self._take_cancelled)

    def _take_cancelled(self, followed: FollowedRun, answer: Future[None]) -> None:
        """Take the answer; where the cluster refuses it, the job goes on."""
        error = answer.exception()
        if error is None:
            followed.see(is_end_answered=True)
        elif not isinstance(error, BenchError):
            raise error
        elif followed.run_id not in self._runs:
            return
        elif not requests.is_refused(error):
            if followed.tries == 0:
                self._note_refusal(followed.run, error)
            self._try_later(followed)
        elif followed.record.is_own_wish:
            followed.see(is_end_answered=True)
            self._note_refusal(followed.run, error)
        else:
            followed.note(wish=None)
            followed.see(asked_to_end_at=math.inf)
            with contextlib.suppress(StoreError):
                self._context.store.fulfilled(followed.run_id, "cancel")
            self._on_refusal(followed.run, error)

    def _try_later(self, followed: FollowedRun) -> None:
        """Send a request again, each time after twice as long."""
        pause = min(AGAIN_SECONDS * 2.0 ** min(followed.tries, 10), LONGEST_AGAIN)
        followed.tries += 1
        followed.see(effect=Later(self._context.clock() + pause))

    def _note_refusal(self, run: Run, error: BenchError) -> None:
        self._reporter.note(f"warning: run {run.run_id} could not be cancelled: {error}")

    # -- another attempt ------------------------------------------------------------------------

    def _restart(self, followed: FollowedRun, end: Transition) -> None:
        """Record that another attempt comes, and begin it."""
        run, store = followed.run, self._context.store
        try:
            self._context.manifests(run)
        except StoreError:
            raise
        except BenchError as error:
            end = attempts.refused_now(run, attempts.numbered(run, end), error)
            self._end(followed, end)
            return
        assert followed.archive is not None
        followed.archive.close()
        again = attempts.restarting(run.plan, run.attempt, end.cause, end.at)
        self._move(followed, again)
        store.begin_attempt(run.run_id)
        self._report(followed, again)
        self._begin_attempt(followed)

    def _begin_attempt(self, followed: FollowedRun) -> None:
        """Create the next attempt of a run, of which nothing was archived yet."""
        followed.is_restarted, followed.tries = True, 0
        followed.printed, followed.read_until = {}, {}
        now = self._context.clock()
        followed.see(job=NotAsked(), reported_at=now, is_read=True, is_end_answered=False)
        followed.see(asked_to_end_at=math.inf)
        self._changed[followed.run_id] = None

    def _leave_created(self, followed: FollowedRun) -> None:
        """Leave a run alone that was to be brought no further than to a new job."""
        is_restarted = followed.is_restarted and self._until is Until.LOOKED_AT
        if is_restarted or self._until is Until.CREATED:
            self._context.cluster.release(followed.run_id)
            self._leave(followed)
            self.left.append(followed.run)

    # -- a run is over --------------------------------------------------------------------------

    def _end(self, followed: FollowedRun, final: Transition) -> None:
        """Record the end of a run, and stop following a job that goes on."""
        if followed.is_watched:
            self._context.cluster.release(followed.run_id)
        is_kept = followed.view.has_gaps and final.phase is Phase.SUCCEEDED
        deletes = not self._keep and (followed.view.is_unwanted or not is_kept)
        followed.see(deletes=deletes)
        self._record_end(followed, final)

    def _record_end(self, followed: FollowedRun, end: Transition) -> None:
        # What was read is on disk before the run is called final.
        assert followed.archive is not None
        followed.archive.close()
        self._gathering.release(followed.run_id)
        # A process that is killed from here on leaves a run that is known to have a job.
        deletes = followed.view.deletes and self._survives
        owes = requests.left_over(end.at) if deletes else None
        image = next(iter(followed.images)) if len(followed.images) == 1 else None
        run = self._context.store.move(followed.run_id, end, owes=owes, image=image)
        followed.note(run=run)
        self._forget(followed.run_id)
        self._over.append(followed)
        self._report(followed, end)

    def _ready(self) -> FollowedRun | None:
        """Return a run that can be closed.

        Where the answer to its creation was lost its job may be over before the request is sent
        again, which must find it: were it deleted by then, it would be created a second time.
        """
        return next((followed for followed in self._over if followed.request is None), None)

    def _close(self, followed: FollowedRun) -> None:
        """Measure a run that is over, and have what is left of its job deleted."""
        action = decide.decide(followed.record, followed.view, self._context.clock())
        if isinstance(action, decide.Measure):
            measured = self._context.measure(followed.run, followed.gaps)
            measured = self._gathering.promised(followed.run, measured)
            followed.note(run=self._context.store.measured(followed.run_id, measured))
        is_measured = not (isinstance(action, decide.Delete) and followed.view.is_unwanted)
        if is_measured:
            if followed.archive is not None or isinstance(action, decide.Measure):
                self._reporter.ended(followed.run)
            self._gathering.add(followed.run)
            self._note_kept(followed)
        self._over.remove(followed)
        if followed.view.deletes:
            if not self._to_delete:
                self._put_off_since = self._context.clock()
            self._to_delete[followed.run_id] = followed
        else:
            self._finish(followed)

    def _note_kept(self, followed: FollowedRun) -> None:
        is_kept = followed.view.has_gaps and followed.run.phase is Phase.SUCCEEDED
        if is_kept and not (followed.view.is_unwanted or self._keep):
            run_id = followed.run_id
            why = f"its logs are not whole. To delete it: k8sbench delete {run_id}"
            self._reporter.note(f"{run_id} stays on the cluster: {why}")

    def _take_deleted(self, followed: FollowedRun, answer: Future[tuple[Run, str | None]]) -> None:
        run_id, error = followed.run_id, answer.exception()
        followed.see(deletes=False)
        if isinstance(error, BenchError):
            self._reporter.note(
                f"warning: what is left of {run_id} on the cluster stays there: {error}"
                f" Then: k8sbench delete {run_id}"
            )
        elif error is not None:
            raise error
        else:
            run, why = answer.result()
            followed.note(run=run)
            if why is not None:
                self._reporter.note(f"{run_id} stays on the cluster: {why}")
            self._try_creations_now()
        if followed.view.is_unwanted:
            self._over.append(followed)
            followed.see(is_unwanted=False)
        else:
            self._finish(followed)

    def _finish(self, followed: FollowedRun) -> None:
        self._context.store.claims.release(followed.run_id)
        self._closed.append(followed.run)

    def _try_creations_now(self) -> None:
        """Try those again for which a quota had no room: there may be some."""
        for followed in self._lacking.values():
            if followed.lacks_room:
                followed.tries = 0
                followed.see(effect=Idle())
                self._changed[followed.run_id] = None

    def _any_starts(self) -> bool:
        """Whether pods of any run are being created."""
        first = self._starts
        if first is None or first.run_id not in self._runs or first.run.phase not in STARTING:
            starting = (one for one in self._runs.values() if one.run.phase in STARTING)
            self._starts = next(starting, None)
        return self._starts is not None

    # -- a run is left --------------------------------------------------------------------------

    def _leave(self, followed: FollowedRun) -> None:
        """Follow a run no more; another process may."""
        self._gathering.release(followed.run_id)
        self._forget(followed.run_id)
        self._asked.pop(followed.run_id, None)
        if followed.archive is not None:
            followed.archive.close()
        self._context.store.claims.release(followed.run_id)

    def _forget(self, run_id: str) -> None:
        followed = self._runs.pop(run_id)
        if followed.request is not None and followed.request.kind == "printed":
            followed.request = None  # nobody needs the answer any more
            del self._asked[run_id]
        self._to_create.pop(run_id, None)
        self._lacking.pop(run_id, None)

    @contextlib.contextmanager
    def _guarded(self, followed: FollowedRun) -> Iterator[None]:
        """Leave a run alone whose files cannot be read or written, if that is what is wanted."""
        try:
            yield
        except StoreError as error:
            if self._on_failure is None:
                raise
            run_id = followed.run_id
            self._context.cluster.release(run_id)
            if self._runs.get(run_id) is followed:
                with contextlib.suppress(StoreError):
                    self._leave(followed)
            with contextlib.suppress(ValueError):
                self._over.remove(followed)
            self._context.store.claims.release(run_id)
            self._on_failure(followed.run, error)


def _printed_by(event: JobEvent) -> tuple[str, str | None]:
    """Name the run, and the replica if the event is a line of its log."""
    return event.run_id, None if event.line is None else event.line.replica
