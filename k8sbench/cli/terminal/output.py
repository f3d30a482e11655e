"""The output of commands: data on stdout, everything else on stderr.

Data is what was requested (a table, JSON, YAML, CSV, names) and goes to stdout alone, so that it
can be piped. Notes, progress and hints go to stderr. A table is plain text and never truncated;
on a terminal long sentences are folded inside their cells, and states have a colour. Text that
comes from logs or clusters is shown without its control characters.

JSON documents carry ``schema``; what is in them is described in ``docs/schema.md``.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

import click
import msgspec

from k8sbench.model.counts import ABSENT
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import clean, clean_lines, escaped_json
from k8sbench.report import formats
from k8sbench.report.text_table import Column, Paint, plain_table


class ReaderGone(Exception):
    """The reader of our output has closed the pipe (``| head``)."""


quiet = False
"""Whether notes and progress are left out (``--quiet``)."""


def note(text: str) -> None:
    """Write what is neither data nor an error to stderr."""
    if not quiet:
        error(text)


def error(text: str) -> None:
    """Write to stderr what the user has to know."""
    write(clean_lines(text) + "\n", sys.stderr)


def agreed(question: str) -> bool:
    """Ask on stderr, with No as the default; raises :class:`click.Abort` for Ctrl-C and Ctrl-D."""
    try:
        return click.confirm(clean_lines(question), err=True)
    except click.Abort:
        error("")  # the question ends no line
        raise


def write(text: str, stream: TextIO | None = None) -> None:
    """Write text; what the stream's encoding lacks becomes ``?``."""
    stream = sys.stdout if stream is None else stream
    try:
        with piped():
            stream.write(text)
            stream.flush()
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "replace").decode(encoding))


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


def write_yaml(value: Any) -> None:
    """Write one YAML document of the same content as :func:`write_json`."""
    import yaml

    # Through JSON: plain values, and no number that JSON does not have.
    text = msgspec.json.encode(value).decode()
    is_safe = text == escaped_json(text)
    plain = msgspec.json.decode(text)
    write(yaml.safe_dump(plain, sort_keys=False, allow_unicode=is_safe, width=100))


def write_names(names: Iterable[str]) -> None:
    """Write one name per line."""
    write("".join(f"{name}\n" for name in names))


def write_table(columns: Sequence[Column], rows: Iterable[Sequence[str | None]]) -> None:
    """Write a table for people."""
    write(table_text(columns, rows))


def table_text(
    columns: Sequence[Column], rows: Iterable[Sequence[str | None]], *, is_whole: bool = False
) -> str:
    """Lay a table out for people: fitted to a terminal, of any width in a pipe or ``is_whole``."""
    cells = [[ABSENT if cell is None else clean(cell) for cell in row] for row in rows]
    is_fitted = sys.stdout.isatty() and not is_whole
    room = shutil.get_terminal_size().columns if is_fitted else None
    return plain_table(columns, cells, room=room, paint=paint())


def stamp(at: float | None) -> str | None:
    """Write a time as RFC 3339 in UTC, to the second: ``2026-11-20T08:15:30Z``."""
    if at is None:
        return None
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
    # More follows: a smoke run, a warning, runs that were left out.
    **dict.fromkeys(
        (
            *("valid;", "unsteady", "unsteady;", "warning", "running", "cancelled"),
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
    """Say whether what goes to a stream (default stdout) is to be coloured."""
    stream = sys.stdout if stream is None else stream
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in PLAIN_TERMS:
        return False
    return stream.isatty()


def paint() -> Paint | None:
    """Return what colours the states of tables on stdout; None where they stay plain."""
    return painted if wanted() else None


def painted(state: str, text: str) -> str:
    """Colour a text as its state looks; the blanks around it stay as they are."""
    color = COLOURS.get(state)
    words = text.strip()
    if color is None or not words:
        return text
    return text.replace(words, click.style(words, fg=color), 1)
