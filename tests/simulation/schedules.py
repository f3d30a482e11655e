"""Schedules: who does what with the runs of a namespace, drawn from a seed, until all is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from k8sbench.app import sweeps
from k8sbench.lifecycle import collecting, decide, foreign_jobs, set_claims, submitting
from k8sbench.lifecycle.artifacts import GAPS
from k8sbench.lifecycle.context import PlannedCase, RunContext, Stop
from k8sbench.lifecycle.serving import Serving
from k8sbench.lifecycle.states import state_of
from k8sbench.lifecycle.views import Record, View
from k8sbench.model.errors import BenchError
from k8sbench.model.measurement import Measurement
from k8sbench.model.request import SubmitRequest
from k8sbench.model.run import Location, Run, Wish
from tests.simulation.cluster import Namespace, SimulatedCluster
from tests.simulation.store import Disk, SimulatedStore
from tests.simulation.world import BEGIN, Calls, Faults, Process, Violation, World
from tests.unit.lifecycle.played import planned_case
from tests.unit.store.examples import measurement

PLACE = Location(server="https://simulated:6443", namespace="bench")
FAULTY_SECONDS = 400.0
"""For which faults happen; after it whoever takes the runs up must bring them to their ends."""
ROUNDS = 6
"""Of ``collect`` that bring all runs to their ends when faults have stopped."""
SET = "night"
_CASE = planned_case("kubernetes", timeout_s=600.0)
_ONCE = _CASE.draft
CASE = msgspec.structs.replace(_CASE, draft=msgspec.structs.replace(_CASE.draft, max_restarts=2))
MEASURED = measurement()
FAULTS = Faults(
    kill=0.004,
    lost_answer=0.15,
    away=0.01,
    refused=0.04,
    no_room=0.08,
    stale=0.02,
    silent=0.01,
    doubled=0.05,
    reordered=0.05,
    unreadable=0.006,
    lost_lines=0.1,
    retried=0.25,
    preempted=0.15,
    expires=0.1,
    full=0.002,
    jump=0.001,
)


class Quiet:
    """A reporter of which nobody hears."""

    def plan(self, *_: object) -> None: ...

    def planned(self, *_: object) -> None: ...

    def on_event(self, *_: object) -> None: ...

    def ended(self, *_: object) -> None: ...

    def note(self, *_: object) -> None: ...


class Schedule:
    """One schedule; :meth:`run` raises :class:`Violation` where an invariant does not hold."""

    def __init__(self, seed: int, faults: Faults = FAULTS) -> None:
        self.world = World(seed, faults)
        self.namespace = Namespace(self.world)
        self.laptop = self._disk("laptop")
        self.other = self._disk("other laptop")
        self.central = self._disk("collector")
        self._numbers = 0
        self._stop = Stop()
        self.case = CASE
        self.reached: Counter[tuple[str, str, str]] = Counter()
        """How often :func:`decide` was asked: by state, view of the job, and what is wanted."""

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
        # Nothing decides yet between stores which of them begins another attempt, or creates a job
        # that is missing: there each of them only reads.
        if dice.random() < 0.3:
            self.case = msgspec.structs.replace(self.case, draft=_ONCE)
            self._process("other", self.other, self._collect, dice.random() * FAULTY_SECONDS)
            if dice.random() < 0.5:
                self._process("collector", self.central, self._serve, dice.random() * 60.0)
        world.run(lambda: world.now >= BEGIN + FAULTY_SECONDS)
        self._stop("enough")
        world.faults = Faults()
        self.namespace.away_until = 0.0
        for disk in self.namespace.disks:
            disk.full_until = 0.0
        world.note("no more faults")
        for number in range(ROUNDS):
            for disk in self.namespace.disks:
                self._process(f"{disk.name} at last", disk, self._collect_all, 900.0 * number)
        world.run(self._is_over)
        self._check_the_end()

    def _process(
        self,
        name: str,
        disk: Disk,
        main: Callable[[RunContext], None],
        after: float = 0.0,
    ) -> None:
        process = Process(self.world, name)

        def program() -> None:
            try:
                main(self._context(process, disk))
            except BenchError as error:
                self.world.note(f"{name}: {type(error).__name__} {error}")

        process.run(program, after)

    def _context(self, process: Process, disk: Disk) -> RunContext:
        cluster = SimulatedCluster(self.namespace, process, disk)

        def name(_: str) -> str:
            self._numbers += 1
            return f"run-{self._numbers}"

        def measure(run: Run, gaps: object) -> Measurement:
            count = len(gaps) if isinstance(gaps, list) else 0
            return msgspec.structs.replace(MEASURED, records=count)

        return RunContext(
            store=SimulatedStore(disk, process),
            cluster=cluster,
            clock=process.clock,
            owner=None,
            alive=lambda _: None,
            draw_run_id=name,
            measure=measure,
            manifests=lambda _: ({"kind": "Job", "metadata": {}, "spec": {}},),
            pool=Calls(process),
            location=PLACE,
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
        submit = submitting.create_all if dice.random() < 0.3 else submitting.submit
        with set_claims.held(context.store.claims, SET, resumes=resumes):
            if resumes:
                wanted = msgspec.structs.replace(self.case, repeats=self.laptop.most)
                _, cases = sweeps.resumed([wanted], context, SET, Quiet())
            list(submit(cases, context, Quiet(), Stop(), request))

    def _collect(self, context: RunContext, *, follow: bool | None = None) -> None:
        follow = self.world.dice.random() < 0.7 if follow is None else follow
        jobs = context.cluster.jobs()
        if context.store.disk is not self.laptop:  # type: ignore[attr-defined]
            foreign_jobs.record_all(jobs, context, lambda _: None, renumber=True)
        runs = collecting.open_runs(context)
        collecting.collect(runs, context, Quiet(), Stop(), follow=follow)

    def _collect_all(self, context: RunContext) -> None:
        self._collect(context, follow=True)

    def _cancel(self, context: RunContext) -> None:
        runs = [run for run in self.laptop.rows.values() if not run.phase.final]
        if not runs:
            return
        run, now = self.world.dice.choice(runs), context.clock()
        wish = Wish(kind="cancel", at=now, cause="Cancelled by hand.", cause_id="cancelled")
        run = context.store.wish(run.run_id, wish)
        if run.phase.final:
            return
        if context.store.claims.claim(run.run_id):
            collecting.cancel(run, context, Quiet(), Stop())
        else:
            context.cluster.cancel(run.run_id, wish.cause, "cancelled")

    def _serve(self, context: RunContext) -> None:
        def find() -> list[Run]:
            jobs = context.cluster.jobs()
            foreign_jobs.record_all(jobs, context, lambda _: None, renumber=True)
            return collecting.open_runs(context)

        with Serving(find, context, Quiet(), patient=True) as place:
            while self._stop.cause is None:
                place.step(1.0)

    # -- how it ends ----------------------------------------------------------------------------

    def _is_over(self) -> bool:
        if self.world.now < BEGIN + FAULTY_SECONDS + 900.0 * (ROUNDS - 1):
            return not any(self._open())
        return self.world.now >= BEGIN + FAULTY_SECONDS + 900.0 * (ROUNDS + 2)

    def _open(self) -> list[Run]:
        return [
            run
            for disk in self.namespace.disks
            for run in disk.rows.values()
            if collecting.needs_collection(run)
        ]

    def _check_the_end(self) -> None:
        if left := self._open():
            raise Violation(f"{left[0].run_id} is {left[0].phase} when all has calmed down.")
        for run_id, job in self.namespace.jobs.items():
            is_kept = any((run_id, GAPS) in disk.files for disk in self.namespace.disks)
            if job.gone_at is None and not is_kept:
                run = self.laptop.rows[run_id]
                raise Violation(f"Job {run_id} is left on the cluster; it is {run.phase}.")

    def watched(self, record: Record, view: View, now: float) -> decide.Action:
        """Decide, and count which cell of the table that is."""
        wanted = "run" if record.wish is None else "end"
        state, job = type(state_of(record.run)).__name__, type(view.job).__name__
        self.reached[state, job, wanted] += 1
        return _DECIDE(record, view, now)


_DECIDE = decide.decide


def play(seed: int, faults: Faults = FAULTS) -> Schedule:
    """Play the schedule of a seed; a violation names the seed and shows what happened."""
    schedule = Schedule(seed, faults)
    decide.decide = schedule.watched
    try:
        schedule.run()
    except Violation as violation:
        tail = "\n".join(schedule.world.trace[-60:])
        raise Violation(f"seed {seed}: {violation}\n{tail}") from violation
    finally:
        decide.decide = _DECIDE
    return schedule
