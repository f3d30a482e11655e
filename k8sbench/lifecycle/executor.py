"""The one executor: does what :mod:`.decide` says, for any number of runs, in one thread.

An intent is recorded before it is carried out: a process may be killed at any moment, and whoever
takes the run up then finds what was intended. Requests are made by a pool of threads, as many at a
time as :func:`.decide.admit` gives out, and their answers are taken by this thread. Measuring takes
longer than recording, so runs that are over are closed one at a time, when nothing has happened.
What is done at each turn does not grow with the number of runs.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence

from k8sbench.lifecycle import decide, job_events, job_requests, requests
from k8sbench.lifecycle.active_runs import ActiveRuns, Rules, Until
from k8sbench.lifecycle.context import INTERRUPTED, Reporter, RunContext, Stop
from k8sbench.lifecycle.followed import FollowedRun
from k8sbench.lifecycle.gathering import Gathering
from k8sbench.lifecycle.job_events import kept_gaps
from k8sbench.lifecycle.views import Ended, NotAsked, Over, Unwatched, View, state_of
from k8sbench.model import attempts, creation
from k8sbench.model.errors import BenchError, StoreError
from k8sbench.model.run import Run, Wish
from k8sbench.ports import Manifest

__all__ = ["LOOK_SECONDS", "Executor", "Rules", "Until"]

LOOK_SECONDS = 0.25
"""Longest wait for an event before stop requests and time limits are checked."""
ANSWER_SECONDS = 5.0
"""For the answer to a creation when k8sbench is asked to stop."""
WISHES_SECONDS = 15.0
"""Between two looks at what other processes of the store wish for the runs that are followed."""


class Executor:
    """Brings the runs that it is given to their ends, by the same rules."""

    def __init__(
        self,
        context: RunContext,
        reporter: Reporter,
        rules: Rules | None = None,
        gathering: Gathering | None = None,
    ) -> None:
        rules, gathering = rules or Rules(), gathering or Gathering(context, reporter)
        self._active = ActiveRuns(context, reporter, rules, gathering)
        self._due: list[tuple[float, str]] = []
        """A heap of the times at which to decide on runs again."""
        self._wishes_at = -math.inf
        """When to look at other processes' wishes, Unix seconds."""
        self.refused = self._active.refused
        """The runs whose jobs were not created, or not for certain, and why. Each is recorded and
        left alone; who asked for it takes it from here."""
        self.left = self._active.left
        """The runs that go on and were left alone because they were to be brought no further."""

    # -- which runs -----------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether a further run may begin."""
        return self._admission().has_room

    def has(self, run_id: str) -> bool:
        """Whether a run is followed, or over and still to be closed."""
        return run_id in self._active.held()

    def runs(self) -> list[Run]:
        """The runs that are not over."""
        return [followed.run for followed in self._active.runs.values()]

    def unclosed(self) -> list[Run]:
        """The runs that are not over, and those that are and are still to be closed."""
        return [*self.runs(), *(followed.run for followed in self._active.over)]

    def create(self, run: Run, manifests: Sequence[Manifest]) -> None:
        """Create a recorded run's job and follow it; see :attr:`refused`."""
        archive = self._active.context.store.archive(run.run_id)
        record, view = self._active.record(run), View(job=NotAsked())
        self._begin(FollowedRun(record=record, view=view, archive=archive, manifests=manifests))

    def take(self, run: Run) -> bool:
        """Take up a run that was recorded before; False if another process follows it.

        What its archive lacks is read. If it is to be cancelled, that is done when what its job has
        printed until now is archived, and after :data:`~.requests.READ_SECONDS` in any case. One
        that is over is measured, and what is left of its job deleted, where that is still to come.
        """
        store, run_id = self._active.context.store, run.run_id
        try:
            if not store.claims.claim(run_id):
                return False
            run = store.run(run_id)  # another process may have gone on with it since it was read
            if isinstance(state_of(run), Over):
                self._take_over(run)
            else:
                self._active.reporter.planned(run)
                self._begin(self._taken(run))
        except StoreError as error:
            if self._active.rules.on_failure is None:
                raise
            store.claims.release(run_id)
            self._active.rules.on_failure(run, error)
        except BenchError:
            # The cluster does not answer: it can be taken up again.
            if run_id in self._active.runs:
                self._active.leave(self._active.runs[run_id])
            raise
        return True

    def _take_over(self, run: Run) -> None:
        """Do what another process left of a run that is over."""
        store, run_id = self._active.context.store, run.run_id
        if self._active.rules.keep and run.wishes and not requests.is_by_name(run):
            run = store.fulfilled(run_id, "delete")
        followed = FollowedRun(
            record=self._active.record(run),
            view=View(job=Ended(run.history[-1]), deletes=run.wishes != ()),
            gaps=kept_gaps(store, run_id),
        )
        self._active.over.append(followed)

    def _taken(self, run: Run) -> FollowedRun:
        store, run_id = self._active.context.store, run.run_id
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
            read_by=self._active.context.clock() + requests.READ_SECONDS,
        )
        record, archive = self._active.record(run, wish), store.archive(run_id)
        return FollowedRun(record=record, view=view, archive=archive, gaps=gaps)

    def _begin(self, followed: FollowedRun) -> None:
        self._active.runs[followed.run_id] = followed
        with self._active.guarded(followed):
            self._work(followed)
            self._send_admitted()

    # -- the loop -------------------------------------------------------------------------------

    def step(self, seconds: float) -> list[Run]:
        """Do what there is to do, or wait so long for it; returns the runs that were closed.

        One that is not final was left alone: its logs cannot be read now.
        """
        self._work_due()
        patience = 0.0 if self._active.closed or self._active.ready() else seconds
        is_followed = self._active.rules.until is not Until.CREATED
        if patience and (len(self._active.runs) <= self._active.unfollowed() or not is_followed):
            # The cluster follows none of them, and would return at once.
            self._active.context.pool.wait(patience)
        events = self._active.context.cluster.wait(patience) if is_followed else ()
        self._active.take_answers()
        job_events.take(self._active, events)
        self._read_wishes()
        self._work_due()
        self._active.gathering.step()
        if not events and (followed := self._active.ready()) is not None:
            with self._active.guarded(followed):
                job_requests.close(self._active, followed)
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
                if self._active.survives:
                    yield from self._close_what_is_over()
                    return
                self._end_all(stop.cause)
            begun = not is_asked and more()
            if not begun and self._active.is_empty():
                yield from self._hand_over()
                return
            yield from self.step(0.0 if begun else LOOK_SECONDS)

    def _close_what_is_over(self) -> list[Run]:
        """Close the runs whose logs are on disk already: their figures are a moment away."""
        sent = [followed.request.answer for followed in self._active.over if followed.request]
        self._active.context.pool.join(sent, ANSWER_SECONDS)
        self._active.take_answers()
        while (followed := self._active.ready()) is not None:
            with self._active.guarded(followed):
                job_requests.close(self._active, followed)
        self._send_admitted()
        self._active.join("delete")
        self._active.take_answers()
        # What is still to be deleted is on record.
        self._active.closed += [followed.run for followed in self._active.to_delete.values()]
        return self._hand_over()

    def _hand_over(self) -> list[Run]:
        closed, self._active.closed = self._active.closed, []
        return closed

    def _end_all(self, cause: str) -> None:
        """End the local jobs."""
        at = self._active.context.clock()
        for followed in list(self._active.runs.values()):
            followed.note(wish=Wish(kind="cancel", at=at, cause=cause, cause_id=INTERRUPTED))
            self._work(followed)

    def stop_creating(self) -> list[Run]:
        """Wait a moment for the creations that go on, and leave alone what has no job by then.

        Returns the runs that were closed.
        """
        self._active.join("create", ANSWER_SECONDS)
        self._active.take_answers()
        why = "k8sbench was asked to stop before that."
        for followed in list(self._active.runs.values()):
            if isinstance(followed.view.job, NotAsked):
                is_sent = followed.request is not None
                error = creation.unknown_error(followed.run_id, why) if is_sent else BenchError(why)
                job_requests.refuse(self._active, followed, error)
        return self._hand_over()

    def close(self) -> None:
        """Release what is followed still; archives are whole up to here."""
        for followed in list(self._active.runs.values()):
            self._active.leave(followed)
        self._active.join("delete")

    # -- what is done ---------------------------------------------------------------------------

    def _work_due(self) -> None:
        """Decide on the runs of which something was seen, or whose time has come."""
        now = self._active.context.clock()
        while self._due and self._due[0][0] <= now:
            self._active.changed[heapq.heappop(self._due)[1]] = None
        while self._active.changed:
            changed, self._active.changed = self._active.changed, {}
            for run_id in changed:
                if (followed := self._active.runs.get(run_id)) is not None:
                    with self._active.guarded(followed):
                        self._work(followed)
        self._send_admitted()

    def _work(self, followed: FollowedRun) -> None:
        """Record and do what is next for a run that is not over."""
        now = self._active.context.clock()
        step = decide.advance(followed.record, followed.view, now)
        if step is not None and step.phase.final:
            job_requests.end_run(self._active, followed, step)
            return
        if step is not None:
            self._active.move(followed, step)
        match decide.decide(followed.record, followed.view, now):
            case decide.Create():
                self._active.lacking.pop(followed.run_id, None)
                self._active.to_create[followed.run_id] = followed
            case decide.Follow():
                job_requests.follow(self._active, followed)
            case decide.Cancel() as cancel:
                job_requests.cancel(self._active, followed, cancel)
            case decide.AskCollector(end=end):
                job_requests.ask_collector(self._active, followed, end)
            case decide.Restart(end=end):
                job_requests.restart(self._active, followed, end)
            case decide.Wait(until=until) if until < math.inf:
                heapq.heappush(self._due, (until, followed.run_id))

    def _admission(self) -> decide.Admission:
        kinds = [one.request.kind for one in self._active.asked.values() if one.request is not None]
        return decide.admit(
            going_on=self._active.places(),
            creating=kinds.count("create"),
            deleting=kinds.count("delete"),
            to_create=tuple(self._active.to_create),
            to_delete=tuple(self._active.to_delete),
            parallel=self._active.rules.parallel,
        )

    def _send_admitted(self) -> None:
        """Send the requests that are admitted now."""
        if not (self._active.to_create or self._active.to_delete):
            return
        admission = self._admission()
        for run_id in admission.create:
            job_requests.send_creation(self._active, self._active.to_create.pop(run_id))
        for run_id in admission.delete:
            job_requests.send_deletion(self._active, self._active.to_delete.pop(run_id))

    def _read_wishes(self) -> None:
        """Take in now and then what other processes of the store wish for the runs."""
        now = self._active.context.clock()
        if now >= self._wishes_at and self._active.runs and self._active.survives:
            self._wishes_at = now + WISHES_SECONDS
            job_events.read_wishes(self._active)
