"""A namespace of a cluster, and the port ``Cluster`` as one process has it.

A job's life is drawn when it is created: its phases, what its replicas print and when, and how it
ends. What a process sees of it comes late, doubled or not at all, as its faults say; by the rules
of the port each line comes once and in order, and a job's end after everything that could be read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from k8sbench.adapters.kubernetes.watching import end_detector
from k8sbench.diagnose.job import facts
from k8sbench.model import creation
from k8sbench.model.errors import (
    BenchError,
    EarlierAttempt,
    NoRoom,
    OwnedElsewhere,
    Unreachable,
    UsageError,
)
from k8sbench.model.kube import JobOwner, Ownership, attempt_of
from k8sbench.model.phase import (
    LIMITS,
    LOGS_BEING_READ,
    LOGS_INCOMPLETE,
    Phase,
    Transition,
)
from k8sbench.model.plan import RunPlan
from k8sbench.model.replica_logs import LogLine, LogMark
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap
from k8sbench.ports.cluster import FoundJob, JobEvent, Manifest
from tests.simulation.invariants import Invariant, Violation
from tests.simulation.store import Disk
from tests.simulation.world import BEGIN, Process, World

REPLICAS = ("master-0", "worker-0")
RACE_SECONDS = 120.0
"""Seconds in which the previous owner may still close a run."""
PATIENCE = 120.0
"""After a job's end, for logs that cannot be read."""
REFUSED = "The job is not admitted."
"""Message for a job that can never be created."""
DENIED_SECONDS = 90.0
"""Longest time for which a place refuses all jobs."""
GRACE = 5.0
"""Between the deletion of a job and its end."""


class Job(msgspec.Struct, kw_only=True, eq=False):
    """A job on the API server."""

    plan: RunPlan
    uid: str
    attempt: int
    created_at: float
    steps: list[Transition]
    lines: dict[str, list[LogLine]]
    end: Transition
    lost: set[LogLine] = set()
    """Lines that nobody could have any more."""
    cancel: tuple[str, str] | None = None
    began_at: float = 0.0
    gone_at: float | None = None
    """Unix time of the object's removal; None if not scheduled."""
    owner: JobOwner
    by: Process
    """Process that asked for it."""
    taken_at: float = -math.inf
    """Unix time of the last takeover."""
    is_copy: bool = False
    """True if somebody else re-created the job."""

    @property
    def run_id(self) -> str:
        return self.plan.run_id

    def is_over(self, now: float) -> bool:
        return now >= self.end.at


class Namespace:
    """State of the API server."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.jobs: dict[str, Job] = {}
        self.gone: dict[tuple[str, int], Job] = {}
        """By run and attempt."""
        self.disks: list[Disk] = []
        self.resumed_at: dict[str, float] = {}
        """Time at which a process last resumed a run, by run."""
        self.away_until = self.denied_until = 0.0
        self.makes_copies = True
        self.check_new: Callable[[Job], None] = lambda _: None
        """Is called with each new job."""
        self.rooms = world.dice.choice([2, 3, 8])
        self._uids = 0

    def job(self, run_id: str) -> Job | None:
        """Return the job of a name; one whose time has come is gone."""
        job = self.jobs.get(run_id)
        if job is not None and job.gone_at is not None and self.world.now >= job.gone_at:
            self.remove(job)
            return None
        return job

    def remove(self, job: Job) -> None:
        del self.jobs[job.run_id]
        if not job.is_copy:  # the run has the lines of the job itself
            self.gone[job.run_id, job.attempt] = job
        rows = [disk.rows[job.run_id] for disk in self.disks if job.run_id in disk.rows]
        # A record without an answer to the creation, and a copied one, cannot tell a copy from it.
        if (
            self.makes_copies
            and len(rows) == 1
            and all(row.job_uid_of(job.attempt) == job.uid for row in rows)
            and self.world.happens("copied")
        ):
            self.world.spawn(lambda: self._copy(job), self.world.dice.random() * 30.0)
        self.world.note(f"job {job.run_id} (attempt {job.attempt}) is gone")

    def new(
        self,
        plan: RunPlan,
        attempt: int,
        owner: JobOwner,
        by: Process,
        *,
        is_copy: bool = False,
    ) -> Job:
        """Create a job."""
        world = self.world
        self._uids += 1
        job = self._drawn(plan, attempt, owner, by)
        job.is_copy = is_copy
        self.jobs[plan.run_id] = job
        world.note(f"job {plan.run_id} (attempt {attempt}) is created")
        self.check_new(job)
        world.note(f"job {plan.run_id} (attempt {attempt}) ends at {job.end.at - BEGIN:.0f}")
        return job

    def forget_copies(self) -> None:
        """Have no copies any more: an older record cannot tell them from the jobs."""
        self.makes_copies = False
        self.jobs = {run_id: job for run_id, job in self.jobs.items() if not job.is_copy}

    def delete_by_hand(self, job: Job) -> None:
        """Have a user delete a job."""
        self.world.note(f"job {job.run_id} is deleted by hand")
        self.delete(job)

    def delete(self, job: Job) -> None:
        """Delete a job: it is gone some seconds later."""
        gone_at = self.world.now + self.world.dice.random() * GRACE
        job.gone_at = gone_at if job.gone_at is None else min(gone_at, job.gone_at)

    def _drawn(self, plan: RunPlan, attempt: int, owner: JobOwner, by: Process) -> Job:
        """Draw all of a job's life."""
        world, dice = self.world, self.world.dice
        steps, at = [], world.now
        phases = [Phase.QUEUED, Phase.PENDING, Phase.PULLING, Phase.STARTING, Phase.RUNNING]
        for phase in phases:
            at += dice.random() * 3.0
            steps.append(Transition(phase=phase, at=at, cause=f"It is {phase}."))
        began = at
        lines: dict[str, list[LogLine]] = {}
        ends = began + 10.0 + dice.random() * 60.0
        for replica in REPLICAS[: dice.choice([1, 2])]:
            count = dice.randrange(3, 12)
            times = sorted(round(began + dice.random() * (ends - began), 1) for _ in range(count))
            lines[replica] = [
                LogLine(replica=replica, at=time, text=f"{attempt} {number}")
                for number, time in enumerate(times)
            ]
        if world.happens("preempted"):
            back = began + (ends - began) * dice.random()
            for after, phase in ((0.0, Phase.QUEUED), (3.0, Phase.RUNNING)):
                steps.append(Transition(phase=phase, at=back + after, cause="It was preempted."))
        lost = set[LogLine]()
        if world.happens("remade"):
            remade_at = began + (ends - began) * dice.random()
            for after, phase in ((0.0, Phase.PENDING), (3.0, Phase.RUNNING)):
                at = remade_at + after
                steps.append(Transition(phase=phase, at=at, cause="Its pods were deleted."))
            every = itertools.chain(*lines.values())
            lost = {line for line in every if remade_at - 3.0 < line.at <= remade_at}
        if world.happens("retried"):
            end = Transition(
                phase=Phase.FAILED, at=ends, cause="It was killed.", cause_id="replica-failed"
            )
        elif dice.random() < 0.15:
            end = Transition(phase=Phase.FAILED, at=ends, cause="It failed.", cause_id="own")
        else:
            end = Transition(phase=Phase.SUCCEEDED, at=ends, cause="It is done.")
        job = Job(
            plan=plan,
            uid=str(self._uids),
            attempt=attempt,
            created_at=world.now,
            steps=sorted((step for step in steps if step.at < ends), key=lambda step: step.at),
            lines=lines,
            end=end,
            lost=lost,
            began_at=began,
            owner=owner,
            by=by,
        )
        if world.happens("lost_lines"):
            replica = dice.choice(list(lines))
            some = lines[replica][: dice.randrange(1, len(lines[replica]))]
            job.lost.update(some[-2:])
        others = list(lines)[1:]
        if others and end.phase is Phase.FAILED and world.happens("cascade"):
            last = (line for other in others for line in lines[other])
            job.lost.update(line for line in last if line.at > ends - 3.0)
        if world.happens("expires"):
            job.gone_at = ends + dice.random() * 30.0
        return job

    def _copy(self, job: Job) -> None:
        if self.makes_copies and self.job(job.run_id) is None:
            copy = self.new(job.plan, job.attempt, job.owner, job.by, is_copy=True)
            copy.lost = set()

    # -- what must hold -------------------------------------------------------------------------

    def of_attempt(self, run_id: str, attempt: int, uid: str | None = None) -> Job | None:
        job = self.jobs.get(run_id)
        if job is not None and job.attempt == attempt and uid in {None, job.uid}:
            return job
        return self.gone.get((run_id, attempt))

    def check_archive(self, disk: Disk, run_id: str, replica: str) -> None:
        """Every line once and in order, and none is missing that could be had."""
        lines = disk.lines[run_id][replica]
        attempt, number = map(int, lines[-1].text.split())
        job = self.of_attempt(run_id, attempt)
        assert job is not None
        last, before = map(int, lines[-2].text.split()) if len(lines) > 1 else (attempt, -1)
        if last > attempt:
            raise Violation(
                Invariant.ATTEMPTS_IN_ORDER,
                f"{disk.name}: {run_id} goes back to attempt {attempt}.",
            )
        before = before if last == attempt else -1
        if before >= number:
            raise Violation(
                Invariant.LINES_ONCE,
                f"{disk.name}: line {number} of {run_id} {replica} comes twice.",
            )
        for missing in range(before + 1, number):
            if job.lines[replica][missing] not in job.lost:
                raise Violation(
                    Invariant.NO_LINE_LOST,
                    f"{disk.name}: line {missing} of {run_id} {replica} is missing.",
                )

    def unread(self, disk: Disk, job: Job) -> list[str]:
        """Return the lines of a job that a store lacks and could have had."""
        known = job.lost.union(*disk.lines.get(job.run_id, {}).values())
        return [
            f"{line.replica} {line.text}"
            for line in itertools.chain(*job.lines.values())
            if line not in known and line.at <= job.end.at
        ]

    def check_measured(self, disk: Disk, run_id: str, *, gaps: int) -> None:
        """Check that a run is measured from whole logs, or records gaps."""
        run = disk.rows[run_id]
        job = self.of_attempt(run_id, run.attempt, run.job_uid)
        assert job is not None
        is_late = self.world.now > job.taken_at + RACE_SECONDS
        was_open = not run.phase.final or disk.moved_at[run_id] > job.taken_at
        if job.owner.store != disk.name and is_late and was_open:
            raise Violation(
                Invariant.OWN_JOBS, f"{disk.name}: {run_id} is measured; it is {job.owner.store}'s."
            )
        if (left := self.unread(disk, job)) and not gaps:
            raise Violation(
                Invariant.MEASURED_WHOLE, f"{disk.name}: {run_id} is measured without {left[:3]}."
            )

    def check_time_limit(self, process: Process, run: Run) -> None:
        """Check that a job whose run has reached its time limit has taken that long.

        What passed before a process resumed the run, it knows by stamps alone.
        """
        job = self.of_attempt(run.run_id, run.attempt, run.job_uid)
        began_at = math.inf if job is None else job.began_at
        # Its time counts from the first state of its pods, which may be before it runs.
        stamped_from = math.inf if job is None else job.created_at
        is_right = process.ahead == 0.0 and self.world.set_at < stamped_from
        is_exact = is_right or self.resumed_at.get(run.run_id, -math.inf) < began_at
        assert run.plan.timeout_s is not None
        if run.attempt == 1 and is_exact and self.world.now < began_at + run.plan.timeout_s:
            raise Violation(
                Invariant.TIME_LIMIT, f"{run.run_id} reaches its time limit before that time."
            )

    def check_removal(self, disk: Disk, job: Job) -> None:
        """Check that no job is deleted with logs unread, unless requested."""
        is_wanted = job.cancel is not None or job.end.phase is Phase.CANCELLED
        # One that had ended when it was to be cancelled, or when its time was up while nobody could
        # see it, and whose logs could not be read.
        is_wanted |= disk.rows[job.run_id].history[-1].cause_id in {"cancelled", *LIMITS}
        if not is_wanted and (left := self.unread(disk, job)):
            raise Violation(
                Invariant.LOGS_FIRST,
                f"{disk.name}: job {job.run_id} is deleted without {left[:3]}.",
            )


class _Follow(msgspec.Struct, kw_only=True, eq=False):
    """Events that a process has received about a job."""

    attempt: int
    uid: str | None = None
    steps: int = 0
    lines: dict[str, int] = {}
    marks: Mapping[str, LogMark] = {}
    silent_until: float = 0.0
    unreadable_until: float = 0.0
    pods_late_until: float = 0.0
    pods_at: float = 0.0
    """The pods are known as they were then, Unix seconds."""
    pods_listed_at: float = -math.inf
    is_lost: bool = False
    """True once it is reported that another store has taken the job over."""
    reported: Transition | None = None


class Connection:
    """Connection of a process to the API server."""

    def __init__(self, namespace: Namespace, process: Process) -> None:
        self._namespace, self._process, self._world = namespace, process, namespace.world

    def request(self, what: str) -> None:
        """Make a request: the process may die, the API server be down."""
        self._process.effect(what)
        world, namespace = self._world, self._namespace
        if world.happens("cluster_jump"):
            world.set_cluster_clock()
        if world.happens("away"):
            namespace.away_until = world.now + world.dice.random() * 60.0
        if world.now < namespace.away_until:
            world.sleep(world.dice.random() * 5.0)
            self._process.effect(what)
        if world.now < namespace.away_until or world.happens("throttled"):
            error = Unreachable("The API server does not answer.")
            error.cause_id = "api-unreachable"
            raise error


class SimulatedCluster(Connection):
    """The port as one process has it."""

    name = "kubernetes"
    jobs_outlive_us = True

    def __init__(self, namespace: Namespace, process: Process, store: Disk) -> None:
        super().__init__(namespace, process)
        self._disk = store
        self.owner: JobOwner | None = None
        self.followed: dict[str, _Follow] = {}
        self._lag = 0.0
        process.at_end.append(self.followed.clear)

    # -- requests -------------------------------------------------------------------------------

    def _read(self, run_id: str) -> Job | None:
        """Read a job; what is read may be some seconds old."""
        job = self._namespace.job(run_id)
        if job is None or self._world.now - job.created_at >= 2.0:
            return job
        return None if self._world.happens("stale") else job

    def _whose(self, job: Job) -> Ownership:
        is_ours = job.owner.store == self._disk.name
        return Ownership(owner=job.owner, is_ours=is_ours)

    def _check_copy(self, job: Job) -> None:
        run = self._disk.rows.get(job.run_id)
        known = None if run is None else run.job_uid_of(job.attempt)
        if job.is_copy and known not in {None, job.uid}:
            copy = f"a copy of {job.run_id}"
            raise Violation(
                Invariant.NO_COPY, f"{self._disk.name}: {copy} is taken for the run's job."
            )

    def _check_alone(self, run_id: str) -> None:
        holder = self._disk.claimed.get(run_id)
        if holder is not None and holder is not self._process:
            raise Violation(
                Invariant.ONE_PROCESS,
                f"{self._process.name} acts on {run_id}, which {holder.name} follows.",
            )

    def _check_ours(self, job: Job) -> None:
        self._check_copy(job)
        if not self._whose(job).is_ours:
            raise OwnedElsewhere(job.run_id, job.owner.host)

    def create(self, run: Run, manifests: Sequence[Manifest], folder: Path) -> str | None:
        plan, run_id, world, namespace = run.plan, run.run_id, self._world, self._namespace
        if run_id in self.followed:
            return None
        attempt = attempt_of(manifests[-1])
        try:
            self.request("create")
        except Unreachable as error:
            raise creation.creation_unknown_error(
                run_id, "the API server gave no answer."
            ) from error
        self._check_alone(run_id)
        job = namespace.job(run_id)
        if job is not None and job.attempt < attempt:
            # Whether it is a copy is seen when it is to be cleared away, which is tried again.
            if not self._whose(job).is_ours:
                raise OwnedElsewhere(run_id, job.owner.host)
            raise EarlierAttempt("the job of the attempt before is not gone.")
        if job is None:
            if world.now >= namespace.denied_until and world.happens("denied"):
                namespace.denied_until = world.now + world.dice.random() * DENIED_SECONDS
            if world.now < namespace.denied_until:
                denied = UsageError("No job is admitted.", "Ask who set the rule.")
                denied.cause_id = "admission-denied"
                raise denied
            if world.happens("refused"):
                raise UsageError(REFUSED, "Ask for less.")
            jobs = namespace.jobs.values()
            active = [job for job in jobs if not job.is_over(world.now)]
            if len(active) >= namespace.rooms or world.happens("no_room"):
                world.met["no_room"] += 1
                raise NoRoom("quota small has no room for it.")
            if world.happens("lost_answer"):
                if world.dice.random() < 0.5:
                    # It comes late, as a request that was on its way.
                    late = world.dice.random() * 60.0
                    world.spawn(lambda: self._come_late(plan, attempt), late)
                else:
                    self._new(plan, attempt)
                raise creation.creation_unknown_error(run_id, "the connection broke.")
            job = self._new(plan, attempt)
        self._process.effect("created")
        self.followed[run_id] = _Follow(attempt=attempt, uid=job.uid)
        return job.uid

    def _new(self, plan: RunPlan, attempt: int) -> Job:
        if plan.run_id not in self._disk.rows:
            raise Violation(Invariant.RECORDED_FIRST, f"Job {plan.run_id} is on no record.")
        owner = JobOwner(store=self._disk.name, host=self._disk.name)
        return self._namespace.new(plan, attempt, owner, self._process)

    def _come_late(self, plan: RunPlan, attempt: int) -> None:
        # Asked first: the job may be gone as of now.
        is_there = self._namespace.job(plan.run_id) is not None
        if not is_there and (plan.run_id, attempt) not in self._namespace.gone:
            run = self._disk.rows[plan.run_id]
            if not run.phase.final and run.attempt == attempt:
                self._new(plan, attempt)

    def clear(self, run: Run) -> None:
        self.request("clear")
        self._check_alone(run.run_id)
        job = self._namespace.job(run.run_id)
        if job is None or job.attempt >= run.attempt:
            return
        if run.job_uid_of(job.attempt) not in {None, job.uid}:
            raise BenchError("somebody has created the job anew.")
        self._check_ours(job)
        if job.cancel is not None and not creation.is_continued(run):
            raise BenchError("someone has cancelled its job meanwhile.")
        self._namespace.check_removal(self._disk, job)
        self._namespace.delete(job)
        raise EarlierAttempt("the job of the attempt before is not gone.")

    def resume(self, run: Run, marks: Mapping[str, LogMark]) -> None:
        self._process.effect("resume")
        self._namespace.resumed_at[run.run_id] = self._world.now
        self.followed[run.run_id] = _Follow(attempt=run.attempt, uid=run.job_uid, marks=marks)

    def jobs(self, run_ids: Collection[str] | None = None) -> Sequence[FoundJob]:
        self.request("list")
        found = []
        for run_id in list(self._namespace.jobs):
            if (job := self._read(run_id)) is not None and (run_ids is None or run_id in run_ids):
                phase = job.end.phase if job.is_over(self._world.now) else Phase.RUNNING
                found.append(
                    FoundJob(
                        run_id=run_id,
                        known_plan=job.plan,
                        created_at=self._world.stamp(job.created_at),
                        phase=phase,
                        attempt=job.attempt,
                        uid=job.uid,
                        ownership=self._whose(job),
                    )
                )
        return found

    def look(self, run: Run) -> Sequence[JobEvent]:
        job = self._read(run.run_id)
        if job is None:
            return ()
        seen = [step for step in job.steps if step.at <= self._world.now]
        return [self._told(run.run_id, step) for step in seen[-1:]]

    def printed(self, run: Run) -> Iterator[LogLine]:
        self.request("read logs")
        job = self._read(run.run_id)
        every = [] if job is None else itertools.chain(*job.lines.values())
        until = self._world.now if job is None else min(self._world.now, job.end.at)
        return (line for line in every if line.at <= until and job and line not in job.lost)

    def cancel(self, run_id: str, cause: str, cause_id: str, *, keep: bool = False) -> None:
        self.request("cancel")
        self._cancel(run_id, cause, cause_id, keep=keep)

    def _cancel(self, run_id: str, cause: str, cause_id: str, *, keep: bool = False) -> None:
        job, follow = self._namespace.job(run_id), self.followed.get(run_id)
        if job is not None and follow is not None and follow.uid not in {None, job.uid}:
            return
        if job is not None:
            self._check_ours(job)
        if job is not None and not job.is_over(self._world.now):
            job.cancel = (cause, cause_id)
            job.end = Transition(
                phase=Phase.CANCELLED, at=self._world.now, cause=cause, cause_id=cause_id
            )
            if not keep:
                self._namespace.delete(job)

    def release(self, run_id: str) -> None:
        self.followed.pop(run_id, None)

    def take_over(self, run_id: str, known: Ownership) -> bool:
        self.request("take over")
        job = self._namespace.job(run_id)
        if job is not None:
            self._check_copy(job)
        if job is None or job.owner != known.owner:
            return False
        job.owner = JobOwner(store=self._disk.name, host=self._disk.name)
        job.taken_at = self._world.now
        self._world.met["a job is taken over"] += 1
        self._world.note(f"job {run_id} is {self._disk.name}'s now")
        self._process.effect("taken over")
        return True

    def remove(
        self,
        run: Run,
        *,
        uid: str | None = None,
        force: bool = False,
    ) -> str | None:
        run_id = run.run_id
        self.request("delete")
        self._check_alone(run_id)
        job = self._namespace.job(run_id)
        if job is None or (uid is not None and uid != job.uid):
            return None
        self._check_copy(job)
        if not self._whose(job).is_ours:
            return f"It is {job.owner.host}'s."
        if not job.is_over(self._world.now):
            if job.gone_at is None and self._disk.rows[run_id].phase is Phase.SUCCEEDED:
                raise Violation(
                    Invariant.NOT_WHILE_RUNNING,
                    f"{self._disk.name}: job {run_id} is deleted while it runs.",
                )
            self._cancel(run_id, "It was deleted.", "deleted")
            return None
        self._namespace.check_removal(self._disk, job)
        self._namespace.delete(job)
        return None

    def close(self) -> None:
        self.followed.clear()

    # -- watching -------------------------------------------------------------------------------

    def wait(self, seconds: float | None) -> Sequence[JobEvent]:
        world = self._world
        self._process.effect("wait")
        if not self.followed:
            return ()
        patience = 0.0 if seconds == 0.0 else world.dice.choice([0.25, 1.0, 4.0])
        if world.happens("asleep"):
            patience = 300.0 + world.dice.random() * 1500.0
        world.sleep(patience)
        self._process.effect("wake")
        if world.happens("stale"):
            self._lag = world.dice.random() * 5.0
        if world.now < self._namespace.away_until:
            return ()
        events: list[JobEvent] = []
        for run_id, follow in list(self.followed.items()):
            events += self._events(run_id, follow)
        return events

    def _events(self, run_id: str, follow: _Follow) -> list[JobEvent]:
        world = self._world
        now = world.now - self._lag
        if world.happens("silent"):
            follow.silent_until = world.now + world.dice.random() * 30.0
        if world.now < follow.silent_until:
            return []
        job = self._namespace.job(run_id)
        if job is None or job.attempt < follow.attempt:
            return self._absent(run_id, follow)
        if job.attempt == follow.attempt and follow.uid not in {None, job.uid}:
            return self._absent(run_id, follow)
        follow.uid = follow.uid or job.uid
        events: list[JobEvent] = []
        if not (follow.is_lost or self._whose(job).is_ours):
            follow.is_lost = True
            events.append(JobEvent(run_id=run_id, taken_by=job.owner.host))
        while job.attempt > follow.attempt:  # another store has begun one
            created_at = world.stamp(job.created_at)
            again = creation.restarted_elsewhere(job.plan, follow.attempt, created_at, job.uid)
            events.append(JobEvent(run_id=run_id, transition=again))
            follow.attempt, follow.steps, follow.uid = follow.attempt + 1, 0, job.uid
            follow.lines, follow.marks = {}, {}
        due = [step for step in job.steps[follow.steps :] if step.at <= now]
        follow.steps += len(due)
        for step in due[-2:]:
            events.append(self._told(run_id, step))
            follow.reported = step
        if due and world.happens("doubled"):
            events.append(events[-1])
        if due and follow.steps > 2 and world.happens("reordered"):
            last = job.steps[follow.steps - 2 : follow.steps]
            events += [self._told(run_id, step) for step in last]
        if world.happens("unreadable"):
            follow.unreadable_until = world.now + world.dice.random() * 2.0 * PATIENCE
        if world.happens("late_pods"):
            follow.pods_late_until = world.now + world.dice.random() * 30.0
        if world.now >= follow.pods_late_until:
            follow.pods_at = max(follow.pods_at, now)
        if now >= job.end.at:
            self._list_pods(job, follow)
        if world.now >= follow.unreadable_until:
            events += self._lines(job, follow, now)
        if now < job.end.at:
            return events
        if world.now < follow.unreadable_until:
            if now >= job.end.at + PATIENCE and job.gone_at is None:
                del self.followed[run_id]
                events.append(self._ending(run_id, world.now, LOGS_INCOMPLETE))
            elif follow.reported is None or follow.reported.cause_id != LOGS_BEING_READ:
                ending = self._ending(run_id, world.now, LOGS_BEING_READ)
                follow.reported = ending.transition
                events.append(ending)
            return events
        del self.followed[run_id]
        events.append(self._told(run_id, job.end))
        return events

    def _told(self, run_id: str, step: Transition) -> JobEvent:
        """Return the event of a transition, as the cluster's clock stamped it."""
        stamped = msgspec.structs.replace(step, at=self._world.stamp(step.at))
        return JobEvent(run_id=run_id, transition=stamped)

    def _list_pods(self, job: Job, follow: _Follow) -> None:
        """List the pods of a job that has ended, where the product would."""
        phase = "Succeeded" if follow.pods_at >= job.end.at else "Running"
        is_known = follow.pods_at >= job.began_at
        replicas = [
            facts.Replica(
                name=name,
                pod_name=f"{job.run_id}-{name}",
                container="training",
                pod={"status": {"phase": phase}} if is_known else None,
            )
            for name in job.lines
        ]
        if end_detector.must_list_pods(replicas, job.end.at, follow.pods_listed_at):
            follow.pods_listed_at = follow.pods_at = self._world.now

    def _ending(self, run_id: str, at: float, cause_id: str) -> JobEvent:
        step = Transition(phase=Phase.RUNNING, at=at, cause="Its logs.", cause_id=cause_id)
        return self._told(run_id, step)

    def _lines(self, job: Job, follow: _Follow, now: float) -> list[JobEvent]:
        """Return the lines from where the archive ends; lost ones are a gap."""
        events: list[JobEvent] = []
        if follow.pods_at < job.began_at:
            return events  # of pods that are not known no log is read
        for replica, lines in job.lines.items():
            begin = follow.lines.get(replica)
            if begin is None:
                begin = _after(lines, follow.marks.get(replica), job.lost)
            end = begin
            while end < len(lines) and lines[end].at <= min(now, job.end.at):
                line = lines[end]
                if line in job.lost:
                    gap = LogGap(replica=replica, after=None, before=None, why="The node is gone.")
                    events.append(JobEvent(run_id=job.run_id, gap=gap))
                else:
                    events.append(JobEvent(run_id=job.run_id, line=line))
                end += 1
            follow.lines[replica] = end
        return events

    def _absent(self, run_id: str, follow: _Follow) -> list[JobEvent]:
        """Report the end of a missing job or attempt."""
        gone = self._namespace.gone.get((run_id, follow.attempt))
        phase, cause, cause_id = Phase.LOST, "The cluster has none.", creation.JOB_GONE
        del self.followed[run_id]
        if gone is not None and gone.cancel is not None:
            phase, (cause, cause_id) = Phase.CANCELLED, gone.cancel
        end = Transition(phase=phase, at=self._world.now, cause=cause, cause_id=cause_id)
        return [self._told(run_id, end)]


def _after(lines: Sequence[LogLine], mark: LogMark | None, lost: Collection[LogLine]) -> int:
    """Return the first line that the archive does not have."""
    if mark is None:
        return 0
    there = (i for i, line in enumerate(lines) if line not in lost and line.at == mark.at)
    same = list(there)[: mark.lines]
    return (same[-1] if same else -1) + 1
