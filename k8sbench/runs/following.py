"""Following jobs to their ends: any number of them, in one thread.

What the cluster tells goes to the store first and to the user second. When a job's last line is
on disk and its end is recorded, the run is closed: measured, and what the cluster still holds of
it deleted. Closing takes longer than telling, so it is done one run at a time, when nothing has
happened: a state that changed is recorded at once, however many runs have just ended. So it is
with several jobs that are created at once, and with what is deleted: the cluster is asked by other
threads meanwhile.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from k8sbench.model.errors import BenchError
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap
from k8sbench.ports import JobEvent, LogArchive, Manifest, Store
from k8sbench.runs.world import Reporter, Stop, World

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

GAPS = "log-gaps.json"
"""Artifact of a run whose logs the cluster did not have whole."""
LOOK_SECONDS = 0.25
"""How long nothing may happen before somebody looks whether to stop, or what the time is."""
CANCEL_SECONDS = 600.0
"""For a job of a cluster to end after it was cancelled. Its API server may be away; after so long
the job is left alone, for nothing waits without end."""
REQUESTS = 4
"""Jobs that are created or deleted at a time, while others are followed."""
WAITING = frozenset({Phase.CREATED, Phase.QUEUED})
"""States in which a run's time does not count: it waits for its turn."""


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs are followed."""

    keep: bool = False
    """Whether jobs and pods stay on the cluster when they are over, or their time is."""
    wait: bool = False
    """Whether to wait even for what cannot come by itself."""


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
    creation: Future[None] | None = None
    """While its job is being created by another thread."""

    def due(self) -> float | None:
        """When its time is up, Unix seconds; None while it has not begun."""
        if self.run.plan.timeout_s is None or self.ends is not None:
            return None
        began = next((step.at for step in self.run.history if step.phase not in WAITING), None)
        return None if began is None else began + self.run.plan.timeout_s


class Following:
    """The runs that this process follows; with ``several``, jobs are created beside that."""

    def __init__(
        self, world: World, tell: Reporter, manner: Manner, *, several: bool = False
    ) -> None:
        self._world, self._tell, self._manner = world, tell, manner
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

    def start(self, run: Run, manifests: Sequence[Manifest]) -> None:
        """Create a recorded run's job and follow it."""
        folder = self._world.store.folder(run.run_id)
        one = _Open(run=run, archive=self._world.store.archive(run.run_id))
        self._open[run.run_id] = one
        create = self._world.cluster.create
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

    def refused(self, *, wait: bool = False) -> list[tuple[Run, BaseException]]:
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

    def take_up(self, run: Run) -> None:
        """Follow a job that was created before, from where its archive ends."""
        store = self._world.store
        marks = store.log_marks(run.run_id)
        archive = store.archive(run.run_id)
        self._world.cluster.take_up(run, marks)
        gaps = kept_gaps(store, run.run_id)
        self._open[run.run_id] = _Open(run=run, archive=archive, gaps=gaps)

    def step(self, seconds: float) -> Iterator[Run]:
        """Do what there is to do, or wait so long for it; yields the runs that were closed."""
        patience = 0.0 if self._over else seconds
        events = self._world.cluster.wait(patience)
        for event in events:
            one = self._open.get(event.run_id)
            if one is not None:
                self._take(one, event)
        self._end_what_is_due()
        self._check_removals()
        if self._over and not events:
            yield self._close(self._over.popleft())

    def to_the_end(self, stop: Stop, more: Callable[[], bool]) -> Iterator[Run]:
        """Follow until all is over; ``more`` starts further runs while it can, and says if any.

        Yields the runs as they are closed. Asked to stop, local jobs are ended and that is waited
        for; jobs of a cluster are left to go on.
        """
        asked = False
        while True:
            if stop.cause is not None and not asked:
                asked = True
                if self._world.cluster.jobs_outlive_us:
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
        """Let go of what is followed still; archives are whole up to here."""
        for one in list(self._open.values()):
            self._leave(one)
        if self._workers is not None:
            self._workers.shutdown()

    def _leave(self, one: _Open) -> None:
        one.archive.close()
        del self._open[one.run.run_id]

    def _take(self, one: _Open, event: JobEvent) -> None:
        store = self._world.store
        if event.line is not None:
            one.archive.write(event.line)
        elif event.gap is not None:
            one.gaps = [*one.gaps, event.gap]
            store.keep(event.run_id, GAPS, msgspec.json.encode(one.gaps).decode() + "\n")
        elif event.replica is not None and event.replica.image is not None:
            one.images = {*one.images, event.replica.image}
        elif event.transition is not None and event.transition.phase.final:
            event = self._end(one, event.transition)
        elif event.transition is not None:
            one.run = store.move(event.run_id, event.transition)
            if event.transition.hopeless and not self._manner.wait:
                self._give_up(one, event.transition)
        self._tell.happened(one.run, event)

    def _end(self, one: _Open, told: Transition) -> JobEvent:
        final = told
        if one.ends is not None and told.phase is not Phase.SUCCEEDED:
            final = msgspec.structs.replace(one.ends, at=max(told.at, one.ends.at))
        # The logs are whole on disk before the run is called final.
        one.archive.close()
        one.run = self._world.store.move(one.run.run_id, final)
        del self._open[one.run.run_id]
        self._over.append(one)
        return JobEvent(run_id=one.run.run_id, transition=final)

    def _close(self, one: _Open) -> Run:
        run_id = one.run.run_id
        if len(one.images) == 1:
            one.run = self._world.store.ran_image(run_id, next(iter(one.images)))
        if one.run.phase is Phase.SUCCEEDED:
            measured = self._world.measure(one.run, one.gaps)
            one.run = self._world.store.measured(run_id, measured)
        self._tell.ended(one.run)
        if not self._manner.keep:
            self._remove(run_id)
        self._world.store.claims.release(run_id)
        return one.run

    def _remove(self, run_id: str) -> None:
        if self._workers is None:
            self._try_to_remove(run_id)
        else:
            self._removals.append(self._workers.submit(self._try_to_remove, run_id))

    def _try_to_remove(self, run_id: str) -> None:
        """Delete what is left of a job; the run is measured, whatever becomes of that."""
        try:
            why = self._world.cluster.remove(run_id)
        except BenchError as wrong:
            self._tell.note(
                f"warning: what is left of {run_id} on the cluster stays there: {wrong}"
                f" Then: k8sbench delete {run_id}"
            )
            return
        if why is not None:
            self._tell.note(f"{run_id} stays on the cluster: {why}")

    def _check_removals(self, *, wait: bool = False) -> None:
        """Raise what went wrong with those that are done: a fault of ours."""
        done = [one for one in self._removals if wait or one.done()]
        self._removals = [one for one in self._removals if one not in done]
        for one in done:
            one.result()

    def _end_what_is_due(self) -> None:
        now = self._world.clock()
        for one in list(self._open.values()):
            if now - one.cancelled_at >= CANCEL_SECONDS and self._world.cluster.jobs_outlive_us:
                self._leave_alone(one, now)
                continue
            due = one.due()
            if due is None or now < due:
                continue
            limit, latest = one.run.plan.timeout_s, one.run.history[-1]
            cause = f"The run took longer than its --timeout of {limit:g} s"
            if latest.cause_id is not None:
                cause += f", {latest.phase} ({latest.cause_id}): {latest.cause.rstrip('.')}"
            if not (self._manner.keep and self._world.cluster.jobs_outlive_us):
                self._cancel(one, f"{cause}.", "timeout")
                continue
            self._world.cluster.let_go(one.run.run_id)
            final = Transition(
                phase=Phase.FAILED,
                at=now,
                cause=f"{cause}; its pods go on (--keep).",
                cause_id="timeout",
                action=f"End them with: k8sbench delete {one.run.run_id}",
            )
            self._tell.happened(one.run, self._end(one, final))

    def _leave_alone(self, one: _Open, now: float) -> None:
        """End a run whose job cannot be cancelled."""
        assert one.ends is not None
        self._world.cluster.let_go(one.run.run_id)
        final = msgspec.structs.replace(
            one.ends,
            phase=Phase.FAILED,
            at=now,
            cause=f"{one.ends.cause} For {CANCEL_SECONDS / 60:.0f} minutes its job could not be"
            " cancelled; it may go on.",
            action=f"End it with: k8sbench delete {one.run.run_id}",
        )
        one.ends = None
        self._tell.happened(one.run, self._end(one, final))

    def _cancel(self, one: _Open, cause: str, cause_id: str, *, wait: bool = False) -> None:
        now = self._world.clock()
        self._world.cluster.cancel(one.run.run_id, cause, cause_id, wait=wait)
        one.cancelled_at = now
        one.ends = Transition(phase=Phase.CANCELLED, at=now, cause=cause, cause_id=cause_id)

    def _give_up(self, one: _Open, waiting: Transition) -> None:
        one.cancelled_at = self._world.clock()
        one.ends = msgspec.structs.replace(waiting, phase=Phase.FAILED)
        self._world.cluster.cancel(
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
