"""Cases that somebody should look at: open, changed, missing, and without a valid figure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeGuard

import msgspec

from k8sbench.model.compared import CaseHistory, Compared, Comparison, Point
from k8sbench.model.group import MissingIn, Result
from k8sbench.model.series import Open
from k8sbench.report import formats, group_words

Kind = Literal["open", "changed", "missing", "invalid", "back"]
"""Kind of a finding, in the order of a list.

``open``: a change downwards from which the case has not recovered. ``changed``: another change of
its newest set. ``missing``: newer sets lack it, or it is open and not measured any more.
``invalid``: its newest set has no valid figure. ``back``: the set before its newest one differed
once.
"""
ORDER: Mapping[Kind, int] = {"open": 0, "changed": 1, "missing": 2, "invalid": 3, "back": 4}


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of a case."""

    kind: Kind
    series: CaseHistory
    label: str
    """The kind; of an invalid case, its state."""
    words: str = ""
    """The kind of the change, or the ids of the reasons."""
    set_name: str
    """Newest set of the case."""
    since: str
    """Set that it begins with."""
    change: float | None = None
    """Level ÷ the level before − 1; None without one."""
    compared: Compared | None = None
    """The case in the comparison of the newest two sets; None if it is in neither."""


def noted(
    series: Sequence[CaseHistory], comparison: Comparison | None, results: Sequence[Result]
) -> list[Noted]:
    """Return the findings of all cases; of one kind, the largest change first."""
    compared = {
        group.key.id: case
        for case in (comparison.cases if comparison else ())
        for side in (case.a, case.b)
        for group in (side.groups if side else ())
    }
    missing = {
        result.group.key.id: result.missing_in
        for result in results
        if result.missing_in is not None
    }
    found: list[Noted] = []
    for one in series:
        if ended := _ended(one):
            ids = [point.group.key.id for point in reversed(ended)]
            case = next((compared[name] for name in ids if name in compared), None)
            lacking = next((missing[name] for name in ids if name in missing), None)
            if lacking is not None and lacking.gone and one.open is not None:
                found.append(_gone(one, one.open))
                continue
            found += _changed(one, ended, case)
            found += [] if lacking is None else [_missing(one, lacking)]
            found += _invalid(one, ended)
    return sorted(found, key=lambda it: (ORDER[it.kind], -abs(it.change or 0.0)))


def _ended(one: CaseHistory) -> list[Point]:
    """Return the sets of a case that have a figure or ended without one."""
    return [point for point in one.points if point.group.state != "running"]


def _changed(one: CaseHistory, ended: Sequence[Point], case: Compared | None) -> Iterator[Noted]:
    """Yield the open change of a case, else what its newest set shows.

    Where too few sets are there to judge, the comparison of the newest two shows it.
    """
    newest = ended[-1].group.key
    kind: Kind = "changed"
    words: str
    known = [point for point in ended if point.group.spread is not None]
    # A step is one of the set that began it, and is known with the set after it.
    marks = [point.mark for point in known[-2:-1] if point.mark and point.mark.kind == "step"]
    marks += [point.mark for point in known[-1:] if point.mark and point.mark.kind != "once"]
    if (still := one.open) is not None:
        kind = "open"
        words = still.kind
        change = still.change
        since = still.since
    elif marks:
        kind = "changed" if marks[-1].is_change else "back"
        words = marks[-1].kind if marks[-1].is_change else ""
        change = marks[-1].change
        since = marks[-1].since
    elif _shows(case, newest.id):
        words = case.finding
        change = (case.ratio or 1.0) - 1
        since = newest.set_name
    else:
        return
    yield Noted(
        kind=kind,
        series=one,
        label=group_words.BACK if kind == "back" else kind,
        words=words,
        set_name=newest.set_name,
        since=since,
        change=change,
        compared=case,
    )


def _shows(case: Compared | None, newest: str) -> TypeGuard[Compared]:
    """True if a comparison of two sets alone shows a change of the newest group of a case."""
    if case is None or case.b is None or case.earlier_sets is not None:
        return False
    if case.finding not in ("faster", "slower"):
        return False
    return newest in {group.key.id for group in case.b.groups}


def _missing(one: CaseHistory, lacking: MissingIn) -> Noted:
    return Noted(
        kind="missing",
        series=one,
        label="missing",
        set_name=one.points[-1].group.key.set_name,
        since=lacking.since,
    )


def _gone(one: CaseHistory, still: Open) -> Noted:
    """Return an open case that is not measured any more."""
    name = one.points[-1].group.key.set_name
    change = formats.signed_percent(still.change)
    return Noted(
        kind="missing",
        series=one,
        label="not measured",
        words=f"since {name} (open: {change} since {still.since})",
        set_name=name,
        since=still.since,
        change=still.change,
    )


def _invalid(one: CaseHistory, ended: Sequence[Point]) -> Iterator[Noted]:
    """Yield a case whose newest set is not valid."""
    group = ended[-1].group
    if group.state == "valid":
        return
    streak = itertools.takewhile(lambda point: point.group.state != "valid", reversed(ended))
    *_, first = streak
    yield Noted(
        kind="invalid",
        series=one,
        label=group.state,
        words=", ".join(group.ids("reject")),
        set_name=group.key.set_name,
        since=first.group.key.set_name,
    )
