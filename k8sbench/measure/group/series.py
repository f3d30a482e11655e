"""The series of a case: its sets over time, and which of them changed.

For each case the logarithms of the sets' medians are played in the order of their nights. A *night*
is all sets that began on one day (UTC). A set is held against the *level* of its case, the sets
since the last change:

1. The spread between sets is that of successive differences within the levels (von Neumann),
   moderated over the cases of the night (:mod:`~k8sbench.measure.group.t_test`). What is usual
   among them is that of the newest few where it has grown. A step is no part of it, a drift hardly.
2. If neighbouring nights are correlated, the spread is wider and a level counts as fewer sets.
3. A set outside the prediction interval of its level, corrected for the night, is *unconfirmed*.
4. The next set confirms it, to the same side: a *step*, and both begin a new level. Otherwise the
   set differed *once*. It is part of no level, and counts in the spread as at most four times it.
   If the next set is of the level, the case is *back*.
5. The first level is divided once, backwards: a step among the first sets is found.
6. A *drift* is the difference of a level's last sets from its first.

A change downwards stays *open* until the level is no longer shown to be lower than before it, or
until the level is accepted. Each set of a level of four or more tests that; before it are the sets
of the newest level that had four. A change that has become too small to be relevant is closed for
good. While the level is still lower, further drops are held against the level before the first one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from k8sbench.measure.group import t_test
from k8sbench.measure.group.t_test import RESOLUTION, Estimate
from k8sbench.model.group import GroupRow
from k8sbench.model.series import (
    Expected,
    Judged,
    Kind,
    Line,
    Mark,
    Open,
)

FEWEST = 4
"""Sets of a first level from which a further set is judged."""
FEWEST_LATER = 2
"""Sets of a later level from which a further set is judged."""
NEWEST = 20
"""Newest sets of a level that count."""
DIFFERENCES = 10
"""Newest differences of successive sets that count."""
NEW_DIFFERENCES = 4
"""Newest differences of each case that show that the usual spread of several cases has grown."""
GROWN = 0.2
"""p of the F test up to which it has."""
MOST_ODD = 16.0
"""Most that a set that differed once counts in the spread, as a multiple of the variance."""
CORRELATED = 40
"""Newest sets of a level that count for the correlation of nights."""
ALPHA = 0.05
"""Share of nights in which chance alone may mark a set."""
CONFIRM = 0.05
"""p up to which two sets together are a step; divided by the cases of the night."""
RARE = 0.01
"""p up to which a first level is divided; divided by the cases of the night."""
DRIFTED = 0.015
"""p up to which a level drifts; divided by the cases of the night."""
NEAR = 0.3
"""Share of the first distance that the second set of a step exceeds."""
RELEVANT = 0.005
"""Smallest change that stays open."""
FREEDOM = 2 / 3
"""Degrees of freedom of a successive difference."""
CERTAIN = 12
"""Fewest sets that show a correlation of nights."""
DIVIDED = range(7, 10)
"""Numbers of sets at which a first level may be divided."""
DRIFT_TAIL = 3
"""Last sets of a level that a drift is the difference of."""


class _Pending(msgspec.Struct):
    """A set that differs, before the next one decides."""

    group_id: str
    set_name: str
    began: float
    value: float
    change: float
    p: float

    def mark(self, kind: Kind) -> Mark:
        return Mark(kind, self.change, self.p, self.set_name)


class _Reference(NamedTuple):
    """The level from which a case has fallen and not recovered."""

    level: float
    weight: float
    began: float
    """Begin of the change, Unix seconds."""


class CaseState(msgspec.Struct):
    """The series of a case so far, as much of it as later sets need."""

    sets: int = 0
    """Number of sets."""
    differences: list[float] = []
    """Newest squared differences of successive sets within levels."""
    level: list[float] = []
    """Newest sets of the level, oldest first."""
    count: int = 0
    """Number of sets of the level."""
    first: list[float] = []
    """First sets of the level."""
    since: str = ""
    """First set of the level."""
    is_first: bool = True
    """True until the first level has been divided or left."""
    names: list[tuple[str, str, Mark | None]] = []
    """Group ids, sets and marks of the first level, while it may be divided."""
    pending: _Pending | None = None
    runs: list[tuple[int, float | None]] = []
    """Numbers of runs of the newest sets, and the variance of a run."""
    correlation: tuple[float, float] = (0.0, 0.0)
    """Sum over the earlier levels, see :func:`_correlated`."""
    settled: tuple[float, int] | None = None
    """Newest level of :data:`FEWEST` sets or more that has ended, and the number of its sets."""
    reference: _Reference | None = None
    fallen: Open | None = None
    """The open change, whether or not it is relevant."""

    def join(self, value: float, row: GroupRow, mark: Mark | None = None) -> None:
        """Add a set to the level."""
        if self.level:
            self.differ((value - self.level[-1]) ** 2)
        else:
            self.since = row.set_name
        self.level = [*self.level[1 - CORRELATED :], value]
        self.count += 1
        if len(self.first) < FEWEST:
            self.first = [*self.first, value]
        if self.is_first and self.count < DIVIDED.stop:
            self.names = [*self.names, (row.group_id, row.set_name, mark)]

    def differ(self, square: float) -> None:
        """Add a squared difference of two sets."""
        self.differences = [*self.differences[1 - DIFFERENCES :], square]

    def begin(self, values: Sequence[float], since: str, former: Sequence[float]) -> None:
        """Begin a level with some sets; ``former`` are the sets of the level that ends."""
        more, sets = _correlated(former)
        self.correlation = (self.correlation[0] + more, self.correlation[1] + sets)
        if len(former) >= FEWEST:
            self.settled = (_mean(former[-NEWEST:]), len(former))
        self.level = list(values)
        self.count = len(values)
        self.first = list(values[:FEWEST])
        self.since = since
        self.is_first = False
        self.names = []
        self.pending = None

    def known_marks(self) -> dict[str, Mark | None]:
        """Return the marks of the sets that later ones may mark otherwise, by group id."""
        known = {group_id: mark for group_id, _, mark in self.names}
        if self.pending is not None:
            known[self.pending.group_id] = self.pending.mark("unconfirmed")
        return known

    def remember(self, row: GroupRow) -> None:
        """Count a set, and its runs."""
        self.sets += 1
        variance = None if row.deviation is None else row.deviation**2
        self.runs = [*self.runs[1 - NEWEST :], (row.counted, variance)]

    def spread(self, newest: int = DIFFERENCES) -> Estimate | None:
        """Estimate the variance of a set; None with too few differences."""
        differences = self.differences[-newest:]
        count = len(differences)
        if count < 2:
            return None
        variance = math.fsum(differences) / count / 2
        return Estimate(max(variance, RESOLUTION**2), max(1.0, count * FREEDOM))

    @property
    def visible(self) -> Open | None:
        """The open change if it is relevant; else a drop that is not confirmed yet."""
        if self.fallen is not None and self.fallen.change <= -RELEVANT:
            return self.fallen
        if self.pending is not None and self.pending.change <= -RELEVANT:
            return Open("unconfirmed", self.pending.change, self.pending.set_name)
        return None


class _Night(NamedTuple):
    """Values that all sets of a night share."""

    cases: int
    """Number of cases, for corrections."""
    correlation: float
    usual: Estimate | None
    """Usual spread between sets."""

    def weight(self, sets: int) -> float:
        """Return the number of independent sets that some neighbouring ones count as."""
        return max(1.0, min(sets, NEWEST) * (1 - self.correlation) / (1 + self.correlation))


class _Set(NamedTuple):
    """A set that is added to its case, and what was expected of it."""

    row: GroupRow
    state: CaseState
    value: float
    """Logarithm of the median."""
    expected: Expected


class Judge:
    """Judges nights, one after the other."""

    def __init__(
        self,
        cases: dict[Line, CaseState] | None = None,
        accepted: Mapping[Line, float] | None = None,
    ) -> None:
        self.cases = {} if cases is None else cases
        self._accepted = accepted or {}
        """Begin of the newest set whose level is accepted, by case, Unix seconds."""
        self.judged: dict[str, Judged] = {}
        """The judged sets, by group id."""
        self.revised: dict[str, Mark | None] = {}
        """Marks of sets that are not among those, and have changed, by group id."""

    def night(self, rows: Sequence[GroupRow]) -> None:
        """Judge the sets of a night, which have a figure, in the order of their begin."""
        rounds: list[list[GroupRow]] = []
        seen: dict[Line, int] = {}
        for row in rows:
            at = seen.get(row.line, 0)
            seen[row.line] = at + 1
            if at == len(rounds):
                rounds.append([])
            rounds[at].append(row)
        for some in rounds:
            self._round(some, tests=len(rows), cases=len(seen))

    def _round(self, rows: Sequence[GroupRow], *, tests: int, cases: int) -> None:
        """Judge one set of each case; ``tests`` is the number of sets of the night."""
        states = [self.cases.setdefault(row.line, CaseState()) for row in rows]
        night = _Night(cases, _correlation(states), _usual(states))
        every = [_expected(state, night) for state in states]
        values = [math.log(row.median or math.nan) for row in rows]
        ps = [
            _p(expected, row.counted, value)
            for expected, row, value in zip(every, rows, values, strict=True)
            if expected is not None
        ]
        # Cases with too few sets are not tested.
        corrected = iter(t_test.holm(ps, ALPHA, tests - len(rows) + len(ps)))
        for row, state, value, expected in zip(rows, states, values, every, strict=True):
            self._accept(state, row)
            self.judged[row.group_id] = Judged(None, None, expected)
            if expected is None:
                state.join(value, row)
            else:
                self._add(_Set(row, state, value, expected), next(corrected)[0], night)
            state.remember(row)
            judged = self.judged[row.group_id]
            self.judged[row.group_id] = judged._replace(open=state.visible)

    def _add(self, one: _Set, p: float, night: _Night) -> None:
        """Add a set to its case: to the level, as a set that differs, or as part of a step."""
        if self._confirms(one, night):
            return
        ended = self._end_pending(one)
        if p <= ALPHA:
            change = math.expm1(one.value - one.expected.level)
            row = one.row
            pending = _Pending(row.group_id, row.set_name, row.began, one.value, change, p)
            one.state.pending = pending
            self._mark(row.group_id, pending.mark("unconfirmed"))
            return
        mark = None if ended is None else ended.mark("back")
        if mark is not None:
            self._mark(one.row.group_id, mark)
        one.state.join(one.value, one.row, mark)
        if not self._divide(one, night):
            self._drift(one, night)
        _recover(one, night)

    def _confirms(self, one: _Set, night: _Night) -> bool:
        """Begin a level if a set differs as the one before it."""
        pending = one.state.pending
        if pending is None:
            return False
        level = one.expected.level
        before = pending.value - level
        now = one.value - level
        if now * before <= 0 or abs(now) <= NEAR * abs(before):
            return False
        apart = (now + before) / 2
        p = _estimate(one.expected, night.weight(2), one.expected.weight).p_if_small(apart)
        if p > CONFIRM / night.cases:
            return False
        former = one.state.level
        one.state.begin([pending.value, one.value], pending.set_name, former)
        one.state.differ((one.value - pending.value) ** 2)
        mark = Mark("step", math.expm1(apart), min(1.0, p * night.cases), pending.set_name)
        self._mark(pending.group_id, mark)
        # A level of fewer sets is none to fall from.
        before, sets = one.state.settled or (level, len(former))
        _follow(one, mark, _Reference(before, night.weight(sets), pending.began), night)
        return True

    def _end_pending(self, one: _Set) -> _Pending | None:
        """Say of a set that was not confirmed that it differed once; return it."""
        pending = one.state.pending
        if pending is None:
            return None
        # A case that has become noisier is found out by its odd sets.
        most = MOST_ODD * one.expected.variance
        one.state.differ(2 * min((pending.value - one.expected.level) ** 2, most))
        self._mark(pending.group_id, pending.mark("once"))
        one.state.pending = None
        return pending

    def _divide(self, one: _Set, night: _Night) -> bool:
        """Divide a first level at its most unlike place, if chance does not explain it."""
        state = one.state
        if not state.is_first or state.count not in DIVIDED:
            return False
        places = range(1, state.count - 2)
        p, place = min((_p_of_division(state.level, place, night), place) for place in places)
        p *= state.count * night.cases
        if p > RARE:
            return False
        before = state.level[:place]
        after = state.level[place:]
        group_id, since, _ = state.names[place]
        state.begin(after, since, before)
        state.differences = [*_squares(before), *_squares(after)]
        mark = Mark("step", math.expm1(_mean(after) - _mean(before)), p, since)
        self._mark(group_id, mark)
        former = _Reference(_mean(before), night.weight(len(before)), one.row.began)
        _follow(one, mark, former, night)
        return True

    def _drift(self, one: _Set, night: _Night) -> None:
        """Begin a level with a level's last sets if they differ from its first ones."""
        state = one.state
        if state.count < FEWEST + DRIFT_TAIL:
            return
        last = state.level[-DRIFT_TAIL:]
        first = _mean(state.first)
        apart = _mean(last) - first
        # Neighbouring sets of a level count as fewer.
        few = (1 - night.correlation) / (1 + night.correlation)
        estimate = _estimate(one.expected, few * DRIFT_TAIL, few * FEWEST)
        p = estimate.p_if_small(apart) * night.cases
        if p > DRIFTED:
            return
        mark = Mark("drift", math.expm1(apart), p, state.since)
        self._mark(one.row.group_id, mark)
        state.begin(last, one.row.set_name, state.level[:-DRIFT_TAIL])
        _follow(one, mark, _Reference(first, night.weight(FEWEST), one.row.began), night)

    def _mark(self, group_id: str, mark: Mark) -> None:
        if group_id in self.judged:
            self.judged[group_id] = self.judged[group_id]._replace(mark=mark)
        else:
            self.revised[group_id] = mark

    def _accept(self, state: CaseState, row: GroupRow) -> None:
        """Close the change of a case whose level was accepted before a set."""
        at = self._accepted.get(row.line, -math.inf)
        if state.reference is not None and state.reference.began <= at < row.began:
            state.reference = None
            state.fallen = None


def _follow(one: _Set, mark: Mark, former: _Reference, night: _Night) -> None:
    """Open a drop, continue it, or close it; ``former`` is the level before the mark."""
    state = one.state
    if mark.change < 0:
        state.reference = state.reference or former
        state.fallen = state.fallen or Open(mark.kind, mark.change, mark.since)
    _recover(one, night)


def _recover(one: _Set, night: _Night) -> None:
    """Close what is open if the case has recovered, or has come so near that it is not relevant.

    In the second case it may still be below its reference.
    """
    state = one.state
    reference = state.reference
    if reference is None:
        return
    apart = _mean(state.level[-NEWEST:]) - reference.level
    change = math.expm1(apart)
    estimate = _estimate(one.expected, night.weight(state.count), reference.weight)
    # Fewer sets may be above their level by chance.
    is_settled = state.count >= FEWEST
    if apart >= 0 or (is_settled and estimate.p_if_small(apart) > CONFIRM):
        state.reference = None
        state.fallen = None
    elif is_settled and change > -RELEVANT:
        state.fallen = None
    elif state.fallen is not None:
        state.fallen = state.fallen._replace(change=change)


def _p_of_division(level: Sequence[float], place: int, night: _Night) -> float:
    """Return the p of the difference between the sets before a place and those from it on."""
    before = level[:place]
    after = level[place:]
    within = [*_squares(before), *_squares(after)]
    variance = max(math.fsum(within) / len(within) / 2, RESOLUTION**2)
    own = Estimate(variance, max(1.0, len(within) * FREEDOM))
    factor = (1 / len(before) + 1 / len(after)) / (1 - night.correlation)
    estimate = t_test.with_usual(own, night.usual).times(factor)
    return estimate.p_if_small(_mean(after) - _mean(before))


def _usual(states: Sequence[CaseState]) -> Estimate | None:
    """Return what is usual among the cases: by their newest differences where it has grown."""
    usual, new = (_usual_of(states, number) for number in (DIFFERENCES, NEW_DIFFERENCES))
    if usual is None or new is None:
        return usual
    return new if new.is_above(usual, GROWN) else usual


def _usual_of(states: Iterable[CaseState], differences: int) -> Estimate | None:
    spreads = [state.spread(differences) for state in states]
    known = [one for one in spreads if one is not None]
    usual = t_test.usual(known)
    if usual is None:
        return None
    # It is known no better than by all their differences.
    return usual._replace(freedom=min(usual.freedom, math.fsum(one.freedom for one in known)))


def _expected(state: CaseState, night: _Night) -> Expected | None:
    """Return what the next set of a case is expected to be; None with too few sets."""
    spread = state.spread()
    if spread is None or state.count < (FEWEST if state.is_first else FEWEST_LATER):
        return None
    estimate = t_test.with_usual(spread, night.usual).times(1 / (1 - night.correlation))
    within = [(count - 1, variance) for count, variance in state.runs if variance is not None]
    free = sum(count for count, _ in within)
    return Expected(
        level=_mean(state.level[-NEWEST:]),
        weight=night.weight(state.count),
        variance=estimate.variance,
        freedom=estimate.freedom,
        sets=state.sets,
        run_variance=math.fsum(count * one for count, one in within) / free if free else 0.0,
        run_share=math.fsum(1 / count for count, _ in state.runs) / len(state.runs),
    )


def _p(expected: Expected, runs: int, value: float) -> float:
    """Return the p of a set's distance from its level."""
    variance = expected.variance + expected.fewer_runs(runs)
    estimate = Estimate(variance * (1 + 1 / expected.weight), expected.freedom)
    return estimate.p_if_small(value - expected.level)


def _estimate(expected: Expected, *weights: float) -> Estimate:
    """Return the variance of a difference of levels of such weights."""
    factor = math.fsum(1 / weight for weight in weights)
    return Estimate(expected.variance * factor, expected.freedom)


def _correlation(states: Iterable[CaseState]) -> float:
    """Return the correlation of neighbouring nights over some cases; 0 unless it stands out."""
    total = sets = 0.0
    for state in states:
        more, count = _correlated(state.level)
        total += more + state.correlation[0]
        sets += count + state.correlation[1]
    if sets < CERTAIN:
        return 0.0
    found = total / sets
    return min(found, 0.9) if found > 1.3 / math.sqrt(sets) else 0.0


def _correlated(level: Sequence[float]) -> tuple[float, float]:
    """Return the correlation of neighbouring sets of a level × their number, and the number."""
    count = len(level)
    if count < 5:
        return 0.0, 0.0
    mean = math.fsum(level) / count
    apart = [value - mean for value in level]
    total = math.fsum(one * one for one in apart)
    if not total:
        return 0.0, 0.0
    along = math.fsum(one * two for one, two in itertools.pairwise(apart))
    # A level's own mean lowers the correlation by 1 ÷ count.
    return along / total * count + 1, count


def _squares(values: Sequence[float]) -> list[float]:
    return [(two - one) ** 2 for one, two in itertools.pairwise(values)]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
