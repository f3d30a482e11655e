"""Slopes of a level, and of all cases together: sentences 6 and 7 of :mod:`.series`."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from k8sbench.results.groups import levels, t_test
from k8sbench.results.groups.case_state import KEPT, RELEVANT, CaseState, Member
from k8sbench.results.groups.levels import Correlated, Form
from k8sbench.results.groups.night_values import FEWEST_TOGETHER, JudgedSet, Night
from k8sbench.results.groups.t_test import Estimate

CORRELATION_OF_DRIFT = Correlated(0.4 * 20, 20)
"""Correlation of nights before it is known, worth twenty sets: a drift is a strong claim."""
DRIFT = 30
"""Newest sets of a level in which a drift is looked for: a month."""
FEWEST_OF_DRIFT = 7
"""Fewest of them: five differences after the mean and the line."""
DRIFTED = 0.01
"""p of a drift over the cases of a night, and once more for all cases together."""


class Drift(NamedTuple):
    """The change of a case by a slope."""

    form: Form
    members: Sequence[Member]
    """Sets of the form, oldest first."""
    p: float


def of_level(each: JudgedSet, night: Night) -> Drift | None:
    """Return the drift of the level of a case, if chance does not explain it."""
    state = each.state
    if state.waiting or state.alternation is not None or each.expected is None:
        return None
    members = state.agreeing(DRIFT)
    if len(members) < FEWEST_OF_DRIFT:
        return None
    level = [member.value for member in members]
    p = _p_of_slope(level, night.usual, night.correlation_of_drift) * night.cases
    if p > DRIFTED:
        return None
    form = levels.form_of(level, each.expected.variance)
    if abs(form.change) < RELEVANT:
        return None
    return Drift(form._replace(weight=night.apart.independent(form.weight)), members, p)


def of_all(sets: Sequence[JudgedSet], night: Night) -> list[tuple[JudgedSet, Drift]]:
    """Return the cases that move as all do, with their drifts; none without a shared one.

    The median over the cases is tested, each less its own mean, since most levels began.
    """
    drifting = [each for each in sets if not each.state.waiting and not each.state.alternation]
    begin = _common_begin(drifting, night)
    drifting = [each for each in drifting if _began(each.state) <= begin]
    if len(drifting) < FEWEST_TOGETHER:
        return []
    by_round: defaultdict[int, list[float]] = defaultdict(list)
    for each in drifting:
        members = _since(each.state, begin)
        own_mean = statistics.fmean([member.value for member in members])
        for member in members:
            by_round[member.round].append(member.value - own_mean)
    rounds = sorted(by_round)
    common = [statistics.median(by_round[at]) for at in rounds]
    if len(common) < FEWEST_OF_DRIFT:
        return []
    correlation = levels.correlated(common).plus(CORRELATION_OF_DRIFT).value()
    p = _p_of_slope(common, None, correlation)
    variance = levels.spread_around_slope(common).variance / (1 - correlation)
    shared = levels.form_of(common, variance)
    if p > DRIFTED or abs(shared.change) < RELEVANT:
        return []
    found: list[tuple[JudgedSet, Drift]] = []
    for each in drifting:
        members = _since(each.state, begin)
        form = _shared_form(members, shared, rounds[shared.place])
        if each.expected is not None and form is not None:
            form = form._replace(weight=night.apart.independent(form.weight))
            found.append((each, Drift(form, members, p)))
    return found


def _common_begin(sets: Sequence[JudgedSet], night: Night) -> int:
    """Return the round since which most levels last, at most a month ago."""
    begins = sorted(_began(each.state) for each in sets)
    middle = begins[len(begins) // 2] if begins else night.number
    return max(middle, night.number - DRIFT + 1)


def _began(state: CaseState) -> int:
    """Return the round in which the level of a case began."""
    return state.members[-min(state.in_level, KEPT)].round


def _shared_form(members: Sequence[Member], shared: Form, first: int) -> Form | None:
    """Return the shared form in a case, from a round on; None unless the case moves that way."""
    count = len(members)
    place = sum(member.round < first for member in members)
    if count < FEWEST_OF_DRIFT or not 1 <= place <= count - 2:
        return None
    form = levels.form_at(shared.kind, [member.value for member in members], place)
    return form if form.change * shared.change > 0 else None


def _p_of_slope(level: Sequence[float], of_cases: Estimate | None, correlation: float) -> float:
    """Return the p of the slope of a level: with its newest set and without it, the larger one.

    One odd set at the end is no drift.
    """
    parts = (level, level[:-1])
    return max(_p_of_line(part, of_cases, correlation) for part in parts)


def _p_of_line(level: Sequence[float], of_cases: Estimate | None, correlation: float) -> float:
    count = len(level)
    spread = t_test.with_usual(levels.spread_around_slope(level), of_cases)
    wider = (1 + correlation) / (1 - correlation) ** 2
    estimate = spread.times(wider * 12 / (count**3 - count))
    return estimate.p_if_small(levels.fit(level, range(count)).slope)


def _since(state: CaseState, begin: int) -> list[Member]:
    """Return the sets of a level since a round, less those that differed once."""
    return [member for member in state.agreeing(KEPT) if member.round >= begin]
