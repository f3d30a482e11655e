"""Reading of one log in one pass: its family, and its items one by one.

The first line that a candidate family can read as a record decides. Until then facts are kept for
each candidate. Our own start line decides first.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from k8sbench.model.sample import Item, Mark, Record
from k8sbench.parse.families import FAMILIES
from k8sbench.parse.family import CleanLine, Family, LineReader, LineRule, TextLines, each_line
from k8sbench.parse.lines import (
    PREFIX_STARTS,
    NumberedLine,
    UniqueLines,
    pieces,
    plain,
    without_prefixes,
)
from k8sbench.parse.records import number_in

AT_ONCE = 128
"""Lines that are read at once."""
HEAD_ITEMS = 10_000
"""Items kept before the family is known; a head is never that long."""
OURS = FAMILIES["k8sbench"]

# AI-Rank's event lines may stand in a log of any family: ``- AI-Rank-log 1618109465.704
# test_begin`` and its kin, with or without the dash. The same prefix in front of a logger's own
# line is no event.
AIRANK = "AI-Rank-log"
_EVENT = re.compile(
    r"AI-Rank-log (?P<at>\d{6,}(?:\.\d+)?) "
    r"(?P<event>load_data|test_begin|eval_accuracy|test_finish|target_quality_time|total_use_time"
    r"|avg_ips)"
    # Where the checksum is the number of samples and no hash.
    r"(?:, checksum: ?(?P<samples>\d{1,9})(?!\w))?"
    r"(?:: ?(?P<value>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?) ?(?:[A-Za-z]*/?s(?:ec)?\b)?)?"
)


def airank_events(line: CleanLine) -> Iterator[Mark]:
    """Yield the AI-Rank events of a line."""
    for match in _EVENT.finditer(line.text):
        values = {
            "event": match["event"],
            "value": number_in(match["value"] or match["samples"]),
        }
        yield line.mark("airank", match[0], values, number_in(match["at"]))


class FamilyLog:
    """A log while it is read: iterate over it first, then read its attributes."""

    def __init__(self, blocks: Iterable[str], candidates: Sequence[Family]) -> None:
        self.family: Family | None = None
        """Known once the first item came; still None at the end of a foreign log."""
        self._lines = UniqueLines(blocks)
        self._candidates = candidates

    def __iter__(self) -> Iterator[Item]:
        """Yield the items one by one."""
        return itertools.chain.from_iterable(self.batches())

    def batches(self) -> Iterator[Sequence[Item]]:
        """Yield the items, some hundred at once; nothing for a log of none of the candidates."""
        others = [family for family in self._candidates if family is not OURS]
        heads = [_Head(family) for family in (OURS, *others)]
        head, items = _decided(self._lines.in_turn(_texts(heads)), heads)
        if head is not None:
            self.family = head.family
            yield items
            yield from self._rest(head.family, head.reader)

    @property
    def empty(self) -> bool:
        """Whether it has no text at all."""
        return self._lines.empty

    def _rest(self, family: Family, reader: LineReader) -> Iterator[Sequence[Item]]:
        """Everything after the line that decided: the fast part."""
        lines = self._lines
        texts = (AIRANK, *reader.needles, *([family.opening] if family.opening else []))
        while lines.more():
            present = lines.present(texts)
            if not present:
                lines.skip()
            elif family.opening and family.opening in present:
                yield from self._up_to_header(family, reader, present)
            else:
                yield from self._block(reader, present)

    def _block(self, reader: LineReader, present: Sequence[str]) -> Iterator[Sequence[Item]]:
        """The rest of a block, which holds these of the needles and no header."""
        rules = reader.rules_for(present)
        if AIRANK in present:
            rules.insert(0, _AIRANK)
        has_pieces = "\r" in self._lines.block
        numbers, texts = self._lines.holding(present)
        for begin in range(0, len(texts), AT_ONCE):
            end = begin + AT_ONCE
            joined = "\n".join(texts[begin:end])
            split = _pieces if has_pieces or not plain(joined) else _whole_lines
            lines = split(numbers[begin:end], texts[begin:end])
            # That no line holds a text shows faster in all of them at once.
            results = [rule.read(lines) for rule in rules if rule.needle in joined]
            if len(results) == 1:
                yield results[0][1]
                continue
            items = [
                item for indexes, items in results for item in zip(indexes, items, strict=True)
            ]
            items.sort(key=_INDEX)
            yield [item for _, item in items]

    def _up_to_header(
        self, family: Family, reader: LineReader, present: Sequence[str]
    ) -> Iterator[Sequence[Item]]:
        """A block that may hold a further header; up to that header and its facts."""
        for number, text in self._lines.rest():
            holds = {needle for needle in present if needle in text}
            if holds == {family.opening}:
                yield list(self._begun_again(family, (number, text)))
                return
            for source, piece in pieces(text) if holds else ():
                yield _read(reader, number, piece, source)

    def _begun_again(self, family: Family, line: NumberedLine) -> Iterator[Item]:
        """A second header: its facts are read like those of the first, up to the next record."""
        head = _Head(family)
        source, piece = pieces(line[1])[-1]
        yield Mark(line=line[0], text=piece, source=source, kind="header")
        lines = itertools.chain([line], self._lines.in_turn(_texts([head])))
        decided, items = _decided(lines, [head])
        yield from items if decided else head.items()


_EVERY = frozenset([""])
"""A text that every line holds."""
_INDEX = operator.itemgetter(0)
_AIRANK = LineRule(AIRANK, AIRANK, each_line(AIRANK, airank_events))


def _pieces(numbers: list[int], texts: list[str]) -> TextLines:
    split = TextLines([], [], [])
    for number, text in zip(numbers, texts, strict=True):
        for source, piece in pieces(text):
            split.numbers.append(number)
            split.texts.append(piece)
            split.sources.append(source)
    return split


def _whole_lines(numbers: list[int], texts: list[str]) -> TextLines:
    """Plain lines without their prefixes."""
    sources = [""] * len(texts)
    for index, text in enumerate(texts):
        # Most begin with none: looking at one character is faster than a call.
        if text[0] in PREFIX_STARTS:
            sources[index], texts[index] = without_prefixes(text)
    return TextLines(numbers, texts, sources)


def _read(reader: LineReader, number: int, text: str, source: str) -> list[Item]:
    items: list[Item] = []
    if AIRANK in text:
        items += airank_events(CleanLine(number, text, source))
    if any(needle in text for needle in reader.needles):
        items += reader.read(number, text, source)
    return items


class _Head:
    """The items of one family in the lines before the first record."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.reader = family.reader()
        self._items: list[Item] = []
        self._found: list[Item] = []

    def read(self, line: int, text: str, source: str) -> bool:
        """Read a line; True if that line decides for this family."""
        self._found = _read(self.reader, line, text, source)
        if any(_decides(item) for item in self._found):
            return True
        facts = list(self.reader.head(line, text, source))
        if len(self._items) < HEAD_ITEMS:
            self._items += facts
            self._items += self._found
        return False

    def items(self) -> Iterator[Item]:
        """What was found up to and with the deciding line."""
        yield from self._items
        yield from self.reader.derived()
        yield from self._found


def _decided(
    lines: Iterable[NumberedLine], heads: Sequence[_Head]
) -> tuple[_Head | None, list[Item]]:
    """The first of the heads that a line decides for, and its items up to the end of that line."""
    for number, text in lines:
        # Every piece of the line is read before the family is settled by one of them.
        split = pieces(text)
        for index, (source, piece) in enumerate(split):
            for head in heads:
                if head.read(number, piece, source):
                    items = list(head.items())
                    for later_source, later in split[index + 1 :]:
                        items += _read(head.reader, number, later, later_source)
                    return head, items
    return None, []


def _texts(heads: Collection[_Head]) -> Callable[[], frozenset[str]]:
    """Texts of the lines that any of the heads can read."""
    readers = [head.reader for head in heads]
    texts = frozenset([AIRANK]).union(*(reader.head_needles for reader in readers))
    return lambda: _EVERY if any(reader.reads_all for reader in readers) else texts


def _decides(item: Item) -> bool:
    return isinstance(item, Record) or (
        isinstance(item, Mark)
        and (item.kind in {"start", "unread", "foreign"} or "whole_run_rate" in item.values)
    )
