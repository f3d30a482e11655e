"""Values that the sets of a night share, and a set while it is judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from k8sbench.model.group import GroupRow
from k8sbench.model.series import Closed, Expected
from k8sbench.results.groups import t_test
from k8sbench.results.groups.case_state import CaseState, Waiting
from k8sbench.results.groups.levels import Apart
from k8sbench.results.groups.t_test import Estimate

FEWEST_TOGETHER = 3
"""Cases from which a night is tested as a whole."""


class Night(NamedTuple):
    """Values that the sets of a round share."""

    number: int
    """Number of the round."""
    tests: int
    """Number of sets of the night that are tested, at least 1."""
    cases: int
    """Number of cases of the night."""
    usual: Estimate | None
    """Usual spread between sets; None for few cases."""
    correlation: float
    correlation_of_drift: float
    """Correlation that is taken for a drift."""
    apart: Apart
    tail: float
    """Degrees of freedom of the tails of this store's nights."""
    least_p: float
    """p by these tails up to which a score is odder than nearly all on record."""
    medians: Sequence[float]
    """Median scores of the nights on record with enough cases."""

    def moderated(self, spread: Estimate) -> Estimate:
        """Return the variance of a set of a case; nights are correlated."""
        return t_test.with_usual(spread, self.usual).times(1 / (1 - self.correlation))


class JudgedSet(msgspec.Struct):
    """A set that is added to its case."""

    row: GroupRow
    state: CaseState
    value: float
    """Logarithm of its figure."""
    spread: Estimate | None
    """Spread of the case without this set; None with too few differences."""
    expected: Expected | None = None
    """Its level and spread before it; None with too few sets."""
    t: float = 0.0
    """Distance from its level, in standard deviations."""
    score: float = 0.0
    closed: Closed | None = None
    """The change that was closed with it."""
    back: Waiting | None = None
    """The odd set that it is back from."""

    @property
    def deviation(self) -> float:
        """Standard deviation of a set of the case; infinite if it is not known."""
        return math.inf if self.expected is None else math.sqrt(self.expected.variance)
