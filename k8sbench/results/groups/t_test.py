"""Student's t-test on logarithms, for one case and for several together.

A logarithm makes a difference relative, so that cases of any speed have variances of one scale.
Each variance is moderated (Smyth 2004, as in limma): few runs tell little about their own variance,
and many cases together tell what is usual.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from k8sbench.results.groups import distributions

ALPHA = 0.05
"""Share of comparisons in which chance alone may show a change."""
SEVERAL = 3
"""Fewest cases that moderate each other's variances."""
MOST_FREEDOM = 1000.0
"""Degrees of freedom of a usual variance of which the cases do not differ."""
ALIKE = 1e-3
"""Excess variance of the cases' logarithms up to which they do not differ."""
RESOLUTION = 0.0005
"""Smallest relative standard deviation of a run or a set.

Logs print step times with three to four digits; equal figures are no closer than that.
"""
SMALL = 1.95
"""A t whose p is above :data:`ALPHA`; that of infinitely many degrees of freedom is 1.96."""


class Estimate(NamedTuple):
    """A variance of logarithms, and its degrees of freedom."""

    variance: float
    freedom: float

    def times(self, factor: float) -> Estimate:
        """Return the variance of a multiple, such as a difference of means."""
        return Estimate(self.variance * factor, self.freedom)

    def p(self, difference: float) -> float:
        """Return the two-sided p of a difference with this variance."""
        return distributions.student_p(difference / math.sqrt(self.variance), self.freedom)

    def p_if_small(self, difference: float) -> float:
        """Return the two-sided p of a difference, or 1 where it is above :data:`ALPHA` anyway.

        A t below 1.95 is, for any number of degrees of freedom. To say so takes no time.
        """
        return self.p(difference) if difference**2 > SMALL**2 * self.variance else 1.0

    def critical(self, level: float) -> float:
        """Return the smallest difference whose p is ``level``."""
        return distributions.student_quantile(level, self.freedom) * math.sqrt(self.variance)


def squares(values: Sequence[float]) -> float:
    """Return the sum of the squared differences from the mean."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


class Pool(NamedTuple):
    """Squared differences within groups of logarithms, and their degrees of freedom."""

    squares: float
    freedom: int

    def add(self, values: Sequence[float]) -> Pool:
        """Return the pool with a group of values."""
        if not values:
            return self
        return Pool(self.squares + squares(values), self.freedom + len(values) - 1)

    def estimate(self) -> Estimate:
        """Estimate the variance within the groups; at least one has two values."""
        return Estimate(max(self.squares / self.freedom, RESOLUTION**2), self.freedom)


def pooled(groups: Iterable[Sequence[float]]) -> Estimate | None:
    """Estimate the variance within groups of logarithms; None without two values in a group."""
    pool = functools.reduce(Pool.add, groups, Pool(0.0, 0))
    return pool.estimate() if pool.freedom else None


BUILT_IN = Estimate(0.001**2, 2.0)
"""A standard deviation of 0.1 %, worth two values.

0.08 % is the median of 82 groups of public runs.
"""


def both(freedom: float, tail: float) -> float:
    """Return the degrees of freedom of a t whose spread is estimated and whose tails are heavy."""
    return 1 / (1 / freedom + 1 / tail)


def moderated(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Move the variances of several cases towards what is usual among them."""
    of_cases = usual(estimates)
    return [with_usual(estimate, of_cases) for estimate in estimates]


def with_usual(estimate: Estimate, of_cases: Estimate | None) -> Estimate:
    """Move a variance towards the usual one of the cases, if it is known, and the built-in one."""
    known = [estimate, BUILT_IN] if of_cases is None else [estimate, BUILT_IN, of_cases]
    freedom = math.fsum(each.freedom for each in known)
    return Estimate(math.fsum(each.freedom * each.variance for each in known) / freedom, freedom)


def usual(estimates: Sequence[Estimate]) -> Estimate | None:
    """Estimate the usual variance of some cases; None for fewer than :data:`SEVERAL`.

    The degrees of freedom say how alike the cases are. The usual variance is known no better than
    by all their values.
    """
    if len(estimates) < SEVERAL:
        return None
    halves = [estimate.freedom / 2 for estimate in estimates]
    logs = [
        math.log(estimate.variance) - distributions.digamma(half) + math.log(half)
        for estimate, half in zip(estimates, halves, strict=True)
    ]
    mean = math.fsum(logs) / len(logs)
    by_chance = math.fsum(map(distributions.trigamma, halves)) / len(logs)
    # The cases differ by more than estimates of one variance do.
    excess = squares(logs) / (len(logs) - 1) - by_chance
    most = math.fsum(estimate.freedom for estimate in estimates)
    if excess <= ALIKE:
        return Estimate(math.exp(mean), min(MOST_FREEDOM, most))
    half = distributions.inverse_trigamma(excess)
    variance = math.exp(mean + distributions.digamma(half) - math.log(half))
    return Estimate(variance, min(2 * half, most))


def holm(
    ps: Sequence[float], alpha: float = ALPHA, count: int | None = None
) -> list[tuple[float, float]]:
    """Return each p, corrected for all, and the level at which it was decided.

    The level is the p that the case must not exceed; it is the level of its interval, too.
    ``count`` is the number of all tests, if these are a part of them.
    """
    tests = len(ps) if count is None else count
    found = [(1.0, alpha)] * len(ps)
    corrected = 0.0
    level = alpha
    for rank, place in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        # After the first case without a change the others are decided at its level.
        if corrected <= alpha:
            level = alpha / (tests - rank)
        corrected = max(corrected, min(1.0, (tests - rank) * ps[place]))
        found[place] = corrected, level
    return found
