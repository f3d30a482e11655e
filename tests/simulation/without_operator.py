"""Schedules of a namespace without an operator: stores that submit and collect."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import msgspec

from k8sbench.app.submit import resumed
from k8sbench.lifecycle import collecting, submitting
from k8sbench.lifecycle.context import RunContext
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.errors import OwnedElsewhere
from k8sbench.model.request import SubmitRequest
from k8sbench.model.run import TAKEN_OVER, Wish
from tests.simulation.cluster import Job
from tests.simulation.invariants import Invariant, Violation
from tests.simulation.schedule import CASE, FAULTY_SECONDS, TRAINING_CASE, Schedule
from tests.simulation.store import Disk, SimulatedStore
from tests.simulation.world import BEGIN, Process
from tests.unit.lifecycle.played import Silent, submitted

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
        self._limit = self.world.dice.choice([1, 2, 3, None])
        """``parallel`` of every submit."""
        self._limited: set[Process] = set()
        """Processes that follow what they submit."""
        self.namespace.check_new = self._check_new
        trains = random.Random(seed).random() < TRAINS
        self.case = TRAINING_CASE if trains else CASE

    def begin(self) -> None:
        dice, process = self.world.dice, self.process
        self._submits = dice.choice([1, 1, 2])
        self._repeats = dice.randrange(1, 4)
        self.laptop.most = self._submits * self._repeats
        for _ in range(self._submits):
            process("submit", self.laptop, self._submit)
        for _ in range(dice.randrange(0, 3)):
            latest = dice.choice([30.0, FAULTY_SECONDS])
            process("resume", self.laptop, self._resume, dice.random() * latest)
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

    def context(self, process: Process, disk: Disk, **changes: Any) -> RunContext:
        def name(_: str) -> str:
            self._numbers += 1
            return f"run-{self._numbers}"

        return super().context(process, disk, draw_run_id=name, **changes)

    # -- what is done ---------------------------------------------------------------------------

    def _submit(self, context: RunContext) -> None:
        self._submit_cases([self.case] * self._repeats, context, resumes=False)

    def _resume(self, context: RunContext) -> None:
        if self.laptop.rows:  # there is no set before
            self._submit_cases([], context, resumes=True)

    def _submit_cases(
        self, cases: list[PlannedCase], context: RunContext, *, resumes: bool
    ) -> None:
        dice = self.world.dice
        request = SubmitRequest(benchmark="seg", set_name=SET, parallel=self._limit, wait=True)
        request = msgspec.structs.replace(request, detach=dice.random() < 0.3)
        if not request.detach:
            self._limited.add(process_of(context))
        with submitting.held_set(context.store.claims, SET, resumes=resumes):
            if resumes:
                wanted = msgspec.structs.replace(self.case, repeats=self.laptop.most)
                _, cases = resumed([wanted], context, SET, Silent())
            submitted(cases, context, Silent(), Stop(), request)

    def _check_new(self, job: Job) -> None:
        """Check that no more runs than are allowed go on when a submit has a new job."""
        rows, claimed = self.laptop.rows, self.laptop.claimed
        if job.is_copy or job.by not in self._limited or job.run_id not in rows:
            return
        is_ours = {job.by} if self._limit is None else self._limited
        going_on = [
            run_id
            for run_id, by in claimed.items()
            if by in is_ours
            if run_id in rows and not rows[run_id].phase.final
        ]
        if len(going_on) > (self._limit or 1):
            raise Violation(
                Invariant.LIMIT, f"{job.run_id} begins: {going_on}; limit {self._limit}."
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
        wish = Wish(kind="cancel", at=now, cause="Cancelled by hand.", cause_id="cancelled")
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
            context.cluster.cancel(run_id, wish.cause, "cancelled")

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
