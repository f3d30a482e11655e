"""How the throughput and the loss of a run went, from its archived log: for pictures."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from k8sbench.model.plan import RunPlan
from k8sbench.model.sample import Record
from k8sbench.parse.cleaning import pieces
from k8sbench.parse.family import Family


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """What a run printed of its steps, in the log's order; all of equal length."""

    iterations: tuple[int, ...]
    """Counted through all epochs."""
    rates: tuple[float | None, ...]
    """Samples per second of the whole job."""
    losses: tuple[float | None, ...]


def curve(plan: RunPlan, family: Family, lines: Iterable[str]) -> Curve:
    """Read the training lines of the log of the replica that prints them."""
    reader, needles = family.reader(), family.needles
    iterations: list[int] = []
    rates: list[float | None] = []
    losses: list[float | None] = []
    before = last = 0
    for number, line in enumerate(lines, 1):
        if not any(needle in line for needle in needles):
            continue
        for source, piece in pieces(line):
            for item in reader.read(number, piece, source):
                if not isinstance(item, Record):
                    continue
                if item.iteration <= last:  # the next epoch counts anew
                    before += last
                last = item.iteration
                iterations.append(before + item.iteration)
                rates.append(rate(item, plan))
                losses.append(item.loss)
    return Curve(iterations=tuple(iterations), rates=tuple(rates), losses=tuple(losses))


def rate(record: Record, plan: RunPlan) -> float | None:
    """Return samples per second of the whole job; None where the line has none."""
    printed, seconds = record.rate, record.seconds or record.mean_seconds
    if printed is not None and record.shape.per == "card":
        return printed * plan.world_size
    return plan.global_batch / seconds if printed is None and seconds else printed
