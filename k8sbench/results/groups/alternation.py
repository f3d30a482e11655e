"""Cases that flip between two levels."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from k8sbench.results.groups import t_test
from k8sbench.results.groups.case_state import LEVEL, RELEVANT, CaseState
from k8sbench.results.groups.recovery import UNDONE
from k8sbench.results.groups.t_test import RESOLUTION, Estimate

NEWEST = 10
"""Newest sets that show whether a case alternates."""
FLIPS = 5
"""Flips among them of a case that alternates: three visits to a level."""
UNDOING = 3
"""Steps that undo each other of such a case."""
FEWEST_OF_LEVEL = 3
"""Sets of each of the two levels."""
GAP = 6.0
"""Standard deviations within the two levels that lie between them at least.

Ten sets of one level show six in 0.07 %, and four in 0.5 %. By chance none leaves the pager.
"""
NEAR = 0.25
"""Share of the distance of the two levels within which a set is at one of them."""


def undo_each_other(state: CaseState) -> bool:
    """True if each of the newest steps takes back the one before."""
    steps = state.steps
    if len(steps) < UNDOING or steps[0][0] < state.sets - LEVEL:
        return False
    return all(
        abs(later + former) <= UNDONE * abs(former)
        for (_, former), (_, later) in itertools.pairwise(steps)
    )


class TwoLevels(NamedTuple):
    """Sets that lie at two levels."""

    low: float
    high: float
    flips: int
    """Number of times that a set lies at the other level than the one before."""


def two_levels(values: Sequence[float]) -> TwoLevels | None:
    """Divide sets where they are farthest apart; None unless both parts are levels.

    Each has some sets, and the gap is far wider than the spread within them.
    """
    ordered = sorted(values)
    places = range(FEWEST_OF_LEVEL, len(ordered) - FEWEST_OF_LEVEL + 1)
    place = max(places, key=lambda at: ordered[at] - ordered[at - 1])
    gap = ordered[place] - ordered[place - 1]
    parts = ordered[:place], ordered[place:]
    within = math.fsum(t_test.squares(part) for part in parts) / (len(ordered) - 2)
    low, high = map(statistics.fmean, parts)
    if gap < GAP * max(math.sqrt(within), RESOLUTION) or math.expm1(high - low) < RELEVANT:
        return None
    sides = [value >= ordered[place] for value in values]
    return TwoLevels(low, high, sum(a != b for a, b in itertools.pairwise(sides)))


def spread_of_both(values: Sequence[float]) -> Estimate:
    """Estimate the variance of the sets of two levels."""
    count = len(values) - 1
    return Estimate(max(t_test.squares(values) / count, RESOLUTION**2), float(count))
