"""Proofs among the numbers of training lines.

A line often states one quantity twice: a rate and a time, a mean and its total, the batch of a GPU
and of the job. The time stamps are a further statement.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from k8sbench.reader.guess.stamps import Stamp
from k8sbench.reader.number_columns import NumberColumn

EXACT = 0.01
"""Greatest relative difference of equal numbers, beyond the rounding of each."""
CLOSE = 0.05
"""Greatest relative difference of printed times and time stamps."""
MOST = 0.9
"""Least share of lines that decides; others hold an evaluation or a checkpoint."""
VARIES = 0.02
"""Least relative spread of a number that is not always the same."""
FEWEST_PAIRS = 3
"""Pairs of lines that prove something."""


class Proof(IntEnum):
    """Outcome of a comparison."""

    CONTRADICTED = -1
    UNKNOWN = 0
    PROVEN = 1


class Steps(NamedTuple):
    """The steps of similar lines, and the time between them."""

    column: NumberColumn
    stamp: Stamp | None

    @property
    def pairs(self) -> list[tuple[int, float, float]]:
        """Return index of a line, steps since the line before, and seconds by the stamps."""
        values = self.column.values
        found = list[tuple[int, float, float]]()
        seconds = self.stamp.seconds if self.stamp else ()
        for line, (before, now) in enumerate(itertools.pairwise(values), 1):
            passed = seconds[line] - seconds[line - 1] if line < len(seconds) else 0.0
            if now > before:
                found.append((line, now - before, passed))
        return found

    @property
    def goes_on(self) -> bool:
        """True if the steps never go back."""
        return all(a < b for a, b in itertools.pairwise(self.column.values))


def rounding(column: NumberColumn) -> float:
    """Return the greatest relative error of a column's last digit."""
    worst = 0.0
    for text, value in zip(column.texts, column.values, strict=True):
        plain = text.replace(",", "").lower()
        digits, _, power = plain.partition("e")
        places = len(digits.partition(".")[2]) if "." in digits else 0
        unit = 1.0 if ":" in plain else 10.0 ** (-places + int(power or 0))
        worst = max(worst, 0.5 * unit / abs(value)) if value else worst
    return min(worst, 1.0)


def constant(values: Sequence[float], slack: float) -> float | None:
    """Return what most values are, up to ``slack``; None if they differ."""
    if len(values) < FEWEST_PAIRS:
        return None
    usual = statistics.median(values)
    near = sum(abs(value - usual) <= (EXACT + slack) * abs(usual) for value in values)
    return usual if usual > 0 and near >= MOST * len(values) else None


def vary(values: Sequence[float]) -> bool:
    """True if numbers are not always the same."""
    return max(values) - min(values) > VARIES * max(abs(value) for value in values)


def by_stamps(steps: Steps, step_seconds: Sequence[float]) -> Proof:
    """Compare the printed time of a step of each line with the stamps."""
    pairs = [(step_seconds[line] * distance, passed) for line, distance, passed in steps.pairs]
    if steps.stamp is None or len(pairs) < FEWEST_PAIRS:
        return Proof.UNKNOWN
    allowed = CLOSE + 2.0 * steps.stamp.resolution / max(sum(passed for _, passed in pairs), 1e-9)
    # Without the lines that hold the longest waits, which are in no step.
    quick = sorted(pairs, key=lambda pair: pair[1] - pair[0])[: int(MOST * len(pairs)) or 1]
    ratios = [_ratio(some) for some in (pairs, quick)]
    if any(abs(ratio - 1.0) <= allowed for ratio in ratios):
        return Proof.PROVEN
    return Proof.CONTRADICTED if ratios[0] > 0 else Proof.UNKNOWN


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    printed, passed = (sum(each) for each in zip(*pairs, strict=True))
    return printed / passed if passed > 0 else 0.0


def product(rate: NumberColumn, time: NumberColumn, scale: float) -> float | None:
    """Return rate × time of a line, if it is the same in most lines: samples of a step."""
    values = [r * t * scale for r, t in zip(rate.values, time.values, strict=True)]
    return constant(values, rounding(rate) + rounding(time))


def is_mean_of(mean: Sequence[float], total: Sequence[float], steps: Steps, slack: float) -> bool:
    """True if ``mean`` × steps is the total of each line, from a fixed step on."""
    pairs = list(zip(mean, total, steps.column.values, strict=True))
    if not steps.goes_on or len(pairs) < FEWEST_PAIRS or any(value <= 0 for value, _, _ in pairs):
        return False
    left_out = [step - sum_ / value for value, sum_, step in pairs]
    usual = statistics.median(left_out)
    near = sum(
        abs(each - usual) <= 0.5 + (EXACT + slack) * step
        for each, (_, _, step) in zip(left_out, pairs, strict=True)
    )
    return abs(usual) <= max(0.25 * pairs[-1][2], 2.0) and near >= MOST * len(pairs)


def is_rate_of(
    rate: NumberColumn, scale: float, samples: NumberColumn, elapsed: NumberColumn, unit: float
) -> bool:
    """True if a rate is all samples so far ÷ the time so far."""
    slack = rounding(rate) + rounding(elapsed) + rounding(samples)
    values = [
        r * scale * e * unit / s
        for r, e, s in zip(rate.values, elapsed.values, samples.values, strict=True)
        if s > 0
    ]
    usual = constant(values, slack)
    return usual is not None and abs(usual - 1.0) <= EXACT + slack


def grows(values: Sequence[float]) -> bool:
    """True if numbers grow from line to line, and seldom begin anew."""
    pairs = list(itertools.pairwise(values))
    back = [(a, b) for a, b in pairs if a >= b]
    return 3 * len(back) <= len(pairs) and all(a > 1.5 * b for a, b in back)


def added(column: NumberColumn, steps: Steps) -> float | None:
    """Return what a total adds each step; None unless it grows with the steps."""
    values = column.values
    if not grows(values):
        return None
    each = [(values[line] - values[line - 1]) / distance for line, distance, _ in steps.pairs]
    return statistics.median(each) if len(each) >= FEWEST_PAIRS else None
