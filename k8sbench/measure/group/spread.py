"""The spread of a group: median, mean, extremes, and an interval with its exact coverage."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from k8sbench.model.group import Spread

COVERAGE = 0.95
"""What the interval from order statistics aims at."""


def spread(rates: Sequence[float], dropped: int = 0) -> Spread:
    """Median, mean, extremes and interval of at least one rate.

    ``dropped`` is how many other repeats were left out because of their rates.
    """
    ordered = sorted(rates)
    count, median, mean = len(ordered), statistics.median(ordered), statistics.fmean(ordered)
    rank, coverage = interval_ranks(count, dropped)
    several, known = count > 1, coverage > 0
    left_out = "was left out for its rate" if dropped == 1 else "were left out for their rates"
    why = None if known else f"{dropped} of {count + dropped} runs {left_out}"
    return Spread(
        median=median,
        mean=mean,
        minimum=ordered[0],
        maximum=ordered[-1],
        cv=statistics.stdev(ordered) / mean if several else None,
        low=ordered[rank - 1] if known else None,
        high=ordered[count - rank] if known else None,
        coverage=coverage if known else None,
        interval_reason=why if several else "one run does not show the spread between runs",
    )


def interval_ranks(count: int, dropped: int = 0) -> tuple[int, float]:
    """Which order statistics bound the median, and with what coverage.

    For ``count`` runs sorted ascending, the ``rank``-th from below and from above. Below six runs
    even the extremes do not reach 95 %, and are taken with the coverage that they have; from six
    runs on it is the narrowest interval that reaches it.

    The coverage 1 − 2·P(Binomial(n, ½) < rank + dropped), n = count + dropped, holds for any
    continuous distribution. It is exact where nothing was dropped. Where something was, it is a
    lower bound that makes no assumption about which runs were: those that count lie between the
    same order statistics of all n, whichever end the others were at.
    """
    # Whole numbers: ways of 2^count in which fewer than ``rank`` runs lie below the median.
    every, ways, rank = 2**count, 1, 1
    while 1 - 2 * (more := ways + math.comb(count, rank)) / every >= COVERAGE:
        ways, rank = more, rank + 1
    if dropped:
        every = 2 ** (count + dropped)
        ways = sum(math.comb(count + dropped, below) for below in range(rank + dropped))
    return rank, max(0.0, 1 - 2 * ways / every)
