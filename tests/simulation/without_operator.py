"""Schedules of a namespace without an operator: stores that submit, resume and collect.

Each submit puts a Benchmark on the disk of its store, where it outlives the process. Each has its
own case, so that a resumption takes up its object. What these schedules do not check: a resumption
takes up runs that go on (``RETRY_LAST``), a command ends with the errors of its place
(``WAITS_FOR_PLACE``), and no submit gives a time after which its object is deleted.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from functools import partial

import msgspec

from k8sbench.app.submit import resumed
from k8sbench.lifecycle import collecting, submitting
from k8sbench.lifecycle.benchmark_reconciler import CANCELLED
from k8sbench.lifecycle.context import RunContext
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.stop import Stop
from k8sbench.lifecycle.submitting import SubmittedBenchmark
from k8sbench.model.benchmark_object import Benchmark, ObjectSpec, claim_name
from k8sbench.model.errors import OwnedElsewhere, UsageError
from k8sbench.model.plan import STORED
from k8sbench.model.request import SubmitRequest
from k8sbench.model.run import TAKEN_OVER, Run, Wish
from tests.simulation.cluster import Job
from tests.simulation.invariants import Invariant, Violation
from tests.simulation.objects import KeptObjects, ObjectOnDisk
from tests.simulation.schedule import CASE, FAULTY_SECONDS, TRAINING_CASE, Schedule
from tests.simulation.store import SimulatedStore
from tests.simulation.world import BEGIN, Process
from tests.unit.lifecycle.played import Silent

ROUNDS = 6
"""Rounds of ``collect`` that close all runs once faults have stopped."""
COLLECT_SECONDS = 30.0
"""Interval of `collect --all` in a loop."""
SET = "night"
TRAINS = 0.25
"""Share of the schedules whose runs are trainings, which a resumption continues."""


class WithoutOperator(Schedule):
    """One schedule of stores that submit and collect."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.laptop = self.disk("laptop")
        self.other = self.disk("other laptop")
        self._numbers = 0
        self.kept = KeptObjects(self.namespace, self.laptop)
        self.kept.ask_again = self._ask_again
        self._limited: set[Process] = set()
        """Processes that follow what they submit."""
        trains = random.Random(seed).random() < TRAINS
        case = TRAINING_CASE if trains else CASE
        self._cases = [
            msgspec.structs.replace(
                case, draft=msgspec.structs.replace(case.draft, batch_size=size)
            )
            for size in (8, 16)
        ]
        """The case of each submit."""

    def begin(self) -> None:
        dice, process = self.world.dice, self.process
        self._submits = dice.choice([1, 1, 2])
        self._repeats = dice.randrange(1, 4)
        self.laptop.most = self._submits * self._repeats
        for case in self._cases[: self._submits]:
            process("submit", self.laptop, partial(self._submit, case), 30.0 * dice.random())
        for _ in range(dice.randrange(0, 3)):
            latest = dice.choice([30.0, FAULTY_SECONDS])
            resume = partial(self._resume, dice.choice(self._cases[: self._submits]))
            process("resume", self.laptop, resume, dice.random() * latest)
        for _ in range(dice.randrange(1, 5)):
            process("collect", self.laptop, self._collect, dice.random() * FAULTY_SECONDS)
        for _ in range(dice.randrange(0, 3)):
            process("cancel", self.laptop, self._cancel, dice.random() * FAULTY_SECONDS)
        if dice.random() < 0.5:
            for act in (self._take_over, self._collect, self._cancel):
                if dice.random() < 0.7:
                    process("other", self.other, act, dice.random() * FAULTY_SECONDS)
            if dice.random() < 0.3:
                process("takes back", self.laptop, self._take_over, dice.random() * FAULTY_SECONDS)
        if dice.random() < 0.4:
            for after in (0.0, dice.random() * FAULTY_SECONDS):
                process("collect again", self.laptop, self._collect_again, after)

    def end(self) -> None:
        collect_all = partial(self._collect, follow=True)
        for number in range(ROUNDS):
            for disk in self.namespace.disks:
                self.process(f"{disk.name} at last", disk, collect_all, 900.0 * number)
        self.world.run(self._is_over)
        self.check_closed()
        if self.laptop.rows:
            last = self.process("resume at last", self.laptop, self._resume_all)
            self.world.run(lambda: last.is_dead and self._is_over())
            self.check_closed()
            self.kept.check_the_end(dict.fromkeys(self.kept.found, self._repeats))

    # -- what is done ---------------------------------------------------------------------------

    def _submit(self, case: PlannedCase, context: RunContext) -> None:
        cases = [case] * self._repeats
        self._submit_cases(cases, case, context, resumes=False)

    def _resume(
        self, case: PlannedCase, context: RunContext, *, detach: bool | None = None
    ) -> None:
        if self.laptop.rows and self._alike(case):  # there is no set before
            self._submit_cases([], case, context, resumes=True, detach=detach)

    def _resume_all(self, context: RunContext) -> None:
        """Resume each submit, when no other process submits into the set."""
        cases = self._cases[: self._submits]
        while cases:
            try:
                self._resume(cases[0], context, detach=False)
                cases = cases[1:]
            except UsageError:
                context.pool.wait(COLLECT_SECONDS)

    def _alike(self, case: PlannedCase) -> list[Benchmark]:
        """Return the objects that a resumption of a submit may take up."""
        sizes = (case.draft.batch_size,)
        return [one for one in self.kept.found.values() if one.spec.batch_sizes == sizes]

    def _ask_again(self, benchmark: Benchmark) -> None:
        """Have a user resume the set of an object that failed."""
        for case in self._cases:
            if benchmark.uid in {one.uid for one in self._alike(case)}:
                self.process("resume", self.laptop, partial(self._resume, case))

    def _submit_cases(
        self,
        cases: list[PlannedCase],
        case: PlannedCase,
        context: RunContext,
        *,
        resumes: bool,
        detach: bool | None = None,
    ) -> None:
        dice = self.world.dice
        detach = dice.random() < 0.3 if detach is None else detach
        parallel = None if detach else dice.choice([1, 2, 3, None])
        request = SubmitRequest(
            benchmark="seg", set_name=SET, parallel=parallel, wait=True, detach=detach
        )
        store = context.store
        with submitting.held_set(store.claims, SET, resumes=resumes):
            if resumes:
                wanted = msgspec.structs.replace(case, repeats=self._repeats)
                _, cases = resumed([wanted], context, SET, Silent())
            left = collecting.left_jobs(context, SET)
            collecting.collect(left, context, Silent(), Stop(), follow=True)
            with self._held(case, request, context, resumes=resumes) as benchmark:
                self._reconcile(benchmark, cases, request, context)

    @contextlib.contextmanager
    def _held(
        self, case: PlannedCase, request: SubmitRequest, context: RunContext, *, resumes: bool
    ) -> Iterator[Benchmark]:
        """Keep an object on the disk, or take up that of the case, and claim it."""
        store = context.store
        assert isinstance(store, SimulatedStore)
        alike = self._alike(case)
        if resumes and alike and store.claims.claim(claim_name(alike[0].name)):
            store.write("retry an object")
            benchmark = self.kept.take_up(alike[0].uid, request.parallel)
        else:
            self._numbers += 1
            name = f"object-{self._numbers}"
            store.claims.claim(claim_name(name))
            store.write("create an object")
            spec = ObjectSpec(
                benchmark="seg",
                set=SET,
                batch_sizes=(int(case.draft.batch_size),),
                repeats=self._repeats,
                parallel=request.parallel,
                wait=True,
            )
            self.kept.create(name, f"{STORED}{name}", spec)
            benchmark = self.kept.found[f"{STORED}{name}"]
        try:
            yield benchmark
        finally:
            store.claims.release(claim_name(benchmark.name))

    def _reconcile(
        self,
        benchmark: Benchmark,
        cases: list[PlannedCase],
        request: SubmitRequest,
        context: RunContext,
    ) -> None:
        process = process_of(context)
        process.at_end.append(lambda: self._limited.discard(process))
        objects = ObjectOnDisk(self.kept, SimulatedStore(self.laptop, process), benchmark.uid)
        if not request.detach:
            self._limited.add(process)
            check = partial(self._check_move, objects)
            store = SimulatedStore(self.laptop, process, check)
            context = msgspec.structs.replace(context, store=store)
        work = SubmittedBenchmark(
            benchmark, objects, cases, context, Silent(), Stop(), request, context.store.ids()
        )
        outcomes = list(work.outcomes())
        if not request.detach:
            for one in outcomes:
                self._followed(one.run, context)
            work.end()

    def _followed(self, run: Run, context: RunContext) -> Run:
        """Wait for the end of a run that another process may follow."""
        while not (run := context.store.run(run.run_id)).is_closed:
            collecting.collect([run], context, Silent(), Stop(), follow=True)
            context.pool.wait(COLLECT_SECONDS)
        return run

    def _check_move(self, objects: ObjectOnDisk, before: Run | None, after: Run) -> None:
        """Check that a transition of a run of a submitting process is wanted."""
        if before is None or (before.phase.final and not after.phase.final):
            self._check_turn(objects, after)
        elif after.phase.final and after.history[-1].cause_id == CANCELLED:
            self.kept.check_is_wanted(after)

    def _check_turn(self, objects: ObjectOnDisk, run: Run) -> None:
        """Check that no more runs than are allowed go on when a submit begins one."""
        rows, claimed = self.laptop.rows, self.laptop.claimed
        process, limit = claimed[run.run_id], objects.limit()
        going_on = {
            run_id: by
            for run_id, by in claimed.items()
            if by in self._limited and run_id != run.run_id
            if run_id in rows and not rows[run_id].phase.final
        }
        own = [run_id for run_id, by in going_on.items() if by is process]
        is_alone = self.kept.found[run.plan.requested_by or ""].spec.parallel is None
        if len(going_on) >= limit or (is_alone and own):
            raise Violation(
                Invariant.LIMIT, f"{run.run_id} begins beside {going_on}; limit {limit}."
            )

    def _collect(self, context: RunContext, *, follow: bool | None = None) -> None:
        follow = self.world.dice.random() < 0.7 if follow is None else follow
        runs = collecting.pending_runs(context, lambda _: None)
        collecting.collect(runs, context, Silent(), Stop(), follow=follow)

    def _collect_again(self, context: RunContext) -> None:
        while self.world.now < BEGIN + FAULTY_SECONDS:
            self._collect(context, follow=True)
            context.pool.wait(COLLECT_SECONDS)

    def _take_over(self, context: RunContext) -> None:
        jobs = context.cluster.jobs()
        if not jobs:
            return
        run_id = self.world.dice.choice([job.run_id for job in jobs])
        collecting.take_over(run_id, context, lambda _: True, lambda _: None)
        if run_id not in context.store.ids():
            collecting.adopted(run_id, context)
        run = context.store.run(run_id)
        if run.needs_collection:
            collecting.collect([run], context, Silent(), Stop(), follow=True)

    def _cancel(self, context: RunContext) -> None:
        store = context.store
        assert isinstance(store, SimulatedStore)
        runs = [run for run in store.disk.rows.values() if not run.phase.final]
        if not runs:
            return
        run_id, now = self.world.dice.choice(runs).run_id, context.clock()
        wish = Wish(kind="cancel", at=now, cause="Cancelled by hand.", cause_id=CANCELLED)
        self.kept.cancelled_runs.add(run_id)
        if store.wish(run_id, wish).phase.final:
            return
        is_ours = store.claims.claim(run_id)
        try:
            job = collecting.own_job(run_id, context)
        except OwnedElsewhere:
            disk, run = store.disk, store.disk.rows[run_id]
            disk.rows[run_id] = msgspec.structs.replace(run, wishes=())  # it is withdrawn
            raise
        if is_ours:
            collecting.cancel(store.run(run_id), context, Silent(), Stop())
        elif job is not None:
            context.cluster.cancel(run_id, wish.cause, CANCELLED)

    # -- how it ends ----------------------------------------------------------------------------

    def _is_over(self) -> bool:
        if self.world.now < BEGIN + FAULTY_SECONDS + 900.0 * (ROUNDS - 1):
            return not any(self.open()) and all(map(self._is_known, self.left()))
        return self.world.now >= BEGIN + FAULTY_SECONDS + 900.0 * (ROUNDS + 2)

    def is_kept(self, job: Job) -> bool:
        """Return True for a job that two processes of one store followed.

        That process may have recorded before that the job is another store's.
        """
        return any(
            job.owner.store == disk.name
            and job.run_id in disk.rows
            and disk.rows[job.run_id].history[-1].cause_id == TAKEN_OVER
            for disk in self.namespace.disks
        )

    def _is_known(self, job: Job) -> bool:
        """Return True if the store that owns a job has it on record."""
        return any(
            job.owner.store == disk.name and job.run_id in disk.rows
            for disk in self.namespace.disks
        )


def process_of(context: RunContext) -> Process:
    """Return the process that has a context."""
    store = context.store
    assert isinstance(store, SimulatedStore)
    return store.process
