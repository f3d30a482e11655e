"""The expressions of a declared format on a log: which lines they match, and which they nearly do.

For somebody who writes such a file. An expression that matches nothing says nothing of why; its
longest beginning that matches some line does, and so does what that line has where the rest of the
expression should be.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from k8sbench.model.spec import LogFormat
from k8sbench.parse.cleaning import pieces
from k8sbench.parse.declared import MAX_LINE, stated
from k8sbench.parse.lines import ended
from k8sbench.parse.records import number_in

SHOWN = 3
"""Lines of each kind that are shown."""


class Matched(NamedTuple):
    """A line that an expression matches."""

    number: int
    text: str
    groups: dict[str, str]
    unread: tuple[str, ...]
    """Groups whose text is no number, or states nothing."""


class Missed(NamedTuple):
    """A line that a beginning of an expression matches."""

    number: int
    text: str
    matches: str
    """The beginning that fits."""
    then: str
    """The rest of the expression."""
    found: str
    """The line from where the beginning ends."""


class Expression:
    """One expression, and what it does on the lines that it is given."""

    def __init__(self, name: str, pattern: str) -> None:
        self.name = name
        self.pattern = pattern
        self.matched = 0
        self.unread = 0
        self.first: list[Matched] = []
        self.last: Matched | None = None
        self._nearest: list[Missed] = []
        self._anywhere = Expression(name, pattern[1:]) if pattern.startswith("^") else None
        """The same without its anchor: a line's beginning is what is misjudged most often."""
        self._compiled = re.compile(pattern)
        self._beginnings = list(beginnings(pattern))
        self._reached = 0
        """How many beginnings, in the order of their length, some line fits."""

    def take(self, number: int, text: str) -> None:
        """Try a line."""
        match = self._compiled.search(text)
        if match is not None:
            self._take_match(number, text, match)
        elif not self.matched:
            self._take_miss(number, text)
            if self._anywhere is not None:
                self._anywhere.take(number, text)

    @property
    def misses(self) -> list[Missed]:
        """The nearest lines, of those that come equally near the first; none if any matches."""
        if self._anywhere is None or not self._anywhere.matched or self.matched:
            return self._nearest
        rest = self.pattern[1:]
        return [Missed(m.number, m.text, "^", rest, m.text) for m in self._anywhere.first]

    def _take_match(self, number: int, text: str, match: re.Match[str]) -> None:
        groups = {name: value for name, value in match.groupdict().items() if value is not None}
        unread = tuple(name for name, value in groups.items() if not self._reads(name, value))
        self.matched += 1
        self.unread += bool(unread)
        self.last = Matched(number, text, groups, unread)
        if len(self.first) < SHOWN:
            self.first.append(self.last)
        self._nearest = []

    def _reads(self, name: str, text: str) -> bool:
        if self.name.startswith("facts"):
            return bool(stated(name, text))
        return name == "stamp" or number_in(text) is not None

    def _take_miss(self, number: int, text: str) -> None:
        """Remember a line that fits further than those before, or, of a few, as far."""
        match = None
        while self._reached < len(self._beginnings):
            # A line that does not fit the next beginning fits none of those after it.
            further = self._beginnings[self._reached][1].search(text)
            if further is None:
                break
            match, self._nearest = further, []
            self._reached += 1
        if match is None and self._reached and len(self._nearest) < SHOWN:
            match = self._beginnings[self._reached - 1][1].search(text)
        if match is None:
            return
        begin = self._beginnings[self._reached - 1][0]
        rest = self.pattern[len(begin) :]
        self._nearest.append(Missed(number, text, begin, rest, text[match.end() :]))


def expressions(declared: LogFormat) -> list[Expression]:
    """The expressions of a declared format, by the names of their keys."""
    named = {"record": declared.record, "summary": declared.summary}
    named |= {f"facts[{index}]": text for index, text in enumerate(declared.facts)}
    return [Expression(name, text) for name, text in named.items() if text is not None]


def explain(blocks: Iterable[str], some: Iterable[Expression]) -> int:
    """Try every line on every expression, as the reader of the format does; returns how many."""
    tried, whole, rest = list(some), 0, ""
    for block in blocks:
        for line in ended(block):
            rest = line.rstrip("\n")
            for _, text in pieces(rest):
                for expression in tried:
                    expression.take(whole + 1, text[:MAX_LINE])
            if len(rest) < len(line):
                whole, rest = whole + 1, ""
    return whole + bool(rest)


def beginnings(pattern: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the beginnings of an expression that are expressions, shorter ones first.

    Those that fit everywhere (``^``, ``.*``, an open alternative) say nothing and are left out.
    """
    for end in range(1, len(pattern)):
        text = pattern[:end]
        if text.endswith("|") or not _ends_whole(pattern, end):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compiled = re.compile(text)
        except (re.error, OverflowError, RecursionError):
            continue
        if compiled.search("") is None:
            yield text, compiled


def _ends_whole(pattern: str, end: int) -> bool:
    """Whether a beginning ends with a whole item: no quantifier follows it that belongs to it."""
    return pattern[end] not in "*+?{"
