"""Writing the statuses of Benchmark objects, and deleting the objects whose time is up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from k8sbench.lifecycle import benchmark_status
from k8sbench.lifecycle.context import Note
from k8sbench.lifecycle.known_object import KnownObject
from k8sbench.lifecycle.turns import Turns
from k8sbench.model.benchmark_object import OVER, Benchmark
from k8sbench.model.group import Group
from k8sbench.model.run import Run
from k8sbench.model.times import Clock
from k8sbench.ports.objects import Objects
from k8sbench.threads import Threads

WRITES = 4
"""Most pending writes of statuses: those of many objects hold up no creation of a job."""
WRITE_SECONDS = 1.0
"""Shortest interval of the writes of an object's status."""
AGAIN_SECONDS = 15.0
"""Interval of attempts to write after a failure, and of statuses made anew."""


class StatusWriter:
    """Writes the statuses of the objects of a process."""

    def __init__(
        self,
        objects: Objects,
        clock: Clock,
        pool: Threads,
        note: Note,
        groups: Callable[[Sequence[Run]], Sequence[Group]],
        refusal: Callable[[], str] = lambda: "",
    ) -> None:
        """``groups`` groups the repeats of each case of an object's runs.

        ``refusal`` returns the reason why the place refuses all jobs; empty without one.
        """
        self._objects = objects
        self._clock = clock
        self._pool = pool
        self._note = note
        self._groups = groups
        self._refusal = refusal

    def write(self, every: Collection[KnownObject], turns: Turns, now: float) -> None:
        """Write the statuses that have changed.

        Those of cancelled objects come first, then those that have waited longest.
        """

        def turn(known: KnownObject) -> tuple[bool, float]:
            return not known.benchmark.spec.cancel, known.write_at

        for known in sorted(every, key=turn):
            self._write(known, every, turns, now)

    def write_left(self, benchmark: Benchmark, runs: Sequence[Run]) -> None:
        """Write the status of an object whose process has ended, with its ``runs`` on record."""
        planned = benchmark_status.planned_runs(benchmark.status) or benchmark.spec.repeats or 1
        known = KnownObject(
            benchmark=benchmark,
            runs={run.run_id: run for run in runs},
            planned=max(planned, len(runs)),
            retried=benchmark.spec.retry,
            is_left=True,
        )
        self.write([known], Turns({}, ()), 0.0)
        if known.writes is not None:
            self._pool.join([known.writes])
        self.write([known], Turns({}, ()), 0.0)  # notes an error of the first

    def _write(
        self, known: KnownObject, every: Collection[KnownObject], turns: Turns, now: float
    ) -> None:
        """Write the status of an object if it changed; delete an expired one."""
        if known.writes is not None:
            if not known.writes.done():
                return
            error = known.writes.exception()
            known.writes = None
            if error is not None:
                known.status = {}
                known.write_at = now + AGAIN_SECONDS
                self._note(f"warning: {error}")
        benchmark = known.benchmark
        # A final status that came while its runs are planned may be a late answer of ours.
        is_known = known.is_over or known.is_planned or benchmark.spec.cancel
        if now < known.write_at or known.recording or (benchmark.is_over and not is_known):
            return
        if sum(one.writes is not None for one in every) >= WRITES:
            return
        if known.is_over:
            known.runs, known.grouped = {}, ((), ())
            if self._has_expired(known, now) and not benchmark.is_deleted:
                known.writes = self._start_write(self._objects.delete, benchmark)
                return
        status: Mapping[str, Any] = {"observedGeneration": benchmark.generation}
        if not known.is_over:
            status = self._status(known, turns, now)
            is_early = not (known.is_planned or known.is_open or status["phase"] in OVER)
            if benchmark.is_over and is_early:
                return  # only its planning shows whether runs of it are missing
        is_due = status != known.status or now >= known.repeat_at
        if is_due and benchmark_status.differs(status, benchmark.status):
            known.status = status
            known.write_at = now + WRITE_SECONDS
            known.repeat_at = now + AGAIN_SECONDS
            events = tuple(benchmark_status.events(benchmark.status, status))
            known.writes = self._start_write(self._objects.write, benchmark, status, events)

    def _has_expired(self, known: KnownObject, now: float) -> bool:
        """Return True if the time of a finished object is up.

        The time before it was seen is by the clock that stamped its end.
        """
        expires_at = known.benchmark.expires_at
        if expires_at is None or not known.is_checked:
            return False
        if known.expires is None or known.expires[0] != expires_at:
            left_s = expires_at - self._clock()
            most = known.benchmark.spec.ttl_seconds_after_finished or 0
            known.expires = (expires_at, now + min(left_s, most))
        return now >= known.expires[1]

    def _status(self, known: KnownObject, turns: Turns, now: float) -> Mapping[str, Any]:
        """Return the status; with a thousand runs making it takes 60 ms."""
        number = known.benchmark.number_of
        runs = sorted(known.runs.values(), key=lambda run: number(run.run_id) or 0)
        planned = known.planned if known.is_planned or known.is_open else None
        refusal = known.delay or self._refusal()
        ahead = turns.holders(known.benchmark.set_name, known.benchmark.uid)
        about = known.benchmark, planned, known.retried, known.problem, known.is_left
        facts = (*about, refusal, ahead, *runs)
        if facts != known.facts or now >= known.make_at:
            known.facts = facts
            known.make_at = now + AGAIN_SECONDS
            if known.grouped[0] != runs:
                known.grouped = (runs, self._groups(runs))
            known.made = benchmark_status.status_of(
                known.benchmark,
                runs,
                planned=planned,
                retried=known.retried,
                problem=known.problem,
                is_left=known.is_left,
                refusal=refusal,
                ahead=ahead,
                now=self._clock(),
                groups=known.grouped[1],
            )
        return known.made

    def _start_write(self, write: Callable[..., None], *given: Any) -> Future[None]:
        return self._pool.start(partial(write, *given), "write-status")
