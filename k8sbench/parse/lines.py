"""The lines of a log, which comes in blocks of many.

Most lines of most logs mean nothing. They are passed over without being taken apart: a text is
searched for in a whole block at once.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

Line = tuple[int, str]
"""Number, from 1, and text without the line end."""
Place = tuple[int, str]
"""Where in a block a text stands first, and the text."""

_END = re.compile(r"[\r\n]")
_ENDED = re.compile(r"[^\r\n]*[\r\n]|[^\r\n]+")


def find(text: str, needle: str, at: int = 0) -> int:
    """Where a text stands first; −1: nowhere.

    That one of its characters is nowhere shows some twenty times as fast.
    """
    return text.find(needle, at) if all(map(text.__contains__, needle)) else -1


def ended(block: str) -> list[str]:
    """Each line of a block, with its end."""
    return _ENDED.findall(block)


class Some:
    """Some lines of a block, of which only those that are asked for are numbered."""

    def __init__(self, block: str, at: int, number: int) -> None:
        self.texts: list[str] = []
        self.places: list[int] = []
        """Where in the block each of them begins."""
        self._block = block
        self._begin = self._known = (at, number)

    def lines(self, at: range) -> Iterator[Line]:
        """These of them."""
        for index in at:
            place = self.places[index]
            before, number = self._known if self._known[0] <= place else self._begin
            number += self._block.count("\n", before, place)
            self._known = (place, number)
            yield number, self.texts[index]


class Lines:
    """The lines of a log in their order, of which each is given once.

    A block is whole lines, with their ends. A carriage return ends a piece of a line as a line
    feed ends the line: progress bars are rewritten in place, and what is printed next stands
    behind them. The pieces of one line share its number. Empty ones are left out.
    """

    def __init__(self, blocks: Iterable[str], number: int = 1) -> None:
        self.empty = True
        """Whether no line has come so far that is not empty."""
        self.block = ""
        """The current one."""
        self._blocks = iter(blocks)
        self._at = 0
        """Where the next line begins …"""
        self._number = number
        """… and its number."""
        self._places: dict[str, int] = {}
        """Where what was searched for stands next in the block; −1: no more."""

    def more(self) -> bool:
        """Go to the next block if this one is at its end; False at the end of the log."""
        while self._at >= len(self.block):
            block = next(self._blocks, None)
            if block is None:
                return False
            self.block, self._at = block, 0
            self._places.clear()
            if block.strip("\r\n"):
                self.empty = False
            else:
                self.skip()
        return True

    def __iter__(self) -> Iterator[Line]:
        """Every line from here on."""
        while self.more():
            yield from self._rest()

    def next(self, text: str) -> int:
        """Where a text stands first in the rest of this block; −1: nowhere."""
        place = self._places.get(text, 0)
        if 0 <= place <= self._at:
            self._places[text] = place = find(self.block, text, self._at)
        return place

    def present(self, texts: Iterable[str]) -> list[Place]:
        """Those of the texts that the rest of this block holds."""
        return [(place, text) for text in texts if (place := self.next(text)) >= 0]

    def one(self) -> Iterator[Line]:
        """The next line that is not empty, if this block has one."""
        return itertools.islice(self._rest(), 1)

    def before(self, text: str, place: int) -> Some:
        """The lines that hold a text, up to that which is at a place; −1: in all of the rest.

        None of them has a carriage return in it.
        """
        block, at, number = self.block, self._at, self._number
        some = Some(block, at, number)
        stop = len(block) if place < 0 else block.rfind("\n", at, place) + 1 or at
        find, rfind, add, begins = block.find, block.rfind, some.texts.append, some.places.append
        end = at - 1
        while (found := find(text, end + 1, stop)) >= 0:
            begin = rfind("\n", end + 1, found) + 1 or end + 1
            end = find("\n", found, stop)
            if end < 0:
                end = stop
            add(block[begin:end])
            begins(begin)
        self._number += block.count("\n", at, stop)
        self._at = stop
        return some

    def holding(self, places: Sequence[Place]) -> Iterator[Line]:
        """The lines in the rest of this block that hold one of the texts at these places.

        Whoever takes lines in another way in between must not go on with this.
        """
        block = self.block
        if "\r" in block:
            yield from (line for line in self._rest() if any(text in line[1] for _, text in places))
            return
        at, number = self._at, self._number
        while places and at < len(block):
            place = places[0][0] if len(places) == 1 else min(places)[0]
            begin = block.rfind("\n", at, place) + 1 or at
            if begin > at:
                number += block.count("\n", at, begin)
            end = block.find("\n", place)
            if end < 0:
                end = len(block)
            self._at = at = end + 1
            self._number = number + 1
            if begin < end:
                yield number, block[begin:end]
            number += 1
            places = [
                (place, text)
                for before, text in places
                if (place := before if before >= at else block.find(text, at)) >= 0
            ]
        self.skip()

    def _rest(self) -> Iterator[Line]:
        block = self.block
        while (at := self._at) < len(block):
            ending = _END.search(block, at)
            end = ending.start() if ending else len(block)
            number, self._at = self._number, end + 1
            self._number += ending is not None and ending[0] == "\n"
            if at < end:
                yield number, block[at:end]

    def skip(self) -> None:
        """Leave out the rest of this block."""
        self._number += self.block.count("\n", self._at)
        self._at = len(self.block)
