"""Begins of open changes: the sets around each, and what may explain it.

A case with an open change is held against its last set before the change. Beside it stand the cases
of the same set that show no change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from k8sbench.model.compared import CaseHistory, Compared, Comparison, OpenBegin, RateChange
from k8sbench.model.group import GroupRow
from k8sbench.model.series import Line
from k8sbench.results.groups import causes, comparison, nights
from k8sbench.results.groups.known import KnownGroups

MOST_BEGINS = 3
"""Newest sets with a begin that are looked at."""
MOST_CASES = 30
"""Maximum number of changed cases of a set, and of others, that are looked at.

Their runs are read.
"""
_Around = tuple[GroupRow, GroupRow]
"""Rows of a case before a set, and in it."""


def begins(histories: Sequence[CaseHistory], known: KnownGroups) -> list[OpenBegin]:
    """Return the sets in which open drops began, unconfirmed ones too, the newest first."""
    by_set: dict[str, set[Line]] = {}
    for one in histories:
        for since in _drops(one):
            by_set.setdefault(since, set()).add(_line(one))
    if not by_set:
        return []
    cases = {one.group.row.series for one in histories}
    lines: dict[Line, list[GroupRow]] = {}
    for row in sorted(known.rows, key=lambda row: row.began):
        if row.series in cases and nights.counts(row):
            lines.setdefault(row.line, []).append(row)
    found = [
        (around, opened)
        for name, opened in by_set.items()
        if (around := _around(name, lines)).keys() & opened
    ]
    newest = sorted(found, key=lambda one: -max(row.began for _, row in one[0].values()))
    made = (_begin(around, opened, known) for around, opened in newest[:MOST_BEGINS])
    # Groups may be removed meanwhile.
    return [one for one in made if any(case.finding == "slower" for case in one.compared.cases)]


def _drops(one: CaseHistory) -> Iterator[str]:
    """Yield the set in which the open change of a case began, and those of later drops."""
    if one.open is None or one.open.kind == "drift":
        return
    yield one.open.since
    for point in one.points:
        mark = point.mark
        if mark is not None and mark.kind != "drift" and one.open.includes(mark, point.at):
            yield mark.since


def _line(one: CaseHistory) -> Line:
    """Return the line of a case; a set without a figure may name no GPU."""
    measured = (point.group for point in reversed(one.points) if point.group.spread is not None)
    return next(measured, one.group).row.line


def _around(name: str, lines: Mapping[Line, Sequence[GroupRow]]) -> dict[Line, _Around]:
    """Return the rows of each case before a set, and in it."""
    found: dict[Line, _Around] = {}
    for line, rows in lines.items():
        place = next((place for place, row in enumerate(rows) if row.set_name == name), 0)
        if place:
            found[line] = rows[place - 1], rows[place]
    return found


def _begin(
    around: Mapping[Line, _Around], opened: Collection[Line], known: KnownGroups
) -> OpenBegin:
    """Compare the cases of a set with their sets before, and explain what is open."""
    judged = known.judged(row for _, row in around.values())
    changed = [pair for line, pair in around.items() if line in opened]
    names = {row.benchmark for _, row in changed}
    quiet = [pair for _, pair in around.items() if judged[pair[1].group_id].mark is None]
    # Those of the same benchmarks tell more.
    quiet = sorted(
        (pair for pair in quiet if pair not in changed),
        key=lambda pair: pair[1].benchmark not in names,
    )
    chosen: list[tuple[_Around, RateChange]] = [
        *((pair, "slower") for pair in changed[:MOST_CASES]),
        *((pair, "no-difference") for pair in quiet[:MOST_CASES]),
    ]
    groups = {
        group.key.id: group for group in known.groups(row for pair, _ in chosen for row in pair)
    }
    cases = [
        Compared(
            a=comparison.figures([groups[before.group_id]]),
            b=comparison.figures([groups[row.group_id]]),
            finding=finding,
        )
        for (before, row), finding in chosen
        if before.group_id in groups and row.group_id in groups
    ]
    (before, _), *_ = Counter(before.set_name for (before, _), _ in chosen).most_common(1)
    compared = Comparison(
        a=before,
        b=chosen[0][0][1].set_name,
        limit=None,
        floor=comparison.FLOOR,
        cases=tuple(sorted(cases, key=lambda case: case.group.key)),
    )
    return OpenBegin(
        compared=causes.explained(compared, {}, known), left_out=len(quiet[MOST_CASES:])
    )
