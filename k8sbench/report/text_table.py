"""Plain text in the columns of a terminal: cleaned, measured, folded, and laid out as a table."""

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
    """Whether its cells are never folded, however long: ids, which people copy."""
    stays: bool = False
    """Whether it stays in a table of results although it is equal in all rows."""


def clean(text: str) -> str:
    """Make text fit for one line of a terminal: whitespace is one blank, controls are gone."""
    return "".join(
        " " if char in "\t\n\r" else "" if unicodedata.category(char) in ("Cc", "Cs") else char
        for char in text
    )


def width_of(text: str) -> int:
    """Count the columns of a terminal that text takes: wide (CJK) characters take two."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def widths_of(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """Count the columns of a terminal that each column of a table takes."""
    return [
        max(width_of(text) for text in (column.title, *(row[i] for row in rows)))
        for i, column in enumerate(columns)
    ]


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


def laid_out(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    gap: str = GAP,
) -> str:
    """Write the titles and rows below each other, cells folded to ``widths``; no blanks at ends."""
    lines = []
    for row in [[column.title for column in columns], *rows]:
        cells = [
            folded(cell, width, breaking=True) if width_of(cell) > width else [cell]
            for cell, width in zip(row, widths, strict=True)
        ]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            padded = []
            for text, width, column in zip(parts, widths, columns, strict=True):
                blanks = " " * (width - width_of(text))
                padded.append(blanks + text if column.right else text + blanks)
            lines.append(gap.join(padded).rstrip() + "\n")
    return "".join(lines)


def plain_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, room: int | None = None
) -> str:
    """Lay a table out as plain text, losing nothing: no colours, no ``…``, no trailing blanks.

    Where ``room`` (columns of the terminal) is too little, the widest sentences are folded inside
    their cells, if that makes the table fit. Whole columns never are: the terminal itself wraps
    longer lines.
    """
    widths = natural = widths_of(columns, rows)
    while room is not None and sum(widths) + len(GAP) * (len(widths) - 1) > room:
        sentences = [
            i
            for i, column in enumerate(columns)
            if not column.whole and widths[i] > NARROWEST_SENTENCE
        ]
        if not sentences:
            return laid_out(columns, rows, natural)
        widest = max(sentences, key=widths.__getitem__)
        widths = [width - (i == widest) for i, width in enumerate(widths)]
    return laid_out(columns, rows, widths)
