"""The expressions of a declared format on a log: which lines they match."""

from __future__ import annotations

import re
from collections.abc import Iterable
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


class Expression:
    """One expression, and what it does on the lines that it is given."""

    def __init__(self, name: str, pattern: str) -> None:
        self.name = name
        self.pattern = pattern
        self.matched = 0
        self.unread = 0
        self.first: list[Matched] = []
        self.last: Matched | None = None
        self._compiled = re.compile(pattern)

    def take(self, number: int, text: str) -> None:
        """Try a line."""
        match = self._compiled.search(text)
        if match is None:
            return
        groups = {name: value for name, value in match.groupdict().items() if value is not None}
        unread = tuple(name for name, value in groups.items() if not self._reads(name, value))
        self.matched += 1
        self.unread += bool(unread)
        self.last = Matched(number, text, groups, unread)
        if len(self.first) < SHOWN:
            self.first.append(self.last)

    def _reads(self, name: str, text: str) -> bool:
        if self.name.startswith("facts"):
            return bool(stated(name, text))
        return name == "stamp" or number_in(text) is not None


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
