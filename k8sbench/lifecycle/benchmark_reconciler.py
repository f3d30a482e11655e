"""Reconciling Benchmark objects: their runs are recorded, take turns, and end with them.

:class:`Benchmarks` is level-triggered: each pass compares objects, recorded runs and active jobs.
It runs in an operator, and in the process that submits a Benchmark where there is no operator.
:class:`~k8sbench.lifecycle.context.Rules` say which.

An operator records all runs of an object when it is planned, some in each pass, and they wait for
their turns; so names, repeats and the count of the set are on record before the first job exists,
and whoever goes on after a kill finds them. A submitting process records a run when its turn has
come: after its end only the object says what is missing. An object is known by its uid: one that
was deleted and created again under its name is another one.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from k8sbench.lifecycle import benchmark_status, decide, job_requests, run_artifacts
from k8sbench.lifecycle.context import Reporter, RunContext
from k8sbench.lifecycle.executor import Executor
from k8sbench.lifecycle.known_object import KnownObject
from k8sbench.lifecycle.object_runs import Recording
from k8sbench.lifecycle.outcome import Outcome, OutcomeKind
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.run_starter import RunStarter
from k8sbench.lifecycle.set_turns import SetTurns
from k8sbench.lifecycle.status_writer import StatusWriter
from k8sbench.lifecycle.turns import Turns
from k8sbench.model import creation
from k8sbench.model.benchmark_object import Benchmark
from k8sbench.model.errors import OF_JOB_OR_PLACE, OF_ONE_JOB, BenchError, UsageError
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run, Wish, left_over
from k8sbench.ports.objects import Objects
from k8sbench.store.interface import RunFilter

PASS_SECONDS = 1.0
"""Interval of passes over the objects."""
SLICE_SECONDS = 0.1
"""Time of a pass for work that may go on in the next one."""
PLANS = 4
"""Most objects that are planned at a time; one thread records the runs of all."""
BUSY_SECONDS = 0.05
"""Longest wait for an event while there is work for a pass."""
AGAIN_SECONDS = 15.0
"""Interval of attempts to plan after a failure."""
DENIED_SECONDS = 600.0
"""Time after which an object fails that cannot be planned while others can."""
DELETED = "Its Benchmark was deleted."
FINAL = frozenset(str(phase) for phase in Phase if phase.final)
CANCELLED = "cancelled"
"""Cause id of runs that their object cancels."""


class Benchmarks:
    """The objects of one namespace, reconciled on the executor's thread."""

    def __init__(
        self,
        objects: Objects,
        context: RunContext,
        executor: Executor,
        reporter: Reporter,
        plan: Callable[[Benchmark], Sequence[PlannedCase]],
    ) -> None:
        self._objects, self._context, self._executor = objects, context, executor
        self._reporter, self._plan = reporter, plan
        self._serves = executor.rules.serves
        self._statuses = StatusWriter(
            objects,
            context.clock,
            context.pool,
            reporter.note,
            context.groups,
            lambda: executor.refusal,
        )
        self._joined: dict[str, str] = {}
        """uid of the object that has joined a run of another one, by run id."""
        self.not_begun: list[Outcome] = []
        """Runs of a submitting process that were over before, or that another one follows."""
        self._known: dict[str, KnownObject] = {}
        """By uid."""
        self._set_turns = SetTurns(objects, context, executor, self._known, self._joined)
        self._due = -math.inf
        """Time of the next pass, monotonic seconds."""
        self._unread: set[str] = set()
        """uids of the objects that could not be read in the last pass."""
        self._seen: Collection[str] | None = None
        """uids of the objects in the last pass.

        None: runs of others are still to be ended.
        """
        self._open: set[str] | None = None
        """uids of the objects with open runs on record; None before this pass has read them."""
        self._turns = Turns({}, ())
        """Turns of the sets, when a run last waited for one."""
        self._has_waiting = False
        """True if runs whose turn has come wait for a place among the requests."""
        self._planned_at = -math.inf
        """Time when an object was last planned, monotonic seconds; −inf if none was."""
        self._begins = True
        """False if a submitting process begins no further run."""
        self.problem = ""
        """Reason why the objects are not known or not all served; empty without one."""

    @property
    def is_blind(self) -> bool:
        """True until the objects were seen once; False if they cannot be."""
        return self._seen is None and not self._objects.problem

    @property
    def is_busy(self) -> bool:
        """True if objects are being planned, or runs to be recorded or started."""
        known = self._known.values()
        return self._has_waiting or any(one.work or one.recording for one in known)

    @property
    def to_begin(self) -> int:
        """Number of the runs that a submitting process is still to begin."""
        return sum(len(known.later) for known in self._known.values())

    @property
    def has_objects(self) -> bool:
        """True unless every object is gone, or none was seen yet."""
        return self._known != {}

    @property
    def begun(self) -> Collection[str]:
        """Ids of the runs that a submitting process has begun, or found."""
        return self._joined.keys()

    @property
    def is_begun(self) -> bool:
        """True if every run of every object has begun, is cancelled, or cannot be planned."""
        is_read = self._seen is not None and not self._unread
        return is_read and not any(
            one.later or not (one.is_planned or one.benchmark.spec.cancel)
            for one in self._known.values()
        )

    def at_hand(self) -> dict[str, Run]:
        """Return the runs whose latest records are at hand, by id."""
        of_objects = (run for known in self._known.values() for run in known.runs.values())
        return {run.run_id: run for run in (*of_objects, *self._executor.unclosed())}

    def begin_no_more(self) -> None:
        """Begin no further run of a submitting process."""
        self._begins = False
        for known in self._known.values():
            known.later.clear()
            known.is_left = True

    def settle(self) -> None:
        """Begin no further run, and write the statuses as the store has the runs."""
        self.begin_no_more()
        for known in self._known.values():
            known.runs = {run_id: self._context.store.run(run_id) for run_id in known.runs}
        for _ in range(3):  # a pending one, the present one, and what the store made of it
            for known in self._known.values():
                known.write_at = self._due = -math.inf
            self.step()
            writes = [one.writes for one in self._known.values() if one.writes is not None]
            self._context.pool.join(writes)

    def _is_due(self, now: float) -> bool:
        """Return True if it is time for a pass, or work for one has come."""
        if now >= self._due or (self._has_waiting and self._executor.has_room):
            return True
        return any(
            one.recording is not None or (one.work is not None and one.work.done())
            for one in self._known.values()
        )

    def count_anew(self) -> None:
        """Note that jobs of the cluster were recorded, which may be missing runs of objects."""
        for known in self._known.values():
            if known.recording is not None:
                known.recording.missing = None

    def take(self, runs: Iterable[Run]) -> None:
        """Take in the latest records of runs."""
        for run in runs:
            known = self._object_of(run)
            if known is not None and run.run_id in known.runs:
                known.runs[run.run_id] = run
                if not self._serves and run.phase.final:
                    self._due = -math.inf  # the turn of the next one has come

    def _object_of(self, run: Run) -> KnownObject | None:
        """Return the object that a run belongs to."""
        return self._known.get(self._joined.get(run.run_id) or run.plan.requested_by or "")

    def step(self) -> None:
        """Make one pass, if it is time for it; never waits."""
        now = self._context.monotonic()
        if not self._is_due(now):
            return
        self._due = now + PASS_SECONDS
        current = self._objects.current()
        unlisted = "the Benchmark objects were not listed yet." if current is None else ""
        self.problem = self._objects.problem or unlisted or self._delay
        if current is None:
            return
        self._open = None
        self.take(self._executor.runs())
        unread = {uid for uid, benchmark in current.items() if benchmark is None}
        is_read = bool(self._unread - unread)
        self._unread = unread
        if self._seen is None or is_read or not current.keys() >= set(self._seen):
            self._seen = current.keys() if self._end_orphans(current) else None
        else:
            self._seen = current.keys()
        for benchmark in current.values():
            if benchmark is not None:
                self._see(benchmark)
        for uid in self._known.keys() - current.keys():
            self._delete_kept(self._known.pop(uid))
        for known in self._known.values():
            if not known.is_over:
                self._reconcile(known, now)
        if cancelled := [one.uid for one in self._going_on() if one.spec.cancel]:
            self._executor.close_first(cancelled)
        self._record_some()
        self._check_ends()
        self._admit()
        self._statuses.write(self._known.values(), self._turns, now)

    def _going_on(self) -> Iterator[Benchmark]:
        """Yield the objects that are not over."""
        return (known.benchmark for known in self._known.values() if not known.is_over)

    def _see(self, benchmark: Benchmark) -> None:
        """Take in an object as it is now."""
        known = self._known.get(benchmark.uid)
        if known is not None and not benchmark.spec.keep:
            self._delete_kept(known)
        if known is None:
            is_over = benchmark.is_over and not self._goes_on(benchmark)
            known = self._begin(benchmark, is_over=is_over)
        elif known.is_over and not _is_same_end(benchmark, known.benchmark):
            # Retried, or its status was replaced; without records the store says nothing.
            known = self._begin(benchmark, is_over=False)
            if benchmark.is_over:
                known.is_over = known.is_checked = not known.runs
                known.planned = len(known.runs)
        elif not known.is_over:
            known.is_over = known.is_checked = (
                benchmark.is_over
                and bool(known.made)
                and not benchmark_status.differs(known.made, benchmark.status)
            )
        known.benchmark = benchmark
        for run in known.active:
            spec = benchmark.spec
            self._executor.follow_by(run.run_id, keep=spec.keep, wait=spec.wait)

    def _begin(self, benchmark: Benchmark, *, is_over: bool) -> KnownObject:
        """Take in an object anew, with its runs from the store unless it is over."""
        runs = {} if is_over else self._recorded(benchmark)
        known = KnownObject(
            benchmark=benchmark, is_over=is_over, runs=runs, retried=benchmark.retried
        )
        self._known[benchmark.uid] = known
        return known

    def _goes_on(self, benchmark: Benchmark) -> bool:
        """Return True if runs of an object are not closed, by the store or its own status."""
        if any(run.get("phase") not in FINAL for run in benchmark.status.get("runs", ())):
            return True
        if self._open is None:
            runs = self._context.store.runs(RunFilter(unfinished=True))
            self._open = {run.plan.requested_by or "" for run in runs if not run.is_closed}
        return benchmark.uid in self._open

    def _check_ends(self) -> None:
        """Compare the statuses of finished objects with the store, some in each pass.

        Somebody may have written them while no operator was there.
        """
        until = self._context.monotonic() + SLICE_SECONDS
        for known in self._known.values():
            if known.is_over and not known.is_checked:
                known.is_checked = True
                self._check_end(known)
                if self._context.monotonic() >= until:
                    return

    def _check_end(self, known: KnownObject) -> None:
        """Have an object go on whose runs have not ended as its status says."""
        benchmark, runs = known.benchmark, self._recorded(known.benchmark)
        named = {run.get("name") for run in benchmark.status.get("runs", ())}
        if not runs or not named <= runs.keys():
            return  # an older store, which does not know its end
        said = benchmark_status.status_of(
            benchmark,
            list(runs.values()),
            planned=len(runs),
            retried=benchmark.retried,
            now=self._context.clock(),
            groups=(),  # their ends alone are compared
        )
        if not benchmark_status.tells_the_same(said, benchmark.status):
            known.is_over, known.runs = False, runs

    def _delete_kept(self, known: KnownObject) -> None:
        """Have the jobs deleted that an object has kept after their ends."""
        now = self._context.clock()
        if known.benchmark.spec.keep:
            for run in self._recorded(known.benchmark).values():
                if run.phase.final:
                    self._context.store.wish(run.run_id, left_over(now))

    def _recorded(self, benchmark: Benchmark) -> dict[str, Run]:
        of_set = RunFilter(set_name=benchmark.set_name)
        runs = self._context.store.runs(of_set, self.at_hand())
        own = [run for run in runs if run.plan.requested_by == benchmark.uid]
        own.sort(key=lambda run: benchmark.number_of(run.run_id) or 0)
        return {run.run_id: run for run in own}

    # -- cancelling -----------------------------------------------------------------------------

    def _end_orphans(self, current: Mapping[str, Benchmark | None]) -> bool:
        """End the runs whose object is gone, and delete the jobs that nobody keeps.

        Also of an object that could not be read, or that was deleted while nobody looked. A
        submitting process sees its own object alone, and ends nothing. Returns False if the jobs
        cannot be listed now.
        """
        store = self._context.store
        if not self._serves:
            return True

        def is_orphan(run: Run) -> bool:
            is_ours = run.plan.is_asked_of_operator and run.is_at(self._context.location)
            return is_ours and run.plan.requested_by not in current

        def is_left(run: Run) -> bool:
            benchmark = current.get(run.plan.requested_by or "")
            is_kept = benchmark is None or benchmark.spec.keep
            return is_orphan(run) or not (is_kept or run_artifacts.read_gaps(store, run.run_id))

        at_hand = self.at_hand()
        for run in store.runs(RunFilter(unfinished=True), at_hand):
            if is_orphan(run) and not run.phase.final:
                self._executor.follow_by(run.run_id, keep=False, wait=False)
                self._cancel(run, DELETED)
        try:
            jobs = self._context.cluster.jobs()
        except BenchError:
            return False
        known = set(store.ids())
        for job in jobs:
            if job.run_id in known and job.ownership.is_ours:
                run = at_hand.get(job.run_id) or store.run(job.run_id)
                # A restored store may lack an attempt, whose logs nobody has read then.
                is_known = job.attempt <= run.attempt and job_requests.may_be_job_of(job, run)
                if run.phase.final and is_known and is_left(run):
                    store.wish(run.run_id, left_over(self._context.clock()))
        return True

    def _cancel(self, run: Run, cause: str) -> Run:
        """End a run that has not ended; one without a job ends at once."""
        if run.wish("cancel") is not None:
            return run
        now = self._context.clock()
        store = self._context.store
        wish = Wish(kind="cancel", at=now, cause=cause, cause_id=CANCELLED)
        if not creation.waits_for_turn(run):
            return self._executor.cancel(run.run_id, wish)
        known = self._known.get(run.plan.requested_by or "")
        if run.attempt > 1 and known is not None and not known.benchmark.spec.keep:
            # A job that was kept before: the next attempt would have deleted it.
            store.wish(run.run_id, left_over(now))
        return store.move(run.run_id, run.ended_by(wish))

    # -- one object -----------------------------------------------------------------------------

    def _reconcile(self, known: KnownObject, now: float) -> None:
        spec = known.benchmark.spec
        if spec.cancel and (known.recording is not None or known.delay):
            known.runs |= self._recorded(known.benchmark)  # some may be recorded in part
        for run in known.active:
            if spec.cancel or run.run_id in spec.cancel_runs:
                cause = DELETED if known.benchmark.is_deleted else "Its Benchmark cancels it."
                known.runs[run.run_id] = self._cancel(run, cause)
        if spec.cancel:
            known.retried = spec.retry
        if spec.cancel or known.is_planned:
            known.work = known.recording = None  # other objects wait for it
            known.delay = ""
            if spec.cancel:
                known.later.clear()
            return
        if known.recording is not None or (known.planned is not None and known.is_open):
            return  # a retry counts when the runs have ended
        if known.work is None:
            plans = sum(other.work is not None for other in self._known.values())
            if plans >= PLANS or now < known.plan_at:
                return
            call = partial(self._plan, known.benchmark)
            known.work = self._context.pool.start(call, "plan-benchmark")
        if not known.work.done() or self._are_closing(known):
            return
        work, known.work = known.work, None
        known.delay = ""
        with self._planning(known):
            cases = [case.in_namespace(self._namespace) for case in work.result()]
            known.recording = Recording(cases=cases, retry=spec.retry)
            known.delayed_at = math.inf
            self._planned_at = now

    @property
    def _namespace(self) -> str | None:
        """Namespace of an operator's objects, which is part of their cases; else None."""
        location = self._context.location
        return location.namespace if self._serves and location is not None else None

    @contextlib.contextmanager
    def _planning(self, known: KnownObject) -> Iterator[None]:
        """Take the errors of planning an object, or of recording its runs."""
        retry = known.benchmark.spec.retry
        try:
            yield
        except BenchError as error:
            known.recording = None
            if not self._serves:
                raise
            self._put_off(known, error, retry)

    def _put_off(self, known: KnownObject, error: BenchError, retry: int) -> None:
        """Note why an object cannot be planned, or not yet."""
        if not isinstance(error, UsageError) and self._may_be_planned(known, error):
            known.plan_at = self._context.monotonic() + AGAIN_SECONDS
            known.delay = str(error)
            self._reporter.note(f"warning: {_delay(known)}")
        elif known.runs:  # what was planned before goes on
            known.planned = len(known.runs)
            known.retried = retry
        else:
            known.problem, known.retried = error, retry

    def _may_be_planned(self, known: KnownObject, error: BenchError) -> bool:
        """Return True if an object is planned again after an error of its place, or of its own.

        It is its own if nothing but what it names is missing, or if the place plans others.
        """
        now = self._context.monotonic()
        takes_others = known.delayed_at < self._planned_at
        decided = OF_JOB_OR_PLACE if takes_others else OF_ONE_JOB
        known.is_denied = error.cause_id in decided
        known.delayed_at = min(known.delayed_at, now)
        limit = known.benchmark.request().wait_timeout_s
        longest = decide.WAIT_SECONDS if limit is None else limit
        if known.is_denied:
            longest = min(longest, DENIED_SECONDS)
        return now - known.delayed_at < longest

    @property
    def _delay(self) -> str:
        """Reason why the place plans no object; empty without one."""
        delayed = (one for one in self._known.values() if one.delay and not one.is_denied)
        return next(map(_delay, delayed), "")

    def _are_closing(self, known: KnownObject) -> bool:
        """Return True while a run that has ended is measured, or its job deleted.

        Continued now, its next attempt would be.
        """
        going_on = {run.run_id for run in self._executor.runs()}
        return not known.runs.keys().isdisjoint(self._executor.held() - going_on)

    def _record_some(self) -> None:
        """Record missing runs for the time of a slice, of objects that lack few first.

        Lines of other runs would wait meanwhile.
        """
        until = self._context.monotonic() + SLICE_SECONDS
        planned = [
            (known, known.recording)
            for known in self._known.values()
            if known.recording is not None and not self._are_closing(known)
        ]
        for known, recording in planned:
            if recording.missing is None:
                with self._planning(known):
                    self._count(known, recording)
        planned = [(known, one) for known, one in planned if known.recording is not None]
        if not self._serves:
            return
        for known, recording in sorted(planned, key=lambda each: len(each[1].missing or ())):
            with self._planning(known):
                self._record(known, recording, until)
            if self._context.monotonic() >= until:
                return

    def _count(self, known: KnownObject, recording: Recording) -> None:
        """Find which runs of an object are missing."""
        if not self._serves:  # the command has told which
            cases = [case for case in recording.cases for _ in range(case.repeats)]
            known.later = deque(cases if self._begins else ())
            known.is_left = not self._begins
            new = sum(case.run_id not in known.runs for case in cases)
            known.planned = len(known.runs) + new
            known.retried = recording.retry
            known.recording = None
            return
        known.runs |= self._recorded(known.benchmark)  # an attempt that failed may have left some
        known.runs |= recording.plan_anew(known.benchmark, known.runs.values(), self._context)
        is_retry = known.planned is not None
        runs = list(known.runs.values())
        recording.count(known.benchmark, runs, self._context.store.ids(), is_retry=is_retry)

    def _record(self, known: KnownObject, recording: Recording, until: float) -> None:
        """Record missing runs of an object until a time, at least one."""
        while recording.missing:
            run = recording.record_next(known.benchmark, self._context)
            known.runs[run.run_id] = run
            if recording.missing and self._context.monotonic() >= until:
                return
        if recording.is_first or known.planned is not None:
            known.retried = recording.retry
        known.planned = len(known.runs)
        known.problem = known.recording = None

    # -- turns ----------------------------------------------------------------------------------

    def _admit(self) -> None:
        """Begin the runs whose turn has come; restarting runs count."""
        # Their plans may be another version's until they are planned.
        waiting = [
            run
            for known in self._known.values()
            if known.planned is not None and known.recording is None
            for run in known.active
            if creation.waits_for_turn(run)
        ]
        self._has_waiting = False
        if not (waiting or self.to_begin):
            return
        with contextlib.ExitStack() as sets:
            if self._serves or self._set_turns.hold(sets):
                self._give_turns(waiting)
            else:
                self._has_waiting = True

    def _give_turns(self, waiting: list[Run]) -> None:
        """Count the runs of the sets, and begin those whose turn has come."""
        self._turns = self._set_turns.now()
        waiting.sort(key=lambda run: (run.created_at, run.run_id))
        for run in waiting:
            if not self._turns.is_next(run.plan):
                continue
            if not self._executor.has_room:
                self._has_waiting = True
                return
            self._turns.take(run)
            self._start(run)
        for known in self._known.values():
            if known.later and self._turns.is_next(self._next_plan(known)):
                self._has_waiting = True
                if self._executor.has_room:
                    self._begin_next(known)

    def _start(self, run: Run) -> None:
        store = self._context.store
        if not store.claims.claim(run.run_id):
            return
        run = store.move(run.run_id, creation.turn_came(self._context.clock()))
        if creation.is_restarting(run):  # a kill may have come before
            store.begin_attempt(run.run_id)
        self._reporter.planned(run)
        spec = self._known[run.plan.requested_by or ""].benchmark.spec
        rules = msgspec.structs.replace(self._executor.rules, keep=spec.keep, wait=spec.wait)
        self._executor.create(run, rules)
        self.take([run])

    @staticmethod
    def _next_plan(known: KnownObject) -> RunPlan:
        """Return the plan by which the next run of an object gets its turn."""
        draft = known.later[0].draft
        benchmark = known.benchmark
        return msgspec.structs.replace(
            draft, set_name=benchmark.set_name, requested_by=benchmark.uid
        )

    def _begin_next(self, known: KnownObject) -> None:
        """Record the next run of an object and have its job created, or join it if it exists."""
        benchmark = known.benchmark
        case = known.later.popleft().for_object(benchmark.uid, benchmark.name)
        starter = RunStarter(self._executor, benchmark.set_name)
        outcome = starter.start(case)
        run = outcome.run
        known.runs[run.run_id] = run
        self._joined[run.run_id] = benchmark.uid
        if outcome.how is not OutcomeKind.CREATED:
            self.not_begun.append(outcome)


def _delay(known: KnownObject) -> str:
    return f"Benchmark {known.benchmark.name} is not planned yet: {known.delay}"


def _is_same_end(benchmark: Benchmark, before: Benchmark) -> bool:
    """Return True if an object is over as it was; the operator itself changes its generation."""

    def end(one: Benchmark) -> dict[str, Any]:
        return {**one.status, "observedGeneration": None}

    return benchmark.is_over and end(benchmark) == end(before)
