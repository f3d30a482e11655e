"""Student's t and what else the tests of a series need of mathematics, without a library.

scipy has all of it, and would add 100 MB and 25 ms to each command.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable

_NORMAL = statistics.NormalDist()
_LEAST_P = 1e-300
"""Smallest p of which a score is taken; a smaller one is no number any more."""


@functools.lru_cache(4096)
def student_p(t: float, freedom: float) -> float:
    """Return the two-sided p of Student's t."""
    return beta(freedom / (freedom + t * t), freedom / 2, 0.5)


@functools.lru_cache(4096)
def student_quantile(level: float, freedom: float) -> float:
    """Return the |t| that chance exceeds with probability ``level``."""
    x = _solved(lambda x: beta(x, freedom / 2, 0.5), level, 0.0, 1.0)
    return math.sqrt(freedom * (1 / x - 1))


def normal_score(t: float, freedom: float) -> float:
    """Return the normal score of Student's t: the number of standard deviations with the same p."""
    p = max(student_p(t, freedom), _LEAST_P)
    return math.copysign(_NORMAL.inv_cdf(1 - p / 2) if p > 0.1 else -_NORMAL.inv_cdf(p / 2), t)


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


def beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), by its continued fraction."""
    if not 0 < x < 1:
        return min(max(x, 0.0), 1.0)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta(1 - x, b, a)
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


_ASYMPTOTIC = 8.0
"""Argument from which the first terms of the asymptotic series are exact to twelve digits."""


@functools.lru_cache(4096)
def digamma(x: float) -> float:
    """Return the derivative of the logarithm of the gamma function, for x > 0."""
    total = 0.0
    while x < _ASYMPTOTIC:
        total -= 1 / x
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132)))))
    return total + math.log(x) - 0.5 / x - series


@functools.lru_cache(4096)
def trigamma(x: float) -> float:
    """Return the second derivative of the logarithm of the gamma function, for x > 0."""
    total = 0.0
    while x < _ASYMPTOTIC:
        total += 1 / (x * x)
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * (5 / 66)))))
    return total + (1 + 0.5 / x + series) / x


def inverse_trigamma(value: float) -> float:
    """Return the x > 0 at which trigamma has a value, by Newton's method."""
    x = 0.5 + 1 / value
    for _ in range(50):
        at = trigamma(x)
        slope = (trigamma(x * 1.0001) - trigamma(x * 0.9999)) / (0.0002 * x)
        step = at * (1 - at / value) / slope
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x
