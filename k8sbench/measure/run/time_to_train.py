"""Time to train of one run: from AI-Rank's ``test_begin`` to the evaluation at the target.

Of our own trainers' logs the evaluations are their events, over all attempts; of other programs'
logs AI-Rank's lines. Never with synthetic data, whatever lines a log holds.
"""

from __future__ import annotations

import msgspec

from k8sbench.measure.run import airank
from k8sbench.measure.run.airank import Evaluated
from k8sbench.measure.run.log_facts import LogFacts
from k8sbench.model.measurement import AccuracyResult
from k8sbench.model.spec import Accuracy
from k8sbench.parse.reading import OURS


class TimeToTrain(msgspec.Struct, frozen=True, kw_only=True):
    """The time, or why there is none, and what it is of."""

    seconds: float | None
    missing: str
    target: Accuracy | None
    reached: Evaluated | None
    """The first evaluation at the target, in percent."""
    best: Evaluated | None
    """The best evaluation of our own trainers, in percent."""


def of_log(log: LogFacts) -> TimeToTrain:
    """Time to train of a log that was read, to what it is measured by."""
    target, evaluations = log.expected.target, log.airank.percent()
    if log.family is OURS:
        evaluations = log.training.evaluations
        if target is None and log.training.target is not None:
            target = Accuracy(metric=log.training.metric or "", value=log.training.target)
    other = _not_comparable(log, target)
    reached = None if other else airank.reaching(evaluations, target)
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
