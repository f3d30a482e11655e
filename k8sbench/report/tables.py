"""Tables as values, and their text: plain for pipes, fitted to a terminal, or Markdown.

A cell is a text with notes; notes become numbered footnotes under all tables of a document, each
once. Plain text is never cut: a pipe gets every letter. On a terminal that is too narrow, columns
that are equal in all rows are said once above the table; where that does not do, each row becomes
a paragraph. No figure is ever shortened or broken.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import msgspec

from k8sbench.report.numbers import ABSENT
from k8sbench.report.text_table import GAP, Column, clean, folded, laid_out, width_of, widths_of

NARROW_GAP = "  "
"""Between columns on a terminal, where every column counts."""
LEAST_TAIL = 20
"""The last column is wrapped only if this much is left for it."""


class Cell(msgspec.Struct, frozen=True):
    """What stands in a cell, and what must be known to read it."""

    text: str
    notes: tuple[str, ...] = ()


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under a title; the last column may be wrapped on a terminal."""

    title: str | None
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


def absent(reason: str | None, *more: str) -> Cell:
    """A cell without a value, and why."""
    return Cell(ABSENT, (reason or "not measured", *more))


def text(tables: Sequence[Table], *, width: int | None = None) -> str:
    """The tables and their footnotes as plain text; ``width`` None: as wide as they are."""
    numbers = _numbered(tables)
    parts = [_plain_table(table, numbers, width) for table in tables if table.rows]
    notes = [
        _wrapped(f"[{number}] {note}", width, indent="    ") for note, number in numbers.items()
    ]
    if notes:
        parts.append("\n".join(notes) + "\n")
    return "\n".join(parts)


def markdown(tables: Sequence[Table]) -> str:
    """The tables and their footnotes as GitHub's Markdown."""
    numbers = _numbered(tables)
    parts = []
    for table in tables:
        if not table.rows:
            continue
        lines = [f"**{_escaped(table.title)}**", ""] if table.title else []
        lines.append(_markdown_line(_escaped(column.title) for column in table.columns))
        lines.append(_markdown_line("---:" if c.right else "---" for c in table.columns))
        lines += [
            _markdown_line(
                _escaped(cell.text) + "".join(f"[^{numbers[note]}]" for note in _unique(cell.notes))
                for cell in row
            )
            for row in table.rows
        ]
        parts.append("\n".join(lines) + "\n")
    notes = [f"[^{number}]: {_escaped(note)}\n" for note, number in numbers.items()]
    return "\n".join([*parts, "".join(notes)] if notes else parts)


def _numbered(tables: Sequence[Table]) -> dict[str, int]:
    """Number the notes in the order in which a reader meets them; equal ones share a number."""
    notes = dict.fromkeys(
        note for t in tables for row in t.rows for cell in row for note in _unique(cell.notes)
    )
    return {note: number for number, note in enumerate(notes, 1)}


def _unique(notes: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(clean(note) for note in notes))


def _plain_table(table: Table, numbers: dict[str, int], width: int | None) -> str:
    title = f"{table.title}\n" if table.title else ""
    columns = list(table.columns)
    rows = [[_marked(cell, numbers) for cell in row] for row in table.rows]
    if width is None:
        return title + laid_out(columns, rows, widths_of(columns, rows))
    if (widths := _fitted(columns, rows, width)) is not None:
        return title + laid_out(columns, rows, widths, NARROW_GAP)
    if len(rows) > 1:
        kept = [
            i
            for i, column in enumerate(columns)
            if column.stays or len({row[i] for row in rows}) > 1
        ]
        said = [f"{c.title}: {rows[0][i]}" for i, c in enumerate(columns) if i not in kept]
        if said:
            title += _wrapped("In all rows: " + " · ".join(said), width, indent="  ") + "\n"
        columns = [columns[i] for i in kept]
        rows = [[row[i] for i in kept] for row in rows]
        if (widths := _fitted(columns, rows, width)) is not None:
            return title + laid_out(columns, rows, widths, NARROW_GAP)
    return title + _paragraphs(columns, rows, width)


def _marked(cell: Cell, numbers: dict[str, int]) -> str:
    marks = ",".join(str(numbers[note]) for note in _unique(cell.notes))
    return clean(cell.text) + (f" [{marks}]" if marks else "")


def _fitted(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> list[int] | None:
    """Widths with which the table fits, the last column wrapped if need be; None if it cannot."""
    *others, last = widths_of(columns, rows)
    room = width - sum(others) - len(NARROW_GAP) * len(others)
    longest = max((width_of(word) for row in rows for word in row[-1].split()), default=0)
    return [*others, min(last, room)] if room >= min(last, max(LEAST_TAIL, longest)) else None


def _paragraphs(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> str:
    """Each row as a paragraph of ``title: value``, broken between them only where they fit."""
    parts = []
    for row in rows:
        lines: list[str] = []
        for column, cell in zip(columns, row, strict=True):
            item = f"{column.title}: {cell}"
            if lines and width_of(lines[-1]) + len(GAP) + width_of(item) <= width:
                lines[-1] += GAP + item
            else:
                lines.append(("  " if lines else "") + item)
        parts += [_wrapped(line, width, indent="    ") for line in lines]
        parts.append("")
    return "\n".join(parts)


def _wrapped(line: str, width: int | None, *, indent: str) -> str:
    if width is None or width_of(line) <= width:
        return line
    own = line[: len(line) - len(line.lstrip())]
    first, *rest = folded(line.strip(), max(width - max(len(indent), len(own)), 1))
    return "\n".join([own + first, *(textwrap.indent(part, indent) for part in rest)])


def _markdown_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(words: str) -> str:
    escaped = clean(words)
    for char in "\\|<*`[":
        escaped = escaped.replace(char, f"\\{char}")
    return escaped
