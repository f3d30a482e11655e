"""Single-pass reading of one log: its family and items.

The first line that a candidate family can read as a record decides. Until then facts are kept for
each candidate. A start line decides, too (:attr:`.Family.is_always_candidate`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from k8sbench.messages import note
from k8sbench.model import clock_note
from k8sbench.model.log_format import LogFormat
from k8sbench.model.sample import Evaluation, Fact, Item, Mark, Record
from k8sbench.reader import declared, unread_programs
from k8sbench.reader.families import FAMILIES
from k8sbench.reader.family import UNENDED, Family, LineReader, number_in
from k8sbench.reader.lines import CleanLine, NumberedLine, OrderedLines, pieces
from k8sbench.reader.unread_programs import UnreadProgram

HEAD_ITEMS = 10_000
"""Items kept before the family is known; a head is never that long."""
_LINES_OF_BLOCK = 1000
"""Lines that are searched together."""
EVENTS = {"evaluation", "checkpoint"}
"""Kinds of marks between training lines."""
TEST = "(test)"
"""Part of mmengine's lines of a test."""

# AI-Rank's event lines may stand in a log of any family: ``- AI-Rank-log 1618109465.704
# test_begin`` and its kin, with or without the dash. The same prefix in front of a logger's own
# line is no event.
AIRANK = "AI-Rank-log"
_SHARED = (AIRANK, clock_note.NEEDLE)
"""Texts that may stand in a log of any family."""
_EVENT = re.compile(
    r"AI-Rank-log (?P<at>\d{6,}(?:\.\d+)?) "
    r"(?P<event>load_data|test_begin|eval_accuracy|test_finish|target_quality_time|total_use_time"
    r"|avg_ips)"
    # The checksum is the number of samples, or the MD5 of the data's archive.
    r"(?:, checksum: ?(?:(?P<samples>\d{1,9})|(?P<md5>[0-9a-f]{32}))(?!\w))?"
    r"(?:: ?(?P<value>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?) ?(?:[A-Za-z]*/?s(?:ec)?\b)?)?"
)


def airank_events(line: CleanLine) -> Iterator[Mark]:
    """Yield the AI-Rank events of a line."""
    for match in _EVENT.finditer(line.text):
        values = {
            "event": match["event"],
            "value": number_in(match["value"] or match["samples"]),
        }
        values |= {"md5": match["md5"]} if match["md5"] else {}
        yield line.mark("airank", match[0], values, number_in(match["at"]))


def _yield_common_marks(line: CleanLine) -> Iterator[Mark]:
    """Yield what may stand in a log of any family."""
    if AIRANK in line.text:
        yield from airank_events(line)
    if (seconds := clock_note.parse_note(line.text)) is not None:
        yield line.mark("clock", values={"seconds": seconds})


def family_of(log: str | LogFormat, framework: str | None) -> Family:
    """Return a built-in family by name, or a declared format's."""
    return FAMILIES[log] if isinstance(log, str) else declared.family(log, framework)


def family_in(lines: Sequence[str]) -> Family | None:
    """Return the built-in family whose training lines are in a log; None without any."""
    log = FamilyLog(_blocks(lines), list(FAMILIES.values()))
    trains = any(isinstance(item, Record) for item in log)
    return log.family if trains else None


def _blocks(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines in blocks, each of which is searched once for the texts of all families."""
    for begin in range(0, len(lines), _LINES_OF_BLOCK):
        yield "\n".join((*lines[begin : begin + _LINES_OF_BLOCK], ""))


class UntrainedLog(NamedTuple):
    """A log without a record, of a program that a family knows."""

    family: Family
    items: list[Item]
    """Evaluations, checkpoints and facts."""


class FamilyLog:
    """A log while it is read: iterate over it first, then read its attributes."""

    def __init__(self, blocks: Iterable[str], candidates: Sequence[Family]) -> None:
        self.family: Family | None = None
        """Detected family, known at the first item; None for a foreign log."""
        self.untrained: UntrainedLog | None = None
        """Content of a log that has no record; None if its program is unknown."""
        self.unread_program: UnreadProgram | None = None
        """Program that lines before the first record show, and that no family reads."""
        self._lines = OrderedLines(blocks)
        self._candidates = candidates

    def __iter__(self) -> Iterator[Item]:
        """Yield the items; nothing if no candidate fits."""
        always = [family for family in FAMILIES.values() if family.is_always_candidate]
        others = [family for family in self._candidates if not family.is_always_candidate]
        heads = [_Head(family) for family in (*always, *others)]
        lines = self._lines.holding(_texts(heads) | unread_programs.NEEDLES)
        head, items = _decided(self._look_for_unread_programs(lines), heads)
        if head is not None:
            self.family = head.family
            yield from items
            yield from self._rest(head)
        else:
            longest = max((head.untrained() for head in heads), key=lambda log: len(log.items))
            self.untrained = longest if longest.items else None
            unused = (head.unused for head in heads if head.is_unused)
            self.unread_program = next(unused, self.unread_program)

    @property
    def empty(self) -> bool:
        """True if the log has no text."""
        return self._lines.empty

    def _look_for_unread_programs(self, lines: Iterable[NumberedLine]) -> Iterator[NumberedLine]:
        """Yield the lines, and note a program without a family."""
        for number, text in lines:
            if self.unread_program is None:
                self.unread_program = unread_programs.recognise(text)
            yield number, text

    def _rest(self, head: _Head) -> Iterator[Item]:
        """Everything after the line that decided."""
        reader, opening = head.reader, head.opening
        texts = frozenset((*_SHARED, *reader.needles, *([opening] if opening else [])))
        for number, text in self._lines.holding(texts):
            if opening and opening in text and head.is_further_header((number, text)):
                yield from self._further_header(head, (number, text))
                continue
            for line in pieces(text, number):
                yield from _yield_common_marks(line)
                yield from reader.read(line)

    def _further_header(self, head: _Head, opening: NumberedLine) -> Iterator[Item]:
        """Read the facts of a further header, up to the next record.

        What a fact means may depend on lines before it: the header's reader reads all of them, as
        that of the first header did, and the run's reader yields their other items.
        """
        further = head.family.reader()
        yield pieces(opening[1], opening[0])[-1].mark("header")
        lines = self._lines.holding(frozenset((*_SHARED, *further.head_needles)))
        for number, text in itertools.chain([opening], lines):
            items: list[Item] = []
            for line in pieces(text, number):
                further.read(line)
                items += further.head(line)
                items += _read(head.reader, line)
            if any(_decides(item) for item in items):
                yield from further.derived()
                yield from items
                return
            yield from items
        yield from further.derived()


def _read(reader: LineReader, line: CleanLine) -> Iterator[Item]:
    yield from _yield_common_marks(line)
    yield from reader.read(line)


class _Head:
    """The items of one family in the lines before the first record."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.reader = family.reader()
        self.texts = (*_SHARED, *self.reader.head_needles)
        """Texts of the lines that it can read."""
        self._items: list[Item] = []
        self._found: list[Item] = []
        self.yields_to = ""
        """Text that showed a program whose lines go first; empty without one."""
        self.is_unused = False
        """True if lines of this family are not used, because of that program."""
        self._unread = False
        """True if a line may be a record, and cannot be read."""

    def concerns(self, text: str) -> bool:
        """True if a line holds a text that this family reads; most are those of other families."""
        return any(map(text.__contains__, self.texts))

    def read(self, line: CleanLine) -> bool:
        """Read a line; True if that line decides for this family."""
        if not self.yields_to and self.family.yields_to:
            texts = (text for text in self.family.yields_to if text in line.text)
            self.yields_to = next(texts, "")
        if self.yields_to:
            self.is_unused = self.is_unused or any(map(_decides, self.reader.read(line)))
            return False
        self._found = list(_read(self.reader, line))
        if any(_decides(item) for item in self._found):
            return True
        needles = (rule.needle for rule in self.family.records)
        self._unread |= not self._found and any(text and text in line.text for text in needles)
        facts = list(self.reader.head(line))
        if len(self._items) < HEAD_ITEMS:
            self._items += facts
            self._items += self._found
        return False

    @property
    def unused(self) -> UnreadProgram:
        """The program because of which lines of this family are not used."""
        return UnreadProgram(
            note("unread-program-that-prints", text=repr(self.yields_to)),
            note("unread-program-part-of-iterations", family=self.family.title),
        )

    def is_further_header(self, line: NumberedLine) -> bool:
        """Return True if a line that may begin a further header states a fact of the run."""
        further = self.family.reader()
        for piece in pieces(line[1], line[0]):
            list(further.facts(piece))
        return bool(further.openings)

    @property
    def opening(self) -> str:
        """Text by which a further header is known; empty without any.

        A program that is started again states again what it stated first. Of a log without its
        beginning it is what such programs state first. No training line holds it.
        """
        printed = [item.text for item in self._found]
        openings = (*self.reader.openings, *(rule.needle for rule in self.family.facts[:1]))
        return next((text for text in openings if not any(text in each for each in printed)), "")

    def untrained(self) -> UntrainedLog:
        """Return the items of a log of evaluations without records; none of other logs."""
        facts = {item.name for item in self._items if isinstance(item, Fact)}
        events = [item for item in self._items if isinstance(item, Mark) and item.kind in EVENTS]
        # Other programs test, too, in lines that begin as those of a family.
        known = "program" in facts or any(TEST in event.text for event in events)
        known |= any(isinstance(item, Evaluation) for item in self._items)
        is_known = (known and events and not self._unread) or UNENDED in facts
        return UntrainedLog(self.family, self._items if is_known else [])

    def items(self) -> Iterator[Item]:
        """Yield the items up to the deciding line, including it."""
        yield from self._items
        yield from self.reader.derived()
        yield from self._found


def _decided(
    lines: Iterable[NumberedLine], heads: Sequence[_Head]
) -> tuple[_Head | None, list[Item]]:
    """Return the head that a line decides for, and its items so far."""
    for number, text in lines:
        # Every piece of the line is read before the family is settled by one of them.
        split = pieces(text, number)
        for index, line in enumerate(split):
            for head in heads:
                if head.concerns(line.text) and head.read(line):
                    items = list(head.items())
                    for later in split[index + 1 :]:
                        items += _read(head.reader, later)
                    return head, items
    return None, []


def _texts(heads: Collection[_Head]) -> frozenset[str]:
    """Texts of the lines that any of the heads can read."""
    return frozenset().union(*(head.texts for head in heads))


def _decides(item: Item) -> bool:
    return isinstance(item, Record) or (
        isinstance(item, Mark)
        and (item.kind in {"start", "unread"} or "whole_run_rate" in item.values)
    )
