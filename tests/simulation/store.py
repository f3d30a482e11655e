"""In-memory store behind the port ``Store``; its disk outlives processes.

It follows the rules of the port. Invariants of logs and measurements are checked here, at each
write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from k8sbench.model import creation
from k8sbench.model.errors import NotFound, RepeatTaken, StoreError, UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.replica_logs import LogLine, LogMark
from k8sbench.model.run import Baseline, Location, Run, Wish
from k8sbench.model.run import Process as FollowingProcess
from k8sbench.store.interface import RunFilter
from tests.simulation.invariants import Invariant, Violation
from tests.simulation.world import Process, World

if TYPE_CHECKING:
    from tests.simulation.cluster import Namespace

FULL_SECONDS = 20.0
"""For which a disk is full."""


class Disk:
    """Contents of one store, from all its processes."""

    def __init__(self, name: str, world: World, namespace: Namespace) -> None:
        self.name, self.world, self.namespace = name, world, namespace
        self.rows: dict[str, Run] = {}
        self.lines: dict[str, dict[str, list[LogLine]]] = {}
        """By run and replica, of all attempts."""
        self.begins: dict[str, dict[str, int]] = {}
        """By run and replica: where the lines of the present attempt begin."""
        self.began_at: dict[str, float] = {}
        """Time at which a run was recorded, or reopened, by run."""
        self.moved_at: dict[str, float] = {}
        """Time of the latest transition by run."""
        self.files: dict[tuple[str, str], bytes] = {}
        self.claimed: dict[str, Process] = {}
        self._keys: dict[str, tuple[RunPlan, str]] = {}
        """Plan and case key by run."""
        self.full_until = 0.0
        self.most = 1_000_000
        """Runs of a set that may count: valid ones, and those that go on."""

    def copy(self) -> Disk:
        """Return a backup."""
        backup = Disk(self.name, self.world, self.namespace)
        backup.rows, backup.files = {**self.rows}, {**self.files}
        backup.began_at, backup.moved_at = {**self.began_at}, {**self.moved_at}
        backup.begins = {run_id: {**begins} for run_id, begins in self.begins.items()}
        backup.lines = {
            run_id: {replica: [*lines] for replica, lines in files.items()}
            for run_id, files in self.lines.items()
        }
        return backup

    def case_key(self, run: Run) -> str:
        """Return the key of a run's case; it is made anew only for another plan."""
        known = self._keys.get(run.run_id)
        if known is None or known[0] is not run.plan:
            known = self._keys[run.run_id] = (run.plan, case_key(run.plan))
        return known[1]

    def archived(self, run_id: str, replica: str) -> list[LogLine]:
        """Return the lines of a replica's present attempt."""
        begin = self.begins.get(run_id, {}).get(replica, 0)
        return self.lines.get(run_id, {}).get(replica, [])[begin:]


class SimulatedClaims:
    """Claims of processes on runs, released when a process ends."""

    def __init__(self, disk: Disk, process: Process) -> None:
        self._disk, self._process = disk, process
        process.at_end.append(self._give_back)

    def claim(self, run_id: str) -> bool:
        self._process.effect("claim")
        return self._disk.claimed.setdefault(run_id, self._process) is self._process

    def is_taken(self, run_id: str) -> bool:
        return self._disk.claimed.get(run_id, self._process) is not self._process

    def release(self, run_id: str) -> None:
        if self._disk.claimed.get(run_id) is self._process and not self._process.is_dead:
            del self._disk.claimed[run_id]

    def close(self) -> None:
        self._give_back()

    def _give_back(self) -> None:
        for run_id, owner in list(self._disk.claimed.items()):
            if owner is self._process:
                del self._disk.claimed[run_id]


class SimulatedArchive:
    """The log files of one run."""

    def __init__(self, store: SimulatedStore, run_id: str) -> None:
        self._store, self._run_id = store, run_id

    def write(self, first: LogLine, *more: LogLine) -> None:
        self._store.write("write lines")
        disk = self._store.disk
        files = disk.lines.setdefault(self._run_id, {})
        files.setdefault(first.replica, []).extend((first, *more))
        disk.namespace.check_archive(disk, self._run_id, first.replica)


class SimulatedStore:
    """The port as one process has it."""

    identity = "simulated"

    def __init__(
        self,
        disk: Disk,
        process: Process,
        check: Callable[[Run | None, Run], None] = lambda _, __: None,
    ) -> None:
        self.disk, self.process = disk, process
        self._check = check
        """Is called with a run before and after each transition; None before the first."""
        self.claims = SimulatedClaims(disk, process)

    def write(self, what: str) -> None:
        """Begin a write: the process may die, the disk be full."""
        self.process.effect(what)
        world, disk = self.disk.world, self.disk
        if world.now >= disk.full_until and world.happens("full"):
            disk.full_until = world.now + FULL_SECONDS
        if world.now < disk.full_until:
            raise StoreError("The disk is full.", "Make room.")

    def _put(self, run: Run, **changes: Any) -> Run:
        changed = msgspec.structs.replace(run, **changes)
        self.disk.rows[run.run_id] = changed
        return changed

    def next_repeat(self, set_name: str, case_key_: str) -> int:
        taken = {
            run.plan.repeat
            for run in self.disk.rows.values()
            if run.plan.set_name == set_name and self.disk.case_key(run) == case_key_
        }
        return next(number for number in range(1, 1000) if number not in taken)

    def record(
        self,
        plan: RunPlan,
        *,
        at: float,
        process: FollowingProcess | None,
        location: Location | None = None,
        has_job: bool = False,
    ) -> Run:
        self.write("record")
        if plan.run_id in self.disk.rows:
            raise UsageError(f"There is a run {plan.run_id} already.")
        for run in self.disk.rows.values():
            same = (run.plan.set_name, run.plan.repeat) == (plan.set_name, plan.repeat)
            if same and self.disk.case_key(run) == case_key(plan) and not has_job:
                raise RepeatTaken("The repeat is taken.")
        runs = self.disk.rows.values()
        if sum(not run.phase.final or bool(run.measurement) for run in runs) >= self.disk.most:
            raise Violation(
                Invariant.NO_EXTRA_RUN, f"{plan.run_id} is one more run than was asked for."
            )
        created = Transition(phase=Phase.CREATED, at=at, cause="Recorded; nothing was started yet.")
        run = Run(
            planned=plan,
            created_at=at,
            process=process,
            history=(created,),
            artifacts=None,
            location=location,
        )
        if not has_job:
            self._check(None, run)
        self.disk.began_at[plan.run_id] = self.disk.moved_at[plan.run_id] = self.disk.world.now
        return self._put(run)

    def move(
        self,
        run_id: str,
        transition: Transition,
        *,
        owes: Wish | None = None,
        image: str | None = None,
    ) -> Run:
        self.write(f"move to {transition.phase}")
        run = self._row(run_id)
        if run.phase.final:
            return run
        wishes = run.wishes
        if transition.phase.final:
            wishes = tuple(wish for wish in wishes if wish.kind != "cancel")
        if owes is not None and not any(wish.kind == owes.kind for wish in wishes):
            wishes = (*wishes, owes)
        what = f"{run_id} {transition.phase} {transition.cause_id or ''}"
        self.disk.world.note(f"{self.process.name}: {what}")
        moved = msgspec.structs.replace(run, history=(*run.history, transition), wishes=wishes)
        self._check(run, moved)
        if transition.cause_id == "timeout" and transition.phase.final:
            self.disk.namespace.check_time_limit(self.process, moved)
        self.disk.rows[run_id] = moved
        self.disk.moved_at[run_id] = self.disk.world.now
        return moved

    def wish(self, run_id: str, wish: Wish) -> Run:
        self.write(f"wish to {wish.kind}")
        run = self._row(run_id)
        if wish.kind == "cancel" and run.phase.final:
            return run
        others = tuple(other for other in run.wishes if other.kind != wish.kind)
        return self._put(run, wishes=(*others, wish))

    def remove_wish(self, run_id: str, kind: Literal["cancel", "delete"]) -> Run:
        self.write(f"fulfilled: {kind}")
        if kind == "cancel":  # no simulated cluster refuses it
            raise Violation(
                Invariant.CANCEL_KEPT, f"{self.disk.name}: that {run_id} is to end is forgotten."
            )
        run = self._row(run_id)
        left = tuple(wish for wish in run.wishes if wish.kind != kind)
        return self._put(run, wishes=left)

    def reopen(
        self,
        plan: RunPlan,
        *,
        at: float,
        process: FollowingProcess | None,
        location: Location | None,
    ) -> Run:
        self.write("reopen")
        run = self._row(plan.run_id)
        again = creation.submitted_again(at)
        if not creation.may_be_submitted_again(run):
            again = creation.training_continues(plan, run.attempt, at)
        history = (*run.history, again)
        changes = {"planned": plan, "process": process, "location": location, "history": history}
        reopened = msgspec.structs.replace(run, **changes, wishes=(), measurement=None)
        self._check(run, reopened)
        self.disk.began_at[plan.run_id] = self.disk.moved_at[plan.run_id] = self.disk.world.now
        return self._put(reopened)

    def save_measurement(self, run_id: str, measurement: Measurement) -> Run:
        self.write("measured")
        run = self._row(run_id)
        if run.measurement is not None:
            raise Violation(
                Invariant.MEASURED_ONCE, f"{run_id} is measured twice in store {self.disk.name}."
            )
        self.disk.namespace.check_measured(self.disk, run_id, gaps=measurement.records)
        self.disk.world.note(f"{self.process.name}: {run_id} measured")
        return self._put(run, measurement=measurement)

    def run(self, run_id: str) -> Run:
        self.process.effect("read")
        return self._row(run_id)

    def _row(self, run_id: str) -> Run:
        if run_id not in self.disk.rows:
            raise NotFound(f"There is no run {run_id}.")
        return self.disk.rows[run_id]

    def runs(
        self,
        wanted: RunFilter,
        known: Mapping[str, Run] | None = None,
    ) -> list[Run]:
        self.process.effect("read")
        return [
            run
            for row in self.disk.rows.values()
            for run in ((known or {}).get(row.run_id, row),)
            if wanted.set_name in (None, run.plan.set_name)
            and wanted.phase in (None, run.phase)
            and not (wanted.wished and not run.wishes)
            and not (wanted.unfinished and _is_finished(run))
        ]

    def ids(self) -> list[str]:
        return list(self.disk.rows)

    def last_written_at(self, run_id: str) -> float | None:
        return None

    def folder(self, run_id: str) -> Path:
        return Path("simulated") / run_id

    def write_artifact(self, run_id: str, name: str, text: str) -> None:
        self.write(f"keep {name}")
        self.disk.files[run_id, name] = text.encode()

    def read_artifact(self, run_id: str, name: str) -> bytes | None:
        return self.disk.files.get((run_id, name))

    def archive(self, run_id: str) -> SimulatedArchive:
        return SimulatedArchive(self, run_id)

    def log_marks(self, run_id: str) -> dict[str, LogMark]:
        self.process.effect("read")
        marks = {}
        for replica in self.disk.lines.get(run_id, {}):
            if lines := self.disk.archived(run_id, replica):
                latest = max(line.at for line in lines)
                first = next(i for i, line in enumerate(lines) if line.at == latest)
                marks[replica] = LogMark(latest, len(lines) - first)
        return marks

    def begin_attempt(self, run_id: str) -> None:
        self.write("begin an attempt")
        files = self.disk.lines.get(run_id, {})
        self.disk.begins[run_id] = {replica: len(lines) for replica, lines in files.items()}

    def log_files(self, run_id: str) -> list[Path]:
        return []

    def save_baseline(self, baseline: Baseline, *, replace: bool = False) -> None:
        raise NotImplementedError

    def baselines(self) -> list[Baseline]:
        raise NotImplementedError

    def remove_baseline(self, name: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.claims.close()


def _is_finished(run: Run) -> bool:
    owes = run.phase is Phase.SUCCEEDED and run.measurement is None
    return run.phase.final and not owes and not run.wishes
