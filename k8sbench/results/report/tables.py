"""Tables as plain text, fitted to a terminal."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from k8sbench.messages import Note
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
    """Title in English."""
    cell: Callable[[Any], Any] | None = None
    """Function from an item to text, None, or a cell with notes.

    None itself: the rows have the text.
    """
    heading: Note | None = None
    """Title as a message, where the table is written in other languages, too."""
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
