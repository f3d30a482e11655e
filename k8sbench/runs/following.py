"""Following jobs to their ends: any number of them, in one thread.

What the cluster reports goes to the store first and to the user second. When a job's last line is
on disk and its end is recorded, the run is closed: measured, and what the cluster still holds of
it deleted. Closing takes longer than reporting, so it is done one run at a time, when nothing has
happened: a state that changed is recorded at once, however many runs have just ended. Several jobs
are created, and what is left of them deleted, by other threads meanwhile.
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
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap
from k8sbench.ports import JobEvent, LogArchive, Manifest, Store
from k8sbench.runs.context import Reporter, RunContext, Stop

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

GAPS = "log-gaps.json"
"""Artifact of a run whose logs the cluster did not have whole."""
LOOK_SECONDS = 0.25
"""Longest wait for an event before stop requests and time limits are checked."""
CANCEL_SECONDS = 600.0
"""For a job of a cluster to end after it was cancelled. Its API server may be away; after so long
the job is left alone, for nothing waits without end."""
REQUESTS = 4
"""Jobs that are created or deleted at a time, while others are followed."""
ANSWER_SECONDS = 5.0
"""For the answer to a creation when k8sbench is asked to stop."""
AGAIN_SECONDS = 2.0
"""Until a quota is tried again that has no room for a job; twice as long each time."""
LONGEST_AGAIN = 30.0
ABSENT_SECONDS = 5.0
"""Until a job is looked for again that may still come."""
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
    """How it is to end because k8sbench ended it."""
    cancelled_at: float = math.inf
    """When it was cancelled, Unix seconds."""
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

    def due(self) -> float | None:
        """When its time is up, Unix seconds; None while it has not begun."""
        if self.run.plan.timeout_s is None or self.ends is not None:
            return None
        began = next((step.at for step in self.run.history if step.phase not in WAITING), None)
        return None if began is None else began + self.run.plan.timeout_s


class Following:
    """The runs that this process follows; with ``several``, jobs are created beside that.

    A run whose files cannot be read or written is an error, or, with ``on_failure``, left alone
    after that is called: it must not stop the others.
    """

    def __init__(
        self,
        context: RunContext,
        reporter: Reporter,
        options: FollowOptions,
        *,
        several: bool = False,
        on_failure: Callable[[Run, StoreError], None] | None = None,
    ) -> None:
        self._context, self._reporter, self._options = context, reporter, options
        self._on_failure = on_failure
        self._workers: ThreadPoolExecutor | None = None
        if several:
            from concurrent.futures import ThreadPoolExecutor

            self._workers = ThreadPoolExecutor(REQUESTS, thread_name_prefix="delete")
        self.refused: list[tuple[Run, BaseException]] = []
        """The runs whose jobs were not created, or not for certain, and why. Each is recorded and
        left alone; who asked for it takes it from here."""
        self._removals: list[Future[None]] = []
        self._open: dict[str, _Open] = {}
        self._over: deque[_Open] = deque()
        """Final, and still to be closed."""

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

    def resume(self, run: Run) -> None:
        """Follow a job that was created before, from where its archive ends."""
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
        )

    def has_read(self, run_id: str, until: Mapping[str, float]) -> bool:
        """Whether each replica's log was read up to a time; True of a run that is over."""
        one = self._open.get(run_id)
        return one is None or all(
            one.read_until.get(replica, 0.0) >= at for replica, at in until.items()
        )

    def step(self, seconds: float) -> Iterator[Run]:
        """Do what there is to do, or wait so long for it; yields the runs that were closed."""
        patience = 0.0 if self._over else seconds
        self._try_again()
        if patience and all(one.again_at is not None for one in self._open.values()):
            # The cluster follows none of them, and would return at once.
            threading.Event().wait(patience)
        events = self._context.cluster.wait(patience)
        self._take_creations()
        for event in events:
            one = self._open.get(event.run_id)
            if one is not None:
                with self._guarded(one):
                    self._take(one, event)
        self._end_what_is_due()
        self._check_removals()
        if self._over and not events:
            one = self._over.popleft()
            with self._guarded(one):
                yield self._close(one)

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

    def cancel(self, run_id: str, cause: str, cause_id: str) -> None:
        """End a run that is followed; one that is over stays as it is.

        Raises :class:`BenchError` where that is refused: the run goes on.
        """
        if run_id in self._open:
            self._cancel(self._open[run_id], cause, cause_id, wait=True)

    def runs(self) -> list[Run]:
        """The runs that are not over."""
        return [one.run for one in self._open.values()]

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
            self._on_failure(one.run, wrong)

    def _leave(self, one: _Open) -> None:
        one.archive.close()
        del self._open[one.run.run_id]

    def _take(self, one: _Open, event: JobEvent) -> None:
        store = self._context.store
        if event.line is not None:
            one.archive.write(event.line)
            one.read_until[event.line.replica] = event.line.at
        elif event.gap is not None:
            one.gaps = [*one.gaps, event.gap]
            store.keep(event.run_id, GAPS, msgspec.json.encode(one.gaps).decode() + "\n")
        elif event.replica is not None and event.replica.image is not None:
            one.images = {*one.images, event.replica.image}
        elif event.transition is not None and event.transition.phase.final:
            if self._may_come(one, event.transition):
                return
            event = self._end(one, event.transition)
        elif event.transition is not None:
            one.run = store.move(event.run_id, event.transition)
            if event.transition.unrecoverable and not self._options.wait:
                self._give_up(one, event.transition)
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

    def _end(self, one: _Open, reported: Transition) -> JobEvent:
        final = reported
        if reported.cause_id == creation.JOB_GONE and not creation.is_known_created(one.run):
            final = creation.never(one.run.run_id, reported.at)
        if one.ends is not None and reported.phase is not Phase.SUCCEEDED:
            final = msgspec.structs.replace(one.ends, at=max(reported.at, one.ends.at))
        # The logs are whole on disk before the run is called final.
        one.archive.close()
        one.run = self._context.store.move(one.run.run_id, final)
        del self._open[one.run.run_id]
        self._over.append(one)
        return JobEvent(run_id=one.run.run_id, transition=final)

    def _close(self, one: _Open) -> Run:
        run_id = one.run.run_id
        if len(one.images) == 1:
            one.run = self._context.store.record_image(run_id, next(iter(one.images)))
        if one.run.phase is Phase.SUCCEEDED:
            measured = self._context.measure(one.run, one.gaps)
            one.run = self._context.store.measured(run_id, measured)
        self._reporter.ended(one.run)
        if not self._options.keep:
            self._remove(run_id)
        self._context.store.claims.release(run_id)
        return one.run

    def _remove(self, run_id: str) -> None:
        if self._workers is None:
            self._try_to_remove(run_id)
        else:
            self._removals.append(self._workers.submit(self._try_to_remove, run_id))

    def _try_to_remove(self, run_id: str) -> None:
        """Delete what is left of a job; the run is measured, whatever becomes of that."""
        try:
            why = self._context.cluster.remove(run_id)
        except BenchError as wrong:
            self._reporter.note(
                f"warning: what is left of {run_id} on the cluster stays there: {wrong}"
                f" Then: k8sbench delete {run_id}"
            )
            return
        if why is not None:
            self._reporter.note(f"{run_id} stays on the cluster: {why}")

    def _check_removals(self, *, wait: bool = False) -> None:
        """Raise what went wrong with those that are done: a fault of ours."""
        done = [one for one in self._removals if wait or one.done()]
        self._removals = [one for one in self._removals if one not in done]
        for one in done:
            one.result()
        if done:
            for waiting in self._open.values():
                if waiting.create is not None and waiting.again_at is not None:
                    waiting.again_at, waiting.tries = self._context.clock(), 0  # there may be room

    def _end_what_is_due(self) -> None:
        now = self._context.clock()
        for one in list(self._open.values()):
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

    def _cancel(self, one: _Open, cause: str, cause_id: str, *, wait: bool = False) -> None:
        now = self._context.clock()
        self._context.cluster.cancel(one.run.run_id, cause, cause_id, wait=wait)
        one.cancelled_at = now
        one.ends = Transition(phase=Phase.CANCELLED, at=now, cause=cause, cause_id=cause_id)

    def _give_up(self, one: _Open, waiting: Transition) -> None:
        one.cancelled_at = self._context.clock()
        one.ends = msgspec.structs.replace(waiting, phase=Phase.FAILED)
        self._context.cluster.cancel(
            one.run.run_id, waiting.cause, waiting.cause_id or "cannot-start"
        )


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
