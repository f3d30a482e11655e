"""Sets of a case over time: changes, and the spread between sets.

A set is held against the sets before it (their median throughputs, as logarithms), by a t-test for
one further value, corrected for all cases of its night: the groups of one set name. If the next
sets differ as well, to the same side, and together leave no doubt, the level has changed: a step.
The sets after it are held against the new level. The spread between sets is that within the levels.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from k8sbench.measure.group import t_test
from k8sbench.measure.group.t_test import ALPHA, Estimate, Pool
from k8sbench.model.compared import CaseHistory, Point
from k8sbench.model.group import Group, GroupRow

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


Line = tuple[str, str, str]
"""Values that the sets of a case share, see :attr:`.GroupRow.line`."""


class Mark(NamedTuple):
    """A set that differs from those before."""

    change: float | None = None
    """Median ÷ level of the sets before − 1."""
    p: float | None = None
    """p of the change, corrected for the cases of the night."""
    step: bool = False
    """True if the next set differs as well: the level changed here."""


class Series(NamedTuple):
    """The sets of a case, judged."""

    rows: tuple[GroupRow, ...]
    """Oldest first."""
    marks: Mapping[str, Mark]
    """Marks of the sets that differ, by group id."""
    unmarked: str | None
    """Reason why no set could be judged."""


class _Judgement(NamedTuple):
    """Distance of a set from its level."""

    difference: float
    """Logarithm of the median, less the level."""
    p: float
    corrected: float
    """p, corrected for all cases of the night."""


class _Levels:
    """The sets of a case, added one after the other."""

    def __init__(self, rows: Sequence[GroupRow]) -> None:
        self.rows = sorted(rows, key=lambda row: row.began)
        self.marks: dict[int, Mark] = {}
        """Marks by place."""
        medians = (row.median for row in self.rows)
        self.logs = [math.nan if median is None else math.log(median) for median in medians]
        """Logarithms of the medians; a set without a figure is never added."""
        self._earlier = Pool(0.0, 0)
        """Spread within the levels before the present one."""
        self._earlier_sets = 0
        self._level: list[int] = []
        self._odd = set[int]()
        # The newest sets, if they differ to one side.
        self._run: list[int] = []
        self._rises = False

    def between(self) -> Between | None:
        """Return the spread between the sets so far; None if there are too few."""
        usual = self._usual()
        estimate = _within(self._earlier.add(usual))
        return estimate and Between(estimate, self._earlier_sets + len(usual))

    def expected(self) -> tuple[Estimate, float] | None:
        """Return the variance of a further set, and the level; None if unknown."""
        usual = self._usual()
        estimate = _within(self._earlier.add(usual))
        return estimate and (estimate.times(1 + 1 / len(usual)), statistics.fmean(usual))

    def add(self, place: int, judged: _Judgement | None) -> None:
        """Add a set; several that differ in a row may be a step."""
        self._level.append(place)
        run = self._run
        self._run = []
        if judged is None:
            return
        if (judged.difference > 0) != self._rises:
            run = []
            self._rises = judged.difference > 0
        run = [*run, place]
        if judged.p <= SURE:
            self._odd.add(place)
        if len(run) > 1 and self._is_step(run):
            before = self._usual(run[0])
            self._earlier = self._earlier.add(before)
            self._earlier_sets += len(before)
            self._level, self._odd = run, set()
            for other in run[1:]:
                self.marks.pop(other, None)
            self.marks[run[0]] = self.marks.get(run[0], Mark())._replace(step=True)
        elif judged.corrected <= ALPHA:
            self._run = run
            self.marks[place] = Mark(math.expm1(judged.difference), judged.corrected)

    def _is_step(self, run: Sequence[int]) -> bool:
        """True if a run of sets is another level than that before."""
        before = self._usual(run[0])
        after = [self.logs[place] for place in run]
        for some, most in ((after[-1:], ALPHA), (after, SURE)):
            estimate = _within(self._earlier.add(before).add(some))
            apart = statistics.fmean(some) - statistics.fmean(before)
            if estimate is None or estimate.times(1 / len(before) + 1 / len(some)).p(apart) > most:
                return False
        return True

    def _usual(self, end: float = math.inf) -> list[float]:
        """Return the newest sets of the level before a place."""
        usual: list[float] = []
        for place in reversed(self._level):
            if len(usual) == MOST:
                break
            if place < end and place not in self._odd:
                usual.append(self.logs[place])
        return usual[::-1]


def judged(rows: Iterable[GroupRow]) -> list[Series]:
    """Order the sets of each case by when they began, and mark those that differ.

    All rows of a night count for its correction, so all rows of a store belong in one call.
    """
    return [
        Series(
            rows=tuple(case.rows),
            marks={case.rows[place].group_id: mark for place, mark in case.marks.items()},
            unmarked=_unmarked(case.rows),
        )
        for case in _levels(rows)
    ]


def shown(series: Series, groups: Iterable[Group]) -> CaseHistory:
    """Return the history of a case with the sets of some of its groups."""
    by_id = {group.key.id: group for group in groups}
    points = tuple(
        Point(
            group=by_id[row.group_id],
            at=row.began,
            **series.marks.get(row.group_id, Mark())._asdict(),
        )
        for row in series.rows
        if row.group_id in by_id
    )
    return CaseHistory(points=points, unmarked=series.unmarked)


def between(rows: Iterable[GroupRow]) -> dict[Line, Between]:
    """Return the spread between the sets of each case that has enough of them."""
    found = ((levels, levels.between()) for levels in _levels(rows))
    return {
        # Groups without a figure may not have told their GPU.
        next(row.line for row in levels.rows if row.median is not None): spread
        for levels, spread in found
        if spread is not None
    }


def _cases(rows: Iterable[GroupRow]) -> list[list[GroupRow]]:
    """Return the rows by case, in the order of the cases' newest sets."""
    by_line: dict[Line, list[GroupRow]] = {}
    newest: dict[str, Line] = {}
    for row in sorted(rows, key=lambda row: (row.median is None, -row.ended, row.group_id)):
        # Without a figure it names no GPU: it belongs to the newest line of its case.
        line = newest.setdefault(row.series, row.line) if row.median is None else row.line
        newest.setdefault(row.series, line)
        by_line.setdefault(line, []).append(row)
    return [sorted(case, key=lambda row: (row.ended, row.group_id)) for case in by_line.values()]


def _levels(rows: Iterable[GroupRow]) -> list[_Levels]:
    found = list(map(_Levels, _cases(rows)))
    nights: dict[str, list[tuple[_Levels, int]]] = {}
    for levels in found:
        for place, row in enumerate(levels.rows):
            if row.median is not None and row.measures == "speed":
                nights.setdefault(row.set_name, []).append((levels, place))
    for night in sorted(nights.values(), key=lambda its: min(v.rows[n].began for v, n in its)):
        _judge(night)
    return found


def _judge(night: Sequence[tuple[_Levels, int]]) -> None:
    """Hold the sets of one night against those before."""
    known = [(*at, *expected) for at in night if (expected := at[0].expected()) is not None]
    estimates = t_test.moderated([estimate for *_, estimate, _ in known])
    apart = [levels.logs[place] - level for levels, place, _, level in known]
    ps = [
        estimate.p_if_small(difference)
        for estimate, difference in zip(estimates, apart, strict=True)
    ]
    judged = {
        at[:2]: _Judgement(difference, p, corrected)
        for at, difference, p, (corrected, _) in zip(known, apart, ps, t_test.holm(ps), strict=True)
    }
    for levels, place in night:
        levels.add(place, judged.get((levels, place)))


def _within(pool: Pool) -> Estimate | None:
    """Estimate the variance of a set; None with too few sets."""
    return None if pool.freedom < FEWEST - 1 else pool.estimate()


def _unmarked(rows: Sequence[GroupRow]) -> str | None:
    """Return why no set of a case could be judged; None if one was."""
    count = sum(row.median is not None for row in rows)
    if rows[-1].measures == "smoke":
        return "smoke runs are functional tests, not speed measurements"
    if rows[-1].measures == "cpu":
        return "CPU processes: they share the machine"
    if count <= FEWEST:
        return f"a set is judged by at least {FEWEST} sets before it; there are {max(count - 1, 0)}"
    return None
