"""Plain text for a terminal: removing control characters, measuring, folding, tables."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Sequence

import msgspec

GAP = "   "
"""Between the columns of a table, as kubectl has it."""
NARROWEST_SENTENCE = 24
"""Columns of a terminal. Narrower than that, wrapped text is harder to read than a long line."""


class Column(msgspec.Struct, frozen=True):
    """One column of a table."""

    title: str
    right: bool = False
    """Whether its cells are aligned to the right, as numbers are."""
    whole: bool = False
    """Whether its cells are never folded, however long: identifiers, which people copy."""
    stays: bool = False
    """Whether it stays in a narrow table of results although it is equal in all rows."""


def clean(text: str) -> str:
    """Make text safe for one line of a terminal: no control characters, whitespace as blanks."""
    return "".join(
        " " if char in "\t\n\r" else "" if unicodedata.category(char) in ("Cc", "Cs") else char
        for char in text
    )


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
    for word in text.split(" "):
        if lines[-1] and width_of(f"{lines[-1]} {word}") > width:
            lines.append("")
        elif lines[-1]:
            lines[-1] += " "
        for part in word if breaking else (word,):
            if lines[-1] and width_of(lines[-1] + part) > width:
                lines.append("")
            lines[-1] += part
    return lines


def _padded(text: str, width: int, column: Column) -> str:
    blanks = " " * (width - width_of(text))
    return blanks + text if column.right else text + blanks


def laid_out(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    gap: str = GAP,
) -> str:
    """Write titles and rows, with cells folded to ``widths`` and no blanks at the ends of lines."""
    lines = []
    for row in [[column.title for column in columns], *rows]:
        cells = [
            folded(cell, width, breaking=True) if width_of(cell) > width else [cell]
            for cell, width in zip(row, widths, strict=True)
        ]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            padded = map(_padded, parts, widths, columns)
            lines.append(gap.join(padded).rstrip() + "\n")
    return "".join(lines)


def _natural(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    texts = zip([column.title for column in columns], *rows, strict=True)
    return [max(map(width_of, column)) for column in texts]


def fitted(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int | None, gap: str = GAP
) -> list[int] | None:
    """Compute the widths of the columns in ``room``; None if the table cannot be made to fit.

    The widest columns that are not ``whole`` are narrowed. ``room`` None has no limit.
    """
    widths = _natural(columns, rows)
    while room is not None and sum(widths) + len(gap) * (len(widths) - 1) > room:
        foldable = [0 if c.whole else width for c, width in zip(columns, widths, strict=True)]
        if max(foldable) <= NARROWEST_SENTENCE:
            return None
        widths[foldable.index(max(foldable))] -= 1
    return widths


def plain_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, room: int | None = None
) -> str:
    """Write a table as plain text in full: no colours, no ``…``, no trailing blanks.

    Where ``room`` (columns of the terminal) is too little, the widest cells are folded, if that
    makes the table fit. Otherwise the terminal itself wraps longer lines.
    """
    widths = fitted(columns, rows, room) or _natural(columns, rows)
    return laid_out(columns, rows, widths)
