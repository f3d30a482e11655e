"""The lines of a log, which comes in blocks of many.

Most lines of most logs mean nothing. They are passed over without being taken apart: a text is
searched for in a whole block at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator

from k8sbench.parse.cleaning import plain

NumberedLine = tuple[int, str]
"""Number, from 1, and text without the line end."""

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


class UniqueLines:
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

    def more(self) -> bool:
        """Go to the next block if this one is at its end; False at the end of the log."""
        while self._at >= len(self.block):
            block = next(self._blocks, None)
            if block is None:
                return False
            self.block, self._at = block, 0
            if block.strip("\r\n"):
                self.empty = False
            else:
                self.skip()
        return True

    def __iter__(self) -> Iterator[NumberedLine]:
        """Every line from here on."""
        while self.more():
            yield from self.rest()

    def present(self, texts: Iterable[str]) -> list[str]:
        """Those of the texts that the rest of this block holds."""
        return [text for text in texts if find(self.block, text, self._at) >= 0]

    def holding(self, texts: Collection[str]) -> tuple[list[int], list[str]]:
        """Take the rest of this block; return its lines that hold one of the texts.

        First their numbers, then the lines.
        """
        if "\r" in self.block or "" in texts:
            found = [line for line in self.rest() if any(text in line[1] for text in texts)]
        else:
            found = list(self._with(texts))
        return [number for number, _ in found], [line for _, line in found]

    def in_turn(self, texts: Callable[[], Collection[str]]) -> Iterator[NumberedLine]:
        """The lines from here on that hold one of the texts once they are cleaned.

        Others may be given, too. Whoever stops goes on behind the last line. ``texts`` is asked
        after each line.
        """
        while self.more():
            wanted = texts()
            present = self.present(wanted)
            is_plain = plain(self.block) and "\r" not in self.block
            if not present and is_plain:
                self.skip()
                continue
            for line in self.rest() if "" in present or not is_plain else self._with(present):
                yield line
                if texts() is not wanted:
                    break

    def _with(self, texts: Collection[str]) -> Iterator[NumberedLine]:
        """The lines in the rest of this block that hold one of the texts."""
        ends: dict[int, int] = {}
        block, find, rfind, count = self.block, self.block.find, self.block.rfind, self.block.count
        for text in texts:
            end = self._at - 1
            while (place := find(text, end + 1)) >= 0:
                begin = rfind("\n", end + 1, place) + 1 or end + 1
                end = find("\n", place)
                if end < 0:
                    end = len(block)
                ends[begin] = end
        for begin, end in sorted(ends.items()):
            number = self._number + count("\n", self._at, begin)
            self._at, self._number = min(end + 1, len(block)), number + 1
            yield number, block[begin:end]
        self.skip()

    def rest(self) -> Iterator[NumberedLine]:
        """The lines in the rest of this block."""
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
