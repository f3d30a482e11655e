"""What a log family is: names, and tables of patterns for its lines.

A family's regular expressions use the same named groups as the declared formats of catalog files,
so one reader serves all of them. Before the first record it reads every line for facts; after that
it sees only lines that hold one of the family's needles. Needles keep the reading of a log of
millions of lines fast: a line without one is skipped unread.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from k8sbench.model.sample import Evaluation, Fact, Item, Mark, MarkKind, Record, Shape
from k8sbench.model.spec import Framework
from k8sbench.parse import stamps
from k8sbench.parse.lines import Lines
from k8sbench.parse.together import Columns, Lane, numbers, one

MOST_ITERATIONS = 1e12
MOST_EPOCHS = 1e6
"""No run has as many; a larger number is a broken line."""
LOSS_NUMBER = r"(?P<loss>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf|NaN|Inf|NAN|INF))"
"""A loss as any of the programs prints it."""
_INFINITE = math.inf
_GROUPS = re.Match.groups
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
    found_by: str = ""
    """Another literal text of every matching line, for which a log is searched instead of the
    needle: a longer one is found faster, and one that other rules search for costs nothing."""


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


Read = Callable[[int, str, str], Iterable[Item]]
"""From a line's number, its text and the rank that printed it to what it says."""


class Reader:
    """Reads the lines of one log of one family. Never raises on any text."""

    def __init__(self, family: Family) -> None:
        self.needles = family.needles
        self._family = family
        self._stated: dict[str, Fact] = {}

    @functools.cached_property
    def _rules(self) -> list[tuple[str, tuple[str, Read]]]:
        """What a log is searched for, and what is then read in lines that hold a needle."""
        family = self._family
        rules: list[tuple[RecordRule | EvaluationRule | MarkRule, Read]] = [
            *((each, _records(each)) for each in family.records),
            *((each, _evaluations(each)) for each in family.evaluations),
            *((each, _marks(each)) for each in family.marks),
        ]
        return [
            *((each.found_by or each.needle, (each.needle, read)) for each, read in rules),
            *((each.needle, (each.needle, self._late(each))) for each in family.late_facts),
        ]

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

    def read(self, number: int, text: str, source: str) -> Iterable[Item]:
        """Items in a line that holds one of the family's needles."""
        return _items([rule for _, rule in self._rules], number, text, source)

    def reading(self, present: Collection[str]) -> Read:
        """:meth:`read` for the lines of a text that holds only these of the family's needles."""
        if self._family.own_needles:
            return self.read
        rules = [rule for found_by, rule in self._rules if found_by in present]
        return functools.partial(_items, rules)

    def lane(self, lines: Lines) -> Lane | None:
        """The lane of the records that the rest of a block seems to hold."""
        for lane in self.lanes:
            if lines.next(lane.needle) >= 0:
                return lane
        return None

    @functools.cached_property
    def lanes(self) -> Sequence[Lane]:
        """The lanes of the family's kinds of records, where it has no other lines of its own."""
        if self._family.own_needles:
            return ()
        family, lanes = self._family, []
        rules: list[RecordRule | EvaluationRule | MarkRule | FactRule]
        rules = [*family.records, *family.evaluations, *family.marks, *family.late_facts]
        for each in family.records:
            columns = _columns(each)
            if columns is None:
                continue
            own, others = each.found_by or each.needle, []
            alarms: dict[str, None] = {}
            for other in rules:
                found_by = getattr(other, "found_by", "") or other.needle
                if found_by != own:
                    alarms[found_by] = None
                elif other is not each:
                    # Its lines are found with the records: there it is looked for.
                    others.append((other.needle == own and other.pattern) or other.needle)
            lanes.append(
                Lane(own, each.needle, tuple(alarms), tuple(others), each.pattern.search, columns)
            )
        return lanes

    def _late(self, each: FactRule) -> Read:
        return lambda number, text, source: self.facts(Line(number, text, source), (each,))


_shared = functools.lru_cache(maxsize=256)
"""Readers are many where many jobs are followed; their rules are the same."""


def _items(
    rules: Sequence[tuple[str, Read]], number: int, text: str, source: str
) -> Iterable[Item]:
    found: list[Item] = []
    for needle, read in rules:
        if needle in text:
            found += read(number, text, source)
    return found


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
        rules: tuple[RecordRule | EvaluationRule | MarkRule, ...]
        rules = (*self.records, *self.evaluations, *self.marks)
        found_by = [each.found_by or each.needle for each in rules]
        late = [each.needle for each in self.late_facts]
        return tuple(dict.fromkeys((*self.own_needles, *found_by, *late)))

    def reader(self) -> Reader:
        """A reader for one log: in some logs an earlier line decides what a line means."""
        return self.make_reader(self)


_NUMBERS = (
    *("iteration", "epoch", "total", "rate", "compute_rate"),
    *("step_seconds", "mean_seconds", "data_seconds", "memory"),
)
Make = Callable[[int, str, "re.Match[str]"], Record | None]


def record_maker(each: RecordRule) -> Make:
    """How a match becomes a record; None where its numbers can be none of a record."""
    shape, groups = each.shape, each.pattern.groups

    def place(name: str) -> int:
        # Behind the last group stands a None.
        return each.pattern.groupindex.get(name, groups + 1) - 1

    numbers = [place(name) for name in _NUMBERS]
    at_loss, at_middle, at_stamp = place("loss"), place("middle"), place("stamp")
    by_rate, is_running = shape.number == "rate", shape.averaged == "running"
    mean_alone = is_running and "mean_seconds" not in each.pattern.groupindex
    before, stamp_of = 1 - each.first_iteration, each.stamp

    def make(number: int, source: str, match: re.Match[str]) -> Record | None:
        found = (*match.groups(), None)
        try:
            values = [float(text) if (text := found[at]) else None for at in numbers]
        except ValueError:
            values = [number_in(found[at]) for at in numbers]
        iteration, epoch, total, rate, compute_rate, seconds, mean, data, memory = values
        if iteration is None or not 0 <= iteration < MOST_ITERATIONS:
            return None
        if rate is not None and not 0 < rate < _INFINITE:
            rate = None
        if seconds is not None and not 0 < seconds < _INFINITE:
            seconds = None
        if mean_alone:
            seconds, mean = None, seconds
        elif mean is not None and not 0 < mean < _INFINITE:
            mean = None
        time = mean if is_running else seconds
        if (rate if by_rate else time) is None:
            return None
        loss = found[at_loss]
        if loss is None and (middle := found[at_middle]) and (told := _LOSS.search(middle)):
            loss = told["loss"]
        if rate is not None and compute_rate is not None and 0 < compute_rate < _INFINITE:
            waiting: float | None = max(1 - rate / compute_rate, 0.0)
        else:
            waiting = share(data, time)
        stamp = found[at_stamp]
        return Record(
            line=number,
            text=match[0],
            source=source,
            shape=shape,
            iteration=int(iteration) + before,
            epoch=int(epoch) if epoch is not None and 0 <= epoch < MOST_EPOCHS else None,
            total=int(total) or None if total and 0 <= total < MOST_ITERATIONS else None,
            rate=rate,
            seconds=seconds,
            mean_seconds=mean,
            loss=number_in(loss),
            waiting=waiting,
            stamp=None if stamp is None else stamp_of(stamp),
            memory_mib=memory,
        )

    return make


@_shared
def _columns(
    each: RecordRule,
) -> Callable[[Sequence[re.Match[str]]], Columns | None] | None:
    """How matches become columns of records; None: they are read one by one alone."""
    shape, names = each.shape, each.pattern.groupindex
    if shape.averaged != "interval" or "middle" in names or each.stamp is not stamps.seconds:
        return None
    by_rate, before = shape.number == "rate", 1 - each.first_iteration

    def columns(matches: Sequence[re.Match[str]]) -> Columns | None:
        groups = list(zip(*map(_GROUPS, matches), strict=True))
        said = {name: groups[at - 1] for name, at in names.items()}

        def read(name: str, least: float = 5e-324) -> list[float] | None:
            """A column of finite numbers that are not too small."""
            found = numbers(said.get(name, ()))
            if found is not None and not (least <= min(found) and max(found) < _INFINITE):
                raise ValueError
            return found

        try:
            iterations = [int(text) + before for text in said["iteration"]]
            epoch = one(said["epoch"]) if "epoch" in said else None
            total = one(said["total"]) if "total" in said else None
            rates, seconds, computed = read("rate"), read("step_seconds"), read("compute_rate")
            losses, data = numbers(said.get("loss", ())), read("data_seconds", 0.0)
            memory = numbers(tuple(set(said.get("memory", ()))))
            stamped = said.get("stamp", (None,))
            at = stamps.column(stamped) if None not in stamped else one(stamped)
        except (ValueError, TypeError):
            return None
        if "mean_seconds" in said or (rates if by_rate else seconds) is None:
            return None
        if max(iterations) >= MOST_ITERATIONS or (losses and not math.isfinite(sum(losses))):
            return None
        if rates and computed:
            waits = [
                max(1 - rate / other, 0.0) for rate, other in zip(rates, computed, strict=True)
            ]
        elif data and seconds:
            waits = [min(part / whole, 1.0) for part, whole in zip(data, seconds, strict=True)]
        else:
            waits = None
        return Columns(
            shape=shape,
            texts=[match[0] for match in matches],
            iterations=iterations,
            epoch=None if epoch is None else int(epoch),
            total=None if total is None else int(total) or None,
            rates=rates,
            seconds=seconds,
            losses=losses,
            waits=waits,
            stamps=at,
            memory_mib=max(memory) if memory else None,
        )

    return columns


@_shared
def _records(each: RecordRule) -> Read:
    needle, search, make = each.needle, each.pattern.search, record_maker(each)

    def read(number: int, text: str, source: str) -> list[Record]:
        found = []
        match = search(text)
        while match is not None:
            record = make(number, source, match)
            if record is not None:
                found.append(record)
            end = match.end()
            # Most lines end here, and what follows need not be searched.
            match = search(text, end) if text.find(needle, end) >= 0 else None
        return found

    return read


@_shared
def _evaluations(each: EvaluationRule) -> Read:
    def read(number: int, text: str, source: str) -> Iterator[Item]:
        line = Line(number, text, source)
        for match in each.pattern.finditer(text):
            yield line.mark("evaluation", match[0])
            yield _evaluation(line, match, each)

    return read


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


@_shared
def _marks(each: MarkRule) -> Read:
    def read(number: int, text: str, source: str) -> Iterator[Item]:
        line = Line(number, text, source)
        if each.pattern is None:
            yield line.mark(each.kind)
        elif found := each.pattern.search(text):
            values = {name: number_in(value) for name, value in found.groupdict().items()}
            yield line.mark(each.kind, found[0], values)

    return read


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
    return value if value is not None and 0 < value < _INFINITE else None


def share(part: float | None, whole: float | None) -> float | None:
    """``part`` of ``whole``, 0–1; None where either is unknown."""
    if part is None or whole is None or not whole > 0 or not part >= 0:
        return None
    return min(part / whole, 1.0)
