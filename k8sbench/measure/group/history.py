"""A case over its sets, and where its figure changed for good.

The rule: a change is marked at a set where the medians of the sets before it (since the last
change, at most 10) and of three to six sets from it on differ by more than 1.5 %, the permutation
test of the two has p ≤ 0.8 %, and their means are 3.5 standard deviations of a set apart. The last
is for sets that are no independent draws: neighbours that are alike, or a slow drift, make the test
alone find changes in most histories. Where all that holds for several sets next to each other, it
is the one from which on the two sides are each most alike. One odd set is therefore no change.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from k8sbench.measure.group.compare import Side
from k8sbench.measure.group.permutation import TwoSides, least_p
from k8sbench.model.compared import Point, Series
from k8sbench.model.group import Group

BEFORE = 10
"""The most sets before a change that are looked at."""
AFTER = (3, 6)
"""The fewest and the most sets from a change on."""
P = 0.008
CLEAR = 3.5
"""Difference of the sides' means for a change, in standard deviations.

The deviation is that of the sets within the sides.
"""
LEAST_CHANGE = 0.015
"""Sets of one case differ by 1 % now and then."""


class Change(NamedTuple):
    """A place from which on the values are others."""

    place: int
    ratio: float
    """Median of those looked at from there on ÷ median of those before."""
    p: float


def history(groups: Sequence[Group]) -> list[Series]:
    """Order the groups of each case by when they began, and mark the changes."""
    return list(map(_series, Side(name="", groups=tuple(groups), runs={}).cases()))


def _series(groups: Sequence[Group]) -> Series:
    points = [Point(group=g, at=g.began[0]) for g in sorted(groups, key=lambda g: g.began[0])]
    known = [n for n, point in enumerate(points) if point.group.spread is not None]
    medians = [spread.median for n in known if (spread := points[n].group.spread) is not None]
    why = _unmarked(groups[-1], len(medians))
    for change in () if why else changes(medians):
        place = known[change.place]
        points[place] = msgspec.structs.replace(points[place], change=change.ratio - 1, p=change.p)
    return Series(points=tuple(points), unmarked=why)


def _unmarked(group: Group, count: int) -> str | None:
    if group.smoke:
        return "smoke runs are functional tests, not speed measurements"
    if group.on_cpu:
        return "CPU processes: they share the machine"
    some = range(AFTER[0], AFTER[1] + 1)
    fewest = min(n + m for m in some for n in range(1, BEFORE + 1) if least_p(n, m) <= P)
    if count < fewest:
        return f"a change takes {fewest} sets with a figure to be seen; there are {count}"
    return None


def changes(values: Sequence[float]) -> list[Change]:
    """Find where a series of positive values, oldest first, changed for good."""
    found: list[Change] = []
    start, place = 0, 1
    while place < len(values):
        change = _change_at(values, start, place)
        if change is None:
            place += 1
        else:
            found.append(change)
            start, place = change.place, change.place + 1
    return found


def _change_at(values: Sequence[float], start: int, place: int) -> Change | None:
    first = max(start, place - BEFORE)
    for count in range(AFTER[0], min(AFTER[1], len(values) - place) + 1):
        end = place + count
        seen = _differs(values[first:place], values[place:end])
        if seen is None:
            continue
        # The test may hold one or two sets early: of a few that follow, most are others already.
        best = min(range(place, end), key=lambda n: _unevenness(values, first, n, end))
        last = min(best + AFTER[1], len(values))
        told = _differs(values[first:best], values[best:last])
        return Change(best, *told) if told else Change(place, *seen)
    return None


def _differs(before: Sequence[float], after: Sequence[float]) -> tuple[float, float] | None:
    """Return ratio and p where two sides differ; None where they do not."""
    ratio = statistics.median(after) / statistics.median(before)
    if abs(ratio - 1) <= LEAST_CHANGE:
        return None
    test = TwoSides(before, after)
    # The squared difference of the means by the variance of a set: t² without the sets' numbers.
    distance = test.t_squared * (1 / len(before) + 1 / len(after))
    return (ratio, test.p) if test.p <= P and distance >= CLEAR**2 else None


def _unevenness(values: Sequence[float], first: int, place: int, end: int) -> float:
    """Return the deviations on both sides of a place from their medians."""
    sides = (values[first:place], values[place:end])
    return sum(abs(math.log(v / statistics.median(side))) for side in sides for v in side)
