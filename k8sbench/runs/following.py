"""Following jobs to their ends: any number of them, in one thread.

What the cluster reports goes to the store first and to the user second. When a job's last line is
on disk and its end is recorded, the run is closed: measured, and what the cluster still holds of
it deleted. Where logs cannot be read though they may still exist, the run is left to be collected
later, and its job is kept. Closing takes longer than reporting, so it is done one run at a time,
when nothing has happened: a state that changed is recorded at once, however many runs have just
ended. Several jobs are created (:mod:`.creations`), and what is left of them deleted
(:mod:`.removals`), by other threads meanwhile; :mod:`.ends` has the ends that k8sbench itself gives
to runs. What is done at each turn does not grow with the number of runs.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from k8sbench.model import attempts, creation
from k8sbench.model.errors import BenchError, StoreError
from k8sbench.model.phase import LOGS_INCOMPLETE, RESTARTING, Phase, Transition
from k8sbench.model.run import Run
from k8sbench.ports import JobEvent, Manifest
from k8sbench.runs import restarting, wishes
from k8sbench.runs.context import INTERRUPTED, Reporter, RunContext, Stop
from k8sbench.runs.creations import Creations
from k8sbench.runs.ends import Ends
from k8sbench.runs.gathering import Gathering
from k8sbench.runs.open_run import GAPS, OpenRun, kept_gaps, wished_end
from k8sbench.runs.removals import Removals

LOOK_SECONDS = 0.25
"""Longest wait for an event before stop requests and time limits are checked."""
STARTING = frozenset({Phase.CREATED, Phase.PENDING, Phase.PULLING, Phase.STARTING})
"""States of a run whose pods are being created and started."""


class Following:
    """The runs that this process follows; with ``several``, jobs are created beside that.

    With ``keep`` jobs and pods stay on the cluster when they are over, or their time is; with
    ``wait`` even what cannot recover by itself is waited for.
    A run whose files cannot be read or written is an error, or, with ``on_failure``, left alone
    after that is called: it must not stop the others. ``on_refusal`` is called where the cluster
    does not cancel a job that is to be cancelled, and which goes on; by default that is noted. With
    ``leaves_restarted`` a run whose job was created again is followed no further.
    """

    def __init__(
        self,
        context: RunContext,
        reporter: Reporter,
        *,
        keep: bool = False,
        wait: bool = False,
        several: bool = False,
        gathering: Gathering | None = None,
        on_failure: Callable[[Run, StoreError], None] | None = None,
        on_refusal: Callable[[Run, BenchError], None] | None = None,
        leaves_restarted: bool = False,
    ) -> None:
        self._context, self._reporter = context, reporter
        self._keep, self._wait = keep, wait
        self._gathering = gathering or Gathering(context, reporter)
        self._on_failure = on_failure
        self._creations = Creations(context, reporter, self._leave, self._end_now)
        self._leaves_restarted = leaves_restarted
        self.restarted: list[Run] = []
        """The runs that were left alone for that."""
        self.refused = self._creations.refused
        """The runs whose jobs were not created, and why; see there."""
        self._removals = Removals(context, reporter, in_threads=several)
        self._is_alone = not several
        self._open: dict[str, OpenRun] = {}
        self._ends = Ends(
            context,
            self._open,
            self._end_now,
            on_refusal or self._note_refusal,
            keep=keep,
        )
        self._starts: OpenRun | None = None
        """A run whose pods are being created."""
        self._over: deque[OpenRun] = deque()
        """Final or left alone, and still to be closed."""

    def __len__(self) -> int:
        """Count the runs that take a place: those not over, or not closed where one has it alone.

        Measuring one run must not take time from the next on the same machine.
        """
        return len(self._open) + (len(self._over) if self._is_alone else 0)

    def has(self, run_id: str) -> bool:
        """Whether a run is followed, or over and still to be closed."""
        return run_id in self._open or any(one.run_id == run_id for one in self._over)

    def start(self, run: Run, manifests: Sequence[Manifest]) -> None:
        """Create a recorded run's job and follow it; see :attr:`refused`."""
        store, cluster = self._context.store, self._context.cluster
        create = partial(cluster.create, run.plan, manifests, store.folder(run.run_id))
        one = OpenRun(run=run, archive=store.archive(run.run_id))
        self._open[run.run_id] = one
        if cluster.jobs_outlive_us:
            # The API server may take long to answer; meanwhile others are followed, and the user
            # may stop it.
            one.create = create
            self._creations.start(one)
            return
        try:
            create()
        except BaseException:
            self._leave(one)
            raise

    @property
    def is_busy(self) -> bool:
        """Whether as many jobs are being created as may be at a time."""
        return self._creations.is_busy

    def stop_creating(self) -> None:
        """Wait a moment for the creations that go on, and leave alone what has no job by then."""
        self._creations.stop()

    def resume(
        self, run: Run, printed: Mapping[str, float] | None = {}, read_by: float = -math.inf
    ) -> None:
        """Follow a job that was created before, from where its archive ends.

        If the run is to be cancelled, that is done when what is ``printed`` was read: until when,
        Unix seconds, by replica; None where that is not known. At ``read_by`` (Unix seconds) it is
        done in any case.
        """
        store = self._context.store
        store.ensure_folder(run.run_id)
        is_restarting = attempts.is_restarting(run)
        if is_restarting:
            # Who recorded it may have been killed before this, and another store have gone on.
            store.begin_attempt(run.run_id)
            if restarting.found(run, self._context):
                run = store.move(run.run_id, creation.created(self._context.clock()))
                is_restarting = False
        marks = store.log_marks(run.run_id)
        archive = store.archive(run.run_id)
        if not is_restarting:
            self._context.cluster.resume(run, marks)
        one = OpenRun(
            run=run,
            archive=archive,
            is_unwanted=run.wish("cancel") is not None,
            gaps=kept_gaps(store, run.run_id),
            read_until={replica: mark.at for replica, mark in marks.items()},
            printed=printed,
            read_by=read_by,
            known_at=math.inf,
        )
        self._open[run.run_id] = one
        self._ends.will_end(one, wished_end(run))
        if is_restarting and one.ends is not None:
            self._end_now(one, msgspec.structs.replace(one.ends, at=self._context.clock()))
        elif is_restarting:
            self._begin_attempt(one)

    def step(self, seconds: float) -> Iterator[Run]:
        """Do what there is to do, or wait so long for it; yields the runs that were closed.

        One that is not final was left alone: its logs cannot be read now.
        """
        patience = 0.0 if self._ready() else seconds
        self._creations.try_again()
        if patience and self._creations.unfollowed == len(self._open):
            # The cluster follows none of them, and would return at once.
            threading.Event().wait(patience)
        events = self._context.cluster.wait(patience)
        self._creations.take()
        for (run_id, replica), some in itertools.groupby(events, _printed_by):
            one = self._open.get(run_id)
            if one is not None and replica is not None:
                with self._guarded(one):
                    self._take_lines(one, replica, list(some))
                continue
            for event in some:
                one = self._open.get(run_id)
                if not run_id and event.note is not None:
                    self._reporter.note(event.note)
                elif one is not None:
                    with self._guarded(one):
                        self._take(one, event)
        self._ends.step()
        self._leave_restarted()
        self._check_removals()
        self._gathering.step()
        one = self._ready()
        if one is not None and not events:
            yield from self._close_one(one)

    def _ready(self) -> OpenRun | None:
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
                    yield from self._close_what_is_over()
                    return
                for one in self._open.values():
                    self._ends.cancel(one, stop.cause, INTERRUPTED)
            started = not asked and more()
            if not self._open and not self._over and not started:
                self._check_removals(wait=True)
                return
            yield from self.step(0.0 if started else LOOK_SECONDS)

    def _close_what_is_over(self) -> Iterator[Run]:
        """Close the runs whose logs are on disk already: their figures are a moment away."""
        while (one := self._ready()) is not None:
            yield from self._close_one(one)

    def _close_one(self, one: OpenRun) -> Iterator[Run]:
        with self._guarded(one):
            closed = self._close(one)
            self._over.remove(one)
            yield closed

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
        self._removals.close()

    @contextlib.contextmanager
    def _guarded(self, one: OpenRun) -> Iterator[None]:
        """Leave a run alone whose files cannot be read or written, if that is what is wanted."""
        try:
            yield
        except StoreError as wrong:
            if self._on_failure is None:
                raise
            self._context.cluster.release(one.run_id)
            if self._open.get(one.run_id) is one:
                with contextlib.suppress(StoreError):
                    self._leave(one)
            with contextlib.suppress(ValueError):
                self._over.remove(one)
            self._on_failure(one.run, wrong)

    def _leave(self, one: OpenRun) -> None:
        """Follow a run no more."""
        self._gathering.release(one.run_id)
        self._forget(one.run_id)
        one.archive.close()

    def _leave_restarted(self) -> None:
        """Leave runs alone of which only another attempt was to be begun, or tried to be."""
        for one in list(self._open.values()) if self._leaves_restarted else ():
            if one.is_restarted and (one.create is None or one.tries):
                self._context.cluster.release(one.run_id)
                self._leave(one)
                self.restarted.append(one.run)

    def _forget(self, run_id: str) -> None:
        del self._open[run_id]
        self._ends.forget(run_id)
        self._creations.forget(run_id)

    def _take(self, one: OpenRun, event: JobEvent) -> None:
        store = self._context.store
        if one.known_at == math.inf and (event.replica or event.transition):
            one.known_at = self._context.clock()
            self._ends.note_limit(one)
        if event.replica is not None:
            self._gathering.seen(one.run, event.replica)
        if event.gap is not None:
            one.gaps = [*one.gaps, event.gap]
            store.keep(event.run_id, GAPS, msgspec.json.encode(one.gaps).decode() + "\n")
        elif event.replica is not None and event.replica.image is not None:
            one.images = {*one.images, event.replica.image}
        elif event.transition is not None and (
            event.transition.phase.final or event.transition.cause_id == LOGS_INCOMPLETE
        ):
            if self._creations.may_come(one, event.transition):
                return
            known = self._known_end(one, event.transition)
            known = restarting.following_attempt(one, known, self._context, keep=self._keep)
            if known.cause_id == RESTARTING:
                self._restart(one, known)
                return
            event = self._end(one, known)
        elif event.transition is not None:
            one.run = store.move(event.run_id, event.transition)
            if event.transition.cause_id == RESTARTING:  # by another store
                store.begin_attempt(event.run_id)
            self._ends.note_limit(one)
            if event.transition.unrecoverable and not self._wait:
                waiting = one.run.history[-1]
                self._ends.cancel(one, waiting.cause, waiting.cause_id or "cannot-start")
        self._reporter.on_event(one.run, event)

    def _take_lines(self, one: OpenRun, replica: str, events: Sequence[JobEvent]) -> None:
        lines = [event.line for event in events if event.line is not None]
        one.archive.write(*lines)
        one.read_until[replica] = lines[-1].at
        for event in () if one.is_unwanted else events:
            self._reporter.on_event(one.run, event)

    def _restart(self, one: OpenRun, transition: Transition) -> None:
        """Record that another attempt comes, and begin it."""
        one.archive.close()
        one.run = self._context.store.move(one.run_id, transition)
        self._context.store.begin_attempt(one.run_id)
        self._reporter.on_event(one.run, JobEvent(run_id=one.run_id, transition=transition))
        self._begin_attempt(one)

    def _begin_attempt(self, one: OpenRun) -> None:
        """Create the next attempt of a run, of which nothing was archived yet."""
        one.is_restarted, one.known_at, one.tries = True, self._context.clock(), 0
        one.printed, one.read_until = {}, {}
        create = partial(restarting.create, one.run, self._context)
        if self._context.cluster.jobs_outlive_us:
            one.create = create
            self._creations.start_soon(one)
            self._ends.note_limit(one)
            return
        try:
            create()
        except StoreError:
            raise
        except BenchError as wrong:
            self._end_now(one, attempts.refused(one.run, wrong, self._context.clock()))

    def _known_end(self, one: OpenRun, reported: Transition) -> Transition:
        """Return the end of a job as it is on record where k8sbench ended it, else as reported.

        A job that ended by itself before it could be cancelled has that end.
        """
        if reported.phase is Phase.LOST and one.ends is None:
            # Another process of the store may have ended it.
            one.ends = wished_end(self._context.store.run(one.run_id))
        ends = one.ends
        if ends is None or not (
            reported.phase in {Phase.CANCELLED, Phase.LOST} or reported.cause_id == ends.cause_id
        ):
            if reported.cause_id == creation.JOB_GONE and not creation.is_known_created(one.run):
                return creation.never(one.run_id, reported.at)
            return reported
        return msgspec.structs.replace(ends, at=max(reported.at, ends.at))

    def _end_now(self, one: OpenRun, final: Transition) -> None:
        """End a run whose job has no end of its own."""
        self._reporter.on_event(one.run, self._end(one, final))

    def _end(self, one: OpenRun, final: Transition) -> JobEvent:
        # What was read is on disk before the run is called final, or left alone.
        one.archive.close()
        self._gathering.release(one.run_id)
        # A process that is killed from here on leaves a run that is known to have a job.
        deletes = self._context.cluster.jobs_outlive_us and not self._keep
        deletes = deletes and final.phase.final and not one.keeps_job(final)
        owes = wishes.left_over(final.at) if deletes else None
        image = next(iter(one.images)) if len(one.images) == 1 else None
        one.run = self._context.store.move(one.run_id, final, owes=owes, image=image)
        self._forget(one.run_id)
        self._over.append(one)
        return JobEvent(run_id=one.run_id, transition=final)

    def _close(self, one: OpenRun) -> Run:
        is_kept = one.keeps_job(one.run.history[-1])
        stays = self._keep or is_kept or not one.run.phase.final
        if one.is_unwanted and not stays:
            one.run = self._removals.add(one.run)
        if one.run.phase is Phase.SUCCEEDED:
            measured = self._context.measure(one.run, one.gaps)
            measured = self._gathering.promised(one.run, measured)
            one.run = self._context.store.measured(one.run_id, measured)
        self._reporter.ended(one.run)
        self._gathering.add(one.run)
        if is_kept and not self._keep:
            why = "its logs are not whole. To delete it: k8sbench delete"
            self._reporter.note(f"{one.run_id} stays on the cluster: {why} {one.run_id}")
        if stays:
            self._context.store.claims.release(one.run_id)
        return one.run if stays or one.is_unwanted else self._removals.add(one.run)

    def _check_removals(self, *, wait: bool = False) -> None:
        """Have what is left of jobs deleted.

        While pods of other runs are being created that is put off, unless a quota has no room: the
        cluster has nearly as much to do to delete a job as to create it.
        """
        creations = self._creations
        self._removals.start(lambda: not wait and not creations.lack_room and self._any_starts())
        if self._removals.take(wait=wait):
            creations.try_now()

    def _any_starts(self) -> bool:
        """Whether pods of any run are being created."""
        one = self._starts
        if one is None or one.run_id not in self._open or one.run.phase not in STARTING:
            found = (other for other in self._open.values() if other.run.phase in STARTING)
            self._starts = next(found, None)
        return self._starts is not None

    def _note_refusal(self, run: Run, wrong: BenchError) -> None:
        self._reporter.note(f"warning: run {run.run_id} could not be cancelled: {wrong}")


def _printed_by(event: JobEvent) -> tuple[str, str | None]:
    """Name the run, and the replica if the event is a line of its log."""
    return event.run_id, None if event.line is None else event.line.replica
