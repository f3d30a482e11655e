"""The turns of the sets of a process's objects now: their limits, and the runs that count."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from k8sbench.lifecycle.context import RunContext, Until
from k8sbench.lifecycle.executor import Executor
from k8sbench.lifecycle.known_object import KnownObject
from k8sbench.lifecycle.turns import Turns
from k8sbench.model.benchmark_object import MOST_RUNS, Benchmark, claim_name
from k8sbench.model.run import Run
from k8sbench.ports.objects import Objects
from k8sbench.store.interface import RunFilter


class SetTurns:
    """Counts the runs of the sets of ``known`` objects, and reads their limits."""

    def __init__(
        self,
        objects: Objects,
        context: RunContext,
        executor: Executor,
        known: Mapping[str, KnownObject],
        joined: Mapping[str, str],
    ) -> None:
        """``known`` are objects by uid; ``joined`` is as for :class:`.Turns`."""
        self._objects, self._context, self._executor = objects, context, executor
        self._known, self._joined = known, joined
        self._serves = executor.rules.serves

    def now(self) -> Turns:
        """Return who has the turns of the sets now, and how many each set has."""
        limits: dict[str, int] = {}
        alone = set[str]()
        for benchmark in self._limiting():
            parallel = benchmark.spec.parallel
            if parallel is None:
                alone.add(benchmark.uid)
            else:  # of one that is not planned yet, too
                limits[benchmark.set_name] = min(
                    limits.get(benchmark.set_name, MOST_RUNS), parallel
                )
        turns = Turns(limits, self._open_runs(limits), alone, self._joined)
        if not self._serves:
            for run in self._executor.over():  # measuring it would slow another one
                turns.take(run)
        return turns

    def _limiting(self) -> Iterator[Benchmark]:
        """Yield the objects that are not over, and those of other processes in their sets.

        Who detaches waits for the end of no run to begin another one.
        """
        if self._executor.rules.until is Until.CREATED:
            return
        own = [known.benchmark for known in self._known.values() if not known.is_over]
        yield from own
        sets = {benchmark.set_name for benchmark in own}
        claims = self._context.store.claims
        others = self._objects.beside(lambda name: claims.is_taken(claim_name(name)))
        yield from (benchmark for benchmark in others if benchmark.set_name in sets)

    def _open_runs(self, limited: Iterable[str]) -> Sequence[Run]:
        """Return the runs that may have turns.

        A submitting process counts those of others, too, in sets that are ``limited``: those that
        a process follows.
        """
        store, executor = self._context.store, self._executor
        if not self._serves:
            held = executor.held()
            recorded = [
                run
                for name in limited
                for run in store.runs(RunFilter(set_name=name, unfinished=True))
            ]
            others = [
                run
                for run in recorded
                if run.plan.requested_by is not None
                if run.run_id not in held and store.claims.is_taken(run.run_id)
            ]
            return [*executor.runs(), *others]
        open_runs = [run for known in self._known.values() for run in known.active]
        # Runs that nobody follows for now may have jobs, too; their objects may be gone.
        known_runs = {run.run_id: run for run in (*open_runs, *executor.runs())}
        recorded = store.runs(RunFilter(unfinished=True), known_runs)
        return [run for run in recorded if run.is_at(self._context.location)]

    def hold(self, sets: contextlib.ExitStack) -> bool:
        """Keep other processes from beginning runs of the sets, until ``sets`` is closed.

        Counting and recording are one step then. False while another process does so.
        """
        claims = self._context.store.claims
        for known in self._known.values():
            if known.later:
                name = f"turns of {known.benchmark.set_name}"
                if not claims.claim(name):
                    return False
                sets.callback(claims.release, name)
        return True
