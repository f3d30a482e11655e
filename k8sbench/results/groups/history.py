"""Histories of cases: their sets in order, with what the series says of each.

:mod:`~k8sbench.results.groups.series` judges the sets.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from k8sbench.messages import Note, chain, note
from k8sbench.model import times
from k8sbench.model.compared import AlternatingCase, CaseChange, CaseHistory, Comparison, Point
from k8sbench.model.group import Changed, GroupRow
from k8sbench.model.identity import UNKNOWN
from k8sbench.model.series import UNJUDGED, Closed, Judged, Line, Mark
from k8sbench.results.groups import alternation, case_state, nights, ranges
from k8sbench.results.groups.known import KnownGroups


def gpu_models(rows: Iterable[GroupRow]) -> dict[str, str]:
    """Return the GPU model of the case that each row belongs to, by group id.

    A set without a figure may name no GPU: it belongs to the newest one of its case that has a
    figure, or else to the newest that names one.
    """
    rows = list(rows)
    lacking = {row.series for row in rows if not _has_gpu(row)}
    having = (row for row in rows if row.series in lacking and _has_gpu(row))
    newest: dict[str, str] = {}
    for row in sorted(having, key=_newest_first):
        newest.setdefault(row.series, row.gpu_model)
    return {
        row.group_id: row.gpu_model if _has_gpu(row) else newest.get(row.series, UNKNOWN)
        for row in rows
    }


def _newest_first(row: GroupRow) -> tuple[bool, float, str]:
    """Return the place of a set among others: those with a figure first, the newest first."""
    return row.median is None, -row.ended, row.group_id


def _has_gpu(row: GroupRow) -> bool:
    return row.median is not None or row.gpu_model != UNKNOWN


def cases(rows: Iterable[GroupRow]) -> list[list[GroupRow]]:
    """Return the rows by case, each oldest first.

    A set without a figure is of the newest estimator of its case.
    """
    rows = sorted(rows, key=_newest_first)
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
    groups = known.groups(shown)
    points = tuple(
        Point(
            group=group,
            at=group.began[0],
            mark=judged[group.key.id].mark,
            closed=judged[group.key.id].closed,
        )
        for group in groups
    )
    newest = UNJUDGED if measured is None else judged[measured.group_id]
    return CaseHistory(
        points=points,
        open=newest.open,
        alternating=newest.alternating,
        unmarked=_unmarked(case),
        unjudged=ranges.unjudged(groups),
    )


def as_of(shown: Iterable[GroupRow], known: KnownGroups) -> dict[str, Judged]:
    """Return what their series say as of some sets, by group id.

    Of a newest set that is not judged it is what the newest one that is leaves open.
    """
    shown = list(shown)
    without = {row.group_id: row.series for row in shown if row.figure is None}
    wanted = set(without.values())
    before: dict[str, GroupRow] = {}
    for case in cases(row for row in known.rows if row.series in wanted):
        if (measured := newest_measured(case)) is not None:
            later = case[case.index(measured) + 1 :]
            before |= {row.group_id: measured for row in later if row.group_id in without}
    judged = known.judged([*shown, *before.values()])
    found = {row.group_id: judged[row.group_id] for row in shown}
    for group_id, row in before.items():
        found[group_id] = judged[row.group_id]._replace(mark=None, expected=None, closed=None)
    return found


def changed(judged: Judged, set_name: str) -> Changed | None:
    """Return the change that a set stands for: one that is open, else one that it shows itself."""
    own = judged.mark
    shown = judged.open or own
    if own is not None and shown is not None and shown.kind == "unconfirmed":
        shown = own  # what later sets have said of it
    if shown is None or shown.kind == "once":
        return None
    of_set = None
    if judged.open is not None and own is not None and own.is_change and own.change > 0:
        of_set = own.change
    found = Changed(kind=shown.kind, since=shown.since, ratio=shown.change, of_set=of_set)
    if own is None or own.since != shown.since:
        return found
    until = set_name if own.kind == "drift" else None
    return msgspec.structs.replace(found, until=until, together=own.together)


def with_marks(compared: Comparison, known: KnownGroups) -> Comparison:
    """Add to each case what its series says of the newer side's newest set."""
    sides = [case.a if compared.a_is_newer else case.b for case in compared.cases]
    newest = [None if side is None else side.groups[-1].row for side in sides]
    judged = as_of((row for row in newest if row is not None), known)
    marked = (
        case
        if row is None
        else msgspec.structs.replace(
            case,
            changed=changed(judged[row.group_id], row.set_name),
            alternating=judged[row.group_id].alternating,
        )
        for case, row in zip(compared.cases, newest, strict=True)
    )
    return msgspec.structs.replace(compared, cases=tuple(marked))


class CaseSets:
    """The sets of some cases that count, and what their series say of them."""

    def __init__(self, fitting: Iterable[GroupRow], known: KnownGroups) -> None:
        self._known = known
        self._rows = {row.group_id: row for row in fitting if nights.counts(row)}
        self._notable = known.notable(self._rows.values())
        self._newest = nights.newest(self._rows.values())
        self._of_newest = known.judged(self._newest.values())
        models = {row.gpu_model for row in self._rows.values()} - {UNKNOWN}
        self._has_several_models = len(models) > 1

    def changes(self, since: float | None = None) -> list[CaseChange]:
        """Return the changes that the sets show, the newest first.

        A set that differed once is no change, nor are the levels of a case that alternates.
        With ``since``, Unix seconds, only those of sets with a run since then.
        """
        alternating = self._of_alternation()
        marks: dict[str, Mark] = {}
        for group_id, judged in self._notable.items():
            mark = judged.mark
            is_shown = since is None or self._rows[group_id].ended >= since
            if mark is not None and mark.is_change and is_shown and group_id not in alternating:
                marks[group_id] = mark
        closings = self._closings()
        made = [
            CaseChange(
                group=group,
                at=group.began[0],
                mark=marks[group.key.id],
                is_open=self._is_open(group.row, marks[group.key.id]),
                closed=self._closed(group.row, marks[group.key.id], closings),
                of_several_models=self._has_several_models,
            )
            for group in self._known.groups(self._rows[group_id] for group_id in marks)
        ]
        return sorted(made, key=lambda one: -one.at)

    def alternating(self) -> list[AlternatingCase]:
        """Return the cases that alternate between two levels as of their newest sets."""
        levels = {
            row.group_id: found
            for row in self._newest.values()
            if (found := self._of_newest[row.group_id].alternating) is not None
        }
        groups = self._known.groups(self._rows[group_id] for group_id in levels)
        return [
            AlternatingCase(
                group=group,
                levels=levels[group.key.id],
                of_several_models=self._has_several_models,
            )
            for group in sorted(groups, key=lambda group: group.key)
        ]

    def _of_alternation(self) -> set[str]:
        """Return the ids of the sets of cases that alternate, from those on that showed it first.

        What they show is no change.
        """
        by_line: dict[Line, list[str]] = {
            line: [] for line, row in self._newest.items() if self._alternates(row.group_id)
        }
        its = (row for row in self._rows.values() if row.line in by_line) if by_line else ()
        for row in sorted(its, key=lambda row: row.began):
            by_line[row.line].append(row.group_id)
        found: set[str] = set()
        for sets in by_line.values():
            newest = itertools.takewhile(self._alternates, reversed(sets))
            count = sum(1 for _ in newest)
            found.update(sets[-(count + alternation.NEWEST - 1) :])
        return found

    def _alternates(self, group_id: str) -> bool:
        judged = self._notable.get(group_id, UNJUDGED)
        return judged.alternating is not None

    def _is_open(self, row: GroupRow, mark: Mark) -> bool:
        found = self._of_newest[self._newest[row.line].group_id].open
        return found is not None and found.includes(mark, row.began)

    def _closings(self) -> dict[Line, list[tuple[float, Closed]]]:
        """Return the ends of open changes with the begins of their sets, by case, oldest first."""
        found: dict[Line, list[tuple[float, Closed]]] = {}
        notable = (self._rows[group_id] for group_id in self._notable)
        for row in sorted(notable, key=lambda row: row.began):
            if (closed := self._notable[row.group_id].closed) is not None:
                found.setdefault(row.line, []).append((row.began, closed))
        return found

    def _closed(
        self, row: GroupRow, mark: Mark, closings: Mapping[Line, list[tuple[float, Closed]]]
    ) -> Closed | None:
        """Return the end of the open change that a drop was part of: the first after it."""
        if mark.change >= 0 or self._is_open(row, mark):
            return None
        later = (closed for began, closed in closings.get(row.line, ()) if began >= row.began)
        ends = (one for one in later if one.includes(mark, row.began))
        return next(ends, None)


def why_unchanged(fitting: Iterable[GroupRow], since: float | None = None) -> Note:
    """Tell why the sets of some cases show no change; with ``since``, none since then."""
    kinds: dict[str, Note] = {}
    # Of the cases with too few sets, the one with the most is told of.
    for case in sorted(cases(fitting), key=len, reverse=True):
        why = _unmarked(case)
        if why is None:
            if since is None:
                return note("no-case-changed")
            return note("no-case-changed-since", since=times.minute(since))
        kinds.setdefault(why.id, why)
    return note("no-case-judged", why=chain("and-then", (kinds[kind] for kind in sorted(kinds))))


def _unmarked(rows: Sequence[GroupRow]) -> Note | None:
    """Return why no set of a case could be judged; None if one was."""
    count = sum(row.figure is not None for row in rows)
    if rows[-1].measures == "smoke":
        return note("unjudged-smoke")
    if rows[-1].measures == "cpu":
        return note("unjudged-cpu")
    if count > case_state.FEWEST:
        return None
    if rows[-1].figure is None and count:
        there = "sets-before-newest"
    elif any(row.figure is None and row.median is not None for row in rows):
        there = "sets-before-judged"
    else:
        there = "sets-before"
    before = note(there, number=max(count - 1, 0))
    return note("unjudged-few-sets", fewest=case_state.FEWEST, there=before)
