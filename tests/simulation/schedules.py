"""Schedules: seeded random actions on the runs of a namespace.

A schedule ends when all runs are closed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from k8sbench.app.cases import resumed
from k8sbench.lifecycle import collecting, decide, owners, submitting
from k8sbench.lifecycle.active_run import GAPS
from k8sbench.lifecycle.context import PlannedCase, RunContext, Stop
from k8sbench.lifecycle.decide import Record, View, state_of
from k8sbench.lifecycle.serving import Serving
from k8sbench.model import attempts
from k8sbench.model.errors import BenchError, OwnedElsewhere, Unreachable
from k8sbench.model.ownership import COLLECTOR
from k8sbench.model.request import SubmitRequest
from k8sbench.model.run import Location, Run, Wish
from tests.simulation.cluster import Job, Namespace, SimulatedCluster
from tests.simulation.store import Disk, SimulatedStore
from tests.simulation.world import BEGIN, Calls, Process, Violation, World
from tests.unit.lifecycle.played import JOB, Silent, planned_case
from tests.unit.store.examples import TRAINING, measurement

PLACE = Location(server="https://simulated:6443", namespace="bench")
FAULTY_SECONDS = 400.0
"""Seconds in which faults happen.

Afterwards whoever takes over the runs must close them.
"""
ROUNDS = 6
"""Rounds of ``collect`` that close all runs once faults have stopped."""
SET = "night"
_CASE = planned_case("kubernetes", timeout_s=600.0)
CASE = msgspec.structs.replace(_CASE, draft=msgspec.structs.replace(_CASE.draft, max_restarts=2))
TRAINING_CASE = msgspec.structs.replace(
    CASE, draft=msgspec.structs.replace(CASE.draft, training=TRAINING, checkpoints="pvc:kept")
)
TRAINS = 0.25
"""Share of the schedules whose runs are trainings, which a resumption continues."""
COLLECTED = 0.4
"""Share of the schedules whose namespace has a collector."""
MEASURED = measurement()


class Schedule:
    """One schedule; :meth:`run` raises :class:`Violation` where an invariant does not hold."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.namespace = Namespace(self.world)
        self.laptop = self._disk("laptop")
        self.other = self._disk("other laptop")
        self.central = self._disk(COLLECTOR)
        self._numbers = 0
        self._stop = Stop()
        trains = random.Random(seed).random() < TRAINS
        self.case = TRAINING_CASE if trains else CASE
        self.has_collector = random.Random(f"collector {seed}").random() < COLLECTED
        self.reached: Counter[tuple[str, str, str]] = Counter()
        """Calls of :func:`decide` by run state, job view and request."""

    def _disk(self, name: str) -> Disk:
        disk = Disk(name, self.world, self.namespace)
        self.namespace.disks.append(disk)
        return disk

    def run(self) -> None:
        """Play the schedule to its end."""
        world, dice = self.world, self.world.dice
        self.laptop.most = dice.randrange(1, 4)
        self._process("submit", self.laptop, self._submit)
        for _ in range(dice.randrange(0, 3)):
            self._process("resume", self.laptop, self._resume, dice.random() * FAULTY_SECONDS)
        for _ in range(dice.randrange(1, 5)):
            self._process("collect", self.laptop, self._collect, dice.random() * FAULTY_SECONDS)
        for _ in range(dice.randrange(0, 3)):
            self._process("cancel", self.laptop, self._cancel, dice.random() * FAULTY_SECONDS)
        if dice.random() < 0.3:
            for act in (self._take_over, self._collect, self._cancel):
                if dice.random() < 0.7:
                    self._process("other", self.other, act, dice.random() * FAULTY_SECONDS)
        if self.has_collector:
            for after in (0.0, dice.random() * FAULTY_SECONDS):
                self._process("collector", self.central, self._serve, after)
            if dice.random() < 0.3:
                after = dice.random() * FAULTY_SECONDS
                self._process("takes over", self.laptop, self._take_over, after)
        world.run(lambda: world.now >= BEGIN + FAULTY_SECONDS)
        self._stop("enough")
        world.faults = None
        self.namespace.away_until = 0.0
        for disk in self.namespace.disks:
            disk.full_until = 0.0
        world.note("no more faults")
        collect_all = partial(self._collect, follow=True)
        for number in range(ROUNDS):
            for disk in self.namespace.disks:
                self._process(f"{disk.name} at last", disk, collect_all, 900.0 * number)
        world.run(self._is_over)
        self._check_the_end()

    def _process(
        self, name: str, disk: Disk, main: Callable[[RunContext], None], after: float = 0.0
    ) -> None:
        process = Process(self.world, name)

        def program() -> None:
            try:
                main(self._context(process, disk))
            except BenchError as error:
                self.world.note(f"{name}: {type(error).__name__} {error}")

        process.run(program, after)

    def _context(self, process: Process, disk: Disk) -> RunContext:
        for_collector = (
            disk is self.laptop and self.has_collector and self.world.dice.random() < 0.8
        )
        cluster = SimulatedCluster(self.namespace, process, disk)
        store = SimulatedStore(disk, process)

        def collected_elsewhere(run: Run, folder: Path | None) -> Run | None:
            process.effect("ask the collector")
            theirs = self.central.rows.get(run.run_id)
            if theirs is None or theirs.attempt < run.attempt:
                return None
            if not theirs.is_closed:
                raise Unreachable("The collector follows it still.")
            if folder is not None and not attempts.is_taken_over(theirs, run):
                store.taken_over.add(run.run_id)
                lines = self.central.lines.get(run.run_id, {})
                disk.copied.add(run.run_id)
                disk.lines[run.run_id] = {replica: [*some] for replica, some in lines.items()}
            return theirs

        def name(_: str) -> str:
            self._numbers += 1
            return f"run-{self._numbers}"

        return RunContext(
            store=store,
            cluster=cluster,
            clock=process.clock,
            owner=None,
            alive=lambda _: None,
            draw_run_id=name,
            measure=lambda _, gaps: msgspec.structs.replace(MEASURED, records=len(gaps)),
            manifests=lambda _: (JOB,),
            pool=Calls(process),
            location=PLACE,
            collected_elsewhere=None if disk is self.central else collected_elsewhere,
            for_collector=for_collector,
        )

    # -- what is done ---------------------------------------------------------------------------

    def _submit(self, context: RunContext) -> None:
        self._submit_cases([self.case] * self.laptop.most, context, resumes=False)

    def _resume(self, context: RunContext) -> None:
        if self.laptop.rows:  # there is no set before
            self._submit_cases([], context, resumes=True)

    def _submit_cases(
        self, cases: list[PlannedCase], context: RunContext, *, resumes: bool
    ) -> None:
        dice = self.world.dice
        request = SubmitRequest(
            benchmark="seg", set_name=SET, parallel=dice.choice([1, 2, 3]), wait=True
        )
        request = msgspec.structs.replace(request, detach=dice.random() < 0.3)
        with submitting.held_set(context.store.claims, SET, resumes=resumes):
            if resumes:
                wanted = msgspec.structs.replace(self.case, repeats=self.laptop.most)
                _, cases = resumed([wanted], context, SET, Silent())
            list(submitting.submit(cases, context, Silent(), Stop(), request))

    def _collect(self, context: RunContext, *, follow: bool | None = None) -> None:
        follow = self.world.dice.random() < 0.7 if follow is None else follow
        runs = self._find(context)
        collecting.collect(runs, context, Silent(), Stop(), follow=follow)

    def _find(self, context: RunContext) -> list[Run]:
        jobs = context.cluster.jobs()
        owners.record_ours(jobs, context, lambda _: None)
        owners.admit(jobs, context, lambda _: None)
        return collecting.open_runs(context)

    def _take_over(self, context: RunContext) -> None:
        jobs = context.cluster.jobs()
        if not jobs:
            return
        run_id = self.world.dice.choice([job.run_id for job in jobs])
        owners.take_over(run_id, context, lambda _: True, lambda _: None)
        if run_id not in context.store.ids():
            owners.recorded(run_id, context)
        run = context.store.run(run_id)
        if run.needs_collection:
            collecting.collect([run], context, Silent(), Stop(), follow=True)

    def _cancel(self, context: RunContext) -> None:
        runs = [run for run in self.laptop.rows.values() if not run.phase.final]
        if not runs:
            return
        run_id, now, store = self.world.dice.choice(runs).run_id, context.clock(), context.store
        wish = Wish(kind="cancel", at=now, cause="Cancelled by hand.", cause_id="cancelled")
        is_recorded = run_id in store.ids()
        if is_recorded and store.wish(run_id, wish).phase.final:
            return
        try:
            is_ours = owners.ask(run_id, context, wish, Stop(), lambda _: None)
        except OwnedElsewhere:
            is_ours = False
        if is_recorded and not is_ours:  # the request is the owner's, or stays on the job
            assert isinstance(store, SimulatedStore)
            disk, run = store.disk, context.store.run(run_id)
            disk.rows[run_id] = msgspec.structs.replace(run, wishes=())
            return
        if not is_recorded and is_ours:
            owners.recorded(run_id, context)
            store.wish(run_id, wish)
        if not is_recorded and not is_ours:
            return
        if store.claims.claim(run_id):
            collecting.cancel(store.run(run_id), context, Silent(), Stop())
        elif is_ours and owners.job_of(run_id, context) is not None:
            context.cluster.cancel(run_id, wish.cause, "cancelled")

    def _serve(self, context: RunContext) -> None:
        def find() -> list[Run]:
            return self._find(context)

        with Serving(find, context, Silent(), patient=True) as place:
            while self._stop.cause is None:
                place.step(1.0)

    # -- how it ends ----------------------------------------------------------------------------

    def _is_over(self) -> bool:
        if self.world.now < BEGIN + FAULTY_SECONDS + 900.0 * (ROUNDS - 1):
            return not any(self._open()) and all(map(self._is_known, self._left()))
        return self.world.now >= BEGIN + FAULTY_SECONDS + 900.0 * (ROUNDS + 2)

    def _left(self) -> list[Job]:
        jobs = self.namespace.jobs.values()
        return [job for job in jobs if not (job.gone_at or job.is_copy)]

    def _is_known(self, job: Job) -> bool:
        """Return True if the store that owns a job has it on record."""
        return any(
            job.owner.store == disk.name and job.run_id in disk.rows
            for disk in self.namespace.disks
        )

    def _open(self) -> list[Run]:
        return [
            run
            for disk in self.namespace.disks
            for run in disk.rows.values()
            if run.needs_collection
        ]

    def _check_the_end(self) -> None:
        if left := self._open():
            raise Violation(f"{left[0].run_id} is {left[0].phase} when all has calmed down.")
        for job in self._left():
            run_id = job.run_id
            is_kept = any((run_id, GAPS) in disk.files for disk in self.namespace.disks)
            if not is_kept:
                run = self.laptop.rows[run_id]
                raise Violation(f"Job {run_id} is left on the cluster; it is {run.phase}.")

    def watched(self, record: Record, view: View, now: float) -> decide.Action:
        """Decide, and count which cell of the table that is."""
        wanted = "run" if record.wish is None else "end"
        state, job = state_of(record.run).value, view.job.value
        self.reached[state, job, wanted] += 1
        return _DECIDE(record, view, now)


_DECIDE = decide.decide


def play(seed: int) -> Schedule:
    """Play the schedule of a seed.

    A violation names the seed and shows the trace.
    """
    schedule = Schedule(seed)
    decide.decide = schedule.watched
    try:
        schedule.run()
    except Violation as violation:
        tail = "\n".join(schedule.world.trace[-60:])
        raise Violation(f"seed {seed}: {violation}\n{tail}") from violation
    finally:
        decide.decide = _DECIDE
    return schedule
