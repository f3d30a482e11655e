"""What the checks of one run look at."""

from __future__ import annotations

import msgspec

from k8sbench.measure.run.log_clock import ClockReading
from k8sbench.measure.run.log_facts import LogFacts
from k8sbench.measure.run.rank_records import RankRecords
from k8sbench.measure.run.training import Evaluated, reaching
from k8sbench.model.measurement import AccuracyResult, Throughput
from k8sbench.model.spec import Accuracy
from k8sbench.parse.reading import OURS

FEWEST_RECORDS = 5
"""In a window that is measured, and for a check of many lines."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One run's logs, and what follows from them and from what was expected."""

    log: LogFacts
    rank: RankRecords | None
    gpus: int
    batch: int | None
    precision: str | None
    seconds_per_unit: float | None
    """Seconds in one unit of the rank's times: 1, or samples per iteration of the printed scope."""
    throughput: Throughput | None
    clock: ClockReading
    """What the log's stamps say of its printed times."""
    goal: TimeToTrain

    @property
    def rate(self) -> float | None:
        """The headline."""
        return self.throughput.time_weighted if self.throughput else None

    @property
    def ended_at_target(self) -> bool:
        """Whether it was to end at the target, and did."""
        return self.log.fact("ended_by") == "target" and self.goal.reached is not None

    @property
    def smoke(self) -> bool:
        """Whether the run only checks the path, with a small model."""
        return self.log.expected.smoke or self.log.fact("preset") == "smoke"


# -- time to train --------------------------------------------------------------------------------
#
# From AI-Rank's ``test_begin`` to the evaluation at the target. Of our own trainers' logs the
# evaluations are their events, over all attempts; of other programs' logs AI-Rank's lines. Never
# with synthetic data, whatever lines a log holds.


class TimeToTrain(msgspec.Struct, frozen=True, kw_only=True):
    """The time, or why there is none, and what it is of."""

    seconds: float | None
    missing: str
    target: Accuracy | None
    reached: Evaluated | None
    """The first evaluation at the target, in percent."""
    best: Evaluated | None
    """The best evaluation of our own trainers, in percent."""


def time_to_train(log: LogFacts) -> TimeToTrain:
    """Time to train of a log that was read, to what it is measured by."""
    target, evaluations = log.expected.target, log.airank.percent()
    if log.family is OURS:
        evaluations = log.training.evaluations
        if target is None and log.training.target is not None:
            target = Accuracy(metric=log.training.metric or "", value=log.training.target)
    other = _not_comparable(log, target)
    reached = None if other else reaching(evaluations, target)
    seconds, missing = log.airank.time_to_train(target, reached)
    if reached is None and any(not evaluated.is_whole for evaluated in evaluations):
        missing += " One that lacks samples reaches none."
    if log.family is OURS and target is None:
        missing = "The run has no target accuracy."
    return TimeToTrain(
        seconds=None if other else seconds,
        missing=other or missing,
        target=target,
        reached=reached,
        best=max(log.training.evaluations, key=lambda evaluated: evaluated.value, default=None),
    )


def _not_comparable(log: LogFacts, target: Accuracy | None) -> str | None:
    """Why a log of our own trainers cannot reach a target at all."""
    if log.family is not OURS:
        return None
    if (log.fact("data") or "").startswith("synthetic"):
        return "The data are synthetic: no accuracy is reached on them."
    metric = log.training.metric
    if target is not None and metric is not None and metric != target.metric:
        return f"The run evaluates {metric}, the target is one of {target.metric}."
    return None


def at_target(result: AccuracyResult | None, goal: TimeToTrain) -> AccuracyResult | None:
    """The accuracy with that of the evaluation at the target, in its own unit."""
    if result is None or goal.reached is None or result.unit not in {"%", "fraction"}:
        return result
    value = goal.reached.value / (100 if result.unit == "fraction" else 1)
    return msgspec.structs.replace(result, at_target=round(value, 9))
