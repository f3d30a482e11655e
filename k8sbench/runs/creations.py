"""The creation of jobs while others are followed.

A few are created at a time, by other threads: the API server may take long to answer, and the user
may ask to stop. One for which a quota has no room is tried again, one that may still come although
the cluster does not have it is looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait

from k8sbench.model import attempts, creation, times
from k8sbench.model.errors import BenchError, NoRoom
from k8sbench.model.phase import Transition
from k8sbench.model.run import Run
from k8sbench.ports import JobEvent
from k8sbench.runs import restarting
from k8sbench.runs.context import Reporter, RunContext
from k8sbench.runs.gathering import in_thread
from k8sbench.runs.open_run import OpenRun

REQUESTS = 4
"""Jobs that are created at a time."""
ANSWER_SECONDS = 5.0
"""For the answer to a creation when k8sbench is asked to stop."""
AGAIN_SECONDS = 2.0
"""Until a quota is tried again that has no room for a job; twice as long each time."""
LONGEST_AGAIN = 30.0
ABSENT_SECONDS = 5.0
"""Until a job is looked for again that may still come."""


class Creations:
    """The runs whose jobs are being created, or are to be asked for again."""

    def __init__(
        self,
        context: RunContext,
        reporter: Reporter,
        leave: Callable[[OpenRun], None],
        end: Callable[[OpenRun, Transition], None],
    ) -> None:
        """``leave`` is called with a run that is not to be followed any more.

        ``end`` is called with one whose next attempt cannot be created, and how it ends.
        """
        self._context, self._reporter, self._leave, self._end = context, reporter, leave, end
        self.refused: list[tuple[Run, BaseException]] = []
        """The runs whose jobs were not created, or not for certain, and why. Each is recorded and
        left alone; who asked for it takes it from here."""
        self._going_on: dict[str, OpenRun] = {}
        self.waiting: dict[str, OpenRun] = {}
        """By run id; each has a time at which it is asked for again."""

    @property
    def is_busy(self) -> bool:
        """Whether as many jobs are being created as may be at a time."""
        return len(self._going_on) >= REQUESTS

    @property
    def lack_room(self) -> bool:
        """Whether a quota has no room for one of them."""
        return any(one.create is not None for one in self.waiting.values())

    @property
    def unfollowed(self) -> int:
        """Count the runs that the cluster does not follow: their jobs are waited for."""
        return len(self.waiting) + sum(one.is_restarted for one in self._going_on.values())

    def start_soon(self, one: OpenRun) -> None:
        """Have a run's job created as soon as fewer are than may be at a time."""
        one.again_at = self._context.clock()
        self.waiting[one.run_id] = one

    def start(self, one: OpenRun) -> None:
        """Have a run's job created."""
        assert one.create is not None
        one.creation = in_thread(one.create, "create")
        self._going_on[one.run_id] = one

    def forget(self, run_id: str) -> None:
        """Leave a run alone that is followed no more; its creation may go on."""
        self._going_on.pop(run_id, None)
        self.waiting.pop(run_id, None)

    def take(self) -> None:
        """Record what became of the creations that are done."""
        for run_id, one in list(self._going_on.items()):
            if one.creation is None or not one.creation.done():
                continue
            del self._going_on[run_id]
            wrong, one.creation = one.creation.exception(), None
            if wrong is None:
                one.create = None
                if not creation.is_known_created(one.run):
                    self._move(one, creation.created(self._context.clock()))
            elif isinstance(wrong, NoRoom):
                self._wait_for(one, creation.waiting(wrong, self._context.clock()))
            elif one.is_restarted:
                self._not_restarted(one, wrong)
            else:
                self._refuse(one, wrong)

    def try_again(self) -> None:
        """Create, or look for, the jobs whose time has come."""
        now = self._context.clock()
        for run_id, one in list(self.waiting.items()):
            if one.again_at is None or now < one.again_at or (one.create and self.is_busy):
                continue
            del self.waiting[run_id]
            one.again_at = None
            if one.create is not None:
                self.start(one)
                continue
            self._context.cluster.resume(one.run, {})
            if one.ends is not None:
                cause, cause_id = one.ends.cause, one.ends.cause_id or "cancelled"
                self._context.cluster.cancel(run_id, cause, cause_id)

    def try_now(self) -> None:
        """Try those again for which a quota had no room: there may be some."""
        for one in self.waiting.values():
            if one.create is not None:
                one.again_at, one.tries = self._context.clock(), 0

    def stop(self) -> None:
        """Wait a moment for the creations that go on, and leave alone what has no job by then."""
        wait([one.creation for one in self._going_on.values() if one.creation], ANSWER_SECONDS)
        self.take()
        why = "k8sbench was asked to stop before that."
        for one in list(self._going_on.values()):
            self._refuse(one, creation.unknown_error(one.run_id, why))
        for one in list(self.waiting.values()):
            if one.create is not None:
                self._refuse(one, BenchError(why))

    def may_come(self, one: OpenRun, reported: Transition) -> bool:
        """Whether a job that does not exist may still come: then it is looked for again."""
        if reported.cause_id != creation.JOB_GONE or creation.is_known_created(one.run):
            return False
        now = self._context.clock()
        found = creation.missing(one.run, now)
        if found is not None and found.phase.final:
            return False
        if found is not None:
            self._move(one, found)
        left_s = creation.settles_in(one.run, now)
        if one.tries == 0:
            self._reporter.note(
                f"The cluster has no job {one.run_id}. It is looked for another"
                f" {times.duration(left_s)}: a request for it may still be on its way."
            )
        self._wait(one, now + min(left_s, ABSENT_SECONDS))
        return True

    def _not_restarted(self, one: OpenRun, wrong: BaseException) -> None:
        """Go on with a run whose next attempt was not created, or not for certain."""
        now = self._context.clock()
        if not isinstance(wrong, BenchError):
            raise wrong
        if restarting.was_created(one.run, wrong):
            one.create = None
            self._context.cluster.resume(one.run, self._context.store.log_marks(one.run_id))
        elif restarting.may_pass(wrong):
            self._wait_for(one, attempts.waiting(one.run, wrong, now))
        else:
            self._end(one, attempts.refused(one.run, wrong, now))

    def _wait_for(self, one: OpenRun, transition: Transition) -> None:
        now = self._context.clock()
        self._wait(one, now + min(AGAIN_SECONDS * 2.0 ** min(one.tries, 10), LONGEST_AGAIN))
        if one.run.history[-1].cause != transition.cause:
            self._move(one, transition)
            self._reporter.on_event(one.run, JobEvent(run_id=one.run_id, transition=transition))

    def _wait(self, one: OpenRun, until: float) -> None:
        one.again_at = until
        one.tries += 1
        self.waiting[one.run_id] = one

    def _refuse(self, one: OpenRun, wrong: BaseException) -> None:
        """Record that a run has no job, or may have none, and leave it alone.

        Of one that is restarted it is on record already.
        """
        if not one.is_restarted:
            self._move(one, creation.failed(one.run_id, wrong, self._context.clock()))
        self._leave(one)
        self._context.store.claims.release(one.run_id)
        self.refused.append((one.run, wrong))

    def _move(self, one: OpenRun, transition: Transition) -> None:
        one.run = self._context.store.move(one.run_id, transition)
