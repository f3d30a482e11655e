"""Serving namespaces: what an operator does until a stop request.

:class:`Serving` reconciles the Benchmark objects of a namespace, and collects new runs as they
appear. One thread serves any number of namespaces in turn. Closed runs are dropped, so memory does
not grow with their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol, TypeVar

from k8sbench import limits
from k8sbench.lifecycle import collecting
from k8sbench.lifecycle.benchmark_reconciler import BUSY_SECONDS, Benchmarks
from k8sbench.lifecycle.context import Reporter, Rules, RunContext
from k8sbench.lifecycle.executor import LOOK_SECONDS, Executor
from k8sbench.lifecycle.gpu_metrics_fetcher import GpuMetricsFetcher
from k8sbench.lifecycle.outcome import OutcomeKind
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.benchmark_object import Benchmark
from k8sbench.model.errors import BenchError
from k8sbench.model.run import Run
from k8sbench.ports.objects import Objects

LONGEST_RETRY = 300.0
MOST_NOTES = 1000
"""Notes that are remembered, so as not to be repeated."""


class Serving:
    """A served namespace.

    The runs that ``objects`` want are created, as ``plan`` plans them. A cluster that does not
    answer is asked again.
    """

    def __init__(
        self,
        context: RunContext,
        reporter: Reporter,
        objects: Objects,
        plan: Callable[[Benchmark], Sequence[PlannedCase]],
    ) -> None:
        self._context, self._clock, self._reporter = context, context.monotonic, reporter
        self._note_once = lru_cache(MOST_NOTES)(reporter.note)
        self._gathering = GpuMetricsFetcher(context, reporter)
        rules = Rules(passes_over=True, serves=True)
        self._executor = Executor(context, reporter, rules, self._gathering)
        self._benchmarks = Benchmarks(objects, context, self._executor, reporter, plan)
        self._put_off: dict[str, tuple[float, float]] = {}
        """Next retry, monotonic seconds, and retry interval of each failed run."""
        self._due = -math.inf
        self.problem = ""
        """Reason why the jobs cannot be listed; empty if they can."""
        self.listed_at: float | None = None
        """Time of the last list of jobs, monotonic seconds; None before."""
        self.listed_time: float | None = None
        """The same by the cluster's clock, Unix seconds."""

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.close()

    def step(self, seconds: float) -> list[Run]:
        """Do the work at hand, or wait; returns the closed runs.

        A run whose job could not be deleted may be returned again.
        """
        if self._clock() >= self._due:
            self._look()
        if self.listed_at is not None:
            # Not before the jobs are known: one whose record is lost would be created again.
            was_blind = self._benchmarks.is_blind
            self._benchmarks.step()
            if was_blind and not self._benchmarks.is_blind:
                self._due = -math.inf
        closed: list[Run] = []
        if self._benchmarks.is_busy:
            self._context.pool.wait(min(seconds, BUSY_SECONDS))
            seconds = 0.0
        for outcome in self._executor.step(seconds):
            run = outcome.run
            self._benchmarks.take([run])
            if outcome.how is OutcomeKind.LEFT:
                continue
            if isinstance(outcome.error, BenchError):
                self._note_once(f"warning: run {run.run_id} is passed over: {outcome.error}")
            elif run.phase.final:
                closed.append(run)
            if outcome.how is OutcomeKind.CLOSED and run.phase.final and not run.wishes:
                self._put_off.pop(run.run_id, None)
            else:
                self._put_it_off(run.run_id)
        self._benchmarks.take(self._gathering.completed.values())
        self._gathering.completed.clear()
        return closed

    @property
    def now(self) -> float:
        """The cluster's time, Unix seconds."""
        return self._context.clock()

    @property
    def refusal(self) -> str:
        """Return the reason why no job can be created here; empty if jobs can."""
        return self._executor.refusal

    @property
    def objects_problem(self) -> str:
        """Reason why the objects are not known or not all served; empty without one."""
        return self._benchmarks.problem

    def open_runs(self) -> list[Run]:
        """Return the runs that are followed."""
        return self._executor.runs()

    def _look(self) -> None:
        try:
            known = self._benchmarks.at_hand()
            for run in collecting.pending_runs(self._context, self._note_once, known):
                self._take(run)
            self._benchmarks.count_anew()
            if self.listed_at is None:
                for run in collecting.owed_runs(self._context):
                    self._gathering.add(run)
            self.listed_at = self._clock()
            self.listed_time = self.now
            self.problem = ""
        except BenchError as error:
            if str(error) != self.problem:
                self._reporter.note(f"warning: new jobs are not seen for now: {error}")
            self.problem = str(error)
        self._due = self._clock() + limits.now.list_jobs

    def _take(self, run: Run) -> None:
        if run.plan.requested_by is not None and self._benchmarks.is_blind:
            return  # it may be cancelled since, and would be restarted first
        again_at, _ = self._put_off.get(run.run_id, (-math.inf, 0.0))
        if run.run_id not in self._executor.held() and self._clock() >= again_at:
            self._executor.take(run)

    def _put_it_off(self, run_id: str) -> None:
        _, before = self._put_off.get(run_id, (0.0, limits.now.retry_run / 2))
        pause = min(2 * before, LONGEST_RETRY)
        self._put_off[run_id] = (self._clock() + pause, pause)


class Place(Protocol):
    """A namespace that is served while it may be."""

    def step(self, seconds: float) -> list[Run]:
        """Do the work at hand, or wait; returns the closed runs."""


P = TypeVar("P", bound=Place)


def serve(
    places: Sequence[P],
    stop: Stop,
    closed: Callable[[Run], None],
    look: Callable[[Sequence[P]], None] = lambda _: None,
) -> None:
    """Serve namespaces until asked to stop.

    ``closed`` takes the runs as they are closed, and ``look`` sees the namespaces in each turn.
    """
    while stop.cause is None:
        for place in places:
            for run in place.step(LOOK_SECONDS / len(places)):
                closed(run)
        look(places)
