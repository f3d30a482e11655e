"""Turns of the runs of a set: how many run at a time, and which of them run now. Pure.

A run keeps its turn until its end. One whose job waits for a change that only a person can make
gives its turn back, and keeps its job: it may go on beside the others later. Its turn goes to runs
that can expect another answer, of another queue, pool or size; the others would only wait like it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from k8sbench.diagnose.job.causes import needs_change
from k8sbench.model import creation
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run


class Turns:
    """Turns of all sets of a place at one moment."""

    def __init__(self, limits: Mapping[str, float], runs: Iterable[Run]) -> None:
        """``limits`` are the most runs at a time, by set; ``runs`` those that have not ended."""
        self._limits = limits
        self._holders = defaultdict[str, list[Run]](list)
        """Runs that have a turn, by set."""
        self._refused = set[tuple[object, ...]]()
        """Set and demand of the runs that have given their turns back."""
        for run in runs:
            if needs_change(run.history[-1]):
                self._refused.add(_demand(run.plan))
            elif not (run.phase.final or creation.waits_for_turn(run)):
                self.take(run)

    def take(self, run: Run) -> None:
        """Give a run its turn."""
        self._holders[run.plan.set_name].append(run)

    def is_next(self, plan: RunPlan) -> bool:
        """Return True if a run with this plan may have its turn now."""
        name = plan.set_name
        has_room = len(self._holders[name]) < self._limits.get(name, 1)
        return has_room and _demand(plan) not in self._refused

    def holders(self, set_name: str) -> tuple[str, ...]:
        """Return the names of the runs that have the turns of a set."""
        return tuple(run.run_id for run in self._holders[set_name])


def _demand(plan: RunPlan) -> tuple[object, ...]:
    """Return the set of a run and what a queue decides by."""
    return (plan.set_name, plan.queue, plan.pool.name, plan.replicas, plan.gpus_per_replica)
