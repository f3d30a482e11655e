"""Redacted log lines as evidence.

Of lines that share an oddity the first few are quoted, the rest are counted. Logs hold internal
addresses, host names, ports and users' folders. Evidence and the environment are published, so
these are removed wherever a line is quoted; the last part of a path stays, because it shows the
reader which file was meant.
"""

from __future__ import annotations

import re

import msgspec

from k8sbench.model.masking import masked
from k8sbench.model.sample import Place, Record

LONGEST = 240
"""Characters of a quoted line."""

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # A version such as 8.0.5.39 looks the same; it is lost too, and nothing depends on it.
    (re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])(?::\d{1,5})?"), "<address>"),
    (
        re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}(?::|[0-9a-fA-F]{1,4})+(?![\w:])"),
        "<address>",
    ),
    (re.compile(r"\b[\w.-]+@(?=[A-Za-z])(?:[\w-]+\.)*[\w-]+"), "<user>@<host>"),
    (
        re.compile(
            r"\b(?:[\w-]+\.)+(?:com|cn|net|org|io|edu|local|internal|svc|lan|corp)\b(?::\d{1,5})?"
        ),
        "<host>",
    ),
    (re.compile(r"(?i)\b((?:\w*_)?port)(['\"]?[ =:]+['\"]?)\d{2,5}\b"), r"\1\2<port>"),
    # Paths: from the root or a home, at least two parts deep, or one part that stands alone.
    (re.compile(r"(?<![\w:.<>/~])(?:~\w*)?(?:/[\w.@+%=-]+)+/([\w.@+%=-]*)"), r"<path>/\1"),
    (re.compile(r"(?<![^\s'\"=(\[])/(?=[a-z])[\w.-]{3,}(?![\w/])"), "<path>"),
)


def redact(text: str) -> str:
    """Return ``text`` without credentials, internal addresses, hosts, ports and folders."""
    text = masked(text)
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return text


def place(file: str, line: int, text: str) -> Place:
    """Evidence: where, and what stands there."""
    shown = redact(text.strip()[: 4 * LONGEST])
    if len(shown) > LONGEST:
        shown = shown[: LONGEST - 1] + "…"
    return Place(file=file, line=line, text=shown)


MANY = 20
"""Places that are listed of anything; the rest are counted."""


class Occurrence(msgspec.Struct, frozen=True, gc=False):
    """A line that a reason quotes."""

    file: str
    record: Record
    position: int

    @property
    def place(self) -> Place:
        """The line as evidence."""
        return place(self.file, self.record.line, self.record.text)


class Occurrences(msgspec.Struct):
    """The first few lines that share an oddity, and how many there are."""

    count: int = 0
    amount: int = 0
    first: list[Occurrence] = []

    def add(self, line: Occurrence, amount: int = 0) -> None:
        """Count one more line; ``amount`` sums what each of them stands for."""
        self.count += 1
        self.amount += amount
        if len(self.first) < MANY:
            self.first.append(line)

    @property
    def places(self) -> list[Place]:
        """The first lines, as evidence."""
        return [occurrence.place for occurrence in self.first]

    def __bool__(self) -> bool:
        return self.count > 0
