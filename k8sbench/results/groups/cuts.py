"""The place at which a level is most unlike: sentence 4 of :mod:`.series`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from k8sbench.results.groups import alternation, levels
from k8sbench.results.groups.alternation import NEWEST
from k8sbench.results.groups.case_state import FEWEST, FEWEST_LATER, MEMORY, squares_of
from k8sbench.results.groups.distributions import student_p
from k8sbench.results.groups.night_values import JudgedSet, Night
from k8sbench.results.groups.t_test import Estimate, both

LIMIT_OF_CUT = 1.5
"""The same on both sides of a cut."""
LIMIT_OF_FEW = 1.0
"""The same for two or three sets after a cut."""
FEW_BEFORE = 4
"""Sets before a cut of which an odd one is no level: the first set of a change is often odd."""
TAIL_OF_SEVERAL = 20.0
"""Degrees of freedom of the tails of two sets or more that agree."""
SHARES = {2: 0.3, 3: 0.5}
"""Shares of :data:`CHANGED` for a change of the newest two and three sets."""
SHARE_OF_OTHERS = 0.2
"""Share for all other places together."""
NOT_SMALL = 2.5
"""A t below it has a p above 1 % for any number of degrees of freedom."""


class Cut(NamedTuple):
    """The most unlike place of a level."""

    p: float
    """p of the difference, divided by the share of the place."""
    place: int
    """Number of sets before it."""
    before: float
    after: float
    estimate: Estimate
    """Variance of a set."""


def most_unlike(each: JudgedSet, level: Sequence[float], night: Night) -> Cut | None:
    """Return the cut with the least p; None where chance explains each."""
    state = each.state
    is_whole = len(level) == state.in_level
    fewest = FEWEST if state.is_first or not is_whole else FEWEST_LATER
    members = state.members[-MEMORY:]
    squares, count = squares_of(members)
    # Tonight's difference counts, also if all cases moved.
    if not members[-1].counts and len(members) > 1:
        squares += (members[-1].value - members[-2].value) ** 2
        count += 1
    best: Cut | None = None
    for newest in range(2, len(level) - fewest + 1):
        place = len(level) - newest
        is_counted = newest < len(members) and members[-newest].counts
        square = min((level[place] - level[place - 1]) ** 2, members[-newest].most)
        square = square if is_counted else 0.0
        estimate = night.moderated(levels.spread(squares - square, count - is_counted))
        if state.alternation is not None:
            estimate = alternation.spread_of_both(level[:place][-NEWEST:])
        cut = _cut_at(level, place, estimate, night)
        if cut is not None and (best is None or cut.p < best.p):
            best = cut
    return best


def _cut_at(level: Sequence[float], place: int, estimate: Estimate, night: Night) -> Cut | None:
    """Return the p of a cut; None where it is above :data:`CHANGED`."""
    former, later = level[:place], sorted(level[place:])
    newest = len(later)
    deviation = math.sqrt(estimate.variance)
    middle = statistics.median(former)
    limit_before = LIMIT_OF_CUT
    is_few = len(former) < FEW_BEFORE
    if is_few:
        middle = _nearer_middle(former, statistics.median(later))
        limit_before = LIMIT_OF_FEW
    before = levels.limited_mean(former, middle, limit_before * deviation)
    centre = _nearer_middle(later, middle)
    limit = LIMIT_OF_FEW if newest < 4 else LIMIT_OF_CUT
    after = levels.limited_mean(later, centre, limit * deviation)
    t = (after - before) / (deviation * math.sqrt(night.apart(newest, place)))
    begins_otherwise = is_few and (level[place] - before) * t <= 0
    if abs(t) < NOT_SMALL or begins_otherwise:
        return None
    p = student_p(t, both(estimate.freedom, TAIL_OF_SEVERAL))
    share = SHARES.get(newest, SHARE_OF_OTHERS / max(1, len(level) - 5))
    return Cut(p / share, place, before, after, estimate)


def _nearer_middle(values: Sequence[float], to: float) -> float:
    """Return the middle value, of two the one nearer to another value."""
    ordered = sorted(values)
    count = len(ordered)
    return min(ordered[count // 2], ordered[(count - 1) // 2], key=lambda value: abs(value - to))
