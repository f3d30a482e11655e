"""State of a running sweep: ended runs by case, and remaining time.

The remaining time is an estimate from the sweep's successful runs. Each run is expected to take the
mean time of its case, else of its benchmark, else of all runs, less the time already passed. The
sum is divided by the number of concurrent runs. Time in the cluster's queue is part of a run's
time, so the estimate is too short while a cluster fills up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k8sbench.model.identity import case_key
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run


class _Case:
    """One case of a sweep."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        self.wanted = 0
        """Runs of it, those that the set had before among them."""
        self.ended = 0
        self.going_on: dict[str, float] = {}
        """Time of creation or joining by run id, Unix seconds."""


class Sweep:
    """The cases of one command and how many of their runs have ended."""

    def __init__(self, plans: Sequence[RunPlan], finished: Sequence[Run], parallel: int) -> None:
        self._parallel = parallel
        self._cases: dict[str, _Case] = {}
        self._took: dict[str, list[float]] = {}
        """Seconds of the sweep's successful runs, by case key."""
        for run in finished:
            self._of(run.plan).wanted += 1
            self._of(run.plan).ended += 1
        for plan in plans:
            self._of(plan).wanted += 1

    @property
    def wanted(self) -> int:
        """Number of runs, those that the set had before among them."""
        return sum(one.wanted for one in self._cases.values())

    @property
    def ended(self) -> int:
        """Number of runs that have ended."""
        return sum(one.ended for one in self._cases.values())

    def began(self, run: Run, now: float) -> None:
        """Note that a run was recorded or taken up."""
        self._of(run.plan).going_on[run.run_id] = now

    def closed(self, run: Run, now: float) -> None:
        """Note that a run has ended; once for each."""
        one = self._of(run.plan)
        since = one.going_on.pop(run.run_id, None)
        one.ended += 1
        if since is not None and run.phase is Phase.SUCCEEDED:
            self._took.setdefault(case_key(run.plan), []).append(now - since)

    def remaining(self, now: float) -> float | None:
        """Return the estimated remaining seconds; None before the first success."""
        left = [*self._expected(now)]
        if not self._took:
            return None
        return max([sum(left) / max(1, self._parallel), *left], default=0.0)

    def _expected(self, now: float) -> Iterator[float]:
        for key, one in self._cases.items():
            expected = self._expectation(key, one.plan)
            for since in one.going_on.values():
                yield max(0.0, expected - (now - since))
            for _ in range(one.wanted - one.ended - len(one.going_on)):
                yield expected

    def _expectation(self, key: str, plan: RunPlan) -> float:
        of_benchmark = [
            seconds
            for other, some in self._took.items()
            if self._cases[other].plan.benchmark == plan.benchmark
            for seconds in some
        ]
        every = [seconds for some in self._took.values() for seconds in some]
        taken = self._took.get(key) or of_benchmark or every
        return sum(taken) / len(taken) if taken else 0.0

    def _of(self, plan: RunPlan) -> _Case:
        return self._cases.setdefault(case_key(plan), _Case(plan))
