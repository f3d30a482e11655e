"""Reading of one log in one pass: its family, and its items one by one.

The first line that a candidate family can read as a record decides. Until then facts are kept for
each candidate, and records of families that were not asked for are remembered: a log of another
family is an error that names the family it looks like. Our own start line decides first.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence

from k8sbench.model.sample import Item, Mark, Record
from k8sbench.parse import airank
from k8sbench.parse.cleaning import pieces
from k8sbench.parse.families import FAMILIES
from k8sbench.parse.family import Family, Read, Reader
from k8sbench.parse.lines import Line, Lines, Place
from k8sbench.parse.together import Together

HEAD_ITEMS = 10_000
"""Items kept before the family is known; a head is never that long."""
OURS = FAMILIES["k8sbench"]


class Log:
    """A log while it is read: iterate over it first, then read its attributes."""

    def __init__(self, blocks: Iterable[str], candidates: Sequence[Family]) -> None:
        self.family: Family | None = None
        """Known once the first item came; still None at the end of a foreign log."""
        self.looks_like: tuple[Family, int, str] | None = None
        """Family, line number and text of the first record of a family that was not asked for."""
        self.head_of: Family | None = None
        """Family whose program began the log, where it holds no record of any candidate."""
        self._lines = Lines(blocks)
        self._candidates = candidates

    def __iter__(self) -> Iterator[Item]:
        """Yield the items; nothing for a log of none of the candidates."""
        for found in self.together():
            if isinstance(found, Together):
                yield from found
            else:
                yield found

    def together(self) -> Iterator[Item | Together]:
        """Yield the items, of which many may come together."""
        ours = [] if OURS in self._candidates else [OURS]
        heads = {each.name: _Head(each, wanted=True) for each in (*ours, *self._candidates)}
        for each in FAMILIES.values():
            heads.setdefault(each.name, _Head(each, wanted=False))
        for number, text in self._lines:
            # Every piece of the line is read before the family is settled by one of them.
            split = pieces(text)
            for index, (source, piece) in enumerate(split):
                for head in heads.values():
                    found = head.read(number, piece, source)
                    if not found:
                        continue
                    if not head.wanted:
                        if self.looks_like is None:
                            self.looks_like = (head.family, number, piece)
                        continue
                    self.family = head.family
                    yield from head.items()
                    for later_source, later in split[index + 1 :]:
                        yield from _read(head.reader, number, later, later_source)
                    yield from self._rest(head.family, head.reader)
                    return
        self.head_of = next((h.family for h in heads.values() if h.names_program), None)

    @property
    def empty(self) -> bool:
        """Whether it has no text at all."""
        return self._lines.empty

    def _rest(self, family: Family, reader: Reader) -> Iterator[Item | Together]:
        """Everything after the line that decided: the fast part."""
        lines, needles = self._lines, reader.needles
        rare = [airank.NEEDLE, *([family.opening] if family.opening else [])]
        while lines.more():
            places = lines.present((*needles, *rare))
            present = {text for _, text in places}
            if not present.isdisjoint(rare):
                yield from self._rarely(family, reader, places)
                continue
            if not present:
                lines.skip()
                continue
            read = functools.partial(_read_pieces, reader.reading(present))
            lane = None if "\r" in lines.block else reader.lane(lines)
            if lane is None:
                for number, text in lines.holding(places):
                    yield from read(number, text)
                continue
            alarms = [place for each in lane.alarms if (place := lines.next(each)) >= 0]
            yield Together(lane, lines.before(lane.found_by, min(alarms, default=-1)), read)
            if alarms:
                for number, text in lines.one():
                    yield from read(number, text)

    def _rarely(self, family: Family, reader: Reader, places: Sequence[Place]) -> Iterator[Item]:
        """A block that may hold a further header or AI-Rank's lines; up to such a header."""
        for number, text in self._lines.holding(places):
            others = (*reader.needles, airank.NEEDLE)
            begins = family.opening and family.opening in text
            if begins and not any(needle in text for needle in others):
                yield from self._begun_again(family, (number, text))
                return
            for source, piece in pieces(text):
                yield from _read(reader, number, piece, source)

    def _begun_again(self, family: Family, line: Line) -> Iterator[Item]:
        """A second header: its facts are read like those of the first, up to the next record."""
        head = _Head(family, wanted=True)
        source, piece = pieces(line[1])[-1]
        yield Mark(line=line[0], text=piece, source=source, kind="header")
        for number, text in itertools.chain([line], self._lines):
            split = pieces(text)
            for index, (source, piece) in enumerate(split):
                if head.read(number, piece, source):
                    yield from head.items()
                    for later_source, later in split[index + 1 :]:
                        yield from _read(head.reader, number, later, later_source)
                    return
        yield from head.items()


def _read_pieces(read: Read, line: int, text: str) -> Iterator[Item]:
    for source, piece in pieces(text):
        yield from read(line, piece, source)


def _read(reader: Reader, line: int, text: str, source: str) -> Iterator[Item]:
    if airank.NEEDLE in text:
        yield from airank.read(line, text, source)
    for needle in reader.needles:
        if needle in text:
            yield from reader.read(line, text, source)
            return


class _Head:
    """The items of one family in the lines before the first record."""

    def __init__(self, family: Family, *, wanted: bool) -> None:
        self.family = family
        self.reader = family.reader()
        self.wanted = wanted
        self.names_program = False
        self._items: list[Item] = []
        self._found: list[Item] = []

    def read(self, line: int, text: str, source: str) -> bool:
        """Read a line; True if that line decides for this family."""
        self._found = list(_read(self.reader, line, text, source))
        if any(_decides(item) for item in self._found):
            return True
        if not self.wanted:
            return False
        facts = list(self.reader.head(line, text, source))
        self.names_program |= any(fact.name == "program" for fact in facts)
        if len(self._items) < HEAD_ITEMS:
            self._items += facts
            self._items += self._found
        return False

    def items(self) -> Iterator[Item]:
        """What was found up to and with the deciding line."""
        yield from self._items
        yield from self.reader.derived()
        yield from self._found


def _decides(item: Item) -> bool:
    return isinstance(item, Record) or (
        isinstance(item, Mark)
        and (item.kind in {"start", "unread"} or "whole_run_rate" in item.values)
    )
