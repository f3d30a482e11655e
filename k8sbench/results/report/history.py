"""Sets of a case over time, as tables and as data."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from k8sbench.messages import note
from k8sbench.model import times
from k8sbench.model.compared import AlternatingCase, CaseChange, CaseHistory, Comparison, Point
from k8sbench.model.group import Changed
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.plain_text import ABSENT, counted
from k8sbench.model.series import Mark
from k8sbench.results.groups.case_state import RELEVANT
from k8sbench.results.report import compared_data, formats, group_words, next_commands, range_words
from k8sbench.results.report import document as document_fields
from k8sbench.results.report.noted_tables import Cell, Table, absent
from k8sbench.results.report.tables import Column
from k8sbench.results.report.words import english

_COLUMNS = (
    *(Column("set", stays=True, whole=True), Column("began (UTC)", stays=True, optional=1)),
    *(Column("runs", right=True), Column("throughput", right=True, stays=True)),
    Column("interval", right=True, whole=True, optional=2),
    Column("change", stays=True, whole=True),
)


def _names(cases: Sequence[CaseHistory | CaseChange | AlternatingCase]) -> list[str]:
    # Several changes of a case have its name.
    newest = {one.group.row.line: one.group for one in cases}
    groups = list(newest.values())
    is_of_several = any(one.of_several_models for one in cases if not isinstance(one, CaseHistory))
    base = group_words.with_models(groups, group_words.with_batch, is_of_several=is_of_several)
    found = group_words.names(groups, base)
    return [found[newest[one.group.row.line].key.id] for one in cases]


def tables(series: Sequence[CaseHistory]) -> list[Table]:
    """Lay out a table for each series, oldest set first."""
    return [
        Table(
            title=f"{name}: {one.group.unit}, {one.group.estimator}; 95 % intervals{_over(one)}",
            columns=_COLUMNS,
            rows=tuple(_row(point, one) for point in one.points),
            notes=tuple(_notes(one)),
            complete="-o markdown",
        )
        for one, name in zip(series, _names(series), strict=True)
    ]


def _notes(series: CaseHistory) -> Iterator[str]:
    """Yield what is to be said of a case as a whole."""
    if series.alternating is not None:
        said = group_words.alternation(series.alternating, series.group.unit)
        yield f"The case {english(said)}."
    if series.new is not None:
        words = english(group_words.new_case(series.new, series.group.unit))
        yield f"{words[0].upper()}{words[1:]}."
    if series.unjudged is not None and (command := next_commands.fixing_range(series.unjudged)):
        sets = counted(len(series.unjudged.groups), "set", ("is", "are"))
        yield f"The newest {sets} not judged over this range. To fix another one: {command}"


def _over(series: CaseHistory) -> str:
    """Name the range of a series; empty without one."""
    over = next((each.group.range for each in series.points if each.group.range is not None), None)
    return "" if over is None else f"; compared over {english(range_words.iterations(over))}"


def _row(point: Point, series: CaseHistory) -> tuple[Cell, ...]:
    group, spread = point.group, point.group.spread
    if spread is None:
        figure = Cell(group.state, tuple(group_words.footnotes(group, "reject")))
        interval = absent(note("no-valid-figure"))
    else:
        marks = tuple(mark.footnote for mark in group_words.marks(group))
        figure = Cell(formats.rate(spread.median), marks)
        ends = group_words.interval(spread)
        interval = absent(spread.interval_reason) if ends is None else Cell(ends)
    return (
        Cell(group.key.set_name),
        Cell(began(point)),
        Cell(f"{group.counted}/{len(group.members)}"),
        figure,
        interval,
        change(point, series),
    )


def change(point: Point, series: CaseHistory) -> Cell:
    """Mark a set that differs; tell at the last why none is judged."""
    if point.mark is not None:
        return Cell(marked(point.mark, point.group.key.set_name))
    if series.unmarked is not None and point is series.points[-1]:
        return absent(series.unmarked)
    return Cell("")


def marked(mark: Mark, set_name: str) -> str:
    """Write the mark of a set: ``◀ −5.0 %``, ``−5.0 % (once)``."""
    until = set_name if mark.kind == "drift" else None
    changed = Changed(
        kind=mark.kind,
        since=mark.since,
        ratio=mark.change,
        until=until,
        together=mark.together,
    )
    arrow = "◀ " if mark.is_change else ""
    return arrow + english(group_words.change(changed, own=set_name))


def began(point: Point) -> str:
    """Write when a set began, in UTC to the minute."""
    if point.group.dates is None:
        return "not stated"
    return datetime.datetime.fromtimestamp(point.at, datetime.UTC).strftime("%Y-%m-%d %H:%M")


def document(series: Sequence[CaseHistory]) -> dict[str, Any]:
    """Build the document of ``-o json``."""
    return {
        "schema": SCHEMA,
        "series": [
            {
                "name": name,
                **document_fields.group_fields(one.group, _OF_SERIES),
                "open": None if one.open is None else one.open._asdict(),
                "alternating": one.alternating and group_words.levels(one.alternating),
                "unmarked": one.unmarked and english(one.unmarked),
                "new": one.new and compared_data.new_fields(one.new),
                "points": [_point(point) for point in one.points],
            }
            for one, name in zip(series, _names(series), strict=True)
        ],
    }


_OF_CHANGE = (
    *(Column("since", stays=True, whole=True), Column("case", stays=True)),
    Column("change", stays=True, whole=True, right=True),
    *(Column("seen in", optional=1), Column("kind", whole=True), Column("state")),
)


def changes_table(
    changes: Sequence[CaseChange], alternating: Sequence[AlternatingCase] = ()
) -> Table:
    """Lay out the changes of all cases in the order given, then the cases that alternate.

    A change that cases share is one row if all of them are among the changes.
    """
    names = _names([*changes, *alternating])
    rows: dict[object, list[tuple[CaseChange, str]]] = {}
    for number, (one, name) in enumerate(zip(changes, names, strict=False)):
        shared = (one.mark.since, one.group.key.set_name, one.mark.kind, state(one))
        rows.setdefault((one.mark.together, *shared) if one.mark.together else number, []).append(
            (one, name)
        )
    lines = [line for its in rows.values() for line in _change_rows(its)]
    for case, name in zip(alternating, names[len(changes) :], strict=True):
        words = english(group_words.alternation(case.levels, case.group.unit))
        lines.append((ABSENT, name, ABSENT, case.group.key.set_name, "alternating", words))
    return Table(
        title="Changes of all cases, the newest first",
        columns=_OF_CHANGE,
        rows=tuple(tuple(map(Cell, row)) for row in lines),
        complete="-o markdown",
    )


def _change_rows(its: Sequence[tuple[CaseChange, str]]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a change that some cases share: one row if all of these are there."""
    (first, _), *_ = its
    together = first.mark.together
    if len(its) == together:
        sizes = [one.mark.change for one, _ in its]
        between = formats.signed_range(min(sizes), max(sizes), " to ")
        yield _change_row(first, f"all {together} cases together", between)
        return
    for one, name in its:
        named = f"{name} ({together} cases together)" if together else name
        yield _change_row(one, named, formats.signed_percent(one.mark.change))


def _change_row(one: CaseChange, name: str, size: str) -> tuple[str, ...]:
    return one.mark.since, name, size, one.group.key.set_name, one.mark.kind, state(one)


def state(change: CaseChange) -> str:
    """Return ``open``, or when a drop was closed, and whether by recovery or by a person.

    Nothing of a change upwards, and of a drop that is too small to stay open.
    """
    if change.is_open:
        return "open"
    if change.closed is not None:
        by = {"recovery": "by recovery", "person": "by a person"}[change.closed.by]
        return f"closed {times.minute(change.closed.at)} {by}"
    return "closed" if change.mark.change <= -RELEVANT else ""


def changes_document(
    changes: Sequence[CaseChange],
    alternating: Sequence[AlternatingCase] = (),
    newest: Comparison | None = None,
) -> dict[str, Any]:
    """Build the document of ``-o json`` without a benchmark.

    ``newest`` compares the newest two nights.
    """
    names = _names([*changes, *alternating])
    return {
        "schema": SCHEMA,
        "newest": None if newest is None else compared_data.document(newest),
        "changes": [
            {
                "name": name,
                **document_fields.group_fields(one.group, (*_OF_SERIES, "gpu_model")),
                **document_fields.group_fields(one.group, ("group", "set")),
                "began_at": one.at,
                "mark": one.mark.kind,
                "change": one.mark.change,
                "since": one.mark.since,
                "p": one.mark.p,
                "together": one.mark.together,
                "open": one.is_open,
                "closed_at": one.closed and one.closed.at,
                "closed_by": one.closed and one.closed.by,
            }
            for one, name in zip(changes, names, strict=False)
        ],
        "alternating": [
            {
                "name": name,
                **document_fields.group_fields(case.group, (*_OF_SERIES, "gpu_model")),
                "set": case.group.key.set_name,
                **group_words.levels(case.levels),
            }
            for case, name in zip(alternating, names[len(changes) :], strict=True)
        ],
    }


_OF_SERIES = (
    *("benchmark", "framework", "variant", "case", "precision", "batch_size_per_gpu"),
    *("unit", "estimator"),
)
CHANGE_FIELDS = (
    *("name", *_OF_SERIES, "gpu_model", "group", "set", "began_at"),
    *("mark", "change", "since", "p", "together", "open", "closed_at", "closed_by"),
)
"""Header of the CSV of changes."""
_OF_POINT = (
    *("throughput", "interval_low", "interval_high", "range", "throughput_in_range"),
    *("runs_valid", "runs_total", "image", "program", "gpu_model"),
)


def _point(point: Point) -> dict[str, Any]:
    group, spread = point.group, point.group.spread
    missing = {}
    if spread is None:
        missing["throughput"] = group_words.no_figure(group)
    missing |= document_fields.missing_in_range(group)
    if group.dates is None:
        missing["began_at"] = note("logs-without-dates")
    if spread is None or spread.low is None:
        missing["interval"] = (spread and spread.interval_reason) or note("no-valid-figure")
    return {
        **document_fields.group_fields(group, ("group", "set")),
        "began_at": None if group.dates is None else point.at,
        **document_fields.group_fields(group, _OF_POINT),
        "marks": [english(mark.whole) for mark in group_words.marks(group)],
        "mark": point.mark and point.mark.kind,
        "change": point.mark and point.mark.change,
        "since": point.mark and point.mark.since,
        "p": point.mark and point.mark.p,
        "together": point.mark and point.mark.together,
        **document_fields.with_messages("missing", missing),
    }


def flat_changes(changes: Sequence[CaseChange]) -> tuple[list[str], list[list[Any]]]:
    """Build the header and rows of the CSV without a benchmark."""
    _, rows = formats.flattened(changes_document(changes)["changes"])
    return list(CHANGE_FIELDS), rows


def flat(series: Sequence[CaseHistory]) -> tuple[list[str], list[list[Any]]]:
    """Build the header and rows of the CSV, one row per set and case."""
    rows = [
        {"series": one["name"], "unit": one["unit"], "estimator": one["estimator"], **point}
        for one in document(series)["series"]
        for point in one["points"]
    ]
    return formats.flattened(rows)
