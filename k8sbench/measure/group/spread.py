"""The spread of a group: median, mean, extremes, and an interval with its exact coverage."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from k8sbench.model.group import Spread

COVERAGE = 0.95
"""What the interval from order statistics aims at."""


def spread(rates: Sequence[float]) -> Spread:
    """Median, mean, extremes and interval of at least one rate."""
    ordered = sorted(rates)
    count, median, mean = len(ordered), statistics.median(ordered), statistics.fmean(ordered)
    rank, coverage = interval_ranks(count)
    several = count > 1
    return Spread(
        median=median,
        mean=mean,
        minimum=ordered[0],
        maximum=ordered[-1],
        cv=statistics.stdev(ordered) / mean if several else None,
        low=ordered[rank - 1] if several else None,
        high=ordered[count - rank] if several else None,
        coverage=coverage if several else None,
        interval_reason=None if several else "one run does not show the spread between runs",
    )


def interval_ranks(count: int) -> tuple[int, float]:
    """Which order statistics bound the median, and with what exact coverage.

    For ``count`` runs sorted ascending, the ``rank``-th from below and from above. The coverage
    1 − 2·P(Binomial(count, ½) < rank) holds for any continuous distribution. Below six runs even
    the extremes do not reach 95 %, and are taken with the coverage that they have; from six runs
    on it is the narrowest interval that reaches it.
    """
    # Whole numbers: ways of 2^count in which fewer than ``rank`` runs lie below the median.
    every, ways, rank = 2**count, 1, 1
    while 1 - 2 * (more := ways + math.comb(count, rank)) / every >= COVERAGE:
        ways, rank = more, rank + 1
    return rank, 1 - 2 * ways / every
