"""New cases in the place of others: a renamed pool, another GPU model, another default.

Fields of the case list (:data:`.CASE_FIELDS`) divide sets into series, and a series begins anew
where one of them changes. A case whose series is too young to be judged is in the place of one that
has ended: of those of its benchmark, framework and case the one that differs in the fewest fields,
and of these the newest. A case that was not measured any more by then
(:mod:`~k8sbench.results.groups.missing`) is not replaced. It is held against the last sets of that
one, at most as many as a series needs before it judges a set, and none before its newest change.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from k8sbench.model.compared import Comparison, FieldChange, NewCase
from k8sbench.model.group import Group, GroupRow
from k8sbench.model.series import Line
from k8sbench.results.groups import comparison, missing, nights, sides
from k8sbench.results.groups.case_state import FEWEST
from k8sbench.results.groups.known import KnownGroups

_Program = tuple[str, str, str]
"""Benchmark, framework and case: fields that a case shares with the one in whose place it is."""


class _Sets(NamedTuple):
    """The sets of a case, and their nights; oldest first."""

    rows: list[GroupRow]
    nights: list[int]


def added(compared: Comparison, known: KnownGroups) -> Comparison:
    """Add to each case of a comparison in whose place the newer side is, if it is new."""
    newer = [case.a if compared.a_is_newer else case.b for case in compared.cases]
    lines = [None if side is None else side.groups[-1].row.line for side in newer]
    found = new_cases({line for line in lines if line is not None}, known)
    cases = (
        case if line is None else msgspec.structs.replace(case, new=found.get(line))
        for case, line in zip(compared.cases, lines, strict=True)
    )
    return msgspec.structs.replace(compared, cases=tuple(cases))


def new_cases(lines: Collection[Line], known: KnownGroups) -> dict[Line, NewCase]:
    """Return in whose place some cases are; cases that are not new are left out."""
    counts: dict[Line, int] = dict.fromkeys(lines, 0)
    for row in known.rows:
        if row.line in counts and nights.counts(row):
            counts[row.line] += 1
    young = {line for line, count in counts.items() if 0 < count <= FEWEST}
    if not young:
        return {}
    programs = {_program(row) for row in known.rows if row.line in young}
    by_program: dict[_Program, dict[Line, _Sets]] = {}
    by_night = nights.by_night(row for row in known.rows if _program(row) in programs)
    for at, rows in by_night.items():
        for row in rows:
            its = by_program.setdefault(_program(row), {})
            case = its.setdefault(row.line, _Sets([], []))
            case.rows.append(row)
            case.nights.append(at)
    found: dict[Line, NewCase] = {}
    for its in by_program.values():
        for line in young & its.keys():
            ended = [other for other in its.values() if _has_ended(other, its[line])]
            if ended:
                found[line] = _new_case(its[line], ended, known)
    return found


def _program(row: GroupRow) -> _Program:
    return row.benchmark, row.framework, row.case


def _has_ended(other: _Sets, case: _Sets) -> bool:
    """Return True if a case ended before another began, and was measured until then."""
    begin = case.nights[0]
    return other.nights[-1] < begin and not missing.is_gone(other.nights, begin)


def _new_case(case: _Sets, ended: Sequence[_Sets], known: KnownGroups) -> NewCase:
    """Return in whose place a case is; ``ended`` are the cases that may be it."""
    (first,) = known.groups([case.rows[0]])
    lasts = known.groups(other.rows[-1] for other in ended)
    last = min(lasts, key=lambda group: (len(_changes(group, first)), -group.began[0]))
    (before,) = (other.rows for other in ended if other.rows[-1].group_id == last.key.id)
    forbidden = comparison.unlike(last, first)
    a, b = (
        statistics.median(row.figure or 0.0 for row in rows)
        for rows in (_last_level(before, known), case.rows[-FEWEST:])
    )
    return NewCase(
        since=first.key.set_name,
        fields=tuple(_changes(last, first)),
        a=a,
        b=b,
        ratio=None if forbidden else b / a,
        not_comparable=forbidden,
    )


def _last_level(rows: Sequence[GroupRow], known: KnownGroups) -> Sequence[GroupRow]:
    """Return the last sets of a case, from its newest change on, a confirmed one or not."""
    last = rows[-FEWEST:]
    judged = known.judged(last)
    marks = [judged[row.group_id].mark for row in last]
    begins = [place for place, mark in enumerate(marks) if mark is not None and mark.is_change]
    return last[begins[-1] :] if begins else last


def _changes(last: Group, first: Group) -> list[FieldChange]:
    """Return the fields that make two series of the sets of two groups."""
    names = [*sides.differing(last, first)]
    names += ["gpu_model"] if last.key.gpu_model != first.key.gpu_model else []
    found = [
        FieldChange(name, str(getattr(last.key, name)), str(getattr(first.key, name)))
        for name in names
    ]
    if last.estimator != first.estimator:
        found.append(FieldChange("estimator", last.estimator, first.estimator))
    return found
