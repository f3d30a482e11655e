"""Cases that newer sets lack, and those that are not measured any more.

A *night* is a day (UTC) on which sets began. The *usual interval* of a case is the median of its
newest intervals, in nights.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from k8sbench.model.group import GroupRow, MissingIn
from k8sbench.model.identity import UNKNOWN
from k8sbench.model.series import night_of

INTERVALS = 10
"""Newest intervals of a case that count."""
REGULAR = 4
"""Nights from which a case is known to be measured at its usual interval."""
GONE = 5
"""Usual intervals, and nights at least, after which a case is not measured any more."""
_Case = tuple[str, str]
"""Series and GPU model."""


class _Set(msgspec.Struct):
    """A set of a store."""

    name: str
    begin: float
    cases: set[_Case]
    is_running: bool = False

    def has(self, case: _Case) -> bool:
        """True if the case is in it; one without a figure may name no GPU."""
        return not self.cases.isdisjoint((case, (case[0], UNKNOWN)))


class _Usual(NamedTuple):
    """The usual interval of a case."""

    interval: float = 1.0
    """In nights, at least one."""
    is_regular: bool = False


def in_newer_sets(shown: Iterable[GroupRow], rows: Iterable[GroupRow]) -> dict[str, MissingIn]:
    """Return the newer sets that lack the cases of some rows, by group id.

    These are sets that have a case in common with the row's set: sets of single cases, submitted
    one by one, lack nothing of each other. A case that was measured regularly is missing from when
    its usual interval has passed, and a night later in whatever sets. A set that still runs lacks
    nothing, and what still runs is not missing.
    """
    rows = list(rows)
    sets = _sets(rows)
    newest_first = sorted(sets.values(), key=_age)
    ended = (row for row in shown if not row.in_progress)
    older = [row for row in ended if sets[row.set_name].begin < newest_first[0].begin]
    intervals = _intervals({_case(row) for row in older}, rows)
    found: dict[str, MissingIn] = {}
    for row in older:
        case = _case(row)
        usual = intervals.get(case, _Usual())
        own = sets[row.set_name]
        if lacking := _lacking(case, own, newest_first, usual):
            nights = night_of(lacking[0].begin) - night_of(own.begin)
            found[row.group_id] = MissingIn(
                since=lacking[-1].name,
                set_name=lacking[0].name,
                sets=len(lacking),
                behind_s=lacking[0].begin - own.begin,
                gone=nights >= GONE * usual.interval,
            )
    return found


def _lacking(case: _Case, own: _Set, newest_first: Sequence[_Set], usual: _Usual) -> list[_Set]:
    """Return the newer sets that lack a case of a set, the newest first."""
    newer = [*itertools.takewhile(lambda one: one.begin > own.begin, newest_first)]
    lacking = [one for one in newer if not one.is_running and not one.has(case)]
    alike = [one for one in lacking if own.cases & one.cases]
    if not lacking or not usual.is_regular:
        return alike
    nights = night_of(lacking[0].begin) - night_of(own.begin)
    if nights > usual.interval and not any(one.has(case) for one in newer):
        return lacking
    return alike if nights >= usual.interval else []


def _sets(rows: Iterable[GroupRow]) -> dict[str, _Set]:
    found: dict[str, _Set] = {}
    for row in rows:
        one = found.setdefault(row.set_name, _Set(row.set_name, row.began, set()))
        one.begin = min(one.begin, row.began)
        one.cases.add(_case(row))
        one.is_running = one.is_running or row.in_progress > 0
    return found


def _intervals(cases: set[_Case], rows: Iterable[GroupRow]) -> dict[_Case, _Usual]:
    """Return how often those cases are measured that were in several nights."""
    nights: dict[_Case, set[int]] = {}
    for row in rows:
        if (case := _case(row)) in cases:
            nights.setdefault(case, set()).add(night_of(row.began))
    return {case: _usual(sorted(its)) for case, its in nights.items() if len(its) > 1}


def is_gone(nights: Sequence[int], at: int) -> bool:
    """Return True if a case of some nights, oldest first, is not measured any more at another."""
    interval = _usual(nights).interval if len(nights) > 1 else _Usual().interval
    return at - nights[-1] >= GONE * max(interval, 1.0)


def _usual(nights: Sequence[int]) -> _Usual:
    newest = nights[-INTERVALS - 1 :]
    interval = statistics.median(later - night for night, later in itertools.pairwise(newest))
    return _Usual(interval, len(nights) >= REGULAR)


def _case(row: GroupRow) -> _Case:
    return row.series, row.gpu_model


def _age(one: _Set) -> float:
    return -one.begin
