"""Log families: a name, and tables of patterns for lines.

A family's regular expressions use the same named groups as the declared formats of catalog files,
so one reader serves all of them. Before the first record it reads every line for facts; after that
it sees only lines that hold one of the family's needles. Needles keep the reading of a log of
millions of lines fast: a line without one is skipped unread.
"""

from __future__ import annotations

import datetime
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from k8sbench.model.notation import Match, Pattern
from k8sbench.model.sample import Evaluation, Fact, Item, MarkKind, Record, Shape
from k8sbench.reader.json_fields import JsonFields
from k8sbench.reader.lines import CleanLine

# Logs print no zone, so stamps are read as UTC: only their differences matter.

DAY = 86400.0
UNDATED_YEAR = 2000
"""Year of stamps without one; a leap year, so every date exists."""
UNDATED_SPAN = 366 * DAY


def stamp_reader(form: str) -> Callable[[str], datetime.datetime]:
    """Return what reads stamps of a ``strptime`` format; those without a year are of 1900.

    The year is added because later versions of Python read no day without one.
    """
    has_year = re.search("%[YyGcx]", form)
    year, dated = ("", form) if has_year else ("1900/", f"%Y/{form}")

    def read(text: str) -> datetime.datetime:
        return datetime.datetime.strptime(year + text, dated)  # noqa: DTZ007 - see above

    return read


def stamp_seconds(text: str) -> float | None:
    """Read ``2021-05-31 00:01:11,032``, ``2023/07/28 06:42:45`` or ``06/04 09:34:21``.

    None for what is no such time. The fraction may follow a comma or a point.
    """
    date = text.replace("/", "-")
    try:
        if date[2:3] == "-":
            date = f"{UNDATED_YEAR}-{date}"
        if date[16:17] != ":":
            return None
        return datetime.datetime.fromisoformat(date).replace(tzinfo=datetime.UTC).timestamp()
    except ValueError:
        return None


_LEADING = re.compile(r"\W{0,2}(\d{4}[-/]\d\d[-/]\d\d)[ T,]{1,2}(\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)")


def leading_stamp(text: str) -> float | None:
    """Return the time that a line begins with; None without one."""
    match = _LEADING.match(text)
    return None if match is None else stamp_seconds(f"{match[1]} {match[2]}")


_DURATION = re.compile(r"(?:(\d+) days?,? )?(?:(\d+):)?(\d+):(\d\d(?:\.\d+)?)")


def clock_seconds(text: str | None) -> float | None:
    """Read ``0:01:23``, ``1:23`` or ``1 day, 2:03:04`` as seconds; None for no such duration."""
    clock = _DURATION.fullmatch(text or "")
    if clock is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
    return DAY * days + 3600 * hours + 60 * minutes + seconds


def received_at(text: str) -> float | None:
    """Return when the node received a line; None without such a stamp."""
    if text[10:11] != "T":
        return None
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


BATCH_DOUBT = "batch_doubt"
"""Fact: why the stated samples of a step are not those of each step, as a sentence."""
STEPS_DOUBT = "steps_doubt"
"""Fact: which steps the lines leave out, and what that does to the figure, as a sentence."""
TIME_DOUBT = "time_doubt"
"""Fact: why the printed times are not those of the steps, as a sentence."""
TIME_PROVED = "time_proved"
"""Fact: a statement of the program bears out the times that :data:`TIME_DOUBT` doubted before."""
UNENDED = "unended"
"""Fact: the run has begun, and its program prints the rate in the last line of the log alone."""
BEGUN_AT = "begun_at"
"""Fact: start of the run by a line beside the training lines, for :func:`stamp_seconds`."""
DATED = rf"(?P<{BEGUN_AT}>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{{3}})?)"
"""Expression for that fact, of a line with Python's usual date."""
OPENINGS = 4
"""Texts of a head of which one shows a further header."""
OF_ITS_PARTS = {"model", "batch_size", "sequence_length", "precision", "amp_dtype"}
"""Facts that a printed configuration states of several of its parts: the first is the run's."""
OF_EACH_LINE = {BEGUN_AT, "program", "program_version"}
"""Facts that follow from what a logger puts in front of any line."""
MOST_ITERATIONS = 1e12
MOST_EPOCHS = 1e6
"""No run has as many; a larger number is a broken line."""
LOSS_NUMBER = r"(?P<loss>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf|NaN|Inf|NAN|INF))"
"""A loss as any of the programs prints it."""
NUMBER = r"\d[\d,]*(?:\.\d+)?"
"""Expression for a number that may have commas between its thousands."""
_LOSS = re.compile(r"\bloss:\s+" + LOSS_NUMBER)


MOST_PADDING = 64
"""Maximum spaces that pad a value; a limit keeps hostile lines fast."""
_SPACES = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?<[=!][^)]*\)|\^ +)| (\?)?(?![ +*{])")
"""An expression's spaces, but no classes, indentation, and lookbehinds, whose width is fixed."""


def padded(expression: str) -> re.Pattern[str]:
    """Compile an expression in which each space stands for several.

    Programs pad numbers to columns, and a later version of them may pad others.
    """

    def repeated(match: re.Match[str]) -> str:
        return match[1] or f" {{{0 if match[2] else 1},{MOST_PADDING}}}"

    return re.compile(_SPACES.sub(repeated, expression))


class RecordRule(msgspec.Struct, frozen=True):
    """A training line.

    Groups: ``iteration``, ``epoch``, ``epochs`` (planned), ``total``, ``rate``, ``step_seconds``,
    ``mean_seconds``, ``data_seconds``, ``compute_rate`` (without the wait for data), ``loss``,
    ``middle`` (the text that holds the loss), ``stamp``, ``memory``, ``step_samples`` (of the whole
    job), ``mfu`` (percent), ``tflops`` (per GPU), ``holds`` (other work in the line's time).

    ``elapsed`` (seconds since the program began) and ``all_samples`` (of the whole job so far) are
    totals, which :class:`~k8sbench.reader.totals.TotalsReader` reads. ``steps`` is the number of
    iterations that the line's time is of.
    """

    needle: str
    """Literal text that every matching line holds."""
    pattern: Pattern
    shape: Shape
    first_iteration: int = 1
    """The number that the program gives to the first iteration."""
    stamp: Callable[[str], float | None] = stamp_seconds
    """Reads a stamp; None for what is none."""
    counts_steps: bool = False
    """True if ``rate`` counts steps; the record has seconds per step in its place."""
    convert: Callable[[dict[str, Any]], None] | None = None
    """Changes the groups' texts to numbers in seconds; None: they are."""
    begins: re.Pattern[str] | None = None
    """Beginning of a record, which a pattern that looks far ahead must not cross; None: any."""

    def read(self, line: CleanLine) -> Iterator[Item]:
        """Yield the records of a line."""
        for match in self.matches(line.text):
            record = self.record(line, match)
            if record is not None:
                yield record

    def matches(self, text: str) -> Iterator[Match]:
        """Yield the matches in a line; a torn record takes no number of the one behind it."""
        begins = [] if self.begins is None else [m.start() for m in self.begins.finditer(text)]
        if len(begins) > 1:
            for begin, end in itertools.pairwise((*begins, len(text))):
                if match := self.pattern.search(text[begin:end]):
                    yield match
        elif text.count(self.needle) != 1:
            yield from self.pattern.finditer(text)
        elif match := self.pattern.search(text):
            # Most lines have one: what follows it is not searched for another.
            yield match

    def record(self, line: CleanLine, match: Match) -> Record | None:
        """Build a record from a match; None if its numbers are invalid."""
        return self.build(line, match[0], self.groups(match))

    def groups(self, match: Match) -> dict[str, Any]:
        """Return the groups of a match, converted."""
        texts = match.groupdict()
        if self.convert is not None:
            self.convert(texts)
        return texts

    def build(
        self, line: CleanLine, printed: str, texts: Mapping[str, Any], steps: int | None = None
    ) -> Record | None:
        """Build a record from its groups; None if they are invalid.

        ``steps``: covered iterations, if the line or its totals tell.
        """
        text = texts.get
        iteration = _whole(text("iteration"), MOST_ITERATIONS)
        rate = positive(text("rate"))
        seconds = positive(text("step_seconds"))
        mean = positive(text("mean_seconds"))
        if self.counts_steps and rate is not None:
            seconds = 1.0 / rate
            rate = None
        if self.shape.averaged == "running" and "mean_seconds" not in texts:
            seconds, mean = None, seconds
        time = mean if self.shape.averaged == "running" else seconds
        if iteration is None or (rate if self.shape.number == "rate" else time) is None:
            return None
        loss = number_in(text("loss"))
        stamp = text("stamp")
        if loss is None and (middle := text("middle")) and (found := _LOSS.search(middle)):
            loss = number_in(found["loss"])
        return Record(
            line=line.number,
            text=printed,
            source=line.source,
            shape=self.shape,
            iteration=iteration + 1 - self.first_iteration,
            epoch=_whole(text("epoch"), MOST_EPOCHS),
            epochs=_whole(text("epochs"), MOST_EPOCHS) or None,
            total=_whole(text("total"), MOST_ITERATIONS) or None,
            rate=rate,
            seconds=seconds,
            mean_seconds=mean,
            loss=loss,
            waiting=_waiting(rate, text("compute_rate"), text("data_seconds"), time),
            stamp=None if stamp is None else self.stamp(stamp),
            taken=received_at(line.received) if line.received else None,
            steps=steps or _whole(text("steps"), MOST_ITERATIONS) or None,
            step_samples=positive(text("step_samples")),
            mfu=positive(text("mfu")),
            tflops=positive(text("tflops")),
            holds=text("holds") or (),
            memory_mib=number_in(text("memory")),
        )


def number_in(text: str | float | None) -> float | None:
    """A printed number, NaN and infinities included; None for no number."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def in_units(unit: float, *names: str) -> Callable[[dict[str, Any]], None]:
    """Build a conversion of printed times to seconds, ``unit`` each; commas go."""

    def convert(texts: dict[str, Any]) -> None:
        for name in names:
            number = number_in(plain_number(texts.get(name)))
            texts[name] = None if number is None else number * unit

    return convert


def plain_number(text: str | None) -> str | None:
    """Return a number without the commas between its thousands."""
    return None if text is None else text.replace(",", "")


def positive(text: str | float | None) -> float | None:
    """Read a finite positive number; None for any other text."""
    number = number_in(text)
    return number if number is not None and 0 < number < math.inf else None


def share(part: float | None, whole: float | None) -> float | None:
    """``part`` of ``whole``, 0–1; None where either is unknown."""
    if part is None or whole is None or not part >= 0 or not whole > 0:
        return None
    return part / whole if part < whole else 1.0


def _whole(text: str | float | None, most: float) -> int | None:
    """Read a count of iterations or epochs."""
    number = number_in(text)
    return int(number) if number is not None and 0 <= number < most else None


def _waiting(
    rate: float | None, computing: str | None, data: str | None, time: float | None
) -> float | None:
    """Return the share of the time that was spent waiting for data."""
    if rate is not None and (most := positive(computing)) is not None:
        return max(1 - rate / most, 0.0)
    return share(number_in(data), time)


_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+")
"""A number with commas between its thousands."""


class FactRule(msgspec.Struct, frozen=True):
    """Facts that one line states: the pattern's named groups, and ``says``.

    A name that begins with ``_`` is for :attr:`Family.derive` alone.
    """

    needle: str
    """Literal text that every matching line holds."""
    pattern: re.Pattern[str]
    says: dict[str, str] = {}

    def read(self, line: CleanLine) -> Iterator[Fact]:
        """Yield what a line states."""
        if match := self.pattern.search(line.text):
            for name, value in [*match.groupdict().items(), *self.says.items()]:
                if value is not None:
                    text = value.strip()
                    is_grouped = _GROUPED.fullmatch(text) is not None
                    yield line.fact(name, text.replace(",", "") if is_grouped else text)


def rule(needle: str, pattern: str | None = None, **says: str) -> FactRule:
    """Build a rule for facts; without a pattern the needle alone decides."""
    return FactRule(needle, padded(pattern) if pattern else re.compile(re.escape(needle)), says)


class EvaluationRule(msgspec.Struct, frozen=True):
    """An evaluation's result. Groups: ``value``, ``metric``, ``subset``, ``stamp``."""

    needle: str
    pattern: Pattern
    metric: str = ""
    """Metric, if the pattern has no such group."""
    unit: Literal["%", "fraction"] | None = None
    """None: percent, if the value is above 1."""

    def read(self, line: CleanLine) -> Iterator[Item]:
        """Yield a mark for each evaluation, and its value if it is a number."""
        for match in self.pattern.finditer(line.text):
            yield line.mark("evaluation", match[0])
            groups = match.groupdict()
            value = number_in(groups.get("value"))
            stamp = groups.get("stamp")
            if value is not None:
                yield Evaluation(
                    line=line.number,
                    text=match[0],
                    source=line.source,
                    metric=groups.get("metric") or self.metric,
                    subset=groups.get("subset") or "",
                    value=value,
                    unit=self.unit or ("fraction" if value <= 1 else "%"),
                    stamp=None if stamp is None else stamp_seconds(stamp),
                )


def evaluations_in_json(
    *metrics: str, unit: Literal["%", "fraction"] | None = None, prefix: str = ""
) -> tuple[EvaluationRule, ...]:
    """Build the rules for metrics that are keys of a JSON object."""
    return tuple(
        EvaluationRule(
            f'"{prefix}{metric}": ', JsonFields({"value": prefix + metric}), metric, unit
        )
        for metric in metrics
    )


class MarkRule(msgspec.Struct, frozen=True):
    """Something that happened; named groups are its values, as numbers."""

    needle: str
    kind: MarkKind
    pattern: Pattern | None = None
    """None: the needle alone decides."""

    def read(self, line: CleanLine) -> Iterator[Item]:
        """Yield what happened."""
        if self.pattern is None:
            yield line.mark(self.kind)
        elif match := self.pattern.search(line.text):
            values = {name: number_in(value) for name, value in match.groupdict().items()}
            yield line.mark(self.kind, match[0], values)


Read = Callable[[CleanLine], Iterable[Item]]


class LineRule(NamedTuple):
    """Reader for lines of one kind."""

    needle: str
    """Literal text that every line of the kind holds."""
    read: Read


class LineReader:
    """Reads the lines of one log of one family. Never raises on any text."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._stated: dict[str, Fact] = {}
        self.openings: dict[str, None] = {}
        """Texts of the first lines of the head by which a further header is known."""
        self._rules = self.rules()
        self.needles = tuple(dict.fromkeys(rule.needle for rule in self._rules))
        """Literal texts; every line that can be read holds one."""
        of_facts = (fact.needle for fact in family.facts)
        self.head_needles = frozenset((*self.needles, *of_facts, *family.yields_to))
        """The same of lines before the first record."""

    def rules(self) -> list[LineRule]:
        """Return the readers by line kind."""
        family = self._family
        every: tuple[RecordRule | EvaluationRule | MarkRule | FactRule, ...]
        every = (*family.records, *family.evaluations, *family.marks, *family.late_facts)
        return [LineRule(rule.needle, rule.read) for rule in every]

    def head(self, line: CleanLine) -> Iterator[Fact]:
        """Facts in a line before the first record."""
        for fact in self.facts(line):
            is_of_a_part = fact.name in OF_ITS_PARTS and fact.name in self._stated
            self._stated.setdefault(fact.name, fact)
            if not (fact.name.startswith("_") or is_of_a_part):
                yield fact

    def facts(self, line: CleanLine) -> Iterator[Fact]:
        """Facts in a line before the first record, also those for :attr:`Family.derive` alone."""
        for rule in self._family.facts:
            if rule.needle in line.text:
                for fact in rule.read(line):
                    if fact.name not in OF_EACH_LINE:
                        self.open(rule.needle)
                    yield fact

    def open(self, text: str) -> None:
        """Note a text of the head's lines, if it is one of the first."""
        if len(self.openings) < OPENINGS:
            self.openings[text] = None

    def derived(self) -> Iterator[Fact]:
        """Yield the facts that follow from the complete head; call once."""
        if self._family.derive is not None:
            yield from self._family.derive(self._stated)

    def read(self, line: CleanLine) -> list[Item]:
        """Items in a line."""
        items: list[Item] = []
        text = line.text
        for needle, read in self._rules:
            if needle in text:
                items += read(line)
        return items


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One log family."""

    name: str
    title: str
    """The program that prints it, for people."""
    framework: str | None
    """None where the log itself states it."""
    unit: str
    facts: tuple[FactRule, ...] = ()
    """Facts that stand before the first record, and behind each restart.

    A line with the first of them that a log states begins a further header.
    """
    late_facts: tuple[FactRule, ...] = ()
    """Facts that stand anywhere."""
    derive: Callable[[Mapping[str, Fact]], Iterator[Fact]] | None = None
    """Derives further facts from the head's first fact of each name."""
    records: tuple[RecordRule, ...] = ()
    evaluations: tuple[EvaluationRule, ...] = ()
    marks: tuple[MarkRule, ...] = ()
    warmup: int = 20
    """Iterations left out where neither a user nor a benchmark says how many."""
    shares_samples: bool = False
    """True if several GPUs may share a sample, so that the batch of one does not tell the job's."""
    summary: Literal["check", "first", "if-few"] = "check"
    """Use of a summary of the whole run beside the lines' figure.

    It is the figure always, or if the lines are too few for one; else it only checks them.
    """
    yields_to: tuple[str, ...] = ()
    """Texts of programs around this one, whose own lines are read in its place."""
    is_always_candidate: bool = False
    """True if a log may be of this family whatever is expected; such families are tried first."""
    states_plan: bool = False
    """True if the log states the plan of its run, which goes before options and benchmarks.

    Facts: ``benchmark``, ``variant``, ``framework``, ``gpus``, ``warmup`` and ``iterations``,
    counted from the first step of the run.
    """
    states_starts: bool = False
    """True if each rank prints a line when it starts, and when it starts again."""
    states_training: bool = False
    """True if the log states a training to an accuracy in events of its own, over all attempts.

    Evaluations with step and time, their target, broken samples, checkpoints, and the reason for
    the end (fact ``ended_by``). The times of its training lines leave these events out.
    """
    facts_of_run: tuple[str, ...] = ()
    """Facts that all ranks and attempts of a run share.

    A log with two values of one of them holds two runs, and a run may be extended. Empty: a log
    that plans two numbers of iterations holds two runs.
    """
    stamps_utc: bool = False
    """True if the stamps of training lines are in UTC; else their zone is unknown."""
    tried_with: Mapping[str, tuple[str, ...]] = {}
    """Framework → its versions with which the program was tried, for programs of k8sbench."""
    bar_seconds: int | None = None
    """Least seconds between two progress bars that are records, until the log has its end.

    Of a program that prints its rate in its last line alone (:data:`UNENDED`); None: others.
    """
    make_reader: Callable[[Family], LineReader] = LineReader

    def reader(self) -> LineReader:
        """Create a reader for one log.

        It keeps state: an earlier line may decide what a line means.
        """
        return self.make_reader(self)


def amp(half: str) -> dict[str, str]:
    """Return the facts of mixed precision in ``bf16`` or ``fp16``."""
    return {"precision": "amp", "amp_dtype": half}


def assumed_fp32(stated: Mapping[str, Fact], name: str = "precision_assumed") -> Iterator[Fact]:
    """A printed configuration that does not set a precision stands for fp32."""
    if "_config" in stated and "precision" not in stated:
        yield stated["_config"].like(name, "fp32")
