"""The executor: carries out :mod:`.decide` for all runs in one thread.

An intent is recorded before it is carried out: a process may be killed at any moment, and whoever
resumes the run then finds the intent. Measuring takes long, so runs that are over are measured one
at a time: an operator's in another process, others in iterations without events.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial

from k8sbench import limits
from k8sbench.diagnose.job.exits import REPLICA_FAILED
from k8sbench.lifecycle import decide
from k8sbench.lifecycle.active_run import ActiveRun
from k8sbench.lifecycle.context import Reporter, Rules, RunContext, Until
from k8sbench.lifecycle.decide import ActionKind, JobView, View, state_of
from k8sbench.lifecycle.gpu_metrics_fetcher import GpuMetricsFetcher
from k8sbench.lifecycle.job_requests import JobRequests
from k8sbench.lifecycle.outcome import Outcome, OutcomeKind
from k8sbench.lifecycle.stop import INTERRUPTED, Stop
from k8sbench.model import creation
from k8sbench.model.errors import BenchError, StoreError
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run, Wish
from k8sbench.ports.cluster import JobEvent
from k8sbench.store.interface import RunFilter

LOOK_SECONDS = 0.25
"""Longest wait for an event before stop requests and time limits are checked."""
ANSWER_SECONDS = 5.0
"""Longest wait for a creation's answer after a stop request."""


class Executor:
    """Owns the active runs and brings them to their ends."""

    def __init__(
        self,
        context: RunContext,
        reporter: Reporter,
        rules: Rules | None = None,
        gathering: GpuMetricsFetcher | None = None,
    ) -> None:
        self.context = context
        self.reporter = reporter
        self.rules = rules or Rules()
        self._gathering = gathering or GpuMetricsFetcher(context, reporter)
        self._here = context, reporter, self.rules
        self._requests = JobRequests(context)
        self._survives = context.cluster.jobs_outlive_us
        self._runs: dict[str, ActiveRun] = {}
        """Runs that are not over, by id."""
        self._over: deque[ActiveRun] = deque()
        """Runs that are over, and still to be measured."""
        self._measuring: tuple[ActiveRun, Future[Measurement | None]] | None = None
        """The run that is being measured; None without one."""
        self._changed: dict[str, None] = {}
        """Ids of runs with events or answers since the last decision."""
        self._due: list[tuple[float, str]] = []
        """A heap of the times of the next decisions, monotonic seconds."""
        self._outcomes: list[Outcome] = []
        """Outcomes that the caller does not have yet."""
        self._wishes_at = -math.inf
        """Time of the next look at other processes' wishes, monotonic seconds."""

    # -- which runs -----------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """True if the creation of another job would be sent at once."""
        return self._requests.has_room

    @property
    def refusal(self) -> str:
        """Return the reason why no job can be created at this place.

        Empty if jobs can, or none is to be created.
        """
        refusal = self._requests.gate.refusal
        runs = (active.run for active in self._runs.values())
        return refusal if refusal and not all(map(creation.is_known_created, runs)) else ""

    def runs(self) -> list[Run]:
        """Return the runs that are not over."""
        return [active.run for active in self._runs.values()]

    def unclosed(self) -> list[Run]:
        """Return the runs that are not over or not measured."""
        return [*self.runs(), *self.over()]

    def over(self) -> list[Run]:
        """Return the runs that are over, and not measured yet."""
        return [active.run for active in self._over]

    def held(self) -> set[str]:
        """Return the ids of the runs that are not closed."""
        over = (active.run_id for active in self._over)
        return {*self._runs, *self._requests.to_delete, *self._requests.pending, *over}

    def _ready(self) -> ActiveRun | None:
        """Return a run that can be closed now; None if there is none.

        No request of the run is pending: one could create its job again.
        """
        for active in self._over:
            if active.request is not None:
                continue
            if self._measuring is None or not self._is_measured(active):
                return active
            measuring, found = self._measuring
            if active is measuring and found.done():
                return active
        return None

    def _is_owed(self, active: ActiveRun) -> bool:
        """Return True if a run needs a measurement."""
        action = decide.decide(active.record, active.view, self.context.now())
        return action.kind is ActionKind.MEASURE

    def _is_measured(self, active: ActiveRun) -> bool:
        """Return True if closing a run begins with its measurement."""
        return self._is_owed(active) or _may_have_finished(active.run)

    def close_first(self, uids: Collection[str]) -> None:
        """Measure the runs of some objects before those of others."""

        def is_later(active: ActiveRun) -> bool:
            return active.run.plan.requested_by not in uids

        self._over = deque(sorted(self._over, key=is_later))

    def create(self, run: Run, rules: Rules | None = None) -> None:
        """Create a recorded run's job and follow it, by its own ``rules`` if given."""
        here = self.context, self.reporter, rules or self.rules
        archive = self.context.store.archive(run.run_id)
        view = View(job=JobView.NOT_ASKED)
        if run.history[-1].cause_id == creation.CREATION_UNKNOWN:
            # It is joined: an earlier request may be on its way.
            view.settles_at = self.context.monotonic() + limits.now.creation_settle
        self._begin(ActiveRun(run, view, here, archive=archive))

    def follow_by(self, run_id: str, *, keep: bool, wait: bool) -> None:
        """Follow a run that is not over by rules of its own."""
        active = self._runs.get(run_id)
        if active is not None and active.follow_by(keep=keep, wait=wait):
            self._changed[run_id] = None

    def take(self, run: Run) -> bool:
        """Resume a recorded run; False if another process follows it.

        Its logs are read from the end of its archive. A run with a wish to cancel it is cancelled
        when its present logs are archived, at the latest after a minute. A
        run that is over is measured and its job deleted, if that is missing.
        """
        store, run_id = self.context.store, run.run_id
        try:
            if not store.claims.claim(run_id):
                return False
            run = store.run(run_id)  # another process may have gone on with it since it was read
            if state_of(run).is_over:
                self._over.append(ActiveRun.ended(run, self._here))
            else:
                self.reporter.planned(run)
                self._begin(ActiveRun.resumed(run, self._here))
        except StoreError as error:
            if not self.rules.passes_over:
                raise
            store.claims.release(run_id)
            self._outcomes.append(Outcome(run, OutcomeKind.PASSED_OVER, error))
        except BenchError:
            # The cluster does not answer: it can be resumed again.
            if run_id in self._runs:
                self._leave(self._runs[run_id])
            raise
        return True

    def cancel(self, run_id: str, wish: Wish) -> Run:
        """Record a wish to cancel a run; one that is followed is cancelled now."""
        run = self.context.store.wish(run_id, wish)
        if (active := self._runs.get(run_id)) is not None and active.record.wish is None:
            active.record.run, active.record.wish = run, wish
            self._changed[run_id] = None
        return run

    def _begin(self, active: ActiveRun) -> None:
        self._runs[active.run_id] = active
        with self._guarded(active):
            self._work(active)
            self._send_admitted()

    # -- the loop -------------------------------------------------------------------------------

    def step(self, seconds: float) -> list[Outcome]:
        """Handle events, or wait for them; returns the new outcomes."""
        self._work_due()
        patience = 0.0 if self._outcomes or self._ready() else seconds
        are_followed = self.rules.until is not Until.CREATED
        is_watched = are_followed and any(active.is_watched for active in self._runs.values())
        if patience and not is_watched:
            # The cluster follows none of them, and would return at once.
            self.context.pool.wait(patience)
        events = self.context.cluster.wait(patience) if are_followed else ()
        self._take_answers(self._requests.pending.values())
        self._take_events(events)
        self._read_wishes()
        self._work_due()
        self._gathering.step()
        if (active := self._ready()) is not None:
            self._close(active)
        return self._hand_over()

    def to_the_end(
        self, stop: Stop, more: Callable[[], float | None] = lambda: None
    ) -> Iterator[Outcome]:
        """Follow the runs to their ends, and yield their outcomes.

        ``more`` may begin a further run; it returns for how long nothing else is to be begun,
        seconds, and None when all have begun. On a stop request local jobs are ended, and jobs of a
        cluster go on.
        """
        is_asked = False
        while True:
            if stop.cause is not None and not is_asked:
                is_asked = True
                if self._survives:
                    yield from self._close_what_is_over()
                    return
                at = self.context.clock()
                wish = Wish(kind="cancel", at=at, cause=stop.cause, cause_id=INTERRUPTED)
                for active in list(self._runs.values()):
                    active.record.wish = wish  # a local job needs this process
                    self._work(active)
            patience = None if is_asked else more()
            if patience is None and not self.held():
                yield from self._hand_over()
                return
            yield from self.step(LOOK_SECONDS if patience is None else patience)

    def _close_what_is_over(self) -> list[Outcome]:
        """Close the runs whose logs are on disk already.

        Their measurements take only a moment.
        """
        self._take_answers(self._requests.pending.values())
        while (active := self._ready()) is not None:
            self._close(active)
        self._send_admitted()
        self._requests.join("delete")
        self._take_answers(self._requests.pending.values())
        # What is still to be deleted is on record.
        to_delete = self._requests.to_delete.values()
        self._outcomes += [active.outcome(OutcomeKind.CLOSED) for active in to_delete]
        return self._hand_over()

    def _hand_over(self) -> list[Outcome]:
        outcomes = self._outcomes
        self._outcomes = []
        return outcomes

    def stop_creating(self) -> list[Outcome]:
        """Wait briefly for pending creations; end runs without a job."""
        self._requests.join("create", ANSWER_SECONDS)
        self._take_answers(self._requests.pending.values())
        why = "k8sbench was asked to stop before that."
        for active in list(self._runs.values()):
            if active.view.job is JobView.NOT_ASKED:
                is_sent = active.request is not None
                error = (
                    creation.creation_unknown_error(active.run_id, why)
                    if is_sent
                    else BenchError(why)
                )
                self._settle(active, active.refuse(error))
        return self._hand_over()

    def close(self) -> None:
        """Release the unfinished runs; their archives are complete so far."""
        for active in list(self._runs.values()):
            self._leave(active)
        self._requests.join("delete")

    # -- what is seen ---------------------------------------------------------------------------

    def _take_answers(self, of: Iterable[ActiveRun]) -> None:
        """Take the answers that have come to requests of these runs."""
        for active, request in self._requests.answered(list(of)):
            with self._guarded(active):
                self._settle(active, request.take(request.answer))
            self._changed[active.run_id] = None

    def _take_events(self, events: Sequence[JobEvent]) -> None:
        """Handle events in order, archiving adjacent lines of a replica together."""
        for (run_id, replica), some in itertools.groupby(events, _printed_by):
            if (active := self._runs.get(run_id)) is not None and replica is not None:
                with self._guarded(active):
                    is_awaited = active.view.read_by > -math.inf
                    active.take_lines(replica, list(some))
                    if is_awaited:
                        self._changed[run_id] = None
                continue
            for event in some:
                active = self._runs.get(run_id)
                if not run_id and event.note is not None:
                    self.reporter.note(event.note)
                elif active is not None:
                    self._changed[run_id] = None
                    with self._guarded(active):
                        self._take_event(active, event)

    def _take_event(self, active: ActiveRun, event: JobEvent) -> None:
        if event.replica is not None:
            self._gathering.seen(active.run, event.replica)
        if event.taken_by is not None:
            active.view.taken_by = event.taken_by
        else:
            self._settle(active, active.take_event(event))

    def _read_wishes(self) -> None:
        """Read now and then which runs other processes of the store wish to cancel.

        They ask the cluster themselves, and may not have reached it.
        """
        now = self.context.monotonic()
        if now < self._wishes_at or not self._runs or not self._survives:
            return
        self._wishes_at = now + limits.now.poll
        with contextlib.suppress(StoreError):  # a database may be away for a while
            for run in self.context.store.runs(RunFilter(wished=True)):
                active = self._runs.get(run.run_id)
                wish = run.wish("cancel")
                if active is not None and active.record.wish is None and wish is not None:
                    active.record.wish = wish
                    self._changed[run.run_id] = None

    # -- what is done ---------------------------------------------------------------------------

    def _work_due(self) -> None:
        """Decide on runs with news and runs that are due."""
        now = self.context.monotonic()
        while self._due and self._due[0][0] <= now:
            self._changed[heapq.heappop(self._due)[1]] = None
        while self._changed:
            changed = self._changed
            self._changed = {}
            for run_id in changed:
                if (active := self._runs.get(run_id)) is not None:
                    with self._guarded(active):
                        self._work(active)
        self._send_admitted()

    def _work(self, active: ActiveRun) -> None:
        """Record and carry out the next step of an unfinished run."""
        now = self.context.now()
        run_id = active.run_id
        outcome = None
        decide.see_time(active.record, now)
        step = decide.advance(active.record, active.view, now)
        if step is not None and step.phase.final:
            active.end(step)
            self._settle(active, None)
            return
        if step is not None:
            active.move(step)
        action = decide.decide(active.record, active.view, now)
        match action.kind:
            case ActionKind.CREATE:
                self._requests.to_create[run_id] = active
            case ActionKind.FOLLOW:
                outcome = self._requests.follow(active)
            case ActionKind.CANCEL:
                self._requests.cancel(active, action.cause, action.cause_id)
            case ActionKind.RESTART:
                active.restart()
            case ActionKind.DONE if active.run.phase.final:
                outcome = active.outcome(OutcomeKind.FOLLOWED_ELSEWHERE)  # that has ended it
        if action.until < math.inf:
            heapq.heappush(self._due, (action.until, run_id))
        if action.kind not in {ActionKind.CREATE, ActionKind.WAIT}:
            self._changed[run_id] = None
            self._take_answers([active])
        self._settle(active, outcome)

    def _send_admitted(self) -> None:
        """Send the requests that are admitted now."""
        for active in self._requests.send_queued():
            self._take_answers([active])

    def _close(self, active: ActiveRun) -> None:
        """Measure a run that is over, and queue the deletion of its job.

        Returns at once if the measurement is not at hand; it is then closed later.
        """
        with self._guarded(active):
            is_owed = self._is_owed(active)
            if self._is_measured(active):
                if self._measuring is None:
                    call = partial(self.context.measure, active.run, active.gaps)
                    self._measuring = active, self.context.measures.start(call, "measure")
                _, found = self._measuring
                if not found.done():
                    return
                self._measuring = None
                if (measured := found.result()) is not None:
                    measured = self._gathering.promised(active.run, measured)
                    active.record.run = self.context.store.save_measurement(active.run_id, measured)
            if active.archive is not None or is_owed:
                self.reporter.ended(active.run)
            self._gathering.add(active.run)
            self._over.remove(active)
            if active.view.deletes:
                self._requests.to_delete[active.run_id] = active
            else:
                self._settle(active, active.outcome(OutcomeKind.CLOSED))

    # -- how it ends ----------------------------------------------------------------------------

    def _settle(self, active: ActiveRun, outcome: Outcome | None) -> None:
        """Remove a run from the active ones if finished.

        A run is finished if it is over or has an outcome.
        """
        if outcome is not None:
            self._leave(active)
            self._outcomes.append(outcome)
        elif active.is_over and self._runs.pop(active.run_id, None) is not None:
            self._requests.forget(active)
            self._over.append(active)

    def _leave(self, active: ActiveRun) -> None:
        """Stop following a run; another process may follow it."""
        self._runs.pop(active.run_id, None)
        self._requests.forget(active)
        self._requests.pending.pop(active.run_id, None)
        self.context.store.claims.release(active.run_id)

    @contextlib.contextmanager
    def _guarded(self, active: ActiveRun) -> Iterator[None]:
        """Pass over a run whose files fail, if the rules allow."""
        try:
            yield
        except StoreError as error:
            if not self.rules.passes_over:
                raise
            self.context.cluster.release(active.run_id)
            with contextlib.suppress(StoreError):
                self._leave(active)
            with contextlib.suppress(ValueError):
                self._over.remove(active)
            self._outcomes.append(active.outcome(OutcomeKind.PASSED_OVER, error))


def _may_have_finished(run: Run) -> bool:
    """True if a run's own program failed, perhaps after the last planned iteration."""
    end = run.history[-1]
    has_failed = end.phase is Phase.FAILED and end.cause_id == REPLICA_FAILED
    return has_failed and run.plan.mode == "throughput" and run.measurement is None


def _printed_by(event: JobEvent) -> tuple[str, str | None]:
    """Return the event's run, and its replica for a log line."""
    return event.run_id, None if event.line is None else event.line.replica
