"""Learning rate rules, as pure functions from a number of finished steps to a rate.

Each maker returns ``lr(step)`` with `step` counted from 0. Past their end the rules stay at their
last value: a run that goes on after its window must not divide by what is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Schedule = Callable[[int], float]


def poly(base: float, total: int, *, power: float = 0.9, minimum: float = 0.0) -> Schedule:
    """Polynomial decay from `base` to `minimum` over `total` steps (mmseg, PaddleSeg)."""

    def lr(step: int) -> float:
        left = 1.0 - min(step, total) / total
        return float((base - minimum) * left**power + minimum)

    return lr


def warmup_cosine(base: float, *, warmup: int, total: int, per: int = 1) -> Schedule:
    """Linear warm-up and half a cosine down to 0, changed each `per` steps (DLE: each epoch).

    `warmup` and `total` are counted in units of `per` steps.
    """

    def lr(step: int) -> float:
        tick = min(step // per, total)
        if tick < warmup:
            return base * (tick + 1) / warmup
        done = (tick - warmup) / max(total - warmup, 1)
        return 0.5 * base * (1.0 + math.cos(math.pi * done))

    return lr


def stepped(base: float, boundaries: Sequence[int], factor: float = 0.1) -> Schedule:
    """`base`, times `factor` from each boundary on."""
    ordered = sorted(boundaries)
    return lambda step: base * factor ** sum(step >= boundary for boundary in ordered)
