"""Records that stand one after the other in a log and are alike, read together.

Most lines of most logs are the next ordinary training line. What is said of each of them is read
here for many at once, column by column. This only recognises what is ordinary: wherever a line is
odd in any way, the records are read one by one by the family's reader, which is the one home of
the rules. A log gives the same items either way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from k8sbench.model.sample import Item, Record, Shape
from k8sbench.parse.cleaning import PREFIX_STARTS, plain
from k8sbench.parse.lines import Some, find

_Value = TypeVar("_Value")


class Columns(NamedTuple):
    """What records say that are alike; one value where all must say the same."""

    shape: Shape
    texts: Sequence[str]
    iterations: list[int]
    epoch: int | None = None
    total: int | None = None
    steps: int | None = None
    rates: list[float] | None = None
    """Positive and finite, as all numbers of a column are; None: no record has any."""
    seconds: list[float] | None = None
    losses: list[float] | None = None
    """Finite."""
    waits: list[float] | None = None
    stamps: list[float] | None = None
    taken: list[float] | None = None
    memory_mib: float | None = None
    """The largest one."""


class Lane(NamedTuple):
    """How to recognise the ordinary records of one kind, and how to read them."""

    found_by: str
    """Text that every line of such a record holds …"""
    needle: str
    """… and one that it holds only once, unless it holds two records."""
    alarms: tuple[str, ...]
    """Texts by which lines of anything else are found …"""
    others: tuple[str | re.Pattern[str], ...]
    """… or what they hold, where the same text finds them."""
    match: Callable[[str], re.Match[str] | None]
    """Finds the record in a line."""
    columns: Callable[[Sequence[re.Match[str]]], Columns | None]
    """None where one of them is odd."""


class Together:
    """Lines that hold a lane's text and are perhaps all ordinary records."""

    def __init__(
        self,
        lane: Lane,
        some: Some,
        read: Callable[[int, str], Iterable[Item]],
        at: range | None = None,
        matches: list[re.Match[str] | None] | None = None,
    ) -> None:
        self._lane = lane
        self._some = some
        self._read = read
        self._at = range(len(some.texts)) if at is None else at
        self._matches = matches

    def __len__(self) -> int:
        return len(self._at)

    def __iter__(self) -> Iterator[Item]:
        """Read them one by one."""
        for number, text in self._some.lines(self._at):
            yield from self._read(number, text)

    def record(self, index: int) -> Record:
        """Read one of those of which there are columns."""
        (found,) = Together(self._lane, self._some, self._read, self._at[index : index + 1])
        assert isinstance(found, Record)
        return found

    def columns(self) -> Columns | None:
        """Read them together; None where they are not alike, or odd."""
        texts, lane = self._some.texts, self._lane
        if self._matches is None:
            self._matches = list(map(lane.match, texts))
        at = slice(self._at.start, self._at.stop)
        matches = [match for match in self._matches[at] if match is not None]
        if len(matches) < len(self._at):
            return None
        joined = "\n".join(texts[at])
        if joined.count(lane.needle) != len(matches) or not plain(joined):
            return None
        if any(_holds(joined, other) for other in lane.others):
            return None
        if any(match.start() and match.string[0] in PREFIX_STARTS for match in matches):
            return None
        return lane.columns(matches)

    def parts(self) -> Iterator[Together]:
        """An eighth of them after the other: perhaps only one of these has an odd record."""
        size = -(-len(self._at) // 8)
        for begin in range(0, len(self._at), size):
            at = self._at[begin : begin + size]
            yield Together(self._lane, self._some, self._read, at, self._matches)


def _holds(text: str, what: str | re.Pattern[str]) -> bool:
    return find(text, what) >= 0 if isinstance(what, str) else what.search(text) is not None


def numbers(texts: Sequence[str | float | None]) -> list[float] | None:
    """A column of numbers; None if there is none.

    Raises ValueError where a record lacks one that another has, or one is no number.
    """
    found = [text for text in texts if text is not None]
    if not found:
        return None
    if len(found) < len(texts):
        raise ValueError
    return list(map(float, found))


def one(values: Iterable[_Value]) -> _Value:
    """The value that all records say. Raises ValueError where they say different ones."""
    (value,) = set(values)
    return value
