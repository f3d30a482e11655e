"""The output of commands: data on stdout, everything else on stderr.

Data is what was requested (a table, JSON, YAML, CSV, names) and goes to stdout alone, so that it
can be piped. Notes, progress and hints go to stderr. A table is plain text and never truncated;
on a terminal long sentences are folded inside their cells, and states have a colour. Text that
comes from logs or clusters is shown without its control characters.

JSON documents carry ``schema``; what is in them is printed by ``k8sbench schema``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

import click

from k8sbench.model import times
from k8sbench.model.masking import masked
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import clean_lines
from k8sbench.results.report import formats, tables
from k8sbench.results.report.tables import Column, Paint


class ReaderGone(Exception):
    """The reader of our output has closed the pipe (``| head``)."""


quiet = False
"""True with ``--quiet``: no notes and no progress."""


def note(text: str) -> None:
    """Write a note to stderr, unless ``--quiet``."""
    if not quiet:
        error(text)


def error(text: str) -> None:
    """Write to stderr, also with ``--quiet``."""
    write(masked(clean_lines(text)) + "\n", sys.stderr)


def agreed(question: str) -> bool:
    """Ask on stderr, with No as the default; raises :class:`click.Abort` for Ctrl-C and Ctrl-D."""
    try:
        return click.confirm(clean_lines(question), err=True)
    except click.Abort:
        error("")  # the question ends no line
        raise


def write(text: str, stream: TextIO | None = None) -> None:
    """Write text, with ``?`` for characters outside the stream's encoding."""
    stream = sys.stdout if stream is None else stream
    try:
        with piped():
            stream.write(text)
            stream.flush()
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "replace").decode(encoding))


def write_pieces(pieces: Iterable[str]) -> None:
    """Write pieces of text as they are made, some at a time."""
    waiting: list[str] = []
    for piece in pieces:
        waiting.append(piece)
        if len(waiting) == PIECES:
            write("".join(waiting))
            waiting.clear()
    write("".join(waiting))


PIECES = 200
"""Pieces that are written together."""


@contextlib.contextmanager
def piped() -> Iterator[None]:
    """Turn the system's error about a closed pipe into :class:`ReaderGone`.

    As an error of our own: click would turn the system's into exit code 1.
    """
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None


def write_json(value: Any) -> None:
    """Write one JSON document, indented. Structs are written by their fields."""
    write(formats.json_text(value))


def write_names(names: Iterable[str]) -> None:
    """Write one name per line."""
    write("".join(f"{name}\n" for name in names))


def write_table(columns: Sequence[Column], items: Iterable[Any]) -> None:
    """Write a table for people."""
    write(table_text(columns, items))


def terminal_width() -> int | None:
    """Return the terminal's columns; None in a pipe, which gets everything."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table_text(columns: Sequence[Column], items: Iterable[Any], *, is_whole: bool = False) -> str:
    """Lay out a table for people.

    Fitted to a terminal; of any width in a pipe or if ``is_whole``.
    """
    return "".join(table_lines(columns, items, is_whole=is_whole))


def table_lines(
    columns: Sequence[Column], items: Iterable[Any], *, is_whole: bool = False
) -> Iterator[str]:
    """Lay out the lines of :func:`table_text`."""
    room = None if is_whole else terminal_width()
    return tables.table_lines(columns, items, room=room, paint=paint())


def write_items(
    form: str,
    columns: Sequence[Column],
    items: Sequence[Any],
    document: object,
    names: Iterable[str] = (),
) -> None:
    """Write items as a table, a document, or their names."""
    view: formats.View = {
        "table": lambda: table_text(columns, items),
        "json": lambda: document,
        "yaml": lambda: document,
        "name": lambda: names,
    }
    write(formats.written(form, view))


def stamp(at: float | None) -> str | None:
    """Write a time like :func:`.times.utc`; None without one."""
    return None if at is None else times.utc(at)


# -- color ----------------------------------------------------------------------------------------
#
# Colour: whether output has it, and what states and verdicts look like.
#
# A terminal gets colour unless NO_COLOR is set (no-color.org) or it is one that cannot show any.
# Nothing is said by colour alone.

PLAIN_TERMS = ("", "dumb", "unknown")
"""Values of TERM: terminals that take no control codes."""
COLOURS: dict[str, str] = {
    **dict.fromkeys(("valid", "ok", Phase.SUCCEEDED, Phase.RUNNING), "green"),
    # More follows: a warning, runs that were left out.
    **dict.fromkeys(
        (
            *("valid;", "unsteady-runs", "unsteady-runs;", "warning", "running", "cancelled"),
            "out-of-memory",
            *(Phase.CREATED, Phase.QUEUED, Phase.PENDING, Phase.PULLING, Phase.STARTING),
            Phase.CANCELLED,
        ),
        "yellow",
    ),
    **dict.fromkeys(
        ("rejected", "failed", "failure", "REGRESSION", Phase.FAILED, Phase.LOST), "red"
    ),
}
"""State or verdict → its colour."""


def wanted(stream: TextIO | None = None) -> bool:
    """Return True if output to a stream (default stdout) has colours."""
    stream = sys.stdout if stream is None else stream
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in PLAIN_TERMS:
        return False
    return stream.isatty()


def paint() -> Paint | None:
    """Return the function that colours states; None without colours."""
    return painted if wanted() else None


def painted(state: str, text: str) -> str:
    """Colour a text as its state; surrounding blanks stay."""
    color = COLOURS.get(state)
    words = text.strip()
    if color is None or not words:
        return text
    return text.replace(words, click.style(words, fg=color), 1)
