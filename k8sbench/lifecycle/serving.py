"""Serving namespaces: collect all their runs until a stop request.

New runs are collected as they appear. One thread serves any number of namespaces in turn. Closed
runs are dropped, so memory does not grow with their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from k8sbench import limits
from k8sbench.lifecycle import collecting
from k8sbench.lifecycle.benchmarks import Benchmarks
from k8sbench.lifecycle.collecting import CollectResult
from k8sbench.lifecycle.context import How, PlannedCase, Reporter, Rules, RunContext, Stop
from k8sbench.lifecycle.executor import LOOK_SECONDS, Executor
from k8sbench.lifecycle.gathering import Gathering
from k8sbench.model.benchmark_object import Benchmark
from k8sbench.model.errors import BenchError
from k8sbench.model.request import NO_OPTIONS, FollowOptions
from k8sbench.model.run import Run
from k8sbench.ports import Objects

LONGEST_RETRY = 300.0
MOST_NOTES = 1000
"""Notes that are remembered, so as not to be repeated."""


class Serving:
    """A served namespace.

    Unless it is ``patient`` the first list of jobs must succeed; a cluster that does not answer a
    later one is asked again. With ``objects`` the runs that they want are created, as ``plan``
    plans them.
    """

    def __init__(
        self,
        context: RunContext,
        reporter: Reporter,
        options: FollowOptions = NO_OPTIONS,
        *,
        patient: bool = False,
        objects: Objects | None = None,
        plan: Callable[[Benchmark], Sequence[PlannedCase]] = lambda _: (),
    ) -> None:
        self._context, self._clock, self._reporter = context, context.clock, reporter
        self._note_once = lru_cache(MOST_NOTES)(reporter.note)
        self._gathering = Gathering(context, reporter)
        rules = Rules(keep=options.keep, wait=options.wait, passes_over=True)
        self._executor = Executor(context, reporter, rules, self._gathering)
        self._benchmarks = None
        if objects is not None:
            self._benchmarks = Benchmarks(objects, context, self._executor, reporter, plan)
        self._result = CollectResult()
        self._put_off: dict[str, tuple[float, float]] = {}
        """Next retry, Unix seconds, and retry interval of each failed run."""
        self._may_fail = patient
        self._due = -math.inf
        self.problem = ""
        """Reason why the jobs cannot be listed; empty if they can."""
        self.listed_at: float | None = None
        """Time of the last list of jobs, Unix seconds; None before."""

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
        if self._benchmarks is not None and self.listed_at is not None:
            # Not before the jobs are known: one whose record is lost would be created again.
            was_blind = self._benchmarks.is_blind
            self._benchmarks.step()
            if was_blind and not self._benchmarks.is_blind:
                self._due = -math.inf
        for outcome in self._executor.step(seconds):
            if self._benchmarks is not None:
                self._benchmarks.take([outcome.run])
            if outcome.how is How.LEFT:
                continue
            self._result.take(outcome, self._reporter)
            run = outcome.run
            if outcome.how is How.CLOSED and run.phase.final and not run.wishes:
                self._put_off.pop(run.run_id, None)
            else:
                self._put_it_off(run.run_id)
        if self._benchmarks is not None:
            self._benchmarks.take(self._gathering.completed.values())
        self._gathering.completed.clear()
        closed, self._result.closed = self._result.closed, []
        return closed

    def open_runs(self) -> list[Run]:
        """Return the runs that are followed."""
        return self._executor.runs()

    def left(self) -> CollectResult:
        """Return the runs that go on and the failed ones."""
        for run in self.open_runs():
            self._result.going_on.append(run)
            self._result.failed.pop(run.run_id, None)  # it was taken up again
        return self._result

    def _look(self) -> None:
        try:
            for run in collecting.pending_runs(self._context, self._note_once):
                self._take(run)
            if self.listed_at is None:
                for run in collecting.owed_runs(self._context):
                    self._gathering.add(run)
            self.listed_at, self._may_fail, self.problem = self._clock(), True, ""
        except BenchError as error:
            if not self._may_fail:
                raise
            if str(error) != self.problem:
                self._reporter.note(f"warning: new jobs are not seen for now: {error}")
            self.problem = str(error)
        self._due = self._clock() + limits.now.list_jobs

    def _take(self, run: Run) -> None:
        objects = self._benchmarks
        if run.plan.requested_by is not None and objects is not None and objects.is_blind:
            return  # it may be cancelled since, and would be restarted first
        again_at, _ = self._put_off.get(run.run_id, (-math.inf, 0.0))
        if run.run_id not in self._executor.held() and self._clock() >= again_at:
            self._executor.take(run)

    def _put_it_off(self, run_id: str) -> None:
        _, before = self._put_off.get(run_id, (0.0, limits.now.retry_run / 2))
        pause = min(2 * before, LONGEST_RETRY)
        self._put_off[run_id] = (self._clock() + pause, pause)


def serve(
    places: Sequence[Serving],
    stop: Stop,
    closed: Callable[[Run], None],
    look: Callable[[Sequence[Serving]], None] = lambda _: None,
) -> CollectResult:
    """Serve namespaces until asked to stop; returns what goes on then.

    ``closed`` takes the runs as they are closed, and ``look`` sees the namespaces in each turn.
    """
    while stop.cause is None:
        for place in places:
            for run in place.step(LOOK_SECONDS / len(places)):
                closed(run)
        look(places)
    result = CollectResult()
    for place in places:
        result.add(place.left())
    return result
