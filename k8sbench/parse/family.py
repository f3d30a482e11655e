"""What a log family is: names, and a reader that turns cleaned lines into items.

A reader is made anew for every log, because some logs say what a line means a few lines earlier.
Before the first record each line is shown to :meth:`Reader.head`, which looks for facts; all
along, lines that hold one of the family's needles are shown to :meth:`Reader.read`. Needles are
what keeps a log of millions of lines fast: everything without one is skipped unread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from k8sbench.model.sample import Evaluation, Fact, Item
from k8sbench.model.spec import Framework
from k8sbench.parse import stamps


class Reader:
    """Reads the lines of one log of one family. Never raises on any text."""

    def head(self, line: int, text: str, source: str) -> Iterator[Fact]:  # noqa: ARG002
        """Facts in a line before the first record."""
        return iter(())

    def settle(self) -> Iterator[Fact]:
        """Facts that follow from the head as a whole, asked for once when it is over."""
        return iter(())

    def read(self, line: int, text: str, source: str) -> Iterator[Item]:
        """Items in a line that holds one of the family's needles."""
        raise NotImplementedError

    @staticmethod
    def evaluation(
        line: int,
        source: str,
        text: str,
        metric: str,
        value: str,
        *,
        stamp: str | None = None,
        subset: str = "",
        percent: bool = False,
    ) -> Evaluation:
        """A printed result of an evaluation; without ``percent`` one of at most 1 is a fraction."""
        return Evaluation(
            line=line,
            text=text,
            source=source,
            metric=metric,
            subset=subset,
            value=float(value),
            unit="%" if percent or not float(value) <= 1 else "fraction",
            stamp=None if stamp is None else stamps.seconds(stamp),
        )


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One log family."""

    name: str
    title: str
    """The program that prints it, for people."""
    framework: Framework | None
    """None where the log itself says."""
    unit: str
    needles: tuple[str, ...]
    """Literal texts; every line that :meth:`Reader.read` can read holds one."""
    reader: Callable[[], Reader]


class Rule(msgspec.Struct, frozen=True):
    """Facts that one line tells: the names are the pattern's groups, or stand in ``says``."""

    needle: str
    """Literal text that every matching line holds."""
    pattern: re.Pattern[str]
    says: dict[str, str] = {}


def rule(needle: str, pattern: str | None = None, **says: str) -> Rule:
    """Build a rule; without a pattern the needle alone decides."""
    return Rule(needle, re.compile(pattern or re.escape(needle)), says)


def facts(rules: Sequence[Rule], line: int, text: str, source: str) -> Iterator[Fact]:
    """Apply a table of rules to a line."""
    for each in rules:
        if each.needle in text and (match := each.pattern.search(text)):
            for name, value in [*match.groupdict().items(), *each.says.items()]:
                if value is not None:
                    yield Fact(line=line, text=text, name=name, value=value.strip(), source=source)


def number(text: str | None) -> float | None:
    """A printed number, NaN and infinities included; None for no number."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def positive(text: str | None) -> float | None:
    """A printed number that can be a time or a rate; None for all others."""
    value = number(text)
    return value if value is not None and 0 < value < math.inf else None


def share(part: float | None, whole: float | None) -> float | None:
    """``part`` of ``whole``, 0–1; None where either is unknown."""
    if part is None or whole is None or not whole > 0 or not part >= 0:
        return None
    return min(part / whole, 1.0)


LOSS = r"(?P<loss>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf|NaN|Inf|NAN|INF))"
"""A loss as any of the programs prints it."""
