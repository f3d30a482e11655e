"""Tables of results, and their text: plain for pipes, fitted to a terminal, or Markdown.

A cell is a text with notes; notes become numbered footnotes under all tables of a document, each
once. Text is never truncated. On a terminal that is too narrow, columns that are equal in all rows
are written once above the table; if that is not enough, each row becomes a paragraph. No figure is
broken.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

import msgspec

from k8sbench.report.numbers import ABSENT
from k8sbench.report.text_table import (
    GAP,
    Column,
    clean,
    fitted,
    folded,
    laid_out,
    width_of,
)

NARROW_GAP = "  "
"""Between columns on a terminal, where every column counts."""


class Cell(msgspec.Struct, frozen=True):
    """The text of a cell, and its footnotes."""

    text: str
    notes: tuple[str, ...] = ()


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under a title; the last column may be folded on a terminal."""

    title: str | None
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


def absent(reason: str | None, *more: str) -> Cell:
    """Make a cell without a value, with the reason."""
    return Cell(ABSENT, (reason or "not measured", *more))


def text(tables: Sequence[Table], *, width: int | None = None) -> str:
    """Write the tables and their footnotes as plain text; ``width`` None has no limit."""
    numbers = numbered(tables)
    parts = [_text(table, numbers, width) for table in tables if table.rows]
    items = (f"[{number}] {note}" for note, number in numbers.items())
    notes = [_wrapped(item, width, indent="    ") for item in items]
    if notes:
        parts.append("\n".join(notes) + "\n")
    return "\n".join(parts)


def markdown(tables: Sequence[Table]) -> str:
    """Write the tables and their footnotes as GitHub's Markdown."""
    numbers = numbered(tables)
    parts = []
    for table in (each for each in tables if each.rows):
        lines = [f"**{_escaped(table.title)}**", ""] if table.title else []
        lines.append(_markdown_line(_escaped(column.title) for column in table.columns))
        lines.append(_markdown_line("---:" if c.right else "---" for c in table.columns))
        rows = ((_markdown_cell(cell, numbers) for cell in row) for row in table.rows)
        lines += map(_markdown_line, rows)
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


def _text(table: Table, numbers: dict[str, int], width: int | None) -> str:
    title = f"{table.title}\n" if table.title else ""
    last = table.columns[-1]
    columns = [msgspec.structs.replace(c, whole=c is not last) for c in table.columns]
    rows = [[_marked(cell, numbers) for cell in row] for row in table.rows]
    gap = GAP if width is None else NARROW_GAP
    widths = fitted(columns, rows, width, gap)
    if widths is None and len(rows) > 1:
        kept = [
            i
            for i, column in enumerate(columns)
            if column.stays or any(row[i] != rows[0][i] for row in rows)
        ]
        once = [f"{c.title}: {rows[0][i]}" for i, c in enumerate(columns) if i not in kept]
        if once:
            title += _wrapped("In all rows: " + " · ".join(once), width, indent="  ") + "\n"
        columns = [columns[i] for i in kept]
        rows = [[row[i] for i in kept] for row in rows]
        widths = fitted(columns, rows, width, gap)
    if widths is None:
        return title + _paragraphs(columns, rows, width)
    return title + laid_out(columns, rows, widths, gap)


def _marked(cell: Cell, numbers: dict[str, int]) -> str:
    marks = ",".join(str(numbers[note]) for note in unique(cell.notes))
    return clean(cell.text) + (f" [{marks}]" if marks else "")


def _paragraphs(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Write each row as a paragraph of ``title: value``, as many per line as fit."""
    parts = []
    for row in rows:
        line = f"{columns[0].title}: {row[0]}"
        for column, cell in zip(columns[1:], row[1:], strict=True):
            item = f"{column.title}: {cell}"
            if width is not None and width_of(line + GAP + item) > width:
                parts.append(_wrapped(line, width, indent="    "))
                line = f"  {item}"
            else:
                line += GAP + item
        parts += [_wrapped(line, width, indent="    "), ""]
    return "\n".join(parts)


def _wrapped(line: str, width: int | None, *, indent: str) -> str:
    if width is None or width_of(line) <= width:
        return line
    own = line[: len(line) - len(line.lstrip())]
    first, *rest = folded(line.strip(), max(width - max(len(indent), len(own)), 1))
    return "\n".join([own + first, *(textwrap.indent(part, indent) for part in rest)])


def _markdown_cell(cell: Cell, numbers: dict[str, int]) -> str:
    return _escaped(cell.text) + "".join(f"[^{numbers[note]}]" for note in unique(cell.notes))


def _markdown_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return re.sub(r"[\\|<*`\[]", r"\\\g<0>", clean(text))
