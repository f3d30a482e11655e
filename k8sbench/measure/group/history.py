"""Histories of cases: their sets in order, with what the series says of each.

:mod:`~k8sbench.measure.group.series` judges the sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from k8sbench.measure.group import nights, series
from k8sbench.measure.group.known import KnownGroups
from k8sbench.model import times
from k8sbench.model.compared import CaseChange, CaseHistory, Point
from k8sbench.model.group import GroupRow
from k8sbench.model.identity import UNKNOWN
from k8sbench.model.series import Line, Mark


def gpu_models(rows: Iterable[GroupRow]) -> dict[str, str]:
    """Return the GPU model of the case that each row belongs to, by group id.

    A set without a figure may name no GPU: it belongs to the newest one of its case that has a
    figure, or else to the newest that names one.
    """
    rows = sorted(rows, key=lambda row: (row.median is None, -row.ended, row.group_id))
    newest: dict[str, str] = {}
    for row in rows:
        if _has_gpu(row):
            newest.setdefault(row.series, row.gpu_model)
    return {
        row.group_id: row.gpu_model if _has_gpu(row) else newest.get(row.series, UNKNOWN)
        for row in rows
    }


def _has_gpu(row: GroupRow) -> bool:
    return row.median is not None or row.gpu_model != UNKNOWN


def cases(rows: Iterable[GroupRow]) -> list[list[GroupRow]]:
    """Return the rows by case, each oldest first.

    A set without a figure is of the newest estimator of its case.
    """
    rows = sorted(rows, key=lambda row: (row.median is None, -row.ended, row.group_id))
    models = gpu_models(rows)
    by_line: dict[Line, list[GroupRow]] = {}
    newest: dict[tuple[str, str], Line] = {}
    for row in rows:
        place = row.series, models[row.group_id]
        line = newest.get(place, row.line) if row.median is None else row.line
        newest.setdefault(place, line)
        by_line.setdefault(line, []).append(row)
    return [sorted(case, key=lambda row: (row.began, row.group_id)) for case in by_line.values()]


def newest_measured(case: Sequence[GroupRow]) -> GroupRow | None:
    """Return the newest set of a case, given oldest first, whose figure is part of its series."""
    return next(filter(nights.counts, reversed(case)), None)


def history(case: Sequence[GroupRow], shown: Sequence[GroupRow], known: KnownGroups) -> CaseHistory:
    """Return the history of a case with some of its sets; both are oldest first."""
    measured = newest_measured(case)
    judged = known.judged(shown if measured is None else [*shown, measured])
    points = tuple(
        Point(group=group, at=group.began[0], mark=judged[group.key.id].mark)
        for group in known.groups(shown)
    )
    still = None if measured is None else judged[measured.group_id].open
    return CaseHistory(points=points, open=still, unmarked=_unmarked(case))


def changes(
    fitting: Iterable[GroupRow], known: KnownGroups, since: float | None = None
) -> list[CaseChange]:
    """Return the changes that the sets of some cases show, the newest first.

    A set that differed once is no change. With ``since``, Unix seconds, only those of sets with a
    run since then.
    """
    rows = {row.group_id: row for row in fitting if nights.counts(row)}
    judged = known.judged(rows.values())
    still = {
        line: found
        for line, row in nights.newest(rows.values()).items()
        if (found := judged[row.group_id].open) is not None
    }
    marks = {
        group_id: one.mark
        for group_id, one in judged.items()
        if one.mark is not None
        and one.mark.is_change
        and (since is None or rows[group_id].ended >= since)
    }

    def is_open(row: GroupRow, mark: Mark) -> bool:
        found = still.get(row.line)
        return found is not None and found.includes(mark, row.began)

    models = {row.gpu_model for row in rows.values()} - {UNKNOWN}
    made = [
        CaseChange(
            group=group,
            at=group.began[0],
            mark=marks[group.key.id],
            is_open=is_open(group.row, marks[group.key.id]),
            of_several_models=len(models) > 1,
        )
        for group in known.groups(rows[group_id] for group_id in marks)
    ]
    return sorted(made, key=lambda one: -one.at)


def why_unchanged(fitting: Iterable[GroupRow], since: float | None = None) -> str:
    """Tell why the sets of some cases show no change; with ``since``, none since then."""
    kinds: dict[str, str] = {}
    # Of the cases with too few sets, the one with the most is told of.
    for case in sorted(cases(fitting), key=len, reverse=True):
        why = _unmarked(case)
        if why is None:
            if since is None:
                return "No case has changed."
            return f"No case has changed since {times.minute(since)}."
        kinds.setdefault(why.partition(";")[0], why)
    return f"No case could be judged: {'; '.join(sorted(kinds.values()))}."


def _unmarked(rows: Sequence[GroupRow]) -> str | None:
    """Return why no set of a case could be judged; None if one was."""
    count = sum(row.median is not None for row in rows)
    if rows[-1].measures == "smoke":
        return "smoke runs are functional tests, not speed measurements"
    if rows[-1].measures == "cpu":
        return "CPU processes: they share the machine"
    if count <= series.FEWEST:
        before = max(count - 1, 0)
        there = "there is 1" if before == 1 else f"there are {before}"
        if rows[-1].median is None and count:
            there = f"the newest with a figure has {before}"
        return f"a set is judged by at least {series.FEWEST} sets before it; {there}"
    return None
