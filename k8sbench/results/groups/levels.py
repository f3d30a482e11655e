"""Arithmetic of a level: means of its sets, their correlation, and the form of a change.

A level is the logarithms of the sets of a case since its last change, oldest first.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from k8sbench.results.groups.t_test import RESOLUTION, Estimate

Kind = Literal["step", "drift"]
"""Form of a change."""
LIMIT_OF_LEVEL = 2.0
"""Standard deviations from the median of a level that a set counts at most."""
FREEDOM = 2 / 3
"""Degrees of freedom of a successive difference: two neighbours share a set."""
FEWEST_CORRELATED = 8
"""Sets of a level from which it tells how nights are correlated."""
LIMIT_OF_RESIDUALS = 2.5
"""Standard deviations from their median that a residual counts at most: an odd night is rare."""
CLEAR = 4.0
"""Variances by which a slope must leave less than a step: likelihood 7 : 1, as steps are commoner.
"""


def level_mean(level: Sequence[float], deviation: float) -> float:
    """Return the mean of a level, of which odd sets are limited; ``deviation`` is that of a set."""
    return limited_mean(level, statistics.median(level), LIMIT_OF_LEVEL * deviation)


def limited_mean(values: Sequence[float], middle: float, limit: float) -> float:
    """Return the mean of values, of which none counts as farther than ``limit`` from ``middle``."""
    low, high = middle - limit, middle + limit
    # Few values of one size: a plain sum is exact enough, and each night needs thousands.
    return sum([min(max(value, low), high) for value in values]) / len(values)


# -- variances ------------------------------------------------------------------------------------


def spread(squares: float, count: int) -> Estimate:
    """Estimate the variance of a set from the squared successive differences."""
    variance = squares / max(count, 1) / 2
    return Estimate(max(variance, RESOLUTION**2), max(count * FREEDOM, 1.0))


def spread_around_slope(values: Sequence[float]) -> Estimate:
    """Estimate the variance of a set from successive differences around their mean."""
    differences = [after - before for before, after in itertools.pairwise(values)]
    count = len(differences)
    slope = (values[-1] - values[0]) / count
    total = math.fsum((difference - slope) ** 2 for difference in differences)
    variance = total / 2 / (count - 1 / count)
    return Estimate(max(variance, RESOLUTION**2), max(count * FREEDOM, 1.0))


class Apart:
    """Variance of a difference of two neighbouring means of sets, per variance of a set.

    Successive sets have a correlation (a first-order autoregression).
    """

    def __init__(self, correlation: float) -> None:
        self._correlation = correlation
        self._means: dict[int, float] = {}

    def __call__(self, newer: int, before: int) -> float:
        """Return the factor for the mean of the newest sets less that of the sets before."""
        r = self._correlation
        shared = (1 - r**newer) * (1 - r**before) / ((1 - r) ** 2 * newer * before)
        return self._mean(newer) + self._mean(before) - 2 * r * shared

    def _mean(self, count: int) -> float:
        if count not in self._means:
            r = self._correlation
            total = count * (1 - r * r) - 2 * r * (1 - r**count)
            self._means[count] = total / ((1 - r) ** 2 * count * count)
        return self._means[count]

    def independent(self, count: float) -> float:
        """Return the number of independent sets that some neighbouring ones count as."""
        r = self._correlation
        return max(1.0, count * (1 - r) / (1 + r))


class Correlated(NamedTuple):
    """Correlation of neighbouring sets, as a sum over levels."""

    total: float
    """Correlation × sets, corrected for the line that is taken from a level."""
    sets: float
    """Sets, less what the line takes."""

    def plus(self, other: Correlated) -> Correlated:
        """Return the sum over the levels of both."""
        return Correlated(self.total + other.total, self.sets + other.sets)

    def value(self) -> float:
        """Return the correlation, between 0 and 0.9."""
        return min(max(self.total / self.sets, 0.0), 0.9)


def correlated(level: Sequence[float], deviation: float = math.inf) -> Correlated:
    """Return the correlation of the sets of a level around its line, as a part of the sum.

    A shared drift is no correlation. ``deviation`` is the standard deviation of a set: residuals
    are limited by it.
    """
    count = len(level)
    if count < FEWEST_CORRELATED:
        return Correlated(0.0, 0.0)
    line = fit(level, range(count))
    residuals = [value - line.base - line.slope * place for place, value in enumerate(level)]
    middle, limit = statistics.median(residuals), LIMIT_OF_RESIDUALS * deviation
    residuals = [min(max(value, middle - limit), middle + limit) for value in residuals]
    centre = statistics.fmean(residuals)
    residuals = [value - centre for value in residuals]
    total = math.fsum(value * value for value in residuals)
    if not total:
        return Correlated(0.0, 0.0)
    along = math.fsum(before * after for before, after in itertools.pairwise(residuals))
    # The line lowers the correlation by (2 + 5.5 × correlation) ÷ count.
    return Correlated(along / total * count + 2, count - 5.5)


# -- forms ----------------------------------------------------------------------------------------


class Fit(NamedTuple):
    """Least squares of a level on a form: base + slope × form."""

    slope: float
    explained: float
    """Squares that the form explains."""
    base: float
    """Level where the form is 0."""
    weight: float
    """Number of independent sets that the base is worth."""


def fit(level: Sequence[float], form: Sequence[float]) -> Fit:
    """Fit a form to a level by least squares."""
    count = len(level)
    of_form, of_level = statistics.fmean(form), statistics.fmean(level)
    squares = math.fsum((at - of_form) ** 2 for at in form)
    products = ((at - of_form) * (value - of_level) for at, value in zip(form, level, strict=True))
    slope = math.fsum(products) / squares
    weight = 1 / (1 / count + of_form**2 / squares)
    return Fit(slope, slope**2 * squares, of_level - slope * of_form, weight)


class Form(NamedTuple):
    """The form of a change within a level."""

    kind: Kind
    place: int
    """Place of the first changed set."""
    change: float
    """Last value of the form less its base, of logarithms."""
    base: float
    weight: float
    """Number of independent sets that the base is worth."""


def form_of(level: Sequence[float], variance: float) -> Form:
    """Return the step or slope that leaves the least squares; ``variance`` is that of a set."""
    count = len(level)
    step = max((_fitted("step", level, place) for place in range(2, count - 1)), key=_explained)
    slope = max((_fitted("drift", level, place) for place in range(1, count - 1)), key=_explained)
    is_slope = _explained(slope) > _explained(step) + CLEAR * variance
    return slope[1] if is_slope else step[1]


def form_at(kind: Kind, level: Sequence[float], place: int) -> Form:
    """Return the step or slope that begins at a place."""
    return _fitted(kind, level, place)[1]


def _fitted(kind: Kind, level: Sequence[float], place: int) -> tuple[float, Form]:
    """Return the squares that a form explains, and the form."""
    places = range(len(level))
    if kind == "step":
        shape = [float(at >= place) for at in places]
    else:
        shape = [max(0.0, at - place + 1.0) for at in places]
    fitted = fit(level, shape)
    change = fitted.slope * shape[-1]
    return fitted.explained, Form(kind, place, change, fitted.base, fitted.weight)


def _explained(fitted: tuple[float, Form]) -> float:
    return fitted[0]
