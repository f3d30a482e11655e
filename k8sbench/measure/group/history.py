"""Sets of a case over time: changes, and the spread between sets.

A set is held against the sets before it (their median throughputs, as logarithms), by a t-test for
one further value, corrected for all cases of its night: the groups of one set name. If the next
sets differ as well, to the same side, and together leave no doubt, the level has changed: a step.
The sets after it are held against the new level. The spread between sets is that within the levels.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from k8sbench.measure.group import t_test
from k8sbench.measure.group.sides import Case, Side, case_of
from k8sbench.measure.group.t_test import ALPHA, Estimate
from k8sbench.model.compared import CaseHistory, Point
from k8sbench.model.group import Group

FEWEST = 4
"""Sets of a case from which their spread is known."""
MOST = 10
"""Newest sets of a level that count; a slow drift is no change."""
SURE = 0.0003
"""The p up to which chance is no explanation.

Such sets one after the other are a new level; one alone, on a busy machine, is part of no level.
"""


class Between(NamedTuple):
    """Spread between the sets of a case: the variance of a set's median."""

    estimate: Estimate
    sets: int
    """Number of sets behind the estimate."""


class _Judgement(NamedTuple):
    """Distance of a set from its level."""

    difference: float
    """Logarithm of the median, less the level."""
    p: float
    corrected: float
    """p, corrected for all cases of the night."""


class _Levels:
    """The points of a case, added one after the other."""

    def __init__(self, groups: Sequence[Group]) -> None:
        by_age = sorted(groups, key=lambda group: group.began[0])
        self.points = [Point(group=group, at=group.began[0]) for group in by_age]
        spreads = (group.spread for group in by_age)
        self.logs = [math.nan if one is None else math.log(one.median) for one in spreads]
        """Logarithms of the medians; a set without a figure is never added."""
        self._earlier: list[list[float]] = []
        self._level: list[int] = []
        self._odd = set[int]()
        # The newest sets, if they differ to one side.
        self._run: list[int] = []
        self._rises = False

    def between(self) -> Between | None:
        """Return the spread between the sets so far; None if there are too few."""
        levels = [*self._earlier, self._usual()]
        estimate = _within(levels)
        return None if estimate is None else Between(estimate, sum(map(len, levels)))

    def expected(self) -> tuple[Estimate, float] | None:
        """Return the variance of a further set, and the level; None if unknown."""
        usual = self._usual()
        estimate = _within([*self._earlier, usual])
        return estimate and (estimate.times(1 + 1 / len(usual)), statistics.fmean(usual))

    def add(self, place: int, judged: _Judgement | None) -> None:
        """Add a set; several that differ in a row may be a step."""
        self._level.append(place)
        run, self._run = self._run, []
        if judged is None:
            return
        if (judged.difference > 0) != self._rises:
            run, self._rises = [], judged.difference > 0
        run = [*run, place]
        if judged.p <= SURE:
            self._odd.add(place)
        if len(run) > 1 and self._is_step(run):
            self._earlier.append(self._usual(run[0]))
            self._level, self._odd = run, set()
            for other in run[1:]:
                self._mark(other, change=None, p=None)
            self._mark(run[0], step=True)
        elif judged.corrected <= ALPHA:
            self._run = run
            self._mark(place, change=math.expm1(judged.difference), p=judged.corrected)

    def _is_step(self, run: Sequence[int]) -> bool:
        """True if a run of sets is another level than that before."""
        before, after = self._usual(run[0]), [self.logs[place] for place in run]
        for some, most in ((after[-1:], ALPHA), (after, SURE)):
            estimate = _within([*self._earlier, before, some])
            apart = statistics.fmean(some) - statistics.fmean(before)
            if estimate is None or estimate.times(1 / len(before) + 1 / len(some)).p(apart) > most:
                return False
        return True

    def _usual(self, end: float = math.inf) -> list[float]:
        """Return the newest sets of the level before a place."""
        usual = [place for place in self._level if place < end and place not in self._odd]
        return [self.logs[place] for place in usual[-MOST:]]

    def _mark(self, place: int, **fields: float | None) -> None:
        self.points[place] = msgspec.structs.replace(self.points[place], **fields)


def history(
    groups: Iterable[Group],
    since: float = 0.0,
    shown: Callable[[Group], bool] = lambda _: True,
) -> list[CaseHistory]:
    """Order the sets of each case by when they began, and mark the changes.

    Sets that began before ``since`` count for the changes, and are no points. The groups of a night
    that are not ``shown`` count for the correction.
    """
    series = []
    for case in _judged(groups):
        points = tuple(p for p in case.points if shown(p.group) and p.group.began[1] >= since)
        if points:
            series.append(CaseHistory(points=points, unmarked=_unmarked(case.points)))
    return series


def between(groups: Iterable[Group]) -> dict[Case, Between]:
    """Return the spread between the sets of each case that has enough of them."""
    found = ((levels, levels.between()) for levels in _judged(groups))
    return {
        # Groups without a figure may not have told their GPU.
        next(case_of(p.group) for p in levels.points if p.group.spread is not None): spread
        for levels, spread in found
        if spread is not None
    }


def _judged(groups: Iterable[Group]) -> list[_Levels]:
    found = list(map(_Levels, Side(name="", groups=tuple(groups), runs={}).cases()))
    nights: dict[str, list[tuple[_Levels, int]]] = {}
    for levels in found:
        for place, point in enumerate(levels.points):
            if point.group.spread is not None and not (point.group.smoke or point.group.on_cpu):
                nights.setdefault(point.group.key.set_name, []).append((levels, place))
    for night in sorted(nights.values(), key=lambda its: min(v.points[n].at for v, n in its)):
        _judge(night)
    return found


def _judge(night: Sequence[tuple[_Levels, int]]) -> None:
    """Hold the sets of one night against those before."""
    known = [(*at, *expected) for at in night if (expected := at[0].expected()) is not None]
    estimates = t_test.moderated([estimate for *_, estimate, _ in known])
    apart = [levels.logs[place] - level for levels, place, _, level in known]
    ps = [estimate.p(difference) for estimate, difference in zip(estimates, apart, strict=True)]
    judged = {
        at[:2]: _Judgement(difference, p, corrected)
        for at, difference, p, (corrected, _) in zip(known, apart, ps, t_test.holm(ps), strict=True)
    }
    for levels, place in night:
        levels.add(place, judged.get((levels, place)))


def _within(levels: Sequence[Sequence[float]]) -> Estimate | None:
    """Estimate the variance of a set; None with too few sets."""
    estimate = t_test.pooled(filter(None, levels))
    return None if estimate is None or estimate.freedom < FEWEST - 1 else estimate


def _unmarked(points: Sequence[Point]) -> str | None:
    """Return why no set of a case could be judged; None if one was."""
    group, count = points[-1].group, sum(point.group.spread is not None for point in points)
    if group.smoke:
        return "smoke runs are functional tests, not speed measurements"
    if group.on_cpu:
        return "CPU processes: they share the machine"
    if count <= FEWEST:
        return f"a set is judged by at least {FEWEST} sets before it; there are {max(count - 1, 0)}"
    return None
