"""Schedules with an operator: objects, users, one process after another.

The operator is killed or stopped at any moment, and begins again some time later. Users create,
change and delete objects, and delete jobs by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from k8sbench.lifecycle.benchmark_reconciler import CANCELLED
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.serving import Serving
from k8sbench.model import creation
from k8sbench.model.benchmark_object import Benchmark, ObjectSpec
from k8sbench.model.errors import BenchError, UsageError
from k8sbench.model.kube import OPERATOR
from k8sbench.model.phase import LOGS_INCOMPLETE
from k8sbench.model.run import Run
from k8sbench.operator.controller import SUCCESS_SECONDS
from tests.simulation.cluster import REFUSED, Connection, Job
from tests.simulation.invariants import Invariant, Violation
from tests.simulation.objects import KeptObjects, SimulatedObjects
from tests.simulation.schedule import CASE, FAULTY_SECONDS, TRAINING_CASE, Schedule
from tests.simulation.store import Disk, SimulatedStore
from tests.simulation.world import BEGIN, Calls, Process
from tests.unit.lifecycle.played import Silent

CALM_SECONDS = 7200.0
"""Seconds without faults in which all must be closed."""
CHECK_SECONDS = 10.0
"""Interval of checks whether all is closed."""
RETRY_SECONDS = 5.0
"""Pause of the operator after an error."""
LONGEST_MEASUREMENT = 40.0
NEVER_CREATED = {creation.NOT_CREATED, creation.RESTART_REFUSED}
"""Cause ids of runs that end because a job was not created."""
NAMES = ("a", "b", "c")
"""Names of objects. The first two are in one set."""
UNPLANNABLE = "none"
"""Variant of an object that cannot be planned."""


class WithOperator(Schedule):
    """One schedule of an operator."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._disk = self.disk(OPERATOR)
        self.server = KeptObjects(self.namespace, self._disk)
        self._repeats: dict[str, int] = {}
        """Runs of each case by the object's uid."""
        self._expected: dict[str, int] = {}
        """Runs of all cases by the object's uid."""
        self._late: set[str] = set()
        """uids of late jobs of a store that was lost before they came."""
        self._is_over, self._check_at = False, 0.0
        self.namespace.check_new = self._check_new
        self._place: Serving | None = None
        """Namespace that the operator serves; None before its jobs were listed."""
        self._operator = self._start(0.0)

    def begin(self) -> None:
        dice = self.world.dice
        for name in NAMES[: dice.randrange(1, len(NAMES) + 1)]:
            self._later(partial(self._create, name), dice.random() * 60.0)
        for _ in range(dice.randrange(0, 6)):
            at = dice.random() * FAULTY_SECONDS
            for _ in range(dice.choice([1, 1, 2])):  # or two users at once
                self._later(partial(self._act, dice.choice(list(ACTS))), at)

    def _later(self, act: Callable[[], None], after: float) -> None:
        self.world.spawn(act, after)

    # -- users ----------------------------------------------------------------------------------

    def _act(self, what: str) -> None:
        """Have a user do something."""
        self.world.met[what] += 1
        ACTS[what](self)

    def _some_name(self) -> str:
        return self.world.dice.choice([one.name for one in self.server.found.values()] or NAMES)

    def _create(self, name: str) -> None:
        dice, uid = self.world.dice, f"{name}-{self.world.steps}"
        sizes = dice.choice([(), (8,), (8, 16)])
        wanted = ObjectSpec(
            benchmark="seg",
            set=dice.choice(["night", None]) if name == NAMES[2] else "night",
            variant=UNPLANNABLE if dice.random() < 0.05 else None,
            checkpoints="pvc:kept" if dice.random() < 0.35 else None,
            keep=dice.random() < 0.25,
            batch_sizes=sizes,
            repeats=dice.randrange(1, 4),
            parallel=dice.choice([1, 2, 3, None]),
            max_restarts=dice.choice([0, 2]),
            ttl_seconds_after_finished=dice.choice([None, None, 60]),
        )
        self._repeats[uid] = 0 if wanted.variant == UNPLANNABLE else wanted.repeats or 1
        self._expected[uid] = len(sizes or (None,)) * self._repeats[uid]
        self.server.create(name, uid, wanted)

    def _cancel(self) -> None:
        self.server.patch(self._some_name(), cancel=True)

    def _cancel_run(self) -> None:
        name = self._some_name()
        if (benchmark := self.server.named(name)) is not None:
            run_id = benchmark.run_id(self.world.dice.randrange(1, 7))
            cancelled = dict.fromkeys((*benchmark.spec.cancel_runs, run_id))
            self.server.patch(name, cancel_runs=tuple(cancelled))

    def _delete(self) -> None:
        self.server.delete(self._some_name())

    def _delete_and_create(self) -> None:
        name = self._some_name()
        self.server.delete(name)
        pause = self.world.dice.choice([0.0, 5.0, 60.0])
        self._later(partial(self._create, name), pause * self.world.dice.random())

    def _change_parallel(self) -> None:
        self.server.patch(self._some_name(), parallel=self.world.dice.randrange(1, 4))

    def _change_keep(self) -> None:
        name = self._some_name()
        if (benchmark := self.server.named(name)) is not None:
            self.server.patch(name, keep=not benchmark.spec.keep)

    def _retry(self) -> None:
        name = self._some_name()
        if (benchmark := self.server.named(name)) is not None:
            self.server.patch(name, retry=benchmark.spec.retry + 1)

    def _replace_status(self) -> None:
        self.server.replace_status(self._some_name())

    def _delete_job(self) -> None:
        if jobs := self.left():
            self.namespace.delete_by_hand(self.world.dice.choice(jobs))

    def _stop_operator(self) -> None:
        self._operator.end("stopped")

    def _lose_store(self) -> None:
        """Have the operator go on with an empty store, or with an older backup."""
        is_empty = self.world.dice.random() < 0.5
        backup = Disk(OPERATOR, self.world, self.namespace) if is_empty else self._disk.copy()
        after = self.world.dice.random() * 60.0
        self._later(partial(self._restore, backup), after)

    def _restore(self, backup: Disk) -> None:
        if self.server.has_lost_store:
            return  # once: a store that comes back after another one has jobs of both
        self._operator.end("stopped to replace its store")
        self.namespace.disks.remove(self._disk)
        self.namespace.disks.append(backup)
        self._disk = self.server.disk = backup
        self.server.has_lost_store = True
        self.namespace.forget_copies()
        self.server.forgotten |= {uid for uid, one in self.server.found.items() if one.is_over}

    # -- the operator ---------------------------------------------------------------------------

    def _start(self, after: float) -> Process:
        process = Process(self.world, "operator")
        process.at_end.append(self._start_again)
        process.run(partial(self._program, process), after)
        return process

    def _start_again(self) -> None:
        self._place = None
        dice = self.world.dice
        if not self._is_over:
            self._operator = self._start(dice.random() * dice.choice([2.0, 30.0, 120.0]))

    def _program(self, process: Process) -> None:
        while not self._is_over:
            try:
                self._serve(process)
            except BenchError as error:
                self.world.note(f"operator: {type(error).__name__} {error}")
                Calls(process).wait(RETRY_SECONDS)

    def _serve(self, process: Process) -> None:
        objects = SimulatedObjects(self.server, process)
        store = SimulatedStore(self._disk, process, partial(self._check_move, objects))
        context = self.context(
            process, self._disk, store=store, measures=Calls(process, LONGEST_MEASUREMENT)
        )
        connection = Connection(self.namespace, process)
        with Serving(context, Silent(), objects, partial(self._plan, connection)) as place:
            while not self._is_over:
                place.step(1.0)
                self._place = None if place.listed_at is None else place

    def _plan(self, connection: Connection, benchmark: Benchmark) -> Sequence[PlannedCase]:
        connection.request("plan")
        wanted = benchmark.spec
        if wanted.variant == UNPLANNABLE:
            raise UsageError("There is no such variant.", "Name another.")
        assert wanted.repeats is not None
        assert wanted.max_restarts is not None
        cases = []
        case = CASE if wanted.checkpoints is None else TRAINING_CASE
        for size in wanted.batch_sizes or (case.draft.batch_size,):
            draft = msgspec.structs.replace(
                case.draft, batch_size=size, max_restarts=wanted.max_restarts
            )
            cases.append(msgspec.structs.replace(case, draft=draft, repeats=wanted.repeats))
        return cases

    # -- what must hold -------------------------------------------------------------------------

    def open(self) -> list[Run]:
        # What an older backup has waiting, its object knows to be over.
        forgotten = self.server.forgotten
        return [run for run in super().open() if run.plan.requested_by not in forgotten]

    def is_kept(self, job: Job) -> bool:
        run = self._disk.rows.get(job.run_id)
        # Of a training that was continued after the backup only the end before is known, and of a
        # job that came late nothing.
        is_older = run is not None and (run.attempt < job.attempt or run.job_uid is None)
        is_unknown = run is not None and run.phase.final and is_older
        is_forgotten = self.server.has_lost_store and is_unknown
        return is_forgotten or self.server.keeps(job.plan.requested_by)

    def _check_move(self, objects: SimulatedObjects, before: Run | None, after: Run) -> None:
        """Check that a transition of a run of an object is wanted."""
        uid = after.plan.requested_by
        if uid is None:
            return
        if before is None or (before.phase.final and not after.phase.final):
            objects.check_begin(after)
            self._check_more(uid, after)
        elif after.phase.final and after.history[-1].cause_id == CANCELLED:
            self.server.check_is_wanted(after)
        elif after.phase.final and after.history[-1].cause_id in NEVER_CREATED:
            _check_refused(after)
        elif after.history[-1].cause == creation.turn_came(0.0).cause:
            objects.check_begin(after)
            self._check_turn(objects, after)

    def _check_more(self, uid: str, run: Run) -> None:
        """Check that a case of an object lacks one more run."""
        disk = self._disk
        counting = [
            other.run_id
            for other in self.server.rows(uid)
            if other.run_id != run.run_id
            and disk.case_key(other) == disk.case_key(run)
            and (not other.is_closed or _is_valid(other))
        ]
        if len(counting) >= self._repeats[uid]:
            raise Violation(
                Invariant.NO_EXTRA_RUN,
                f"{run.run_id} is one more than was asked for, beside {counting}.",
            )

    def _check_turn(self, objects: SimulatedObjects, run: Run) -> None:
        """Check that the turn of a run has come, restarting runs included."""
        name = run.plan.set_name
        active = self._live(name) | {
            other.run_id
            for other in self._disk.rows.values()
            if other.plan.set_name == name
            and not (other.phase.final or creation.waits_for_turn(other))
            and other.history[-1].cause_id != LOGS_INCOMPLETE  # its job has ended
        }
        uid = run.plan.requested_by or ""
        own = {one.run_id for one in self.server.rows(uid)} & active
        if objects.runs_one(uid) and own - {run.run_id}:
            raise Violation(Invariant.LIMIT, f"{run.run_id} begins beside {own} of its object.")
        most = objects.limit(name)
        if len(active - {run.run_id}) >= most:
            raise Violation(
                Invariant.LIMIT, f"{run.run_id} begins beside {active} of set {name}; limit {most}."
            )

    def _check_new(self, job: Job) -> None:
        """Check that a new job is wanted, and the set allows it."""
        if job.is_copy:
            return
        name, uid = job.plan.set_name, job.plan.requested_by or ""
        cancelled_at = self.server.cancelled.get(uid, math.inf)
        if job.by.began_at > cancelled_at and uid not in (
            self.server.unread | self.server.forgotten
        ):
            raise Violation(
                Invariant.NO_JOB_AFTER_CANCEL,
                f"{job.run_id} gets a job after its object was cancelled.",
            )
        run = self._disk.rows.get(job.run_id)
        is_unknown = run is None or creation.waits_for_turn(run)
        if self.server.has_lost_store and is_unknown:
            self._late.add(job.uid)
        live = self._live(name)
        if len(live) > self.server.most.get(name, 1):
            raise Violation(Invariant.LIMIT, f"{live} of set {name} run at a time.")

    def _live(self, set_name: str) -> set[str]:
        """Return the runs of a set whose jobs have not ended.

        Nobody knows of copies, and of jobs of which a lost store had, or has had, the only record.
        Those that are kept beyond their time do not count.
        """
        now, found = self.world.now, set[str]()
        for job in self.namespace.jobs.values():
            run = self._disk.rows.get(job.run_id)
            is_unknown = (
                run is None
                or (run.phase.final and run.attempt < job.attempt)
                or job.plan.requested_by in self.server.forgotten
            )
            is_late = run is not None and run.phase.final and run.history[-1].cause_id == "timeout"
            is_gone = job.gone_at is not None and now >= job.gone_at
            if (
                job.plan.set_name == set_name
                and not (job.is_copy or job.is_over(now) or is_gone or is_late)
                and not (is_unknown and self.server.has_lost_store)
                and job.uid not in self._late
            ):
                found.add(job.run_id)
        return found

    # -- how it ends ----------------------------------------------------------------------------

    def end(self) -> None:
        world = self.world
        world.run(self._is_closed)
        self.check_closed()
        self.server.check_the_end(self._expected)
        self._check_ready()
        self._is_over = True
        world.run(lambda: False)

    def _check_ready(self) -> None:
        """Check what readiness goes by, after a time without faults."""
        if self._place is not None and self.world.now > self._operator.began_at + SUCCESS_SECONDS:
            if not self._has_listed_lately(self._place):
                raise Violation(Invariant.READY, f"It last listed at {self._place.listed_at:.0f}.")
            if self._place.refusal:
                raise Violation(Invariant.READY, f"It creates no job: {self._place.refusal}")

    def _is_closed(self) -> bool:
        now = self.world.now
        if now < self._check_at:
            return False
        self._check_at = now + CHECK_SECONDS
        if now >= BEGIN + FAULTY_SECONDS + CALM_SECONDS:
            return True
        # All may be closed while the machine of the operator sleeps.
        is_awake = self._place is None or self._has_listed_lately(self._place)
        return is_awake and not self.open() and not self.left() and self.server.is_settled

    def _has_listed_lately(self, place: Serving) -> bool:
        assert place.listed_at is not None
        return abs(self.world.now - place.listed_at) <= SUCCESS_SECONDS


ACTS: dict[str, Callable[[WithOperator], None]] = {
    "an object is cancelled": WithOperator._cancel,
    "a run is cancelled": WithOperator._cancel_run,
    "an object is deleted": WithOperator._delete,
    "an object is created again": WithOperator._delete_and_create,
    "parallel changes": WithOperator._change_parallel,
    "keep changes": WithOperator._change_keep,
    "an object is retried": WithOperator._retry,
    "a status is replaced": WithOperator._replace_status,
    "a job is deleted": WithOperator._delete_job,
    "the operator is stopped": WithOperator._stop_operator,
    "a store is lost": WithOperator._lose_store,
}
"""Acts of users."""


def _check_refused(run: Run) -> None:
    """Check that a run without a job ends for a reason that other jobs do not meet."""
    cause = run.history[-1].cause
    if not any(reason in cause for reason in (REFUSED, "meanwhile", "anew")):
        raise Violation(Invariant.WAITS_FOR_PLACE, f"{run.run_id} ends: {cause}")


def _is_valid(run: Run) -> bool:
    return run.measurement is not None and run.measurement.verdict == "valid"
