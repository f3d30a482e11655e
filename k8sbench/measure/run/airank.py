"""AI-Rank's lines: time to train by its definition, and contradictions in them.

They are often written by hand, so their stamps are checked against the logger's clock. Of what they
claim only a time to the target is taken, where the evaluations bear it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from k8sbench.measure.run import evidence, rules
from k8sbench.model.finding import Finding
from k8sbench.model.measurement import AccuracyResult
from k8sbench.model.sample import Mark, Place
from k8sbench.model.spec import Accuracy

ROUNDED = 1e-9
"""Percent that a fraction may lose by becoming percent."""
KEPT = 10_000
"""Evaluations that are kept; a training run has some hundreds."""
ZONES = 27 * 3600.0
"""Stamps name no zone: two right clocks may differ by up to so much, and no more."""
DRIFT = 900.0
"""Seconds by which the difference of two right clocks may change: an evaluation may lie between
the logger's last stamp and the event."""
CLOSE = (2.0, 1e-4)
"""Seconds, or a share of the time, up to which two times are the same."""


class Evaluated(msgspec.Struct, frozen=True):
    """One ``eval_accuracy`` line, or evaluation of our own trainers."""

    at: float
    value: float
    place: Place
    is_whole: bool = True
    """Whether it is of all samples; else it reaches no target."""


def reaching(evaluations: Iterable[Evaluated], target: Accuracy | None) -> Evaluated | None:
    """The first of evaluations, in percent, that reaches a target."""
    if target is None:
        return None
    needed = target.percent - ROUNDED
    whole = (evaluated for evaluated in evaluations if evaluated.is_whole)
    return next((evaluated for evaluated in whole if evaluated.value >= needed), None)


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
        self._offsets: tuple[float, float] | None = None
        self._odd: Place | None = None
        self._last: float | None = None

    def take(self, mark: Mark, file: str, logger: float | None) -> None:
        """Take an event; ``logger`` is the logger's latest dated stamp, if there is one."""
        event, value, at = mark.values["event"], mark.values["value"], mark.stamp
        place = evidence.place(file, mark.line, mark.text)
        if at is not None:
            self._check(at, logger, place)
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

    def _check(self, at: float, logger: float | None, place: Place) -> None:
        if self._last is not None and at < self._last - 1.0:
            self._odd = self._odd or place
        self._last = at
        if logger is None:
            return
        offset = at - logger
        low, high = self._offsets or (offset, offset)
        self._offsets = (min(low, offset), max(high, offset))
        if abs(offset) > ZONES or self._offsets[1] - self._offsets[0] > DRIFT:
            self._odd = self._odd or place

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

    def reasons(self) -> Iterator[Finding]:
        """What is odd in the lines."""
        if self._odd is not None:
            text = "AI-Rank's stamps contradict each other or the logger's own clock."
            yield rules.AIRANK_CLOCK.finding(text, [self._odd])
