"""Plain text for a terminal: measuring, folding, tables."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from k8sbench.model.counts import ABSENT
from k8sbench.model.plain_text import clean

GAP = "   "
"""Between the columns of a table, as kubectl has it."""
NARROW_GAP, NARROWEST_GAP = "  ", " "
"""Gaps between columns on a terminal: normal, and the smallest."""
LONGEST_WORD = 24
"""Terminal columns of the longest word that is never broken.

A longer word, such as a path or an image, may be broken.
"""
SHORTEST = (16, 10, 8)
"""Smallest widths of a cut text.

For an optional column, which is dropped instead; for others before and after optional columns are
dropped.
"""
MARKS = re.compile(r" \[[\d,–]+\]$")
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
    states: bool = False
    """True if its cells begin with a state or verdict, which may be coloured."""


def width_of(text: str) -> int:
    """Return the terminal columns of text; wide (CJK) characters take two."""
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
    """Split text where a line may end.

    Not between a number and its unit or sign, nor before a mark.
    """
    first, *rest = text.split(" ")
    words = [first]
    for word in rest:
        if words[-1] == "±" or (words[-1][-1:].isdigit() and word != "±") or word.startswith("["):
            joined = f"{words[-1]} {word}"
            if width_of(joined) <= LONGEST_WORD:
                words[-1] = joined
                continue
        words.append(word)
    return words


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
    widths: Sequence[int],
    gap: str = GAP,
    paint: Paint | None = None,
) -> str:
    """Write titles and rows in these widths, without blanks at line ends."""
    lines = []
    for number, row in enumerate([[column.title for column in columns], *rows]):
        cells = [
            [cell]
            if width_of(cell) <= width
            else [shortened(cell, width)]
            if column.cut
            else folded(cell, width, breaking=True)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            padded = list(map(_padded, parts, widths, columns))
            padded[-1] = padded[-1].rstrip()
            if paint is not None and number:
                padded = [
                    paint(state_of(cell), text) if column.states and text.strip() else text
                    for column, cell, text in zip(columns, row, padded, strict=True)
                ]
            lines.append(gap.join(padded).rstrip() + "\n")
    return "".join(lines)


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

    @property
    def takes(self) -> int:
        """Columns of the terminal that the table takes."""
        return sum(self.widths) + len(self.gap) * (len(self.widths) - 1)


def fitted(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int | None) -> Fit:
    """Return the columns and widths for ``room``; None: no limit.

    Long texts are folded or cut, as their columns allow; then optional columns are dropped. The
    rest may be wider than the room: no figure or identifier is broken.
    """
    cells = list(zip([column.title for column in columns], *rows, strict=True))
    natural = [max(map(width_of, column)) for column in cells]
    every = list(range(len(columns)))
    if room is None or sum(natural) + len(GAP) * (len(every) - 1) <= room:
        return Fit(every, natural, GAP)
    levels = [math.inf, *sorted({column.optional for column in columns} - {0}, reverse=True)]
    stay = {column.optional for column in columns if column.stays}
    tries = []
    for end, following in itertools.zip_longest(levels, levels[1:]):
        # Blanks between columns go before one that stays does.
        gaps = (NARROW_GAP, NARROWEST_GAP) if following in stay else (NARROW_GAP,)
        tries += [(SHORTEST[1], end, gap) for gap in gaps]
    tries += [(SHORTEST[2], levels[-1], gap) for gap in (NARROW_GAP, NARROWEST_GAP)]
    for shortest, end, gap in tries:
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
    """Return a column's smallest width; its title stays on one line."""
    title = width_of(cells[0])
    if column.cut:
        return max(title, *(_least_cut(cell, shortest, column) for cell in cells[1:]))
    return max(title, *(width_of(c) if column.whole else _longest_word(c) for c in cells))


def _least_cut(cell: str, shortest: int, column: Column) -> int:
    """Return the smallest width of a cut cell; states and note numbers stay."""
    end = sum(map(width_of, MARKS.findall(cell)))
    text = SHORTEST[0] if column.optional else shortest
    text = width_of(STATE.findall(cell)[0]) + 1 if column.states else text
    return min(width_of(cell), text + end)


def _longest_word(cell: str) -> int:
    return min(max(map(width_of, _words(cell))), LONGEST_WORD)


def of_items(
    columns: Sequence[Column], items: Iterable[Any]
) -> tuple[list[Column], list[list[str]]]:
    """Build a table's cells; an optional column without text is dropped."""
    rows: list[list[str]] = []
    for item in items:
        texts = [one.cell(item) if one.cell else item[n] for n, one in enumerate(columns)]
        rows.append([ABSENT if text is None else clean(text) for text in texts])
    has_text = [any(row[n] != ABSENT for row in rows) for n in range(len(columns))]
    kept = [not one.optional or has for one, has in zip(columns, has_text, strict=True)]
    return list(itertools.compress(columns, kept)), [
        list(itertools.compress(row, kept)) for row in rows
    ]


def plain_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    room: int | None = None,
    paint: Paint | None = None,
) -> str:
    """Write a table as plain text for a terminal of ``room`` columns."""
    fit = fitted(columns, rows, room)
    shown = [[row[n] for n in fit.kept] for row in rows]
    return laid_out([columns[n] for n in fit.kept], shown, fit.widths, fit.gap, paint)


def wrapped(line: str, width: int | None, *, indent: str) -> str:
    """Break a line between words; further lines are indented."""
    if width is None or width_of(line) <= width:
        return line
    own = line[: len(line) - len(line.lstrip())]
    first, *rest = folded(line.strip(), max(width - max(len(indent), len(own)), 1))
    return "\n".join([own + first, *(textwrap.indent(part, indent) for part in rest)])
