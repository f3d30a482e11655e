"""Tables of results, and their text: plain for pipes, fitted to a terminal, or Markdown.

A cell is a text with notes, which become numbered footnotes under all tables of a document, each
once; one that every cell of a column has can be written below the table instead. Text is never
truncated. On a terminal that is too narrow, cells are folded between words; then columns that are
equal in all rows are written once above the table; then optional columns are left out, and named
below it; if that is not enough, each row becomes a paragraph. No figure is broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from k8sbench.model.counts import ABSENT
from k8sbench.model.plain_text import clean
from k8sbench.report.text_table import (
    GAP,
    NARROW_GAP,
    Column,
    Paint,
    fitted,
    laid_out,
    paragraphs,
    wrapped,
)


class Cell(msgspec.Struct, frozen=True):
    """The text of a cell, and its footnotes."""

    text: str
    notes: tuple[str, ...] = ()


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under a title."""

    title: str | None
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    """Lines below the rows, on all of them."""
    capitals: bool = False
    """Whether plain text has the titles of its columns in capitals, as kubectl writes them."""
    said_once: bool = False
    """Whether a note that every cell of a column has is written below the rows, once."""


def absent(reason: str | None, *more: str) -> Cell:
    """Make a cell without a value, with the reason."""
    return Cell(ABSENT, (reason or "not measured", *more))


def text(tables: Sequence[Table], *, width: int | None = None, paint: Paint | None = None) -> str:
    """Write the tables and their footnotes as plain text; ``width`` None has no limit.

    ``paint`` colours the columns of states.
    """
    tables = [said_once(_headed(table)) for table in tables]
    numbers = numbered(tables)
    tables = [_without_optional(table, numbers, width) for table in tables]
    numbers = numbered(tables)
    parts = [_text(table, numbers, width, paint) for table in tables if table.rows]
    items = (f"[{number}] {note}" for note, number in numbers.items())
    notes = [wrapped(item, width, indent="    ") for item in items]
    if notes:
        parts.append("\n".join(notes) + "\n")
    return "\n".join(parts)


def markdown(tables: Sequence[Table]) -> str:
    """Write the tables and their footnotes as GitHub's Markdown."""
    tables = [said_once(table) for table in tables]
    numbers = numbered(tables)
    parts = []
    for table in (each for each in tables if each.rows):
        lines = [f"**{_escaped(table.title)}**", ""] if table.title else []
        lines.append(_markdown_line(_escaped(column.title) for column in table.columns))
        lines.append(_markdown_line("---:" if c.right else "---" for c in table.columns))
        rows = ((_markdown_cell(cell, numbers) for cell in row) for row in table.rows)
        lines += map(_markdown_line, rows)
        lines += [part for note in table.notes for part in ("", _escaped(note))]
        parts.append("\n".join(lines) + "\n")
    notes = [f"[^{number}]: {_escaped(note)}\n" for note, number in numbers.items()]
    return "\n".join([*parts, "".join(notes)] if notes else parts)


def numbered(tables: Sequence[Table]) -> dict[str, int]:
    """Number the notes of tables in reading order; equal ones share a number."""
    notes = dict.fromkeys(
        note for t in tables for row in t.rows for cell in row for note in unique(cell.notes)
    )
    return {note: number for number, note in enumerate(notes, 1)}


def unique(notes: Sequence[str]) -> list[str]:
    """Return the notes of a cell, each once."""
    return list(dict.fromkeys(clean(note) for note in notes))


def _headed(table: Table) -> Table:
    """Write the titles of the columns in capitals, but for units."""
    if not table.capitals:
        return table
    return msgspec.structs.replace(
        table,
        columns=tuple(
            msgspec.structs.replace(column, title=_capitals(column.title))
            for column in table.columns
        ),
    )


def _capitals(title: str) -> str:
    return " ".join(word if "/" in word else word.upper() for word in title.split(" "))


def said_once(table: Table) -> Table:
    """Take the notes that every cell of a column has out of the cells, to below the table."""
    if not table.said_once:
        return table
    titles: dict[str, list[str]] = {}
    for place, column in enumerate(table.columns):
        found = [set(unique(row[place].notes)) for row in table.rows]
        for note in unique(table.rows[0][place].notes) if found else ():
            if all(note in notes for notes in found):
                titles.setdefault(note, []).append(column.title)
    if not titles:
        return table
    of_column = {
        column.title: {note for note, its in titles.items() if column.title in its}
        for column in table.columns
    }

    def without(cell: Cell, column: Column) -> Cell:
        gone = of_column[column.title]
        return Cell(cell.text, tuple(note for note in unique(cell.notes) if note not in gone))

    rows = tuple(
        tuple(without(cell, column) for cell, column in zip(row, table.columns, strict=True))
        for row in table.rows
    )
    said = [f"{', '.join(its)}: {note}" for note, its in titles.items()]
    return msgspec.structs.replace(table, rows=rows, notes=(*table.notes, *said))


def _without_optional(table: Table, numbers: dict[str, int], width: int | None) -> Table:
    """Leave as many optional columns out as it takes, and say so; none where that is no help."""
    if width is None or not table.rows or _fitted(table, numbers, width)[-1] is not None:
        return table
    for least in sorted({column.optional for column in table.columns} - {0}, reverse=True):
        kept = [i for i, column in enumerate(table.columns) if column.optional < least]
        out = [column.title for column in table.columns if column.optional >= least]
        notes = [n for n in table.notes if not set(n.partition(": ")[0].split(", ")) <= set(out)]
        fewer = msgspec.structs.replace(
            table,
            columns=tuple(table.columns[i] for i in kept),
            rows=tuple(tuple(row[i] for i in kept) for row in table.rows),
            notes=(*notes, f"{', '.join(out)}: no room in {width} columns; -o wide has it"),
        )
        if _fitted(fewer, numbers, width)[-1] is not None:
            return fewer
    return table


def _fitted(
    table: Table, numbers: dict[str, int], width: int | None
) -> tuple[str, list[Column], list[list[str]], list[int] | None]:
    """Choose the columns: a line on those that are equal in all rows, the others, their widths.

    The widths are None where the table does not fit.
    """
    columns = list(table.columns)
    rows = [[_marked(cell, numbers) for cell in row] for row in table.rows]
    gap = GAP if width is None else NARROW_GAP
    widths, equal = fitted(columns, rows, width, gap), ""
    if widths is None and len(rows) > 1:
        kept = [
            i
            for i, column in enumerate(columns)
            if column.stays or any(row[i] != rows[0][i] for row in rows)
        ]
        once = [f"{c.title}: {rows[0][i]}" for i, c in enumerate(columns) if i not in kept]
        if once:
            equal = wrapped("In all rows: " + " · ".join(once), width, indent="  ") + "\n"
        columns = [columns[i] for i in kept]
        rows = [[row[i] for i in kept] for row in rows]
        widths = fitted(columns, rows, width, gap)
    return equal, columns, rows, widths


def _text(table: Table, numbers: dict[str, int], width: int | None, paint: Paint | None) -> str:
    title = f"{table.title}\n" if table.title else ""
    below = "".join(wrapped(note, width, indent="    ") + "\n" for note in table.notes)
    equal, columns, rows, widths = _fitted(table, numbers, width)
    if widths is None:
        return title + equal + paragraphs(columns, rows, width) + below
    gap = GAP if width is None else NARROW_GAP
    below = f"\n{below}" if below else ""
    return title + equal + laid_out(columns, rows, widths, gap, paint) + below


def _marked(cell: Cell, numbers: dict[str, int]) -> str:
    marks = ",".join(str(numbers[note]) for note in unique(cell.notes))
    return clean(cell.text) + (f" [{marks}]" if marks else "")


def _markdown_cell(cell: Cell, numbers: dict[str, int]) -> str:
    return _escaped(cell.text) + "".join(f"[^{numbers[note]}]" for note in unique(cell.notes))


def _markdown_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return re.sub(r"[\\|<*`\[]", r"\\\g<0>", clean(text))
