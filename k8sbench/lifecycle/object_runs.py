"""Runs of a Benchmark object that are missing, and their recording one after another."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from k8sbench.lifecycle import run_artifacts
from k8sbench.lifecycle.context import RunContext
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.set_runs import keep_benchmark, record_new, reopened, repeats
from k8sbench.model import creation
from k8sbench.model.benchmark_object import MOST_RUNS, Benchmark
from k8sbench.model.errors import UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.kube import JobIdentity
from k8sbench.model.run import Run


class Recording(msgspec.Struct, kw_only=True):
    """Runs of an object that are still to be recorded."""

    cases: Sequence[PlannedCase]
    retry: int
    """Value of ``retry`` that they answer."""
    missing: deque[PlannedCase] | None = None
    """One for each run that is missing; None while they are not counted."""
    broken_off: Mapping[str, list[Run]] = {}
    """Runs to continue in place of new ones, by case key."""
    number: int = 0
    """Number of the latest run of the object's name."""
    is_first: bool | None = None
    """True if the object had no run on record; None before they are counted."""

    def count(
        self, benchmark: Benchmark, runs: Sequence[Run], ids: Iterable[str], *, is_retry: bool
    ) -> None:
        """Find which runs are missing beside those on record; ``ids`` are all of the store.

        In a retry, once they have ended, a run counts if it is valid, continues from its
        checkpoints, or tells that a batch size of a sweep does not fit. Raises
        :class:`UsageError` if they are too many.
        """
        if self.is_first is None:
            self.is_first = not runs
        counting = runs
        if is_retry:
            has = repeats(runs)
            counting = [run for one in has.values() for run in (*one.finished, *one.open)]
            self.broken_off = {key: one.broken_off for key, one in has.items()}
        there = Counter(run.case_key for run in counting)
        missing = deque[PlannedCase]()
        for case in self.cases:
            key = case_key(case.draft)
            count = min(case.repeats, there[key])
            there[key] -= count
            missing += [case] * (case.repeats - count)
        if len(runs) + len(missing) > MOST_RUNS:
            raise UsageError(
                f"Benchmark {benchmark.name} asks for {len(runs) + len(missing)} runs.",
                f"One object has at most {MOST_RUNS}: create several.",
            )
        # Runs of an earlier object of this name keep theirs.
        self.number = benchmark.last_number(ids)
        self.missing = missing

    def record_next(self, benchmark: Benchmark, context: RunContext) -> Run:
        """Record the next missing run, which then waits for its turn."""
        assert self.missing is not None
        case = self.missing.popleft().for_object(benchmark.uid, benchmark.name)
        again = self.broken_off and self.broken_off.get(case_key(case.draft))
        if again:
            run = again.pop(0)
            run_id = reopened(run, case.like(run.plan), context).run_id
        else:
            self.number += 1
            run_id = self._record(benchmark, case, context)
        return _in_turn(benchmark, run_id, context)

    def plan_anew(
        self, benchmark: Benchmark, runs: Iterable[Run], context: RunContext
    ) -> dict[str, Run]:
        """Plan waiting runs again whose trainers are another version's; returns these by id.

        Without objects on record nothing names those trainers, and no job could be created.
        """
        by_case = {case_key(case.draft): case for case in self.cases}
        again = {}
        for run in runs:
            if run.restarts or not creation.waits_for_turn(run):
                continue
            case = by_case.get(run.case_key)
            if case is None:
                continue
            is_same = case.draft.trainers_digest == run.plan.trainers_digest
            if (
                not is_same
                and context.store.read_artifact(run.run_id, run_artifacts.MANIFEST) is None
            ):
                plan = case.for_object(benchmark.uid, benchmark.name).like(run.plan)
                at = context.clock()
                context.store.reopen(
                    plan, at=at, process=context.process, location=context.location
                )
                again[run.run_id] = _in_turn(benchmark, run.run_id, context)
        return again

    def _record(self, benchmark: Benchmark, case: PlannedCase, context: RunContext) -> str:
        """Record a new run; returns its id."""
        run_id = benchmark.run_id(self.number)
        run = record_new(case, run_id, benchmark.set_name, context)
        keep_benchmark(context.store, run_id, case)
        # An operator of another version may create the job: this names the trainers to mount.
        context.objects(run, JobIdentity())
        return run_id


def _in_turn(benchmark: Benchmark, run_id: str, context: RunContext) -> Run:
    """Record that a run waits for its turn."""
    step = creation.wait_for_turn(benchmark.spec.parallel, benchmark.set_name, context.clock())
    return context.store.move(run_id, step)
