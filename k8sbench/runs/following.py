"""Following jobs to their ends: any number of them, in one thread.

What the cluster reports goes to the store first and to the user second. When a job's last line is
on disk and its end is recorded, the run is closed: measured, and what the cluster still holds of
it deleted. Where logs cannot be read though they may still exist, the run is left to be collected
later, and its job is kept. Closing takes longer than reporting, so it is done one run at a time,
when nothing has happened: a state that changed is recorded at once, however many runs have just
ended. Several jobs are created, and what is left of them deleted, by other threads meanwhile.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from k8sbench.model import creation, times
from k8sbench.model.errors import BenchError, NoRoom, StoreError
from k8sbench.model.phase import LOGS_BEING_READ, LOGS_INCOMPLETE, Phase, Transition
from k8sbench.model.run import Run, Wish
from k8sbench.model.sample import LogGap
from k8sbench.ports import JobEvent, LogArchive, Manifest, RunFilter, Store
from k8sbench.runs import wishes
from k8sbench.runs.context import Reporter, RunContext, Stop
from k8sbench.runs.gathering import Gathering

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

GAPS = "log-gaps.json"
"""Artifact of a run whose logs the cluster did not have whole."""
LOOK_SECONDS = 0.25
"""Longest wait for an event before stop requests and time limits are checked."""
CANCEL_SECONDS = 600.0
"""For a job of a cluster to end after it was cancelled. Its API server may be away; after so long
the job is left alone, for nothing waits without end."""
READ_SECONDS = 60.0
"""For what a run has printed to be archived before it is cancelled; the rest is read as it goes."""
WISHES_SECONDS = 15.0
"""Between two looks at what other processes of the store wish for the runs that are followed."""
REMOVE_SECONDS = 300.0
"""For which the deletion of jobs that are over is put off, while pods of others are created."""
REQUESTS = 4
"""Jobs that are created or deleted at a time, while others are followed."""
RESUME_SECONDS = 1.0
"""After the first event of a job that is resumed, for its end to be reported if it has ended."""
ANSWER_SECONDS = 5.0
"""For the answer to a creation when k8sbench is asked to stop."""
AGAIN_SECONDS = 2.0
"""Until a quota is tried again that has no room for a job; twice as long each time."""
LONGEST_AGAIN = 30.0
ABSENT_SECONDS = 5.0
"""Until a job is looked for again that may still come."""
STARTING = frozenset({Phase.CREATED, Phase.PENDING, Phase.PULLING, Phase.STARTING})
"""States of a run whose pods are being created and started."""
WAITING = frozenset({Phase.CREATED, Phase.QUEUED})
"""States in which a run's time does not count: it waits for its turn."""


class FollowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs are followed."""

    keep: bool = False
    """Whether jobs and pods stay on the cluster when they are over, or their time is."""
    wait: bool = False
    """Whether to wait even for what cannot recover by itself."""


class _Open(msgspec.Struct, kw_only=True):
    """A run that is followed."""

    run: Run
    archive: LogArchive
    ends: Transition | None = None
    """How it is to end because k8sbench ends it."""
    cancelled_at: float = math.inf
    """When the cluster was asked to cancel it, Unix seconds."""
    printed: Mapping[str, float] | None = {}
    """By replica: what is read before it is cancelled was printed until then, Unix seconds; None:
    that cannot be known, and it is cancelled when its state is known."""
    read_by: float = -math.inf
    """It is cancelled then, whatever was read, Unix seconds."""
    gaps: list[LogGap] = []
    images: set[str] = set()
    read_until: dict[str, float] = {}
    """By replica: when the latest line that was read was printed, Unix seconds."""
    create: Callable[[], None] | None = None
    """Creates its job; None: it was created, by this process or before."""
    creation: Future[None] | None = None
    """While its job is being created by another thread."""
    again_at: float | None = None
    """When to ask again for a job that the cluster does not have, Unix seconds."""
    tries: int = 0
    """How often a quota had no room for it, or the cluster had no such job."""
    known_at: float = -math.inf
    """When the state of a job that is resumed was first reported, Unix seconds: it may have ended
    long before."""

    def has_read(self) -> bool:
        """Whether that was read which is to be read before it is cancelled."""
        if self.printed is None:
            return self.known_at < math.inf
        return all(self.read_until.get(replica, 0.0) >= at for replica, at in self.printed.items())

    def due(self) -> float | None:
        """When its time is up, Unix seconds; None while it has not begun, and when it is over."""
        is_over = self.run.history[-1].cause_id in {LOGS_BEING_READ, LOGS_INCOMPLETE}
        if self.run.plan.timeout_s is None or self.ends is not None or is_over:
            return None
        began = next((step.at for step in self.run.history if step.phase not in WAITING), None)
        if began is None:
            return None
        return max(began + self.run.plan.timeout_s, self.known_at + RESUME_SECONDS)


class Following:
    """The runs that this process follows; with ``several``, jobs are created beside that.

    A run whose files cannot be read or written is an error, or, with ``on_failure``, left alone
    after that is called: it must not stop the others. ``on_refusal`` is called where the cluster
    does not cancel a job that is to be cancelled, and which goes on; by default that is noted.
    """

    def __init__(
        self,
        context: RunContext,
        reporter: Reporter,
        options: FollowOptions,
        *,
        several: bool = False,
        gathering: Gathering | None = None,
        on_failure: Callable[[Run, StoreError], None] | None = None,
        on_refusal: Callable[[Run, BenchError], None] | None = None,
    ) -> None:
        self._context, self._reporter, self._options = context, reporter, options
        self._gathering = gathering or Gathering(context, reporter)
        self._on_failure = on_failure
        self._on_refusal = on_refusal or self._note_refusal
        self._workers: ThreadPoolExecutor | None = None
        if several:
            from concurrent.futures import ThreadPoolExecutor

            self._workers = ThreadPoolExecutor(REQUESTS, thread_name_prefix="delete")
        self.refused: list[tuple[Run, BaseException]] = []
        """The runs whose jobs were not created, or not for certain, and why. Each is recorded and
        left alone; who asked for it takes it from here."""
        self._to_remove: list[Run] = []
        """Closed, and what is left of their jobs is to be deleted; that is on record."""
        self._remove_by = math.inf
        """When that is done at the latest, Unix seconds."""
        self._removals: list[Future[Run]] = []
        self._open: dict[str, _Open] = {}
        self._over: deque[_Open] = deque()
        """Final or left alone, and still to be closed."""
        self._wishes_at = -math.inf
        """When to look at other processes' wishes, Unix seconds."""

    def __len__(self) -> int:
        """Count the runs that take a place: those not over, or not closed where one has it alone.

        Measuring one run must not take time from the next on the same machine.
        """
        return len(self._open) + (len(self._over) if self._workers is None else 0)

    def has(self, run_id: str) -> bool:
        """Whether a run is followed, or over and still to be closed."""
        return run_id in self._open or any(one.run.run_id == run_id for one in self._over)

    def start(self, run: Run, manifests: Sequence[Manifest]) -> None:
        """Create a recorded run's job and follow it; see :attr:`refused`."""
        store, cluster = self._context.store, self._context.cluster
        create = partial(cluster.create, run.plan, manifests, store.folder(run.run_id))
        one = _Open(run=run, archive=store.archive(run.run_id))
        self._open[run.run_id] = one
        if cluster.jobs_outlive_us:
            # The API server may take long to answer; meanwhile others are followed, and the user
            # may stop it.
            one.create, one.creation = create, _started(create)
            return
        try:
            create()
        except BaseException:
            self._leave(one)
            raise

    @property
    def is_busy(self) -> bool:
        """Whether as many jobs are being created as may be at a time."""
        return sum(one.creation is not None for one in self._open.values()) >= REQUESTS

    def stop_creating(self) -> None:
        """Wait a moment for the creations that go on, and leave alone what has no job by then."""
        wait([one.creation for one in self._open.values() if one.creation], ANSWER_SECONDS)
        self._take_creations()
        for one in list(self._open.values()):
            why = "k8sbench was asked to stop before that."
            if one.creation is not None:
                self._refuse(one, creation.unknown_error(one.run.run_id, why))
            elif one.create is not None:
                self._refuse(one, BenchError(why))

    def _take_creations(self) -> None:
        """Record what became of the creations that are done."""
        for one in list(self._open.values()):
            if one.creation is None or not one.creation.done():
                continue
            wrong, one.creation = one.creation.exception(), None
            if wrong is None:
                one.create = None
                if not creation.is_known_created(one.run):
                    self._move(one, creation.created(self._context.clock()))
            elif isinstance(wrong, NoRoom):
                self._wait_for_room(one, wrong)
            else:
                self._refuse(one, wrong)

    def _wait_for_room(self, one: _Open, wrong: NoRoom) -> None:
        now = self._context.clock()
        one.again_at = now + min(AGAIN_SECONDS * 2.0**one.tries, LONGEST_AGAIN)
        one.tries += 1
        transition = creation.waiting(wrong, now)
        if one.run.history[-1].cause != transition.cause:
            self._move(one, transition)
            self._reporter.on_event(one.run, JobEvent(run_id=one.run.run_id, transition=transition))

    def _refuse(self, one: _Open, wrong: BaseException) -> None:
        """Record that a run has no job, or may have none, and leave it alone."""
        run_id = one.run.run_id
        self._move(one, creation.failed(run_id, wrong, self._context.clock()))
        self._leave(one)
        self._context.store.claims.release(run_id)
        self.refused.append((one.run, wrong))

    def _move(self, one: _Open, transition: Transition) -> None:
        one.run = self._context.store.move(one.run.run_id, transition)

    def _try_again(self) -> None:
        """Create, or look for, the jobs whose time has come."""
        now = self._context.clock()
        for one in self._open.values():
            if one.again_at is None or now < one.again_at:
                continue
            if one.create is None:
                one.again_at = None
                self._context.cluster.resume(one.run, {})
                if one.ends is not None:
                    cause, cause_id = one.ends.cause, one.ends.cause_id or "cancelled"
                    self._context.cluster.cancel(one.run.run_id, cause, cause_id)
            elif not self.is_busy:
                one.again_at = None
                one.creation = _started(one.create)

    def resume(self, run: Run, printed: Mapping[str, float] | None = {}) -> None:
        """Follow a job that was created before, from where its archive ends.

        If the run is to be cancelled, that is done when what is ``printed`` was read: until when,
        Unix seconds, by replica; None where that is not known.
        """
        store = self._context.store
        store.ensure_folder(run.run_id)
        marks = store.log_marks(run.run_id)
        archive = store.archive(run.run_id)
        self._context.cluster.resume(run, marks)
        self._open[run.run_id] = _Open(
            run=run,
            archive=archive,
            gaps=kept_gaps(store, run.run_id),
            read_until={replica: mark.at for replica, mark in marks.items()},
            ends=_wished_end(run),
            printed=printed,
            read_by=self._context.clock() + READ_SECONDS,
            known_at=math.inf,
        )

    def step(self, seconds: float) -> Iterator[Run]:
        """Do what there is to do, or wait so long for it; yields the runs that were closed.

        One that is not final was left alone: its logs cannot be read now.
        """
        patience = 0.0 if self._ready() else seconds
        self._try_again()
        if patience and all(one.again_at is not None for one in self._open.values()):
            # The cluster follows none of them, and would return at once.
            threading.Event().wait(patience)
        events = self._context.cluster.wait(patience)
        self._take_creations()
        for event in events:
            one = self._open.get(event.run_id)
            if not event.run_id and event.note is not None:
                self._reporter.note(event.note)
            elif one is not None:
                with self._guarded(one):
                    self._take(one, event)
        self._read_wishes()
        self._end_what_is_due()
        self._check_removals()
        self._gathering.step()
        one = self._ready()
        if one is not None and not events:
            with self._guarded(one):
                closed = self._close(one)
                self._over.remove(one)
                yield closed

    def _ready(self) -> _Open | None:
        """Return a run that can be closed.

        Where the answer to its creation was lost its job may be over before the request is sent
        again, which must find it: were it deleted by then, it would be created a second time.
        """
        return next(
            (one for one in self._over if one.creation is None or one.creation.done()), None
        )

    def to_the_end(self, stop: Stop, more: Callable[[], bool]) -> Iterator[Run]:
        """Follow until all is over; ``more`` starts further runs while it can, and says if any.

        Yields the runs as they are closed. Asked to stop, local jobs are ended and that is waited
        for; jobs of a cluster are left to go on.
        """
        asked = False
        while True:
            if stop.cause is not None and not asked:
                asked = True
                if self._context.cluster.jobs_outlive_us:
                    return
                for one in self._open.values():
                    self._cancel(one, stop.cause, "interrupted")
            started = not asked and more()
            if not self._open and not self._over and not started:
                self._check_removals(wait=True)
                return
            yield from self.step(0.0 if started else LOOK_SECONDS)

    def runs(self) -> list[Run]:
        """The runs that are not over."""
        return [one.run for one in self._open.values()]

    def unclosed(self) -> list[Run]:
        """The runs that are not over, and those that are and are still to be closed."""
        return [*self.runs(), *(one.run for one in self._over)]

    def close(self) -> None:
        """Release what is followed still; archives are whole up to here."""
        for one in list(self._open.values()):
            self._leave(one)
        if self._workers is not None:
            self._workers.shutdown()

    @contextlib.contextmanager
    def _guarded(self, one: _Open) -> Iterator[None]:
        """Leave a run alone whose files cannot be read or written, if that is what is wanted."""
        try:
            yield
        except StoreError as wrong:
            if self._on_failure is None:
                raise
            run_id = one.run.run_id
            self._context.cluster.release(run_id)
            if self._open.get(run_id) is one:
                with contextlib.suppress(StoreError):
                    self._leave(one)
            self._open.pop(run_id, None)
            with contextlib.suppress(ValueError):
                self._over.remove(one)
            self._on_failure(one.run, wrong)

    def _leave(self, one: _Open) -> None:
        self._gathering.release(one.run.run_id)
        one.archive.close()
        del self._open[one.run.run_id]

    def _take(self, one: _Open, event: JobEvent) -> None:
        store = self._context.store
        if event.replica is not None or event.transition is not None:
            one.known_at = min(one.known_at, self._context.clock())
        if event.replica is not None:
            self._gathering.seen(event.run_id, event.replica)
        if event.line is not None:
            one.archive.write(event.line)
            one.read_until[event.line.replica] = event.line.at
        elif event.gap is not None:
            one.gaps = [*one.gaps, event.gap]
            store.keep(event.run_id, GAPS, msgspec.json.encode(one.gaps).decode() + "\n")
        elif event.replica is not None and event.replica.image is not None:
            one.images = {*one.images, event.replica.image}
        elif event.transition is not None and (
            event.transition.phase.final or event.transition.cause_id == LOGS_INCOMPLETE
        ):
            if self._may_come(one, event.transition):
                return
            event = self._end(one, self._known_end(one, event.transition))
        elif event.transition is not None:
            one.run = store.move(event.run_id, event.transition)
            if event.transition.phase is Phase.RUNNING:
                self._gathering.follow(one.run)
            if event.transition.unrecoverable and not self._options.wait:
                waiting = one.run.history[-1]
                self._cancel(one, waiting.cause, waiting.cause_id or "cannot-start")
        self._reporter.on_event(one.run, event)

    def _may_come(self, one: _Open, reported: Transition) -> bool:
        """Whether a job that does not exist may still come: then it is looked for again."""
        if reported.cause_id != creation.JOB_GONE or creation.is_known_created(one.run):
            return False
        now, run_id = self._context.clock(), one.run.run_id
        found = creation.missing(one.run, now)
        if found is not None and found.phase.final:
            return False
        if found is not None:
            self._move(one, found)
        left_s = creation.settles_in(one.run, now)
        if one.tries == 0:
            self._reporter.note(
                f"The cluster has no job {run_id}. It is looked for another"
                f" {times.duration(left_s)}: a request for it may still be on its way."
            )
        one.tries += 1
        one.again_at = now + min(left_s, ABSENT_SECONDS)
        return True

    def _known_end(self, one: _Open, reported: Transition) -> Transition:
        """Return the end of a job as it is on record where k8sbench ended it, else as reported.

        A job that ended by itself before it could be cancelled has that end.
        """
        if reported.phase is Phase.LOST and one.ends is None:
            # Another process of the store may have ended it.
            one.ends = _wished_end(self._context.store.run(one.run.run_id))
        ends = one.ends
        if ends is None or not (
            reported.phase in {Phase.CANCELLED, Phase.LOST} or reported.cause_id == ends.cause_id
        ):
            if reported.cause_id == creation.JOB_GONE and not creation.is_known_created(one.run):
                return creation.never(one.run.run_id, reported.at)
            return reported
        return msgspec.structs.replace(ends, at=max(reported.at, ends.at))

    def _end(self, one: _Open, final: Transition) -> JobEvent:
        # What was read is on disk before the run is called final, or left alone.
        one.archive.close()
        self._gathering.release(one.run.run_id)
        # A process that is killed from here on leaves a run that is known to have a job.
        deletes = self._context.cluster.jobs_outlive_us and not self._options.keep
        owes = wishes.left_over(final.at) if deletes and final.phase.final else None
        one.run = self._context.store.move(one.run.run_id, final, owes=owes)
        del self._open[one.run.run_id]
        self._over.append(one)
        return JobEvent(run_id=one.run.run_id, transition=final)

    def _close(self, one: _Open) -> Run:
        run_id = one.run.run_id
        if len(one.images) == 1:
            one.run = self._context.store.record_image(run_id, next(iter(one.images)))
        if one.run.phase is Phase.SUCCEEDED:
            measured = self._context.measure(one.run, one.gaps)
            measured = self._gathering.promised(one.run, measured)
            one.run = self._context.store.measured(run_id, measured)
        self._reporter.ended(one.run)
        if one.run.phase is Phase.SUCCEEDED:
            self._gathering.add(one.run)
        if self._options.keep or not one.run.phase.final:
            self._context.store.claims.release(run_id)
        elif self._workers is None:
            return self.remove(one.run)
        else:
            if not self._to_remove:
                self._remove_by = self._context.clock() + REMOVE_SECONDS
            self._to_remove.append(one.run)
        return one.run

    def _start_removals(self, *, now: bool = False) -> None:
        """Have other threads delete what is left of jobs.

        While pods of other runs are being created that is put off, unless a quota has no room: the
        cluster has nearly as much to do to delete a job as to create it.
        """
        if self._workers is None or not self._to_remove:
            return
        opened = self._open.values()
        is_short = any(one.create is not None and one.again_at is not None for one in opened)
        now = now or is_short or self._context.clock() >= self._remove_by
        if now or not any(one.run.phase in STARTING for one in opened):
            self._removals += [self._workers.submit(self.remove, one) for one in self._to_remove]
            self._to_remove.clear()

    def remove(self, run: Run) -> Run:
        """Delete what is left of a job; the run is measured, whatever becomes of that."""
        run_id = run.run_id
        try:
            run, why = wishes.delete(self._context, run_id)
        except BenchError as wrong:
            self._reporter.note(
                f"warning: what is left of {run_id} on the cluster stays there: {wrong}"
                f" Then: k8sbench delete {run_id}"
            )
            return run
        finally:
            self._context.store.claims.release(run_id)
        if why is not None:
            self._reporter.note(f"{run_id} stays on the cluster: {why}")
        return run

    def _check_removals(self, *, wait: bool = False) -> None:
        """Raise what went wrong with those that are done: a fault of ours."""
        self._start_removals(now=wait)
        done = [one for one in self._removals if wait or one.done()]
        self._removals = [one for one in self._removals if one not in done]
        for one in done:
            one.result()
        if done:
            for waiting in self._open.values():
                if waiting.create is not None and waiting.again_at is not None:
                    waiting.again_at, waiting.tries = self._context.clock(), 0  # there may be room

    def _read_wishes(self) -> None:
        """Take in which runs other processes of the store wish to cancel.

        They ask the cluster themselves, and may not have reached it.
        """
        now = self._context.clock()
        if now < self._wishes_at or not (self._open and self._context.cluster.jobs_outlive_us):
            return
        self._wishes_at = now + WISHES_SECONDS
        with contextlib.suppress(StoreError):  # a database may be away for a while
            for run in self._context.store.runs(RunFilter(wished=True)):
                one = self._open.get(run.run_id)
                if one is not None and one.ends is None:
                    one.ends = _wished_end(run)

    def _end_what_is_due(self) -> None:
        now = self._context.clock()
        for one in list(self._open.values()):
            if one.ends is not None and one.cancelled_at == math.inf:
                if one.create is not None and one.creation is None:
                    # It waits for room, and has no job.
                    final = msgspec.structs.replace(one.ends, at=now)
                    self._reporter.on_event(one.run, self._end(one, final))
                elif one.create is None and (one.has_read() or now >= one.read_by):
                    self._ask_to_cancel(one, one.ends)
                continue
            if now - one.cancelled_at >= CANCEL_SECONDS and self._context.cluster.jobs_outlive_us:
                assert one.ends is not None
                minutes = times.duration(CANCEL_SECONDS)
                cause = f"{one.ends.cause} For {minutes} its job could not be cancelled;"
                self._leave_on_cluster(one, f"{cause} it may go on.", one.ends.cause_id)
                continue
            due = one.due()
            if due is None or now < due:
                continue
            limit, latest = one.run.plan.timeout_s, one.run.history[-1]
            cause = f"The run took longer than its --timeout of {times.duration(limit)}"
            if latest.cause_id is not None:
                cause += f", {latest.phase} ({latest.cause_id}): {latest.cause.rstrip('.')}"
            if self._options.keep and self._context.cluster.jobs_outlive_us:
                self._leave_on_cluster(one, f"{cause}; its pods go on (--keep).", "timeout")
            else:
                self._cancel(one, f"{cause}.", "timeout")

    def _leave_on_cluster(self, one: _Open, cause: str, cause_id: str | None) -> None:
        """End a run whose job goes on, or cannot be cancelled."""
        self._context.cluster.release(one.run.run_id)
        one.ends = None
        final = Transition(
            phase=Phase.FAILED,
            at=self._context.clock(),
            cause=cause,
            cause_id=cause_id,
            action=f"End it with: k8sbench delete {one.run.run_id}",
        )
        self._reporter.on_event(one.run, self._end(one, final))

    def _cancel(self, one: _Open, cause: str, cause_id: str) -> None:
        """End a run by a rule of k8sbench; the cluster is asked until it does."""
        wish = Wish(kind="cancel", at=self._context.clock(), cause=cause, cause_id=cause_id)
        if self._context.cluster.jobs_outlive_us:
            # Where it cannot be recorded the job is to end all the more.
            with contextlib.suppress(StoreError):
                self._context.store.wish(one.run.run_id, wish)
        one.ends, one.cancelled_at = one.run.ended_by(wish), wish.at
        self._context.cluster.cancel(one.run.run_id, cause, cause_id)

    def _ask_to_cancel(self, one: _Open, ends: Transition) -> None:
        """Ask for what is on record; where the cluster refuses it, the job goes on."""
        one.cancelled_at, run_id = self._context.clock(), one.run.run_id
        try:
            self._context.cluster.cancel(
                run_id, ends.cause, ends.cause_id or "cannot-start", wait=True
            )
        except BenchError as wrong:
            one.ends, one.cancelled_at = None, math.inf
            if wishes.is_refused(wrong):
                with contextlib.suppress(StoreError):
                    self._context.store.fulfilled(run_id, "cancel")
            self._on_refusal(one.run, wrong)

    def _note_refusal(self, run: Run, wrong: BenchError) -> None:
        self._reporter.note(f"warning: run {run.run_id} could not be cancelled: {wrong}")


def _wished_end(run: Run) -> Transition | None:
    """Return how a run is to end that is to be cancelled."""
    wish = run.wish("cancel")
    return None if wish is None else run.ended_by(wish)


def _started(create: Callable[[], None]) -> Future[None]:
    """Have a job created by a thread of its own, which does not keep the program from ending."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            create()
        except BaseException as wrong:
            future.set_exception(wrong)
        else:
            future.set_result(None)

    threading.Thread(target=run, name="create", daemon=True).start()
    return future


def kept_gaps(store: Store, run_id: str) -> list[LogGap]:
    """Read which gaps are on record for a run's logs, whoever found them; none where no file is."""
    path = store.folder(run_id) / GAPS
    if not path.exists():
        return []
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[LogGap])
    except msgspec.MsgspecError as wrong:
        raise BenchError(f"{path} cannot be read: {wrong}.") from wrong
