"""AI-Rank's lines: time to train by its definition.

They are often written by hand: a time that they state counts where an evaluation confirms it, and
an average rate does not count.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from k8sbench.measure.run import redaction
from k8sbench.model.measurement import AccuracyResult
from k8sbench.model.sample import Mark, Place
from k8sbench.model.spec import Accuracy

ROUNDED = 1e-9
"""Percent that a fraction may lose by becoming percent."""
KEPT = 10_000
"""Evaluations that are kept; a training run has some hundreds."""
CLOSE = (2.0, 1e-4)
"""Seconds, or a share of the time, up to which two times are the same."""


class Evaluated(msgspec.Struct, frozen=True):
    """One ``eval_accuracy`` line."""

    at: float
    value: float
    place: Place


def reaching(evaluations: Iterable[Evaluated], target: Accuracy | None) -> Evaluated | None:
    """The first of evaluations, in percent, that reaches a target."""
    if target is None:
        return None
    needed = target.percent - ROUNDED
    return next((evaluated for evaluated in evaluations if evaluated.value >= needed), None)


class Events:
    """AI-Rank events of one run, in the order of the log."""

    def __init__(self) -> None:
        self.begun: Mark | None = None
        self.begun_at: Place | None = None
        self.ended = False
        self.evaluations: list[Evaluated] = []
        self.samples: tuple[int, Place] | None = None
        """Size of the data set, and the line that states it."""
        self.count = 0
        self.target_time: float | None = None

    def take(self, mark: Mark, file: str) -> None:
        """Take an event."""
        event, value, at = mark.values["event"], mark.values["value"], mark.stamp
        place = redaction.place(file, mark.line, mark.text)
        if event == "test_begin" and self.begun is None:
            self.begun, self.begun_at = mark, place
        elif event in {"test_finish", "total_use_time"}:
            self.ended = True
        elif not isinstance(value, float):
            return
        elif event == "load_data" and self.samples is None:
            self.samples = (int(value), place)
        elif event == "eval_accuracy" and at is not None:
            self.count += 1
            if len(self.evaluations) < KEPT:
                self.evaluations.append(Evaluated(at, value, place))
        elif event == "target_quality_time":
            self.ended = True
            self.target_time = value

    @property
    def accuracy(self) -> AccuracyResult | None:
        """What the evaluations reached, by AI-Rank's lines alone."""
        values = [evaluated.value for evaluated in self.evaluations]
        if not values:
            return None
        # Some print percent, some fractions; one value above 1 settles it for all.
        return AccuracyResult(
            metric="eval_accuracy",
            best=max(values),
            final=values[-1],
            unit="%" if max(values) > 1 else "fraction",
            evaluations=self.count,
        )

    def percent(self) -> list[Evaluated]:
        """The evaluations in percent: some print it, others fractions, and one above 1 tells."""
        scale = 1 if any(evaluated.value > 1 for evaluated in self.evaluations) else 100
        return [msgspec.structs.replace(e, value=e.value * scale) for e in self.evaluations]

    def time_to_train(
        self, target: Accuracy | None, reached: Evaluated | None
    ) -> tuple[float | None, str]:
        """Seconds from ``test_begin`` to the evaluation that reached the target; else why not."""
        if self.begun is None or self.begun.stamp is None:
            return None, "The log has no AI-Rank test_begin line."
        if target is None:
            return self._stated(self.begun.stamp)
        if reached is None:
            return None, f"No evaluation reached the target of {target.value:g} {target.unit}."
        if reached.at < self.begun.stamp:
            return None, "The evaluation that reaches the target is stamped before the test."
        return reached.at - self.begun.stamp, ""

    def _stated(self, began: float) -> tuple[float | None, str]:
        if self.target_time is None:
            return None, "No target accuracy is known; --benchmark names one."
        if self._confirms(self.target_time, began):
            return self.target_time, ""
        return None, "The stated target_quality_time does not follow from the log's evaluations."

    def _confirms(self, stated: float, began: float) -> bool:
        """Whether an evaluation at that time is better than all before it, as a first one is."""
        best = float("-inf")
        seconds, share = CLOSE
        for evaluated in self.evaluations:
            near = abs(evaluated.at - began - stated) <= max(seconds, share * stated)
            if near and evaluated.value > best:
                return True
            best = max(best, evaluated.value)
        return False
