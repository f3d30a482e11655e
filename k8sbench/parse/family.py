"""What a log family is: names, and tables of patterns for its lines.

A family's regular expressions use the same named groups as the declared formats of catalog files,
so one reader serves all of them. Before the first record it reads every line for facts; after that
it sees only lines that hold one of the family's needles. Needles keep the reading of a log of
millions of lines fast: a line without one is skipped unread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from k8sbench.model.sample import Evaluation, Fact, Item, Mark, MarkKind, Record, Shape
from k8sbench.model.spec import Framework
from k8sbench.parse import stamps

MOST_ITERATIONS = 1e12
MOST_EPOCHS = 1e6
"""No run has as many; a larger number is a broken line."""
LOSS_NUMBER = r"(?P<loss>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf|NaN|Inf|NAN|INF))"
"""A loss as any of the programs prints it."""
_LOSS = re.compile(r"\bloss:\s+" + LOSS_NUMBER)


class Line(NamedTuple):
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


class RecordRule(msgspec.Struct, frozen=True):
    """A training line.

    Groups: ``iteration``, ``epoch``, ``total``, ``rate``, ``step_seconds``, ``mean_seconds``,
    ``data_seconds``, ``compute_rate`` (without the wait for data), ``loss``, ``middle`` (the text
    that holds the loss), ``stamp``, ``memory``.
    """

    needle: str
    pattern: re.Pattern[str]
    shape: Shape
    first_iteration: int = 1
    """The number that the program gives to the first iteration."""
    stamp: Callable[[str], float | None] = stamps.seconds


class EvaluationRule(msgspec.Struct, frozen=True):
    """An evaluation's result. Groups: ``value``, ``metric``, ``subset``, ``stamp``."""

    needle: str
    pattern: re.Pattern[str]
    metric: str = ""
    """Where the pattern has no such group."""
    unit: Literal["%", "fraction"] | None = None
    """None: percent, if the value is above 1."""


class MarkRule(msgspec.Struct, frozen=True):
    """Something that happened; named groups are its values, as numbers."""

    needle: str
    kind: MarkKind
    pattern: re.Pattern[str] | None = None
    """None: the needle alone decides."""


class Reader:
    """Reads the lines of one log of one family. Never raises on any text."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._stated: dict[str, Fact] = {}

    def head(self, number: int, text: str, source: str) -> Iterator[Fact]:
        """Facts in a line before the first record."""
        for fact in self.facts(Line(number, text, source), self._family.facts):
            self._stated.setdefault(fact.name, fact)
            if not fact.name.startswith("_"):
                yield fact

    def facts(self, line: Line, rules: Sequence[FactRule]) -> Iterator[Fact]:
        """Apply a table of rules to a line."""
        for each in rules:
            if each.needle in line.text and (match := each.pattern.search(line.text)):
                for name, value in [*match.groupdict().items(), *each.says.items()]:
                    if value is not None:
                        yield line.fact(name, value.strip())

    def derived(self) -> Iterator[Fact]:
        """Facts that follow from the head as a whole, asked for once when it is over."""
        if self._family.derive is not None:
            yield from self._family.derive(self._stated)

    def read(self, number: int, text: str, source: str) -> Iterator[Item]:
        """Items in a line that holds one of the family's needles."""
        family, line = self._family, Line(number, text, source)
        for each in family.records:
            if each.needle in text:
                for match in each.pattern.finditer(text):
                    record = record_of(line, match, each)
                    if record is not None:
                        yield record
        for result in family.evaluations:
            if result.needle in text:
                for match in result.pattern.finditer(text):
                    yield line.mark("evaluation", match[0])
                    yield _evaluation(line, match, result)
        for event in family.marks:
            if event.needle not in text:
                continue
            if event.pattern is None:
                yield line.mark(event.kind)
            elif found := event.pattern.search(text):
                values = {name: number_in(value) for name, value in found.groupdict().items()}
                yield line.mark(event.kind, found[0], values)
        yield from self.facts(line, family.late_facts)


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One log family."""

    name: str
    title: str
    """The program that prints it, for people."""
    framework: Framework | None
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
    opening: str = ""
    """Text that the program prints once, as it starts and before its facts; empty: none."""
    own_needles: tuple[str, ...] = ()
    """Needles of a reader of its own."""
    make_reader: Callable[[Family], Reader] = Reader

    @property
    def needles(self) -> tuple[str, ...]:
        """Literal texts; every line that :meth:`Reader.read` can read holds one."""
        rules: tuple[RecordRule | EvaluationRule | MarkRule | FactRule, ...]
        rules = (*self.records, *self.evaluations, *self.marks, *self.late_facts)
        return tuple(dict.fromkeys((*self.own_needles, *(each.needle for each in rules))))

    def reader(self) -> Reader:
        """A reader for one log: in some logs an earlier line decides what a line means."""
        return self.make_reader(self)


def record_of(line: Line, match: re.Match[str], each: RecordRule) -> Record | None:
    """Read the record of a match; None where its numbers can be none of a record."""
    groups, shape = match.groupdict(), each.shape
    iteration = _whole(groups.get("iteration"), MOST_ITERATIONS)
    rate, seconds = positive(groups.get("rate")), positive(groups.get("step_seconds"))
    mean = positive(groups.get("mean_seconds"))
    if shape.averaged == "running" and "mean_seconds" not in groups:
        seconds, mean = None, seconds
    time = mean if shape.averaged == "running" else seconds
    if iteration is None or (rate if shape.number == "rate" else time) is None:
        return None
    loss = groups.get("loss")
    if loss is None and (found := _LOSS.search(groups.get("middle") or "")):
        loss = found["loss"]
    waiting = share(number_in(groups.get("data_seconds")), time)
    compute_rate = positive(groups.get("compute_rate"))
    if rate is not None and compute_rate is not None:
        waiting = max(1 - rate / compute_rate, 0.0)
    stamp = groups.get("stamp")
    return Record(
        line=line.number,
        text=match[0],
        source=line.source,
        shape=shape,
        iteration=iteration + 1 - each.first_iteration,
        epoch=_whole(groups.get("epoch"), MOST_EPOCHS),
        total=_whole(groups.get("total"), MOST_ITERATIONS) or None,
        rate=rate,
        seconds=seconds,
        mean_seconds=mean,
        loss=number_in(loss),
        waiting=waiting,
        stamp=None if stamp is None else each.stamp(stamp),
        memory_mib=number_in(groups.get("memory")),
    )


def _evaluation(line: Line, match: re.Match[str], each: EvaluationRule) -> Evaluation:
    groups, value = match.groupdict(), float(match["value"])
    stamp = groups.get("stamp")
    return Evaluation(
        line=line.number,
        text=match[0],
        source=line.source,
        metric=groups.get("metric") or each.metric,
        subset=groups.get("subset") or "",
        value=value,
        unit=each.unit or ("fraction" if value <= 1 else "%"),
        stamp=None if stamp is None else stamps.seconds(stamp),
    )


def assumed_fp32(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    """A printed configuration that does not set a precision stands for fp32."""
    if "_config" in stated and "precision" not in stated:
        yield stated["_config"].like("precision_assumed", "fp32")


def number_in(text: str | None) -> float | None:
    """A printed number, NaN and infinities included; None for no number."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def positive(text: str | None) -> float | None:
    """A printed number that can be a time or a rate; None for all others."""
    value = number_in(text)
    return value if value is not None and 0 < value < math.inf else None


def share(part: float | None, whole: float | None) -> float | None:
    """``part`` of ``whole``, 0–1; None where either is unknown."""
    if part is None or whole is None or not whole > 0 or not part >= 0:
        return None
    return min(part / whole, 1.0)


def _whole(text: str | None, limit: float) -> int | None:
    value = number_in(text)
    return int(value) if value is not None and 0 <= value < limit else None
