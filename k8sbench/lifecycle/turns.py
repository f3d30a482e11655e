"""Turns of the runs of a set: how many run at a time, and which of them run now. Pure.

A run keeps its turn until its end. One whose job waits for a change that only a person can make
gives its turn back, and keeps its job: it may go on beside the others later. Its turn goes to runs
that can expect another answer, of another queue, pool or size; the others would only wait like it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from k8sbench.diagnose.job.causes import needs_change
from k8sbench.model import creation
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run

NONE_JOINED: Mapping[str, str] = {}


class Turns:
    """Turns of all sets of a place at one moment."""

    def __init__(
        self,
        limits: Mapping[str, int],
        runs: Iterable[Run],
        alone: Collection[str] = (),
        joined: Mapping[str, str] = NONE_JOINED,
    ) -> None:
        """``limits`` are the most runs at a time, by set; ``runs`` those that have not ended.

        ``alone`` are the uids of the objects that run one at a time, and limit no other; ``joined``
        are those of the objects that have joined runs of others, by run id.
        """
        self._limits, self._alone, self._joined = limits, alone, joined
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
        self._holders[run.set_name].append(run)

    def is_next(self, plan: RunPlan) -> bool:
        """Return True if a run with this plan may have its turn now."""
        name, uid = plan.set_name, plan.requested_by or ""
        has_room = len(self._holders[name]) < self._limits.get(name, math.inf)
        is_one = uid in self._alone and any(self._is_of(run, uid) for run in self._holders[name])
        return has_room and not is_one and _demand(plan) not in self._refused

    def holders(self, set_name: str, uid: str) -> tuple[str, ...]:
        """Return the names of the runs that may keep those of an object from their turns."""
        is_limited = set_name in self._limits
        holders = self._holders[set_name]
        return tuple(run.run_id for run in holders if is_limited or self._is_of(run, uid))

    def _is_of(self, run: Run, uid: str) -> bool:
        return uid == (self._joined.get(run.run_id) or run.plan.requested_by)


def _demand(plan: RunPlan) -> tuple[object, ...]:
    """Return the set of a run and what a queue decides by."""
    return (plan.set_name, plan.queue, plan.pool.name, plan.replicas, plan.gpus_per_replica)
