"""Rates that are simulated, with their standard errors."""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

ERRORS = 3.0
"""Standard errors of both by which a rate may miss what it must reach, in a test of fixed seeds."""


class Rate(NamedTuple):
    """A mean over histories, per cent, and its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        digits = 0 if self.error >= 0.95 else 1 if self.error >= 0.095 else 2
        return f"{self.value:.{digits}f} ± {self.error:.{max(1, digits)}f}"

    def exceeds(self, limit: "Rate", errors: float = ERRORS) -> bool:
        """True if the rate is above another one by more than some standard errors of both."""
        return self.value - limit.value > errors * math.hypot(self.error, limit.error)

    def misses(self, limit: "Rate", errors: float = ERRORS) -> bool:
        """True if the rate is below another one by more than some standard errors of both."""
        return limit.exceeds(self, errors)


def rate(shares: Sequence[float], parts: int = 1) -> Rate:
    """Return the mean of the histories' shares; ``parts`` is what one share counts.

    The error is at least that of half a case among all of them.
    """
    count = len(shares)
    mean = math.fsum(shares) / count
    spread = statistics.stdev(shares) / math.sqrt(count) if count > 1 else 1.0
    return Rate(100 * mean, 100 * max(spread, 0.5 / (count * parts)))


def share(shown: Iterable[float]) -> Rate:
    """Return the share of histories that show something."""
    shares = [float(one) for one in shown]
    return rate(shares) if shares else Rate(math.nan, math.nan)
