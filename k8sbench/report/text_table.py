"""Plain text for a terminal: measuring, folding, tables."""

from __future__ import annotations

import itertools
import textwrap
import unicodedata
from collections.abc import Callable, Sequence

import msgspec

GAP = "   "
"""Between the columns of a table, as kubectl has it."""
NARROW_GAP = "  "
"""Between columns on a terminal, where every column counts."""
LONGEST_WORD = 24
"""Columns of a terminal. A longer word (a path, an image) may be broken; others never are."""
WIDEST = 60
"""Columns that a cell of words takes where nothing limits the table; the last column has no limit.
In a pipe one long cell would otherwise pad every other row to its width."""
Paint = Callable[[str, str], str]
"""(state, text) → the text in the state's colour. The state is the first word of a cell."""


class Column(msgspec.Struct, frozen=True):
    """One column of a table."""

    title: str
    right: bool = False
    """Whether its cells are aligned to the right, as numbers are."""
    whole: bool = False
    """Whether its cells are never folded, however long: identifiers, which people copy."""
    stays: bool = False
    """Whether it stays in a narrow table of results although it is equal in all rows."""
    optional: int = 0
    """The higher, the sooner it is left out of a table for a narrow terminal; 0 never is."""
    states: bool = False
    """Whether its cells begin with a state or a verdict, which may have a colour."""


def width_of(text: str) -> int:
    """Count the columns of a terminal that text takes: wide (CJK) characters take two."""
    combining = sum(unicodedata.combining(char) > 0 for char in text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) - combining + wide


def folded(text: str, width: int, *, breaking: bool = False) -> list[str]:
    """Break text between words into lines of at most ``width`` columns.

    A longer word stays whole, or is broken too where ``breaking`` is set.
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
    """Split text where a line may end: not between a number and its unit, nor before a mark."""
    words: list[str] = []
    for word in text.split(" "):
        if words and (words[-1][-1:].isdigit() or word.startswith("[")):
            joined = f"{words[-1]} {word}"
            if width_of(joined) <= LONGEST_WORD:
                words[-1] = joined
                continue
        words.append(word)
    return words


def _padded(text: str, width: int, column: Column) -> str:
    blanks = " " * (width - width_of(text))
    return blanks + text if column.right else text + blanks


def laid_out(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    gap: str = GAP,
    paint: Paint | None = None,
) -> str:
    """Write titles and rows, with cells folded to ``widths`` and no blanks at the ends of lines."""
    lines = []
    for number, row in enumerate([[column.title for column in columns], *rows]):
        cells = [
            folded(cell, width, breaking=True) if width_of(cell) > width else [cell]
            for cell, width in zip(row, widths, strict=True)
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
    """Return the state that a cell begins with: ``valid`` of ``valid; smoke (CPU)``.

    What is more than a state is part of it: ``valid;`` is another state than ``valid``.
    """
    return cell.partition(" ")[0]


def _natural(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    texts = zip([column.title for column in columns], *rows, strict=True)
    return [max(map(width_of, column)) for column in texts]


def _least(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """Compute how narrow each column may get: its longest word, up to :data:`LONGEST_WORD`."""
    texts = zip([column.title for column in columns], *rows, strict=True)
    return [
        max(
            width_of(cell) if column.whole else _longest_word(cell)
            for cell in (column.title.replace(" ", "_"), *cells[1:])
        )
        for column, cells in zip(columns, texts, strict=True)
    ]


def _longest_word(cell: str) -> int:
    return min(max(map(width_of, _words(cell))), LONGEST_WORD)


def fitted(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int | None, gap: str = GAP
) -> list[int] | None:
    """Compute the widths of the columns in ``room``; None if the table cannot be made to fit.

    The widest columns that are not ``whole`` are narrowed, as long as no word of up to
    :data:`LONGEST_WORD` is broken. ``room`` None has no limit but :data:`WIDEST`.
    """
    widths, least = _natural(columns, rows), _least(columns, rows)
    if room is None:
        most = [max(WIDEST, one) for one in least[:-1]]
        return [*map(min, widths, most), widths[-1]]
    while sum(widths) + len(gap) * (len(widths) - 1) > room:
        spare = [width if width > low else 0 for width, low in zip(widths, least, strict=True)]
        if not any(spare):
            return None
        widths[spare.index(max(spare))] -= 1
    return widths


def plain_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    room: int | None = None,
    paint: Paint | None = None,
) -> str:
    """Write a table as plain text in full: no ``…``, no trailing blanks.

    Where ``room`` (columns of the terminal) is too little, the widest cells are folded and optional
    columns left out, if that makes the table fit. Otherwise each row becomes a paragraph.
    """
    shown, cells, gap = list(columns), [list(row) for row in rows], GAP
    widths = fitted(shown, cells, room, gap)
    while widths is None:
        if gap == GAP:
            gap = NARROW_GAP
        else:
            least = max(range(len(shown)), key=lambda place: shown[place].optional)
            if not shown[least].optional:
                return paragraphs(columns, rows, room)
            shown.pop(least)
            cells = [[*row[:least], *row[least + 1 :]] for row in cells]
        widths = fitted(shown, cells, room, gap)
    return laid_out(shown, cells, widths, gap, paint)


def paragraphs(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Write each row as a paragraph of ``title: value``, as many per line as fit."""
    parts = []
    for row in rows:
        line = f"{columns[0].title}: {row[0]}"
        for column, cell in zip(columns[1:], row[1:], strict=True):
            item = f"{column.title}: {cell}"
            if width is not None and width_of(line + GAP + item) > width:
                parts.append(wrapped(line, width, indent="    "))
                line = f"  {item}"
            else:
                line += GAP + item
        parts += [wrapped(line, width, indent="    "), ""]
    return "\n".join(parts)


def wrapped(line: str, width: int | None, *, indent: str) -> str:
    """Break a line between words to at most ``width`` columns; further lines are indented."""
    if width is None or width_of(line) <= width:
        return line
    own = line[: len(line) - len(line.lstrip())]
    first, *rest = folded(line.strip(), max(width - max(len(indent), len(own)), 1))
    return "\n".join([own + first, *(textwrap.indent(part, indent) for part in rest)])
