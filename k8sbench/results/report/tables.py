"""Tables as plain text, fitted to a terminal, or Markdown."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from k8sbench.model.plain_text import ABSENT, clean

GAP = "   "
"""Between the columns of a table, as kubectl has it."""
NARROW_GAPS = ("  ", " ")
"""The same of a table that is too wide; the wider is tried first."""
LONGEST_WORD = 24
"""Terminal columns of the longest word that is never broken.

A longer word, such as a path or an image, may be broken.
"""
SHORTEST = (16, 10, 8)
"""Smallest widths of a cut text.

For an optional column, which is dropped instead; for others before and after optional columns are
dropped.
"""
_BREAK = re.compile(r"(?<![\d±]) (?!\[)|(?<=\d) (?=± )")
"""Blank where a line may end.

Not between a number and its unit or sign, nor before a mark.
"""
_BETWEEN = "\x1f"
"""Between the kept cells of a row; no clean text has it."""
MARKS = re.compile(r" \[[\d,]+\]$")
"""Numbers of notes at the end of a cell; never cut."""
STATE = re.compile(r"\S*(?: ◀ \S+ %)?")
"""A state with the change of its case; never cut."""
Paint = Callable[[str, str], str]
"""(state, text) → coloured text. The state is a cell's first word."""


class Column(msgspec.Struct, frozen=True):
    """One column of a table."""

    title: str
    cell: Callable[[Any], Any] | None = None
    """Function from an item to text, None, or a cell with notes.

    None itself: the rows have the text.
    """
    right: bool = False
    """True if its cells are aligned to the right, as numbers."""
    whole: bool = False
    """True if its cells are never folded, as identifiers that people copy."""
    cut: bool = False
    """True if long cells are cut with ``…`` to keep one line."""
    stays: bool = False
    """True if results always show it.

    Also if it is equal in all rows, and before other columns on a narrow terminal.
    """
    optional: int = 0
    """Order in which narrow terminals drop it, highest first; 0: never."""
    tells_apart: bool = False
    """True if rows may differ in it alone.

    Its words may be broken, but it is never dropped.
    """
    states: bool = False
    """True if its cells begin with a state or verdict, which may be coloured."""
    usual: str = ABSENT
    """Text of an optional column that is dropped if all rows have it."""


def width_of(text: str) -> int:
    """Return the terminal columns of text; wide (CJK) characters take two."""
    if text.isascii():
        return len(text)
    combining = sum(unicodedata.combining(char) > 0 for char in text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) - combining + wide


def folded(text: str, width: int, *, breaking: bool = False) -> list[str]:
    """Break text between words into lines of at most ``width`` columns.

    A longer word stays whole unless ``breaking`` is set.
    """
    lines = [""]
    for word in _words(text):
        if lines[-1] and width_of(f"{lines[-1]} {word}") > width:
            lines.append("")
        elif lines[-1]:
            lines[-1] += " "
        for part in word if breaking else (word,):
            if lines[-1] and width_of(lines[-1] + part) > width:
                lines.append("")
            lines[-1] += part
    return lines


def _words(text: str) -> list[str]:
    """Split text where a line may end."""
    return _BREAK.split(text)


def _padded(text: str, width: int, column: Column) -> str:
    blanks = " " * (width - width_of(text))
    return blanks + text if column.right else text + blanks


def shortened(text: str, width: int) -> str:
    """Cut text to ``width`` columns with ``…``; numbers of notes stay."""
    marks = MARKS.search(text)
    end = marks.group() if marks else ""
    kept = text.removesuffix(end)
    while kept and width_of(f"{kept}…{end}") > width:
        kept = kept[:-1]
    return f"{kept.rstrip()}…{end}"


def laid_out(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    fit: Fit,
    paint: Paint | None = None,
) -> str:
    """Write titles and rows as they fit, without blanks at line ends."""
    return "".join(_lines(columns, rows, fit, paint))


def _lines(
    columns: Sequence[Column],
    rows: Iterable[Sequence[str]],
    fit: Fit,
    paint: Paint | None,
) -> Iterator[str]:
    shown = [columns[n] for n in fit.kept]
    titles = [column.title for column in columns]
    for number, every in enumerate(itertools.chain([titles], rows)):
        row = [every[n] for n in fit.kept]
        cells = [
            [cell]
            if width_of(cell) <= width
            else [shortened(cell, width)]
            if column.cut
            else folded(cell, width, breaking=True)
            for column, cell, width in zip(shown, row, fit.widths, strict=True)
        ]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            padded = list(map(_padded, parts, fit.widths, shown))
            padded[-1] = padded[-1].rstrip()
            if paint is not None and number:
                padded = [
                    paint(state_of(cell), text) if column.states and text.strip() else text
                    for column, cell, text in zip(shown, row, padded, strict=True)
                ]
            yield fit.gap.join(padded).rstrip() + "\n"


def state_of(cell: str) -> str:
    """Return the state at a cell's beginning: ``ok`` of ``ok (smoke)``.

    What is more than a state is part of it: ``valid;`` is another state than ``valid``.
    """
    return cell.partition(" ")[0]


class Fit(NamedTuple):
    """Fit of a table: its columns, their widths, and the gap."""

    kept: list[int]
    widths: list[int]
    gap: str


def fitted(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int | None) -> Fit:
    """Return the columns and widths for ``room``; None: no limit.

    Titles and long texts are folded or cut, as their columns allow; then optional columns are
    dropped, then words broken that tell rows apart. The rest may be wider than the room: no figure
    or other identifier is broken.
    """
    cells = list(zip([column.title for column in columns], *rows, strict=True))
    natural = [max(map(width_of, column)) for column in cells]
    every = list(range(len(columns)))
    if room is None or sum(natural) + len(GAP) * (len(every) - 1) <= room:
        return Fit(every, natural, GAP)
    levels = [math.inf, *sorted({column.optional for column in columns} - {0}, reverse=True)]
    tries = [*((SHORTEST[1], end) for end in levels), (SHORTEST[2], levels[-1])]
    for (shortest, end), gap in itertools.product(tries, NARROW_GAPS):
        kept = [n for n in every if columns[n].optional < end]
        least = [_least(columns[n], cells[n], shortest) for n in kept]
        widths = [natural[n] for n in kept]
        spare = sum(widths) + len(gap) * (len(kept) - 1) - room
        while spare > 0 and widths != least:
            # The widest of those that can be narrower.
            widest = max(range(len(kept)), key=lambda n: (widths[n] > least[n], widths[n]))
            widths[widest] -= 1
            spare -= 1
        if spare <= 0:
            break
    return Fit(kept, widths, gap)


def _least(column: Column, cells: Sequence[str], shortest: int) -> int:
    """Return a column's smallest width; no word of its title is broken."""
    if column.cut:
        cut = (_least_cut(cell, shortest, column) for cell in cells[1:])
        return max(width_of(cells[0]), *cut)
    title, *others = cells
    longest = max(map(width_of if column.whole else _longest_word, others))
    if column.tells_apart and shortest == SHORTEST[2]:
        longest = min(longest, shortest)
    return max(_longest_word(title), longest)


def _least_cut(cell: str, shortest: int, column: Column) -> int:
    """Return the smallest width of a cut cell; states and note numbers stay."""
    end = sum(map(width_of, MARKS.findall(cell)))
    text = SHORTEST[0] if column.optional else shortest
    text = width_of(STATE.findall(cell)[0]) + 1 if column.states else text
    return min(width_of(cell), text + end)


def _longest_word(cell: str) -> int:
    return min(max(map(width_of, _words(cell))), LONGEST_WORD)


def plain_table(
    columns: Sequence[Column],
    items: Iterable[Any],
    *,
    room: int | None = None,
    paint: Paint | None = None,
) -> str:
    """Write a table of items as plain text for a terminal of ``room`` columns.

    An optional column without text is dropped.
    """
    return "".join(table_lines(columns, items, room=room, paint=paint))


def table_lines(
    columns: Sequence[Column],
    items: Iterable[Any],
    *,
    room: int | None = None,
    paint: Paint | None = None,
) -> Iterator[str]:
    """Write the table of :func:`plain_table` line by line.

    Of each item it keeps one text: there may be a hundred thousand.
    """
    rows: list[str] = []
    has_text = [not column.optional for column in columns]
    widths = [width_of(column.title) for column in columns]
    for item in items:
        texts = [one.cell(item) if one.cell else item[n] for n, one in enumerate(columns)]
        cells = [ABSENT if text is None else clean(text) for text in texts]
        for n, cell in enumerate(cells):
            widths[n] = max(widths[n], width_of(cell))
            has_text[n] = has_text[n] or cell not in {ABSENT, columns[n].usual}
        rows.append(_BETWEEN.join(cells))
    shown = list(itertools.compress(columns, has_text))
    natural = list(itertools.compress(widths, has_text))
    split = (list(itertools.compress(row.split(_BETWEEN), has_text)) for row in rows)
    if room is None:
        yield from _lines(shown, split, Fit(list(range(len(shown))), natural, GAP), paint)
    else:
        every = list(split)
        yield from _lines(shown, every, fitted(shown, every, room), paint)


def wrapped(line: str, width: int | None, *, indent: str) -> str:
    """Break a line between words; further lines are indented."""
    if width is None or width_of(line) <= width:
        return line
    own = line[: len(line) - len(line.lstrip())]
    first, *rest = folded(line.strip(), max(width - max(len(indent), len(own)), 1))
    return "\n".join([own + first, *(textwrap.indent(part, indent) for part in rest)])


# -- tables with notes ----------------------------------------------------------------------------
#
# A cell is a text with notes: why it has no figure, or what a reader must know. The causes follow
# the table, each once with the number of rows. Rows have the number of a cause that not all rows
# have. No figure is broken or cut.

MOST_CAUSES = 10
"""Maximum lines of causes below a plain table; k8sbench explain has the rest."""


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
    """True if values common to all rows stand above a plain table."""
    complete: str = "-o wide"
    """Format that has the columns without room."""
    counts: tuple[str, str, str] = (
        "{count} of {rows} rows",
        "all rows",
        "and {count} more causes: k8sbench explain RUN names all of a run",
    )
    """Words for a note of some rows, of all, and for the causes that are left out."""


class _Cause(msgspec.Struct):
    """A note of a table."""

    is_of_gap: bool
    """True if it tells why a cell is empty; such causes come last."""
    titles: list[str] = []
    """Titles of its columns."""
    rows: list[int] = []
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
    table: Table, width: int | None, paint: Paint | None, out: tuple[str, ...] | None = None
) -> str:
    """Write one table; ``out`` has the titles of dropped columns."""
    # A single row has a caption only where it does not fit without.
    is_alone = len(table.rows) == 1 and out is None
    caption, places = ("", [*range(len(table.columns))]) if is_alone else captioned(table)
    titled = _with_titles(table)
    marks, notes = causes(titled, MOST_CAUSES)
    below = list(map(_numbered, notes))
    rows = [[clean(row[n].text) for n in places] for row in table.rows]
    for cells, mark in zip(rows, marks, strict=True):
        cells[-1] += _marks(mark)
    columns = [titled.columns[n] for n in places]
    fit = fitted(columns, rows, width)
    if is_alone and len(fit.kept) < len(columns):
        return _text(table, width, paint, ())
    if len(fit.kept) < len(columns):
        gone = [n for n in range(len(columns)) if n not in fit.kept]
        out = (*(out or ()), *(columns[n].title for n in gone))
        return _text(without(table, [places[n] for n in gone]), width, paint, out)
    if out:
        below.append(f"{', '.join(out)}: no room in {width} columns; {table.complete} has it")
    lines = "".join(wrapped(line, width, indent="    ") + "\n" for line in below)
    return (
        (wrapped(table.title, width, indent="  ") + "\n" if table.title else "")
        + (wrapped(caption, width, indent="  ") + "\n" if caption else "")
        + laid_out(columns, rows, fit, paint)
        + (f"\n{lines}" if lines else "")
    )


def _marks(numbers: Sequence[int]) -> str:
    """Write the numbers of a row's causes: `` [1,3]``."""
    return f" [{','.join(map(str, numbers))}]" if numbers else ""


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


Note = tuple[int | None, str]
"""A line below a table, and its number; None: it is of all rows."""


def _numbered(note: Note) -> str:
    number, text = note
    return text if number is None else f"[{number}] {text}"


def causes(table: Table, most: int | None = None) -> tuple[list[list[int]], list[Note]]:
    """Return the numbers of causes per row, and the lines below the table.

    At most ``most`` lines of causes; the last one counts the rest.
    """
    found: dict[str, _Cause] = {}
    merged = _merged(clean(note) for row in table.rows for cell in row for note in cell.notes)
    for place, row in enumerate(table.rows):
        for column, cell in zip(table.columns, row, strict=True):
            for note in map(merged.__getitem__, map(clean, cell.notes)):
                is_of_gap = cell.text == ABSENT and _id_of(note) is None
                cause = found.setdefault(note, _Cause(is_of_gap))
                cause.titles += [column.title] * (column.title not in cause.titles)
                cause.rows += [place] * (place not in cause.rows)
    listed = sorted(found, key=lambda note: found[note].is_of_gap)
    left_out = 0
    if most is not None and len(listed) > most:
        listed, left_out = listed[: most - 1], len(listed) - most + 1
    some = [note for note in listed if len(found[note].rows) < len(table.rows)]
    lines: list[Note] = [
        (some.index(note) + 1 if note in some else None, _cause_line(note, found[note], table))
        for note in listed
    ]
    lines.sort(key=lambda line: (line[0] is None, line[0] or 0))  # the numbered ones first
    if left_out:
        lines.append((None, table.counts[2].format(count=left_out)))
    marks = [
        [n for n, note in enumerate(some, 1) if place in found[note].rows]
        for place in range(len(table.rows))
    ]
    return marks, [*lines, *((None, note) for note in table.notes)]


_NUMBER = re.compile(r"(?<![\w.,:/−-])\d+(?![\w:/-]|[.,]\d)")
"""A whole number that is no part of a date or figure."""


def _merged(notes: Iterable[str]) -> dict[str, str]:
    """Map each note → itself, or a common note of several runs.

    Such notes differ in one number, and the common one lists the numbers.
    """
    alike: dict[tuple[str | None, str], list[str]] = {}
    for note in dict.fromkeys(notes):
        sentence = note.partition(": ")[2]
        alike.setdefault((_id_of(note), _NUMBER.sub("", sentence)), []).append(note)
    merged: dict[str, str] = {}
    for (name, _), some in alike.items():
        sentences = [note.partition(": ")[2] for note in some]
        numbers = [set(each) for each in zip(*map(_NUMBER.findall, sentences), strict=True)]
        merged |= dict(zip(some, some, strict=True))
        of_runs = name and all(note.startswith(f"{name} (") for note in some)
        if of_runs and len(some) > 1 and sum(len(each) > 1 for each in numbers) <= 1:
            listed = iter([", ".join(sorted(each, key=int)) for each in numbers])
            parts = _NUMBER.split(sentences[0])
            sentence = "".join(part + next(listed, "") for part in parts)
            merged |= dict.fromkeys(some, f"{name}: {sentence}")
    return merged


def _id_of(note: str) -> str | None:
    """Return the id at a note's beginning: ``outlier`` of ``outlier (2 runs): …``."""
    name, colon, _ = note.partition(": ")
    name = name.partition(" (")[0]
    return name if colon and " " not in name else None


def _cause_line(note: str, cause: _Cause, table: Table) -> str:
    """Write a cause with the number of its rows."""
    name = _id_of(note)
    head = name or ", ".join(cause.titles)
    if len(cause.rows) == 1:
        return note if name else f"{head}: {note}"
    if name and name[0].isdigit():  # a case, of which the note is
        head = ", ".join(cause.titles)
        name = None
    rows = len(table.rows)
    count = table.counts[len(cause.rows) == rows].format(count=len(cause.rows), rows=rows)
    return f"{head}: {count}; {note.partition(': ')[2] if name else note}"


def markdown(tables: Sequence[Table]) -> str:
    """Write the tables and their causes as GitHub's Markdown.

    Values common to the rows of a captioned table stand above it.
    """
    parts = []
    for whole in (each for each in tables if each.rows):
        marks, below = causes(whole)
        lines = [f"**{escaped(whole.title)}**", ""] if whole.title else []
        caption, places = captioned(whole) if len(whole.rows) > 1 else ("", None)
        lines += [escaped(caption), ""] if caption else []
        every = range(len(whole.columns))
        table = without(whole, [n for n in every if places is not None and n not in places])
        lines.append(_markdown_line(Cell(column.title) for column in table.columns))
        lines.append("| " + " | ".join("---:" if c.right else "---" for c in table.columns) + " |")
        for row, mark in zip(table.rows, marks, strict=True):
            *cells, last = row
            marked = msgspec.structs.replace(last, text=last.text + _marks(mark))
            lines.append(_markdown_line([*cells, marked]))
        lines += [part for note in below for part in ("", escaped(_numbered(note)))]
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
    return f"| {' | '.join(escaped(cell.text) for cell in cells)} |"


def escaped(text: str) -> str:
    """Escape text for Markdown."""
    return re.sub(r"[\\|<*`\[]", r"\\\g<0>", clean(text))
