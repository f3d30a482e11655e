"""What a program's evaluations of one metric came to."""

from __future__ import annotations

import math

import msgspec

from k8sbench.model.measurement import AccuracyResult


class Evaluations(msgspec.Struct):
    """Evaluations of one metric on one data set."""

    metric: str
    unit: str
    best: float = -math.inf
    final: float = 0.0
    count: int = 0
    records_before: int = -1
    """Records before the last evaluation."""
    steps: set[int] = set()
    """Iterations before each of them, where lines state them."""

    def add(self, value: float, records_before: int, step: int | None) -> None:
        """Add an evaluation, unless it is another rank's line of the same one, or repeats it."""
        if step in self.steps or (step is None and records_before == self.records_before):
            return
        if step is not None:
            self.steps.add(step)
        self.records_before = records_before
        self.count += 1
        self.final = value
        self.best = value if self.count == 1 else max(self.best, value)

    @property
    def result(self) -> AccuracyResult:
        """What these evaluations reached."""
        return AccuracyResult(
            metric=self.metric,
            best=self.best,
            final=self.final,
            unit=self.unit,
            evaluations=self.count,
        )
