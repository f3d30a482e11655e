"""Throughput of a run by iteration, for plots."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from k8sbench.measure.run.rank_records import Epochs
from k8sbench.model.plan import RunPlan
from k8sbench.model.sample import Record
from k8sbench.parse.reading import FamilyLog, family_of


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Training lines of a run, in log order; both have equal length."""

    iterations: tuple[int, ...]
    """Counted through all epochs."""
    rates: tuple[float | None, ...]
    """Samples per second of the whole job."""


def curve(plan: RunPlan, blocks: Iterable[str]) -> Curve:
    """Read the training lines of the log of the replica that prints them."""
    steps: list[tuple[int, float | None]] = []
    epochs: Epochs | None = None
    base = position = previous = 0
    source = ""
    for item in FamilyLog(blocks, [family_of(plan.log, plan.framework)]):
        if not isinstance(item, Record) or (epochs and item.source != source):
            continue  # a file may hold the lines of several ranks
        epochs, source = epochs or Epochs(item), item.source
        if epochs.turns(item, previous):
            base, _ = epochs.turn(item, position)
        previous = item.iteration
        position = max(position, base + previous)
        steps.append((base + previous, rate(item, plan)))
    return Curve(
        iterations=tuple(iteration for iteration, _ in steps),
        rates=tuple(printed for _, printed in steps),
    )


def rate(record: Record, plan: RunPlan) -> float | None:
    """Return samples per second of the whole job; None where the line has none."""
    printed, seconds = record.rate, record.seconds or record.mean_seconds
    if printed is not None and record.shape.per == "card":
        return printed * plan.world_size
    if printed is None and seconds:
        return plan.global_batch * plan.sequence_length / seconds
    return printed
