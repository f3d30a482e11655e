"""Student's t-test on logarithms, for one case and for several together.

A logarithm makes a difference relative, so that cases of any speed have variances of one scale.
From :data:`SEVERAL` cases on each variance is moderated (Smyth 2004, as in limma): three runs tell
little about their own variance, and many cases together tell what is usual. A case that is noisier
than usual by an F test keeps its own variance.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

ALPHA = 0.05
"""Share of comparisons in which chance alone may show a change."""
SEVERAL = 3
"""Fewest cases that moderate each other's variances."""
NOISY = 0.05
"""p of the F test up to which a case is noisier than usual."""
FAR_NOISIER = 0.0001
"""p of the F test up to which a case says nothing of the usual variance."""
SMALL_RATIO = 1.4
"""A ratio of variances whose p is above 5 % for up to 60 degrees of freedom."""
MOST_FREEDOM = 1000.0
"""Degrees of freedom of a usual variance of which the cases do not differ."""
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
        square = difference**2 / self.variance
        return _beta(self.freedom / (self.freedom + square), self.freedom / 2, 0.5)

    def p_if_small(self, difference: float) -> float:
        """Return the two-sided p of a difference, or 1 where it is above :data:`ALPHA` anyway.

        A t below 1.95 is, for any number of degrees of freedom. To say so takes no time.
        """
        return self.p(difference) if difference**2 > SMALL**2 * self.variance else 1.0

    def is_above(self, other: Estimate, level: float) -> bool:
        """True if the variance is above another one by an F test with p up to ``level``."""
        ratio = self.variance / other.variance
        if ratio < SMALL_RATIO:
            return False
        freedom = min(other.freedom, MOST_FREEDOM)
        x = freedom / (freedom + self.freedom * ratio)
        return _beta(x, freedom / 2, self.freedom / 2) <= level

    def critical(self, level: float) -> float:
        """Return the smallest difference whose p is ``level``."""
        return _quantile(level, self.freedom) * math.sqrt(self.variance)


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


def moderated(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Move the variances of several cases towards what is usual among them.

    A case that is noisier than usual keeps its own.
    """
    found = usual(estimates)
    return [with_usual(one, found) for one in estimates]


def with_usual(one: Estimate, usual: Estimate | None) -> Estimate:
    """Move a variance towards a usual one, unless it is higher than that by an F test."""
    if usual is None or one.is_above(usual, NOISY):
        return one
    freedom = usual.freedom + one.freedom
    variance = (usual.freedom * usual.variance + one.freedom * one.variance) / freedom
    return Estimate(variance, freedom)


def usual(estimates: Sequence[Estimate]) -> Estimate | None:
    """Estimate the usual variance of some cases; None for fewer than :data:`SEVERAL`.

    Cases that are far noisier than the middle one say nothing of what is usual.
    """
    if len(estimates) < SEVERAL:
        return None
    middle = Estimate(statistics.median(one.variance for one in estimates), MOST_FREEDOM)
    estimates = [one for one in estimates if not one.is_above(middle, FAR_NOISIER)]
    if len(estimates) < SEVERAL:
        return None
    halves = [one.freedom / 2 for one in estimates]
    logs = [
        math.log(one.variance) - _digamma(half) + math.log(half)
        for one, half in zip(estimates, halves, strict=True)
    ]
    mean = math.fsum(logs) / len(logs)
    # The cases differ by more than estimates of one variance do.
    excess = squares(logs) / (len(logs) - 1) - math.fsum(map(_trigamma, halves)) / len(logs)
    if excess <= 0:
        return Estimate(math.exp(mean), MOST_FREEDOM)
    half = _half_of_trigamma(excess)
    return Estimate(math.exp(mean + _digamma(half) - math.log(half)), 2 * half)


def _half_of_trigamma(value: float) -> float:
    """Return the half degrees of freedom at which trigamma has a value, by Newton's method."""
    half = 0.5 + 1 / value
    for _ in range(50):
        found = _trigamma(half)
        slope = (_trigamma(half * 1.001) - _trigamma(half * 0.999)) / (0.002 * half)
        step = found * (1 - found / value) / slope
        half += step
        if -step < 1e-5 * half:
            break
    return half


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


# -- distributions --------------------------------------------------------------------------------


@functools.lru_cache(4096)
def _quantile(level: float, freedom: float) -> float:
    """Return the |t| that chance exceeds with probability ``level``."""
    x = _solved(lambda x: _beta(x, freedom / 2, 0.5), level, 0.0, 1.0)
    return math.sqrt(freedom * (1 / x - 1))


def _solved(function: Callable[[float], float], value: float, low: float, high: float) -> float:
    """Return where a monotonic function has a value, by bisection."""
    rises = function(high) > function(low)
    for _ in range(60):
        middle = (low + high) / 2
        if (function(middle) < value) == rises:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), by its continued fraction."""
    if not 0 < x < 1:
        return min(max(x, 0.0), 1.0)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    logs = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logs + a * math.log(x) + b * math.log1p(-x)) / a
    # Lentz's method.
    tiny, c = 1e-300, 1.0
    d = fraction = 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    for m in range(1, 1000):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / ((1 + factor * d) or tiny)
            c = (1 + factor / c) or tiny
            fraction *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * fraction


@functools.lru_cache(4096)
def _digamma(x: float) -> float:
    step = 1e-4 * x
    return (math.lgamma(x + step) - math.lgamma(x - step)) / (2 * step)


@functools.lru_cache(4096)
def _trigamma(x: float) -> float:
    step = 1e-3 * x
    return (math.lgamma(x + step) - 2 * math.lgamma(x) + math.lgamma(x - step)) / step**2
