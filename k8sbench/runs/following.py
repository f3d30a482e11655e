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
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from k8sbench.model import times
from k8sbench.model.errors import BenchError, StoreError
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap
from k8sbench.ports import JobEvent, LogArchive, Manifest, Store
from k8sbench.runs.context import Reporter, RunContext, Stop

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

GAPS = "log-gaps.json"
"""Artifact of a run whose logs the cluster did not have whole."""
LOOK_SECONDS = 0.25
"""Longest wait for an event before stop requests and time limits are checked."""
CANCEL_SECONDS = 600.0
"""For a job of a cluster to end after it was cancelled. Its API server may be away; after so long
the job is left alone, for nothing waits without end."""
REQUESTS = 4
"""Jobs that are created or deleted at a time, while others are followed."""
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
    creation: Future[None] | None = None
    """While its job is being created by another thread."""

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

            self._workers = ThreadPoolExecutor(REQUESTS, thread_name_prefix="create")
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
        """Create a recorded run's job and follow it."""
        folder = self._context.store.folder(run.run_id)
        one = _Open(run=run, archive=self._context.store.archive(run.run_id))
        self._open[run.run_id] = one
        create = self._context.cluster.create
        if self._workers is not None:
            one.creation = self._workers.submit(create, run.plan, manifests, folder)
            return
        try:
            create(run.plan, manifests, folder)
        except BaseException:
            self._leave(one)
            raise

    @property
    def is_busy(self) -> bool:
        """Whether as many jobs are being created as may be at a time."""
        return sum(one.creation is not None for one in self._open.values()) >= REQUESTS

    def rejected(self, *, wait: bool = False) -> list[tuple[Run, BaseException]]:
        """Return the runs whose jobs could not be created, and why; they are left alone now."""
        found: list[tuple[Run, BaseException]] = []
        for one in list(self._open.values()):
            if one.creation is None or not (wait or one.creation.done()):
                continue
            wrong = one.creation.exception()
            one.creation = None
            if wrong is not None:
                self._leave(one)
                found.append((one.run, wrong))
        return found

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
        events = self._context.cluster.wait(patience)
        for event in events:
            one = self._open.get(event.run_id)
            if not event.run_id and event.note is not None:
                self._reporter.note(event.note)
            elif one is not None:
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
            event = self._end(one, event.transition)
        elif event.transition is not None:
            one.run = store.move(event.run_id, event.transition)
            if event.transition.unrecoverable and not self._options.wait:
                self._give_up(one, event.transition)
        self._reporter.on_event(one.run, event)

    def _end(self, one: _Open, reported: Transition) -> JobEvent:
        final = reported
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


def kept_gaps(store: Store, run_id: str) -> list[LogGap]:
    """Read which gaps are on record for a run's logs, whoever found them; none where no file is."""
    path = store.folder(run_id) / GAPS
    if not path.exists():
        return []
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[LogGap])
    except msgspec.MsgspecError as wrong:
        raise BenchError(f"{path} cannot be read: {wrong}.") from wrong
