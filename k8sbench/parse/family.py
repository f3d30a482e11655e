"""What a log family is: names, and tables of patterns for its lines.

A family's regular expressions use the same named groups as the declared formats of catalog files,
so one reader serves all of them. Before the first record it reads every line for facts; after that
it sees only lines that hold one of the family's needles. Needles keep the reading of a log of
millions of lines fast: a line without one is skipped unread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from k8sbench.model.expressions import Match
from k8sbench.model.sample import Evaluation, Fact, Item, Mark, MarkKind
from k8sbench.parse import stamps
from k8sbench.parse.records import RecordRule, number_in


class CleanLine(NamedTuple):
    """A cleaned line: its number, from 1, its text, and the rank that printed it, "" if unknown."""

    number: int
    text: str
    source: str

    def fact(self, name: str, value: str) -> Fact:
        """A fact that stands on this line."""
        return Fact(line=self.number, text=self.text, source=self.source, name=name, value=value)

    def mark(
        self,
        kind: MarkKind,
        text: str | None = None,
        values: Mapping[str, float | str | None] | None = None,
        stamp: float | None = None,
    ) -> Mark:
        """A mark on this line; ``text`` is the part of the line that shows it."""
        return Mark(
            line=self.number,
            text=self.text if text is None else text,
            source=self.source,
            kind=kind,
            values=dict(values or {}),
            stamp=stamp,
        )


class FactRule(msgspec.Struct, frozen=True):
    """Facts that one line states: the pattern's named groups, and ``says``.

    A name that begins with ``_`` is for :attr:`Family.derive` alone.
    """

    needle: str
    """Literal text that every matching line holds."""
    pattern: re.Pattern[str]
    says: dict[str, str] = {}


def rule(needle: str, pattern: str | None = None, **says: str) -> FactRule:
    """Build a rule for facts; without a pattern the needle alone decides."""
    return FactRule(needle, re.compile(pattern or re.escape(needle)), says)


class EvaluationRule(msgspec.Struct, frozen=True):
    """An evaluation's result. Groups: ``value``, ``metric``, ``subset``, ``stamp``."""

    needle: str
    pattern: re.Pattern[str]
    metric: str = ""
    """Where the pattern has no such group."""
    unit: Literal["%", "fraction"] | None = None
    """None: percent, if the value is above 1."""
    found_by: str = ""
    """As for records."""


class MarkRule(msgspec.Struct, frozen=True):
    """Something that happened; named groups are its values, as numbers."""

    needle: str
    kind: MarkKind
    pattern: re.Pattern[str] | None = None
    """None: the needle alone decides."""
    found_by: str = ""
    """As for records."""


class TextLines(NamedTuple):
    """Some lines, in columns: see :class:`CleanLine`."""

    numbers: list[int]
    texts: list[str]
    sources: list[str]


Read = Callable[[TextLines], tuple[Sequence[int], Sequence[Item]]]
"""From lines to what they say: indexes of lines in rising order, and for each of these an item."""


class LineRule(NamedTuple):
    """How lines of one kind are found and read."""

    found_by: str
    """Literal text for which the log is searched."""
    needle: str
    """Literal text that every line of the kind holds."""
    read: Read


class LineReader:
    """Reads the lines of one log of one family. Never raises on any text."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._stated: dict[str, Fact] = {}
        self._rules = self.rules()
        self.needles = tuple(dict.fromkeys(rule.found_by for rule in self._rules))
        """Literal texts; every line that can be read holds one."""
        self.head_needles = frozenset((*self.needles, *(fact.needle for fact in family.facts)))
        """The same of lines before the first record."""

    @property
    def reads_all(self) -> bool:
        """Whether the next line before the first record can be read whatever it holds."""
        return False

    def rules(self) -> list[LineRule]:
        """How the lines of the log are found and read."""
        family = self._family
        some: list[tuple[RecordRule | EvaluationRule | MarkRule, Read]] = [
            *((rule, records(rule)) for rule in family.records),
            *((rule, _evaluations(rule)) for rule in family.evaluations),
            *((rule, _marks(rule)) for rule in family.marks),
        ]
        return [
            *(LineRule(rule.found_by or rule.needle, rule.needle, read) for rule, read in some),
            *(LineRule(rule.needle, rule.needle, self._late(rule)) for rule in family.late_facts),
        ]

    def head(self, number: int, text: str, source: str) -> Iterator[Fact]:
        """Facts in a line before the first record."""
        for fact in self.facts(CleanLine(number, text, source), self._family.facts):
            self._stated.setdefault(fact.name, fact)
            if not fact.name.startswith("_"):
                yield fact

    def facts(self, line: CleanLine, rules: Sequence[FactRule]) -> Iterator[Fact]:
        """Apply a table of rules to a line."""
        for rule in rules:
            if rule.needle in line.text and (match := rule.pattern.search(line.text)):
                for name, value in [*match.groupdict().items(), *rule.says.items()]:
                    if value is not None:
                        yield line.fact(name, value.strip())

    def derived(self) -> Iterator[Fact]:
        """Facts that follow from the head as a whole, asked for once when it is over."""
        if self._family.derive is not None:
            yield from self._family.derive(self._stated)

    def read(self, number: int, text: str, source: str) -> list[Item]:
        """Items in a line that holds one of the needles."""
        line = TextLines([number], [text], [source])
        return [item for rule in self._rules for item in rule.read(line)[1]]

    def rules_for(self, present: Collection[str]) -> list[LineRule]:
        """The rules for lines of a text that holds only these of the needles."""
        return [rule for rule in self._rules if rule.found_by in present]

    def _late(self, rule: FactRule) -> Read:
        return each_line(rule.needle, lambda line: self.facts(line, (rule,)))


def each_line(
    needle: str,
    read: Callable[[CleanLine], Iterable[Item]],
    pattern: re.Pattern[str] | None = None,
) -> Read:
    """Read the lines that hold a text, and match a pattern, one by one."""

    def read_lines(lines: TextLines) -> tuple[list[int], list[Item]]:
        indexes: list[int] = []
        items: list[Item] = []
        for index, (number, text, source) in enumerate(zip(*lines, strict=True)):
            # Most lines that hold a needle are training lines: the pattern alone tells them apart.
            if needle in text and (pattern is None or pattern.search(text)):
                items += read(CleanLine(number, text, source))
                indexes += [index] * (len(items) - len(indexes))
        return indexes, items

    return read_lines


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One log family."""

    name: str
    title: str
    """The program that prints it, for people."""
    framework: str | None
    """None where the log itself states it."""
    unit: str
    facts: tuple[FactRule, ...] = ()
    """Facts that stand before the first record."""
    late_facts: tuple[FactRule, ...] = ()
    """Facts that stand anywhere."""
    derive: Callable[[Mapping[str, Fact]], Iterator[Fact]] | None = None
    """From the first fact of each name in the head to those that follow from them."""
    records: tuple[RecordRule, ...] = ()
    evaluations: tuple[EvaluationRule, ...] = ()
    marks: tuple[MarkRule, ...] = ()
    warmup: int = 20
    """Iterations left out where neither a user nor a benchmark says how many."""
    opening: str = ""
    """Text that the program prints once, as it starts and before its facts; empty: none."""
    make_reader: Callable[[Family], LineReader] = LineReader

    def reader(self) -> LineReader:
        """A reader for one log: in some logs an earlier line decides what a line means."""
        return self.make_reader(self)


def records(rule: RecordRule) -> Read:
    """Read training lines."""
    needle, search = rule.needle, rule.pattern.search

    def read_lines(lines: TextLines) -> tuple[list[int], list[Item]]:
        indexes: list[int] = []
        matches: list[Match] = []
        numbers: list[int] = []
        for index, (number, text) in enumerate(zip(lines.numbers, lines.texts, strict=True)):
            match = search(text) if needle in text else None
            if match is None:
                continue
            indexes.append(index)
            numbers.append(number)
            matches.append(match)
            # Most lines end with their record: what follows is seldom searched for another.
            if needle in text[match.end() :]:
                more = list(rule.pattern.finditer(text, match.end()))
                indexes += [index] * len(more)
                numbers += [number] * len(more)
                matches += more
        sources = [lines.sources[index] for index in indexes]
        read = rule.records(numbers, sources, matches)
        kept = [index for index, record in zip(indexes, read, strict=True) if record is not None]
        return kept, [record for record in read if record is not None]

    return read_lines


def _evaluations(rule: EvaluationRule) -> Read:
    def read(line: CleanLine) -> Iterator[Item]:
        for match in rule.pattern.finditer(line.text):
            yield line.mark("evaluation", match[0])
            yield _evaluation(line, match, rule)

    return each_line(rule.needle, read, rule.pattern)


def _evaluation(line: CleanLine, match: re.Match[str], rule: EvaluationRule) -> Evaluation:
    groups, value = match.groupdict(), float(match["value"])
    stamp = groups.get("stamp")
    return Evaluation(
        line=line.number,
        text=match[0],
        source=line.source,
        metric=groups.get("metric") or rule.metric,
        subset=groups.get("subset") or "",
        value=value,
        unit=rule.unit or ("fraction" if value <= 1 else "%"),
        stamp=None if stamp is None else stamps.seconds(stamp),
    )


def _marks(rule: MarkRule) -> Read:
    pattern = rule.pattern

    def read(line: CleanLine) -> Iterator[Item]:
        if pattern is None:
            yield line.mark(rule.kind)
        elif match := pattern.search(line.text):
            values = {name: number_in(value) for name, value in match.groupdict().items()}
            yield line.mark(rule.kind, match[0], values)

    return each_line(rule.needle, read, pattern)


def assumed_fp32(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    """A printed configuration that does not set a precision stands for fp32."""
    if "_config" in stated and "precision" not in stated:
        yield stated["_config"].like("precision_assumed", "fp32")
