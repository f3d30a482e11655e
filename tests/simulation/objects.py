"""Benchmark objects on the API server or on a disk, and the port ``Objects`` of each.

Users change objects of the API server by atomic patches. A process sees them late, or does not see
one at all; its writes of a status fail, or are carried out without an answer. An object on a disk
is one process's, and outlives it. What a status may say, and when an object may be deleted, is
checked here at each write.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from k8sbench.model import benchmark_object
from k8sbench.model.benchmark_object import (
    COMPLETE,
    MOST_RUNS,
    Benchmark,
    ObjectSpec,
    StatusEvent,
    claim_name,
)
from k8sbench.model.errors import Unreachable
from k8sbench.model.kube import conditions, is_true
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from tests.simulation.cluster import Connection, Namespace
from tests.simulation.invariants import Invariant, Violation
from tests.simulation.store import Disk, SimulatedStore
from tests.simulation.world import BEGIN, Process

LONGEST_LAG = 30.0
"""Seconds for which a watch of objects may be late."""
LONGEST_HOLD = 200.0
"""Seconds for which a finalizer may hold a deleted object."""
STAMP_SECONDS = 8.0
"""Most by which a stamp is older than the request that it goes with."""
LATE_SECONDS = 60.0
"""Seconds after which the API server may still carry out a request."""


BY_HAND = {
    "type": COMPLETE,
    "status": "True",
    "reason": "ByHand",
    "message": "It is enough.",
    "lastTransitionTime": "1970-01-12T13:46:40Z",
}
"""Condition that somebody writes into a status; as old as every schedule."""


class KeptObjects:
    """The objects of the API server, or of a disk."""

    def __init__(self, namespace: Namespace, disk: Disk) -> None:
        self.world, self.namespace = namespace.world, namespace
        self.disk = disk
        """Store of those who reconcile them."""
        self.most: dict[str, int] = {}
        """Largest limit that the operator ever saw, by set."""
        self.has_lost_store = False
        self.forgotten: set[str] = set()
        """uids of objects that were complete when a store was lost."""
        self.found: Mapping[str, Benchmark] = {}
        """By uid. Each change makes another mapping."""
        self.replaced: set[str] = set()
        """uids of objects whose status somebody has replaced."""
        self.cancelled: dict[str, float] = {}
        """Time at which somebody cancelled or deleted an object, by uid."""
        self.unread: set[str] = set()
        """uids of objects that some process could not read."""
        self.complete_at: dict[str, float] = {}
        """Time at which a process first wrote that an object is complete, by uid."""
        self.cancelled_runs: set[str] = set()
        self.ask_again: Callable[[Benchmark], None] = self._retry
        """Is called when a user retries an object that failed."""
        self.retried: dict[tuple[str, int], float] = {}
        """Time at which somebody retried an object, by uid and value of ``retry``."""

    def _set(self, found: Mapping[str, Benchmark]) -> None:
        self.found = found

    def keeps(self, uid: str | None) -> bool:
        """Return True if the jobs of an object are to stay."""
        return uid is not None and uid in self.found and self.found[uid].spec.keep

    def named(self, name: str) -> Benchmark | None:
        return next((one for one in self.found.values() if one.name == name), None)

    def rows(self, uid: str) -> list[Run]:
        """Return the runs of an object in the store."""
        return [run for run in self.disk.rows.values() if run.plan.requested_by == uid]

    def has_open_runs(self, uid: str) -> bool:
        """Return True if runs of an object are not closed in the store."""
        return any(not run.is_closed for run in self.rows(uid))

    # -- users ----------------------------------------------------------------------------------

    def create(self, name: str, uid: str, wanted: ObjectSpec) -> None:
        """Create an object; one that exists is a conflict."""
        if self.named(name) is None:
            self.world.note(f"Benchmark {name} ({uid}) is created")
            created_at = self.world.stamp(self.world.now)
            benchmark = Benchmark(
                name=name, uid=uid, generation=1, created_at=created_at, spec=wanted
            )
            self._set({**self.found, uid: benchmark})

    def patch(self, name: str, **spec: Any) -> None:
        """Change the spec of an object, if it is there."""
        benchmark = self.named(name)
        if benchmark is None:
            return
        wanted = msgspec.structs.replace(benchmark.spec, **spec)
        wanted = benchmark_object.cancelled_spec(wanted) if benchmark.is_deleted else wanted
        if wanted == benchmark.spec:
            return
        self.world.note(f"Benchmark {name}: {spec}")
        if wanted.retry > benchmark.spec.retry:
            self.retried[benchmark.uid, wanted.retry] = self.world.now
        if wanted.cancel:
            self.cancelled.setdefault(benchmark.uid, self.world.now)
        self.cancelled_runs.update(wanted.cancel_runs)
        generation = benchmark.generation + 1
        changed = msgspec.structs.replace(benchmark, spec=wanted, generation=generation)
        self._set({**self.found, benchmark.uid: changed})

    def _retry(self, benchmark: Benchmark) -> None:
        self.patch(benchmark.name, retry=benchmark.spec.retry + 1)

    def take_up(self, uid: str, parallel: int | None) -> Benchmark:
        """Have an object on a disk retried by the process that has it now.

        Runs of it that go on are taken up: nobody waits for their ends.
        """
        was = self.found[uid]
        self.world.note(f"Benchmark {was.name} is taken up")
        self.world.met["what a kill left is resumed"] += not was.is_over
        wanted = msgspec.structs.replace(was.spec, retry=was.spec.retry + 1, parallel=parallel)
        changed = msgspec.structs.replace(was, spec=wanted, generation=was.generation + 1)
        self._set({**self.found, uid: changed})
        return changed

    def replace_status(self, name: str) -> None:
        """Write into the status of an object with runs that it has succeeded."""
        benchmark = self.named(name)
        if benchmark is not None and self.rows(benchmark.uid):
            self.world.note(f"Benchmark {name} gets another status")
            self.replaced.add(benchmark.uid)
            self.complete_at[benchmark.uid] = BEGIN  # by its stamp
            status = {**benchmark.status, "phase": "Succeeded", "conditions": [BY_HAND]}
            changed = msgspec.structs.replace(benchmark, status=status)
            self._set({**self.found, benchmark.uid: changed})

    def delete(self, name: str) -> None:
        """Delete an object, if it is there; another's finalizer may hold it for a while."""
        benchmark = self.named(name)
        if benchmark is None or benchmark.is_deleted:
            return
        if not self.world.happens("held"):
            self._remove(benchmark)
            return
        self.world.note(f"Benchmark {name} ({benchmark.uid}) is held when it is deleted")
        self.cancelled.setdefault(benchmark.uid, self.world.now)
        held = msgspec.structs.replace(
            benchmark,
            spec=benchmark_object.cancelled_spec(benchmark.spec),
            generation=benchmark.generation + 1,
            is_deleted=True,
        )
        self._set({**self.found, benchmark.uid: held})
        pause = self.world.dice.random() * LONGEST_HOLD
        self.world.spawn(partial(self._let_go, benchmark.uid), pause)

    def _let_go(self, uid: str) -> None:
        """Remove a finalizer."""
        if uid in self.found:
            self._remove(self.found[uid])

    def _remove(self, benchmark: Benchmark) -> None:
        self.world.note(f"Benchmark {benchmark.name} ({benchmark.uid}) is deleted")
        self.cancelled.setdefault(benchmark.uid, self.world.now)
        self._set({uid: one for uid, one in self.found.items() if uid != benchmark.uid})

    # -- the operator ---------------------------------------------------------------------------

    def write(self, uid: str, status: Mapping[str, Any]) -> None:
        """Merge a patch into a status, unless the object is gone."""
        benchmark = self.found.get(uid)
        if benchmark is None:
            return
        changed = msgspec.structs.replace(benchmark, status=_merged(benchmark.status, status))
        if _is_complete(changed) != _is_complete(benchmark):
            self.world.note(f"Benchmark {benchmark.name} is {changed.status['phase']}")
        self._set({**self.found, uid: changed})
        is_new = _is_complete(changed) and not _is_complete(benchmark)
        if is_new and changed.status["phase"] == "Failed" and self.world.happens("hasty"):
            again = partial(self.ask_again, benchmark)
            self.world.spawn(again, self.world.dice.random() * 3.0)

    def write_late(self, uid: str, status: Mapping[str, Any], disk: Disk) -> None:
        """Merge a patch of a process that had a store."""
        self.write(uid, status)
        if disk is not self.disk and uid in self.found and self.found[uid].is_over:
            self.forgotten.add(uid)

    def note_end(self, uid: str, status: Mapping[str, Any]) -> None:
        """Note when an object was first called complete."""
        found = conditions({"status": status}).get(COMPLETE)
        if found is not None and is_true(found):
            self.complete_at.setdefault(uid, self.world.now)

    def check_status(self, known: Benchmark, status: Mapping[str, Any]) -> None:
        """Check a status that a process is about to write."""
        uid = known.uid
        benchmark = self.found.get(uid)
        if benchmark is None:
            return
        changed = msgspec.structs.replace(benchmark, status=_merged(benchmark.status, status))
        going_on = [run.run_id for run in self.rows(uid) if not run.is_closed]
        # What is written may be from before a retry. With an older record jobs may come late of
        # which the process had not heard.
        is_complete = _is_complete(changed) and changed.is_over
        if is_complete and going_on and not self.has_lost_store:
            raise Violation(
                Invariant.COMPLETE_LAST,
                f"Benchmark {benchmark.name} is complete; {going_on} go on.",
            )
        if changed.retried > benchmark.retried:
            self._check_retry(changed)
        after = msgspec.structs.replace(known, status=_merged(known.status, status))
        # What an older backup has open goes on: the store's word counts.
        is_over = known.is_over and uid not in self.forgotten | self.replaced
        if _is_complete(known) and is_over and not _is_complete(after):
            raise Violation(
                Invariant.STAYS_COMPLETE,
                f"Benchmark {benchmark.name} was complete, and is not any more.",
            )

    def _check_retry(self, benchmark: Benchmark) -> None:
        """Check that the runs before a retry that a status answers have ended."""
        asked_at = self.retried.get((benchmark.uid, benchmark.retried), -math.inf)
        before = [
            run.run_id
            for run in self.rows(benchmark.uid)
            if not run.is_closed and self.disk.began_at[run.run_id] < asked_at
        ]
        if before and not (benchmark.uid in self.cancelled or self.has_lost_store):
            raise Violation(Invariant.RETRY_LAST, f"{before} go on when a retry is answered.")

    def expire(self, known: Benchmark) -> None:
        """Delete an object at the end of its time.

        How old its end is, a process knows by the stamps of a clock that may have been set.
        """
        complete_at = self.complete_at.get(known.uid, math.inf)
        ttl = known.spec.ttl_seconds_after_finished
        is_exact = self.world.set_at < complete_at - STAMP_SECONDS
        is_early = is_exact and self.world.now < complete_at + (ttl or 0) - STAMP_SECONDS
        if ttl is None or known.expires_at is None or known.is_deleted or is_early:
            raise Violation(
                Invariant.KEPT_IN_TIME, f"Benchmark {known.name} is deleted before its time."
            )
        if known.uid in self.found:
            self._remove(self.found[known.uid])

    @property
    def is_settled(self) -> bool:
        """True if every object is complete, and no deletion is due."""
        return all(
            _is_complete(one)
            and one.is_over
            and BY_HAND not in one.status["conditions"]
            and one.status["observedGeneration"] == one.generation
            and (one.expires_at is None or self.world.stamp(self.world.now) < one.expires_at)
            for one in self.found.values()
        )

    # -- what must hold -------------------------------------------------------------------------

    def check_is_wanted(self, run: Run) -> None:
        """Check that somebody asked for the end of a cancelled run."""
        is_wanted = run.plan.requested_by in self.cancelled or run.run_id in self.cancelled_runs
        # A restored store draws a name again; a real cluster tells its two jobs apart by nonces.
        name = run.run_id.rpartition("-")[0]
        again = name in {uid.rpartition("-")[0] for uid in self.cancelled}
        is_wanted |= self.has_lost_store and again
        if not is_wanted:
            raise Violation(
                Invariant.CANCEL_REQUESTED, f"{run.run_id} is cancelled; nobody wants that."
            )

    def check_the_end(self, expected: Mapping[str, int]) -> None:
        """Check that each object is complete and agrees with the store.

        ``expected`` are the numbers of runs by uid.
        """
        for uid, benchmark in self.found.items():
            status, runs = benchmark.status, self.rows(uid)
            if not _is_complete(benchmark) or status["observedGeneration"] != benchmark.generation:
                raise Violation(
                    Invariant.OBJECTS_COMPLETE,
                    f"Benchmark {benchmark.name} is not complete: {status}",
                )
            if uid in self.forgotten:
                continue
            if len(runs) < expected[uid] and uid not in self.cancelled:
                found = f"{len(runs)} runs of {expected[uid]}"
                raise Violation(Invariant.ALL_RUNS, f"Benchmark {benchmark.name} has {found}.")
            has_succeeded = bool(runs) and {run.phase for run in runs} == {Phase.SUCCEEDED}
            is_said = status["phase"] == "Succeeded"
            numbered = sorted(runs, key=lambda run: benchmark.number_of(run.run_id) or 0)
            recorded = [(run.run_id, str(run.phase), run.attempt) for run in numbered]
            said = [(run["name"], run["phase"], run["attempt"]) for run in status["runs"]]
            if self.has_lost_store:  # runs of jobs that came late are on record since
                recorded = [one for one in recorded if one in said]
            ended = str(status["summary"].get("runs", "0")).split("/")[0]
            is_wrong = is_said != has_succeeded and not self.has_lost_store
            if is_wrong or said != recorded or ended != str(len(said)):
                raise Violation(
                    Invariant.STATUS,
                    f"Benchmark {benchmark.name} says {said}; on record: {recorded}",
                )


def _is_complete(benchmark: Benchmark) -> bool:
    found = conditions({"status": benchmark.status}).get(COMPLETE)
    return found is not None and is_true(found)


def _merged(known: Any, patch: Any) -> Any:
    """Apply a JSON merge patch."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(known) if isinstance(known, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


class SimulatedObjects(Connection):
    """The port as an operator has it."""

    problem = ""

    def __init__(self, server: KeptObjects, process: Process) -> None:
        super().__init__(server.namespace, process)
        self._server = server
        self._listed_at = self._world.now + self._world.dice.random() * 5.0
        self._late_until = -math.inf
        self.seen: Mapping[str, Benchmark] | None = None
        """All objects as the process saw them last; None before."""
        self._unreadable: str | None = None
        """uid of an object that the process cannot read; None: it reads all."""

    def current(self) -> Mapping[str, Benchmark | None] | None:
        world = self._world
        if self.seen is None and world.now < self._listed_at:
            return None
        if self.seen is not None and world.happens("late_objects"):
            self._late_until = world.now + world.dice.random() * LONGEST_LAG
        if world.now >= max(self._late_until, self._namespace.away_until):
            if self.seen is None and world.happens("unreadable_object"):
                self._unreadable = world.dice.choice([*self._server.found, ""])
                self._server.unread.add(self._unreadable)
            if world.faults is None and self._unreadable is not None:
                self._unreadable = self.seen = None
            if self.seen is not self._server.found:
                self.seen = self._server.found
                self._note_limits()
        if self.seen is None:
            return None
        return {uid: None if uid == self._unreadable else one for uid, one in self.seen.items()}

    def beside(self, is_live: Callable[[str], bool]) -> Sequence[Benchmark]:
        return ()

    def check_begin(self, run: Run) -> None:
        """Check that nothing begins for an object that the process sees deleted."""
        seen = (self.seen or {}).get(run.plan.requested_by or "")
        if seen is not None and seen.is_deleted:
            raise Violation(
                Invariant.NO_JOB_AFTER_CANCEL,
                f"{run.run_id} begins; Benchmark {seen.name} is deleted, and held.",
            )

    def limit(self, set_name: str) -> int:
        """Return the smallest limit that an object of a set gives; many without one."""
        asked = [
            one.spec.parallel
            for uid, one in (self.seen or {}).items()
            if one.set_name == set_name and uid != self._unreadable
            if not one.is_over or self._server.has_open_runs(uid)
        ]
        return min((one for one in asked if one is not None), default=MOST_RUNS)

    def runs_one(self, uid: str) -> bool:
        """Return True if an object runs one at a time, and gives no limit."""
        seen = (self.seen or {}).get(uid)
        return seen is not None and seen.spec.parallel is None

    def _note_limits(self) -> None:
        assert self.seen is not None
        most = self._server.most
        for name in {benchmark.set_name for benchmark in self.seen.values()}:
            most[name] = max(self.limit(name), most.get(name, 0))

    def write(
        self, known: Benchmark, status: Mapping[str, Any], events: Iterable[StatusEvent] = ()
    ) -> None:
        world, server = self._world, self._server
        if "conditions" in status:
            server.note_end(known.uid, status)
        self.request("write a status")
        if world.happens("lost_answer"):
            happens = world.dice.choice(["never", "at once", "later"])
            if happens == "at once":
                server.check_status(known, status)
                server.write(known.uid, status)
            elif happens == "later":
                disk, late = server.disk, world.dice.random() * LATE_SECONDS
                world.spawn(lambda: server.write_late(known.uid, status, disk), late)
            raise Unreachable("The connection broke.")
        server.check_status(known, status)
        server.write(known.uid, status)
        self._process.effect("a status is written")

    def delete(self, known: Benchmark) -> None:
        self.request("delete an object")
        is_lost = self._world.happens("lost_answer")
        if not is_lost or self._world.dice.random() < 0.5:
            self._server.expire(known)
        if is_lost:
            raise Unreachable("The connection broke.")
        self._process.effect("an object is deleted")


class ObjectOnDisk:
    """The port as a process has it that reconciles one object of a store."""

    problem = ""

    def __init__(self, kept: KeptObjects, store: SimulatedStore, uid: str) -> None:
        self._kept, self._store, self._uid = kept, store, uid
        self._limits: list[int] = []
        """Limits of its set in the present pass."""

    def current(self) -> Mapping[str, Benchmark | None] | None:
        self._store.process.effect("read")
        self._limits = [self._limit()]
        return {self._uid: self._kept.found[self._uid]}

    def beside(self, is_live: Callable[[str], bool]) -> Sequence[Benchmark]:
        self._store.process.effect("read")
        self._limits.append(self._limit())
        others = [one for uid, one in self._kept.found.items() if uid != self._uid]
        return [one for one in others if is_live(one.name) and not one.is_over]

    def limit(self) -> int:
        """Return the largest limit that its set had in the present pass; many without one."""
        return max(*self._limits, self._limit())

    def _limit(self) -> int:
        """Return the smallest limit of the objects of living processes."""
        asked = [
            one.spec.parallel
            for one in self._kept.found.values()
            if claim_name(one.name) in self._store.disk.claimed and not one.is_over
        ]
        return min((one for one in asked if one is not None), default=MOST_RUNS)

    def write(
        self, known: Benchmark, status: Mapping[str, Any], events: Iterable[StatusEvent] = ()
    ) -> None:
        self._store.write("write a status")
        self._kept.check_status(known, status)
        self._kept.note_end(known.uid, status)
        self._kept.write(known.uid, status)

    def delete(self, known: Benchmark) -> None:
        self._store.write("delete an object")
        self._kept.expire(known)
