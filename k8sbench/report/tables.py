"""Tables of results, and their text: plain for pipes, fitted to a terminal, or Markdown.

A cell is a text with notes: why it has no figure, what a reader must know of it. In plain text a
table is followed by its causes: notes with one id, or one text, are one line that says how many
rows it holds for, and rows that not all share it with bear its number at their end. In Markdown and
on the page every note is a footnote. No figure is broken or cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

import msgspec

from k8sbench.model.counts import ABSENT
from k8sbench.model.plain_text import clean
from k8sbench.report.text_table import Column, Paint, fitted, laid_out, wrapped

MOST_CAUSES = 10
"""Lines below a table of plain text that say why; k8sbench explain has the rest."""


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
    captioned: bool = False
    """Whether plain text has above the rows, once, what is the same in all of them."""
    as_is: bool = False
    """Whether plain text has the headings as they are, instead of in capitals."""


class _Cause(msgspec.Struct):
    """Notes of a table that say the same."""

    text: str
    """Of the first of them."""
    titles: list[str] = msgspec.field(default_factory=list)
    """Of the columns that they are in."""
    rows: list[int] = msgspec.field(default_factory=list)
    """Places of the rows."""


def absent(reason: str | None, *more: str) -> Cell:
    """Make a cell without a value, with the reason."""
    return Cell(ABSENT, (reason or "not measured", *more))


def text(tables: Sequence[Table], *, width: int | None = None, paint: Paint | None = None) -> str:
    """Write the tables and their causes as plain text; ``width`` None has no limit.

    ``paint`` colours the columns of states.
    """
    return "\n".join(_text(table, width, paint) for table in tables if table.rows)


def _text(
    table: Table,
    width: int | None,
    paint: Paint | None,
    out: tuple[str, ...] = (),
    *,
    is_tight: bool = False,
) -> str:
    """Write one table; ``out``: titles of the columns that there was no room for.

    One row needs no caption, unless it ``is_tight``.
    """
    every = list(range(len(table.columns)))
    caption, places = captioned(table) if len(table.rows) > 1 or is_tight else ("", every)
    causes = list(_causes(table).items())
    causes.sort(key=lambda cause: _id_of(cause[1].text) is None)
    if len(causes) > MOST_CAUSES:
        causes, left_out = causes[: MOST_CAUSES - 1], len(causes) - MOST_CAUSES + 1
    else:
        left_out = 0
    some = [cause for _, cause in causes if len(cause.rows) < len(table.rows)]
    rows = []
    for place, row in enumerate(table.rows):
        cells = [clean(row[n].text) for n in places]
        cells[-1] += _marks([n for n, cause in enumerate(some, 1) if place in cause.rows])
        rows.append(cells)
    columns = [table.columns[n] for n in places]
    if not table.as_is:
        columns = [msgspec.structs.replace(c, title=_capitals(c.title)) for c in columns]
    fit = fitted(columns, rows, width)
    if width is not None and fit.takes > width and len(rows) == 1 and not is_tight:
        return _text(table, width, paint, out, is_tight=True)
    if len(fit.kept) < len(columns):
        gone = [places[n] for n in range(len(columns)) if n not in fit.kept]
        out = tuple(columns[n].title for n in range(len(columns)) if n not in fit.kept)
        return _text(without(table, gone), width, paint, out, is_tight=is_tight)
    below = [
        (f"[{some.index(cause) + 1}] " if cause in some else "") + _said(cause, len(rows))
        for _, cause in causes
    ]
    if left_out:
        below.append(f"and {left_out} causes more: k8sbench explain RUN names all of a run")
    below += table.notes
    if out:
        below.append(f"{', '.join(out)}: no room in {width} columns; -o wide has it")
    lines = "".join(wrapped(line, width, indent="    ") + "\n" for line in below)
    return (
        (f"{table.title}\n" if table.title else "")
        + (wrapped(caption, width, indent="  ") + "\n" if caption else "")
        + laid_out(columns, rows, fit.widths, fit.gap, paint)
        + (f"\n{lines}" if lines else "")
    )


def _marks(numbers: Sequence[int]) -> str:
    """Write the numbers of a row's causes: `` [1,3–5]``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    words = ("–".join(map(str, dict.fromkeys((part[0], part[-1])))) for part in parts)
    return f" [{','.join(words)}]" if parts else ""


def without(table: Table, gone: Sequence[int]) -> Table:
    """Leave columns out, and what their notes say."""
    kept = [n for n in range(len(table.columns)) if n not in gone]
    return msgspec.structs.replace(
        table,
        columns=tuple(table.columns[n] for n in kept),
        rows=tuple(tuple(row[n] for n in kept) for row in table.rows),
    )


def captioned(table: Table) -> tuple[str, list[int]]:
    """Write what is the same in all rows, and choose the columns that are left."""
    places = range(len(table.columns))
    if not table.captioned:
        return "", list(places)
    values = [{clean(row[n].text) for row in table.rows} for n in places]
    once = [n for n in places if values[n] == {ABSENT}] + [
        n for n in places if len(values[n]) == 1 and not table.columns[n].stays
    ]
    same = [(table.columns[n].title, clean(table.rows[0][n].text)) for n in once]
    # Why a column has no value at all stands below the table.
    words = (f"{title}: {value}" for title, value in same if value != ABSENT)
    return " · ".join(words), [n for n in places if n not in once]


def _causes(table: Table) -> dict[str, _Cause]:
    """Gather the notes of a table by what they say: those that begin with an id by that."""
    causes: dict[str, _Cause] = {}
    for place, row in enumerate(table.rows):
        for column, cell in zip(table.columns, row, strict=True):
            for note in unique(cell.notes):
                cause = causes.setdefault(_id_of(note) or note, _Cause(note))
                cause.titles += [column.title] * (column.title not in cause.titles)
                cause.rows += [place] * (place not in cause.rows)
    return causes


def _id_of(note: str) -> str | None:
    """Return the id that a note begins with: ``outlier`` of ``outlier (2 runs): …``."""
    name, colon, _ = note.partition(": ")
    name = name.partition(" (")[0]
    return name if colon and " " not in name else None


def _said(cause: _Cause, rows: int) -> str:
    """Write what a cause says, after how many of the rows it says it of."""
    name = _id_of(cause.text)
    if len(cause.rows) == 1:
        return cause.text if name else f"{_capitals(', '.join(cause.titles))}: {cause.text}"
    count = f"{len(cause.rows)} of {rows} rows" if len(cause.rows) < rows else f"all {rows} rows"
    if name is None:
        return f"{_capitals(', '.join(cause.titles))}: {count}; {cause.text}"
    return f"{name}: {count}; {cause.text.partition(': ')[2]}"


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


def html(tables: Sequence[Table], title: str, lang: str) -> str:
    """Write the tables as a page by itself, without their notes."""
    parts = []
    for table in tables:
        parts.append(f"<h2>{escape(clean(table.title or ''))}</h2>\n<table>\n<tr>")
        parts += (f"<th>{escape(clean(column.title))}</th>" for column in table.columns)
        for row in table.rows:
            parts.append("</tr>\n<tr>")
            parts += (f"<td>{escape(clean(cell.text))}</td>" for cell in row)
        parts.append("</tr>\n</table>\n")
    style = "body{font-family:sans-serif}table{border-collapse:collapse}"
    style += "th,td{border:1px solid;padding:.2em .6em;text-align:right}"
    return (
        f'<!DOCTYPE html>\n<html lang="{lang}"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>\n"
        f"<h1>{escape(title)}</h1>\n{''.join(parts)}</body></html>\n"
    )


def _capitals(title: str) -> str:
    """Write a title as kubectl writes those of columns, but for units."""
    return " ".join(
        word if "/" in word or word[:1] == "(" else word.upper() for word in title.split(" ")
    )


def said_once(table: Table) -> Table:
    """Take the notes that every cell of a column has out of the cells, to below the table."""
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

    def kept(cell: Cell, column: Column) -> Cell:
        gone = of_column[column.title]
        return Cell(cell.text, tuple(note for note in unique(cell.notes) if note not in gone))

    rows = tuple(
        tuple(kept(cell, column) for cell, column in zip(row, table.columns, strict=True))
        for row in table.rows
    )
    said = [f"{', '.join(its)}: {note}" for note, its in titles.items()]
    return msgspec.structs.replace(table, rows=rows, notes=(*table.notes, *said))


def _markdown_cell(cell: Cell, numbers: dict[str, int]) -> str:
    return _escaped(cell.text) + "".join(f"[^{numbers[note]}]" for note in unique(cell.notes))


def _markdown_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return re.sub(r"[\\|<*`\[]", r"\\\g<0>", clean(text))
