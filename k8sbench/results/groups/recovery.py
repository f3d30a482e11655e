"""Drops that open, continue and end: sentence 8 of :mod:`.series`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from k8sbench.model.series import Closed, Mark, Open
from k8sbench.results.groups import levels
from k8sbench.results.groups.case_state import LEVEL, RELEVANT, CaseState, Reference
from k8sbench.results.groups.night_values import JudgedSet, Night
from k8sbench.results.groups.t_test import Estimate

SETTLED = 4
"""Sets of a level that closes a drop, or that a case falls from."""
RECOVERED = 0.05
"""p above which a level is not shown to be lower."""
HALF = 0.5
"""Share of a drop that must have come back."""
UNDONE = 0.25
"""Share of a step by which one that undoes it may differ."""


def lower(each: JudgedSet, reference: Reference, night: Night) -> tuple[float, bool]:
    """Return the level less its reference, and whether it is shown to be lower."""
    state = each.state
    assert each.expected is not None
    level = state.level(LEVEL)
    deviation = math.sqrt(each.expected.variance)
    present = levels.level_mean(level, deviation)
    apart = present - reference.level
    weight = night.apart.independent(len(level))
    estimate = Estimate(each.expected.variance, each.expected.freedom)
    p = estimate.times(1 / weight + 1 / reference.weight).p_if_small(apart)
    return apart, apart < 0 and p <= RECOVERED


def is_back(state: CaseState, apart: float, *, is_lower: bool) -> bool:
    """True if a drop is over."""
    has_come_back = apart > HALF * state.opened
    return apart >= 0 or (state.in_level >= SETTLED and has_come_back and not is_lower)


def follow(each: JudgedSet, mark: Mark, reference: Reference, ended: int, night: Night) -> None:
    """Open a drop, continue it, or close it; ``ended`` is the number of sets before the change."""
    state = each.state
    if state.reference is None:
        if mark.change >= 0:
            return
        change = math.log1p(mark.change)
        if ended < SETTLED and state.settled is not None:
            # Few sets are no level to fall from.
            level, sets = state.settled
            reference = Reference(level, night.apart.independent(sets), reference.began)
            change, is_lower = lower(each, reference, night)
            if not is_lower:
                return
        state.reference = reference
        state.fallen = Open(mark.kind, math.expm1(change), mark.since, reference.began)
        state.opened = change
        state.drops = [mark]
        return
    state.drops = _drops_left(state.drops, mark)
    apart, is_lower = lower(each, state.reference, night)
    is_over = apart >= 0 or (mark.change > 0 and is_back(state, apart, is_lower=is_lower))
    if is_over:
        close(each)
    elif mark.change < 0 and (state.fallen is None or mark.change < state.fallen.change):
        began = state.reference.began
        state.fallen = Open(mark.kind, math.expm1(apart), mark.since, began)
        state.opened = apart
    elif state.fallen is not None:
        state.fallen = state.fallen._replace(change=math.expm1(apart))
        if state.drops and state.fallen.since not in {drop.since for drop in state.drops}:
            largest = min(state.drops, key=lambda drop: drop.change)
            state.fallen = state.fallen._replace(kind=largest.kind, since=largest.since)
        if state.fallen.change > -RELEVANT:
            end(each, "recovery", each.row.began)


def _drops_left(drops: Sequence[Mark], mark: Mark) -> list[Mark]:
    """Return the drops after a further change: a rise takes back the newest ones."""
    if mark.change < 0:
        return [*drops, mark]
    left = list(drops)
    rise = math.log1p(mark.change)
    while left and rise >= (1 - UNDONE) * -math.log1p(left[-1].change):
        rise += math.log1p(left.pop().change)
    return left


def close(each: JudgedSet, by_person_at: float | None = None) -> None:
    """Close what is open: no later drop adds to it."""
    if by_person_at is None:
        end(each, "recovery", each.row.began)
    else:
        end(each, "person", by_person_at)
    each.state.reference = None
    each.state.drops = []


def end(each: JudgedSet, by: Literal["recovery", "person"], at: float) -> None:
    """End the open change, and note by whom if it was large enough to be open."""
    fallen = each.state.fallen
    if fallen is not None and math.expm1(each.state.opened) <= -RELEVANT:
        each.closed = Closed(fallen.since, fallen.began, by, at)
    each.state.fallen = None
