"""Sets of a case over time, as tables and as data."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from k8sbench.measure.group.case_state import RELEVANT
from k8sbench.model.compared import CaseChange, CaseHistory, Comparison, Point
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.series import Mark
from k8sbench.report import comparing, formats, group_words
from k8sbench.report import document as document_fields
from k8sbench.report.tables import Cell, Column, Table, absent

_COLUMNS = (
    *(Column("set", stays=True, whole=True), Column("began", stays=True, optional=1)),
    *(Column("runs", right=True), Column("throughput", right=True, stays=True)),
    Column("interval", right=True, whole=True, optional=2),
    Column("change", stays=True, whole=True),
)


def _names(cases: Sequence[CaseHistory | CaseChange]) -> list[str]:
    # Several changes of a case have its name.
    newest = {one.group.row.line: one.group for one in cases}
    groups = list(newest.values())
    is_of_several = any(isinstance(one, CaseChange) and one.of_several_models for one in cases)
    base = group_words.with_models(groups, group_words.with_batch, is_of_several=is_of_several)
    found = group_words.names(groups, base)
    return [found[newest[one.group.row.line].key.id] for one in cases]


def tables(series: Sequence[CaseHistory]) -> list[Table]:
    """Lay out a table for each series, oldest set first."""
    return [
        Table(
            title=f"{name}: {one.group.unit}, {one.group.estimator}; 95 % intervals",
            columns=_COLUMNS,
            rows=tuple(_row(point, one) for point in one.points),
            complete="-o markdown",
        )
        for one, name in zip(series, _names(series), strict=True)
    ]


def _row(point: Point, series: CaseHistory) -> tuple[Cell, ...]:
    group, spread = point.group, point.group.spread
    if spread is None:
        figure = Cell(group.state, group_words.footnotes(group, "reject"))
        interval = absent("no valid figure")
    else:
        figure = Cell(formats.rate(spread.median), group_words.marks(group))
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
        return Cell(marked(point.mark))
    if series.unmarked is not None and point is series.points[-1]:
        return absent(series.unmarked)
    return Cell("")


def marked(mark: Mark) -> str:
    """Write a mark: ``◀ −5.0 %``, ``−5.0 % (once)``."""
    change = formats.signed_percent(mark.change)
    if mark.kind == "back":
        return f"{group_words.BACK} ({change} in {mark.since})"
    if mark.kind == "once":
        return f"{change} (once)"
    ends = {"unconfirmed": " (unconfirmed)", "drift": f" since {mark.since} (drift)"}
    return f"◀ {change}{ends.get(mark.kind, '')}"


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
                "unmarked": one.unmarked,
                "points": [_point(point) for point in one.points],
            }
            for one, name in zip(series, _names(series), strict=True)
        ],
    }


_OF_CHANGE = (
    *(Column("since", stays=True, whole=True), Column("case", stays=True)),
    Column("change", stays=True, whole=True, right=True),
    *(Column("seen in", optional=1), Column("kind", whole=True), Column("state", whole=True)),
)


def changes_table(changes: Sequence[CaseChange]) -> Table:
    """Lay out the changes of all cases, in the order given."""
    names = _names(changes)
    rows = [
        (
            one.mark.since,
            name,
            formats.signed_percent(one.mark.change),
            one.group.key.set_name,
            one.mark.kind,
            state(one),
        )
        for one, name in zip(changes, names, strict=True)
    ]
    return Table(
        title="Changes of all cases, the newest first",
        columns=_OF_CHANGE,
        rows=tuple(tuple(map(Cell, row)) for row in rows),
        complete="-o markdown",
    )


def state(change: CaseChange) -> str:
    """Return ``open``, ``closed`` for a drop that was recovered or accepted, or nothing.

    Nothing also of a drop that is too small to stay open.
    """
    return "open" if change.is_open else "closed" if change.mark.change <= -RELEVANT else ""


def changes_document(
    changes: Sequence[CaseChange], newest: Comparison | None = None
) -> dict[str, Any]:
    """Build the document of ``-o json`` without a benchmark.

    ``newest`` compares the newest two nights.
    """
    return {
        "schema": SCHEMA,
        "newest": None if newest is None else comparing.document(newest),
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
                "open": one.is_open,
            }
            for one, name in zip(changes, _names(changes), strict=True)
        ],
    }


_OF_SERIES = (
    *("benchmark", "framework", "variant", "case", "precision", "batch_size_per_gpu"),
    *("unit", "estimator"),
)
CHANGE_FIELDS = (
    *("name", *_OF_SERIES, "gpu_model", "group", "set", "began_at"),
    *("mark", "change", "since", "p", "open"),
)
"""Header of the CSV of changes."""
_OF_POINT = (
    *("throughput", "interval_low", "interval_high"),
    *("runs_valid", "runs_total", "image", "program", "gpu_model"),
)


def _point(point: Point) -> dict[str, Any]:
    group, spread = point.group, point.group.spread
    missing = {}
    if spread is None:
        missing["throughput"] = group_words.no_figure(group)
    if group.dates is None:
        missing["began_at"] = "the imported logs have no dates"
    if spread is None or spread.low is None:
        missing["interval"] = (spread and spread.interval_reason) or "no valid figure"
    return {
        **document_fields.group_fields(group, ("group", "set")),
        "began_at": None if group.dates is None else point.at,
        **document_fields.group_fields(group, _OF_POINT),
        "marks": list(group_words.marks(group)),
        "mark": point.mark and point.mark.kind,
        "change": point.mark and point.mark.change,
        "since": point.mark and point.mark.since,
        "p": point.mark and point.mark.p,
        "missing": missing,
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
