"""Parts of every schedule: processes, faults for a while, and an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from k8sbench.lifecycle import decide
from k8sbench.lifecycle.context import RunContext
from k8sbench.lifecycle.decide import Now, RecordedRun, View, state_of
from k8sbench.lifecycle.run_artifacts import GAPS
from k8sbench.model.errors import BenchError
from k8sbench.model.run import Location, Run
from k8sbench.results.groups import grouping
from tests.simulation.cluster import Job, Namespace, SimulatedCluster
from tests.simulation.invariants import Invariant, Violation
from tests.simulation.store import Disk, SimulatedStore
from tests.simulation.world import BEGIN, Calls, Process, World
from tests.unit.lifecycle.played import objects, planned_case
from tests.unit.model.measurements import measurement
from tests.unit.store.examples import TRAINING

PLACE = Location(server="https://simulated:6443", namespace="bench")
FAULTY_SECONDS = 400.0
"""Seconds in which faults happen.

Afterwards whoever has the runs must close them.
"""
_CASE = planned_case("kubernetes", timeout_s=600.0)
CASE = msgspec.structs.replace(_CASE, draft=msgspec.structs.replace(_CASE.draft, max_restarts=2))
TRAINING_CASE = msgspec.structs.replace(
    CASE,
    draft=msgspec.structs.replace(
        CASE.draft, mode="train", training=TRAINING, checkpoints="pvc:kept"
    ),
)
MEASURED = measurement()


class Schedule:
    """One schedule; :meth:`run` raises :class:`Violation` where an invariant does not hold."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.namespace = Namespace(self.world)
        self.reached: Counter[tuple[str, str, str]] = Counter()
        """Calls of :func:`decide` by run state, job view and request."""

    def run(self) -> None:
        """Play the schedule to its end."""
        world = self.world
        self.begin()
        world.run(lambda: world.now >= BEGIN + FAULTY_SECONDS)
        world.faults = None
        self.namespace.away_until = self.namespace.denied_until = 0.0
        for disk in self.namespace.disks:
            disk.full_until = 0.0
        world.note("no more faults")
        self.end()

    def begin(self) -> None:
        """Start what happens while there are faults."""
        raise NotImplementedError

    def end(self) -> None:
        """Have everything closed, and check that it is."""
        raise NotImplementedError

    def disk(self, name: str) -> Disk:
        """Make a store."""
        disk = Disk(name, self.world, self.namespace)
        self.namespace.disks.append(disk)
        return disk

    def process(
        self, name: str, disk: Disk, main: Callable[[RunContext], None], after: float = 0.0
    ) -> Process:
        """Have a process of a store begin after so many seconds."""
        process = Process(self.world, name)

        def program() -> None:
            try:
                main(self.context(process, disk))
            except BenchError as error:
                self.world.note(f"{name}: {type(error).__name__} {error}")

        process.run(program, after)
        return process

    def context(self, process: Process, disk: Disk, **changes: Any) -> RunContext:
        """Return what a process has."""
        here = RunContext(
            store=SimulatedStore(disk, process),
            cluster=SimulatedCluster(self.namespace, process, disk),
            clock=process.clock,
            monotonic=lambda: self.world.now,
            process=None,
            alive=lambda _: None,
            measure=lambda _, gaps: msgspec.structs.replace(MEASURED, records=len(gaps)),
            groups=grouping.groups,
            objects=objects,
            pool=Calls(process),
            location=PLACE,
        )
        return msgspec.structs.replace(here, **changes)

    # -- how it ends ----------------------------------------------------------------------------

    def left(self) -> list[Job]:
        """Return the jobs that nobody has deleted, nor keeps because logs are not whole."""
        jobs, disks = self.namespace.jobs.values(), self.namespace.disks
        return [
            job
            for job in jobs
            if not (job.gone_at or job.is_copy or self.is_kept(job))
            and not any((job.run_id, GAPS) in disk.files for disk in disks)
        ]

    def is_kept(self, job: Job) -> bool:
        """Return True if a job is to stay on the cluster."""
        return False

    def open(self) -> list[Run]:
        """Return the runs that are not closed."""
        return [
            run
            for disk in self.namespace.disks
            for run in disk.rows.values()
            if run.needs_collection
        ]

    def check_closed(self) -> None:
        """Check that all runs are closed, and no job is left."""
        if left := self.open():
            raise Violation(
                Invariant.RUNS_CLOSED,
                f"{left[0].run_id} is {left[0].phase} when all has calmed down.",
            )
        for job in self.left():
            disks = [disk for disk in self.namespace.disks if job.run_id in disk.rows]
            phases = {disk.name: str(disk.rows[job.run_id].phase) for disk in disks}
            raise Violation(
                Invariant.NO_JOB_LEFT, f"Job {job.run_id} is left on the cluster; it is {phases}."
            )

    def watched(self, record: RecordedRun, view: View, now: Now) -> decide.Action:
        """Decide, and count which cell of the table that is."""
        wanted = "run" if record.wish is None else "end"
        state, job = state_of(record.run).value, view.job.value
        self.reached[state, job, wanted] += 1
        return DECIDE(record, view, now)


DECIDE = decide.decide
