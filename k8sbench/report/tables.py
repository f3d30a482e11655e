"""Tables of results as plain text, fitted to a terminal, or Markdown.

A cell is a text with notes: why it has no figure, or what a reader must know. The causes follow the
table: notes that differ only in numbers become one line with the number of rows and the ranges of
the numbers. Rows have the number of a cause that not all rows have. No figure is broken or cut.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

import msgspec

from k8sbench.model.counts import ABSENT
from k8sbench.model.plain_text import clean
from k8sbench.report.text_table import Column, Paint, fitted, laid_out, wrapped

MOST_CAUSES = 10
"""Maximum lines of causes below a plain table; k8sbench explain has the rest."""
_NUMBER = re.compile(r"(?<![\w.:+−-])\d+(?:,\d{3})*(?:\.\d+)?(?!\w|[:.,-]\w)")
"""A number that can be part of a range.

Not part of a name, a date, a time or a signed figure.
"""


class Cell(msgspec.Struct, frozen=True):
    """The text of a cell, and its footnotes."""

    text: str
    notes: tuple[str, ...] = ()
    is_markdown: bool = False
    """True if the text is Markdown, such as a link, and not escaped."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under a title."""

    title: str | None
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    """Lines below the rows, on all of them."""
    captioned: bool = False
    """True if values common to all rows stand above a plain table."""


class _Cause(msgspec.Struct):
    """Notes of a table that differ only in numbers."""

    texts: list[str]
    """All of them that differ."""
    is_of_gap: bool = False
    """True if it tells why a cell is empty; such causes come last."""
    titles: list[str] = msgspec.field(default_factory=list)
    """Titles of its columns."""
    rows: list[int] = msgspec.field(default_factory=list)
    """Places of the rows."""


def absent(reason: str | None, *more: str) -> Cell:
    """Make a cell without a value, with the reason."""
    return Cell(ABSENT, (reason or "not measured", *more))


def text(tables: Sequence[Table], *, width: int | None = None, paint: Paint | None = None) -> str:
    """Write tables and causes as plain text; ``width`` None has no limit.

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
    """Write one table; ``out`` has the titles of dropped columns.

    A single row has no caption, unless it ``is_tight``.
    """
    every = list(range(len(table.columns)))
    caption, places = captioned(table) if len(table.rows) > 1 or is_tight else ("", every)
    titled = _with_titles(table)
    marks, below = causes(titled, MOST_CAUSES)
    rows = [[clean(row[n].text) for n in places] for row in table.rows]
    for cells, mark in zip(rows, marks, strict=True):
        cells[-1] += mark
    columns = [titled.columns[n] for n in places]
    fit = fitted(columns, rows, width)
    if width is not None and fit.takes > width and len(rows) == 1 and not is_tight:
        return _text(table, width, paint, out, is_tight=True)
    if len(fit.kept) < len(columns):
        gone = [places[n] for n in range(len(columns)) if n not in fit.kept]
        out = tuple(columns[n].title for n in range(len(columns)) if n not in fit.kept)
        return _text(without(table, gone), width, paint, out, is_tight=is_tight)
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
    """Drop columns with their notes."""
    kept = [n for n in range(len(table.columns)) if n not in gone]
    return msgspec.structs.replace(
        table,
        columns=tuple(table.columns[n] for n in kept),
        rows=tuple(tuple(row[n] for n in kept) for row in table.rows),
    )


def captioned(table: Table) -> tuple[str, list[int]]:
    """Write the values common to all rows; return the remaining columns."""
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


def causes(table: Table, most: int | None = None) -> tuple[list[str], list[str]]:
    """Return the numbers of causes per row, and the lines below the table.

    At most ``most`` lines of causes; the last one counts the rest.
    """
    found: dict[tuple[str | None, str], _Cause] = {}
    for place, row in enumerate(table.rows):
        for column, cell in zip(table.columns, row, strict=True):
            for note in map(clean, cell.notes):
                name = _id_of(note)
                is_of_gap = cell.text == ABSENT and name is None
                says = note if name is None else note.partition(": ")[2]
                cause = found.setdefault((name, _NUMBER.sub("#", says)), _Cause([], is_of_gap))
                cause.texts += [note] * (note not in cause.texts)
                cause.titles += [column.title] * (column.title not in cause.titles)
                cause.rows += [place] * (place not in cause.rows)
    listed = sorted(found.values(), key=lambda cause: cause.is_of_gap)
    left_out = 0
    if most is not None and len(listed) > most:
        listed, left_out = listed[: most - 1], len(listed) - most + 1
    some = [cause for cause in listed if len(cause.rows) < len(table.rows)]
    lines = [
        (f"[{some.index(cause) + 1}] " if cause in some else "")
        + _cause_line(cause, len(table.rows))
        for cause in listed
    ]
    if left_out:
        lines.append(f"and {left_out} causes more: k8sbench explain RUN names all of a run")
    marks = [
        _marks([n for n, cause in enumerate(some, 1) if place in cause.rows])
        for place in range(len(table.rows))
    ]
    return marks, [*lines, *table.notes]


def _id_of(note: str) -> str | None:
    """Return the id at a note's beginning: ``outlier`` of ``outlier (2 runs): …``."""
    name, colon, _ = note.partition(": ")
    name = name.partition(" (")[0]
    return name if colon and " " not in name else None


def _cause_line(cause: _Cause, rows: int) -> str:
    """Write a cause with the number of its rows."""
    name, first = _id_of(cause.texts[0]), cause.texts[0]
    if len(cause.rows) == 1 and len(cause.texts) == 1:
        return first if name else f"{', '.join(cause.titles)}: {first}"
    says = _merged([text if name is None else text.partition(": ")[2] for text in cause.texts])
    count = f"{len(cause.rows)} of {rows} rows" if len(cause.rows) < rows else f"all {rows} rows"
    if name is None:
        return f"{', '.join(cause.titles)}: {count}; {says}"
    return f"{name}: {count}; {says}"


def _merged(texts: Sequence[str]) -> str:
    """Merge texts that differ only in numbers, with ranges of the numbers."""
    ranges = []
    for numbers in zip(*map(_NUMBER.findall, texts), strict=True):
        some = sorted(set(numbers), key=lambda number: float(number.replace(",", "")))
        ranges.append("–".join(dict.fromkeys((some[0], some[-1]))))
    return "".join(
        part + number
        for part, number in itertools.zip_longest(_NUMBER.split(texts[0]), ranges, fillvalue="")
    )


def markdown(tables: Sequence[Table]) -> str:
    """Write the tables and their causes as GitHub's Markdown."""
    parts = []
    for table in (each for each in tables if each.rows):
        marks, below = causes(table)
        lines = [f"**{escaped(table.title)}**", ""] if table.title else []
        lines.append(_markdown_line(Cell(column.title) for column in table.columns))
        lines.append("| " + " | ".join("---:" if c.right else "---" for c in table.columns) + " |")
        for row, mark in zip(table.rows, marks, strict=True):
            *cells, last = row
            marked = msgspec.structs.replace(last, text=last.text + mark)
            lines.append(_markdown_line([*cells, marked]))
        lines += [part for note in below for part in ("", escaped(note))]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _with_titles(table: Table) -> Table:
    """Write titles in capitals, as kubectl does, except for units."""

    def capitals(title: str) -> str:
        return " ".join(
            word if "/" in word or word[:1] == "(" else word.upper() for word in title.split(" ")
        )

    columns = (msgspec.structs.replace(c, title=capitals(c.title)) for c in table.columns)
    return msgspec.structs.replace(table, columns=tuple(columns))


def _markdown_line(cells: Iterable[Cell]) -> str:
    texts = (cell.text if cell.is_markdown else escaped(cell.text) for cell in cells)
    return f"| {' | '.join(texts)} |"


def escaped(text: str) -> str:
    """Escape text for Markdown."""
    return re.sub(r"[\\|<*`\[]", r"\\\g<0>", clean(text))
