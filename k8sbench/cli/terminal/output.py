"""How commands speak: data on stdout, everything else on stderr.

Data is what was asked for (a table, JSON, YAML, CSV, names) and goes to stdout alone, so that it
can be piped. Notes, progress and hints go to stderr. A table is plain text and never truncated;
on a terminal long sentences are wrapped inside their cells. Text that comes from logs or clusters
is shown without its control characters.

JSON documents carry ``schema``; what is in them is described in ``docs/schema.md``.
"""

from __future__ import annotations

import datetime
import itertools
import math
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import msgspec

from k8sbench.report import formats

GAP = "   "
"""Between the columns of a table, as kubectl has it."""
ABSENT = "-"
"""A cell without a value. Never 0, never empty."""
NARROWEST_SENTENCE = 24
"""Columns of a terminal. Narrower than that, wrapped text is harder to read than a long line."""


class ReaderGone(Exception):
    """Whoever read our output has gone (``| head``); nothing more is to be written."""


class Column(msgspec.Struct, frozen=True):
    """One column of a table."""

    title: str
    right: bool = False
    """Numbers stand to the right."""
    whole: bool = False
    """Never wrapped, however long: ids, which people copy."""


def note(text: str) -> None:
    """Tell the user something that is not the data: stderr."""
    write(text + "\n", sys.stderr)


def write(text: str, stream: TextIO | None = None) -> None:
    """Write text as it is; what the stream's encoding cannot say becomes ``?``."""
    stream = sys.stdout if stream is None else stream
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # As an error of our own: click would turn the system's into exit code 1.
        raise ReaderGone from None
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "replace").decode(encoding))


def write_json(value: Any) -> None:
    """Write one JSON document, indented. Structs are written by their fields."""
    write(formats.json_text(value))


def write_yaml(value: Any) -> None:
    """Write one YAML document of the same content as :func:`write_json`."""
    import yaml

    # Through JSON: plain values, and no number that JSON does not have.
    plain = msgspec.json.decode(msgspec.json.encode(value))
    write(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100))


def write_names(names: Iterable[str]) -> None:
    """Write one name per line."""
    write("".join(f"{name}\n" for name in names))


def write_table(columns: Sequence[Column], rows: Iterable[Sequence[str | None]]) -> None:
    """Write a table for people."""
    write(table_text(columns, rows))


def table_text(columns: Sequence[Column], rows: Iterable[Sequence[str | None]]) -> str:
    """Lay a table out for people: fitted to a terminal, and of any width in a pipe."""
    cells = [[ABSENT if cell is None else plain(cell) for cell in row] for row in rows]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return plain_table(columns, cells, room=room)


def plain_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, room: int | None = None
) -> str:
    """Lay a table out as plain text, losing nothing: no colours, no ``…``, no trailing blanks.

    Where ``room`` (columns of the terminal) is too little, sentences are wrapped inside their
    cells, if that helps. Names and numbers never are: the terminal itself wraps longer lines.
    """
    lines = [[column.title for column in columns], *rows]
    widths = [max(_width(line[i]) for line in lines) for i in range(len(columns))]
    if room is not None:
        widths = _fitted(columns, widths, room)
    text = []
    for line in lines:
        wrapped = [_wrapped(cell, width) for cell, width in zip(line, widths, strict=True)]
        for part in itertools.zip_longest(*wrapped, fillvalue=""):
            padded = (
                _padded(cell, width, right=column.right)
                for cell, width, column in zip(part, widths, columns, strict=True)
            )
            text.append(GAP.join(padded).rstrip() + "\n")
    return "".join(text)


def plain(text: str) -> str:
    """Make text fit for one line of a terminal: whitespace is one blank, controls are gone."""
    return "".join(
        " " if char in "\t\n\r" else "" if unicodedata.category(char) in ("Cc", "Cs") else char
        for char in text
    )


def stamp(at: float | None) -> str | None:
    """Write a time as RFC 3339 in UTC, to the second: ``2026-11-20T08:15:30Z``."""
    if at is None:
        return None
    try:
        moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    except (OverflowError, ValueError, OSError):  # a number that is no time we can write
        return None
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: float | None) -> str:
    """Write a length of time as people say it, in two units at most: ``45s``, ``3m12s``, ``2d4h``.

    Below ten seconds one decimal is kept (``0.4s``). A negative length (a clock that was set
    back) is ``0s``.
    """
    if seconds is None or math.isnan(seconds):
        return ABSENT
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f}".removesuffix(".0") + "s"
    if math.isinf(seconds):
        return "∞"
    whole = round(seconds)
    for size, unit, smaller, small in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size}{unit}" + (f"{rest}{small}" if rest else "")
    return f"{whole}s"


def _width(text: str) -> int:
    """Count the columns of a terminal that text takes: wide (CJK) characters take two."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _padded(text: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - _width(text))
    return blanks + text if right else text + blanks


def _fitted(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int]:
    """Take from the widest sentences, evenly, what the terminal lacks; all or nothing."""
    fitted = list(widths)
    over = sum(fitted) + len(GAP) * (len(fitted) - 1) - room
    while over > 0:
        sentences = [
            i
            for i, column in enumerate(columns)
            if not column.whole and fitted[i] > NARROWEST_SENTENCE
        ]
        if not sentences:
            return list(widths)
        fitted[max(sentences, key=fitted.__getitem__)] -= 1
        over -= 1
    return fitted


def _wrapped(text: str, width: int) -> list[str]:
    """Break text into lines, between words where it can be."""
    if _width(text) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if _width(longer) <= width:
            lines[-1] = longer
            continue
        if lines[-1]:
            lines.append("")
        for char in word:
            if _width(lines[-1] + char) > width:
                lines.append("")
            lines[-1] += char
    return lines
