"""Throughput and loss of a run over time, for plots."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from k8sbench.measure.run.rank_records import Epochs
from k8sbench.model.plan import RunPlan
from k8sbench.model.sample import Evaluation, Mark, Record
from k8sbench.parse.family import Family
from k8sbench.parse.reading import FamilyLog


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Training lines of a run, in log order.

    Iterations, rates, losses and times have equal length.
    """

    iterations: tuple[int, ...]
    """Counted through all epochs."""
    rates: tuple[float | None, ...]
    """Samples per second of the whole job."""
    losses: tuple[float | None, ...]
    times: tuple[float | None, ...] = ()
    """Unix seconds."""
    evaluations: tuple[tuple[float, float], ...] = ()
    """Unix seconds and value, of the metric that is printed first."""
    metric: str = ""
    target: float | None = None
    """In the metric's unit."""
    began: float | None = None
    """First start of our own trainer, Unix seconds; None if not stated."""
    restarts: tuple[float, ...] = ()
    """Later starts, Unix seconds."""

    def minutes(self) -> list[float] | None:
        """Since the run began, of each step; None where these times are not known."""
        known = [(at - self.began) / 60 for at in self.times if at and self.began is not None]
        return known if len(known) == len(self.iterations) else None

    def since(self, at: float) -> float:
        """Minutes since the run began."""
        return (at - (self.began or 0.0)) / 60


def curve(plan: RunPlan, family: Family, blocks: Iterable[str]) -> Curve:
    """Read the training lines of the log of the replica that prints them."""
    steps: list[tuple[int, float | None, float | None, float | None]] = []
    evaluations: list[Evaluation] = []
    starts: list[float] = []
    epochs: Epochs | None = None
    base = position = previous = 0
    source = ""
    for item in FamilyLog(blocks, [family]):
        if isinstance(item, Evaluation) and item.stamp is not None:
            evaluations.append(item)
        elif isinstance(item, Mark) and item.kind == "start" and item.stamp is not None:
            # Each rank of a replica says when it began.
            starts += [item.stamp] if not item.values["rank"] else []
        if not isinstance(item, Record) or (epochs and item.source != source):
            continue  # a file may hold the lines of several ranks
        epochs, source = epochs or Epochs(item), item.source
        if epochs.turns(item, previous):
            base, _ = epochs.turn(item, position)
        previous = item.iteration
        position = max(position, base + previous)
        steps.append((base + previous, rate(item, plan), item.loss, item.stamp))
    first = evaluations[0] if evaluations else None
    return Curve(
        iterations=tuple(iteration for iteration, *_ in steps),
        rates=tuple(printed for _, printed, *_ in steps),
        losses=tuple(loss for _, _, loss, _ in steps),
        times=tuple(stamp for *_, stamp in steps),
        evaluations=tuple(
            (evaluation.stamp, evaluation.value)
            for evaluation in evaluations
            if first is not None
            and evaluation.metric == first.metric
            and evaluation.stamp is not None
        ),
        metric="" if first is None else f"{first.metric}, {first.unit}",
        target=None if first is None else first.target,
        began=starts[0] if starts else None,
        restarts=tuple(starts[1:]),
    )


def rate(record: Record, plan: RunPlan) -> float | None:
    """Return samples per second of the whole job; None where the line has none."""
    printed, seconds = record.rate, record.seconds or record.mean_seconds
    if printed is not None and record.shape.per == "card":
        return printed * plan.world_size
    return plan.global_batch / seconds if printed is None and seconds else printed
