"""A log format that a catalog file declares: regular expressions with named groups."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from k8sbench.model import expressions, units
from k8sbench.model.expressions import Pattern
from k8sbench.model.sample import Fact, Item, Mark, Place, Shape
from k8sbench.model.spec import BenchmarkSpec, LogFormat
from k8sbench.parse.family import (
    EvaluationRule,
    Family,
    JsonFields,
    LineReader,
    LineRule,
    MarkRule,
    Read,
)
from k8sbench.parse.lines import CleanLine, ended, pieces
from k8sbench.parse.records import DAY, MOST_ITERATIONS, RecordRule, number_in, positive
from k8sbench.parse.units import Converted, Numbers

MAX_LINE = 4096
"""Maximum length of a matched line, characters.

Finding every match may take time proportional to its square.
"""

PRECISIONS: dict[str, tuple[str, str | None]] = {
    **dict.fromkeys(("amp", "mixed", "true"), ("amp", None)),
    **dict.fromkeys(("fp16", "float16"), ("amp", "fp16")),
    **dict.fromkeys(("bf16", "bfloat16"), ("amp", "bf16")),
    **dict.fromkeys(("fp32", "float32", "false"), ("fp32", None)),
}
"""Printed word in lower case → precision and half type."""


def family(declared: LogFormat, framework: str | None) -> Family:
    """Compile a declared format to the form of a built-in family."""
    unit = declared.read_unit
    stamp_format = declared.stamp_format
    unix = units.SECONDS.get(stamp_format or "s")

    def stamp(text: str) -> float | None:
        if stamp_format is None or unix is not None:
            number = positive(text)
            return None if number is None else number * (unix or 1.0)
        try:
            at = datetime.datetime.strptime(text, stamp_format)  # noqa: DTZ007 - zone added below
            return (at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp()
        except (ValueError, OverflowError, re.error):
            return None

    rule = None
    if (pattern := training_line(declared)) is not None:
        groups = pattern.groupindex
        shape = Shape(
            name=declared.name,
            number="rate" if "rate" in groups and not declared.counts_steps else "seconds",
            per=declared.per,
            averaged=declared.averaged,
            last=declared.last or 0,
            numbering=declared.numbering if "epoch" in groups else "run",
            first_epoch=declared.first_epoch,
            complete=declared.averaged != "step",
            resolution=0.000001 if stamp_format and "%f" in stamp_format else 1.0,
            wraps=_wraps(stamp_format) if stamp_format and unix is None else None,
            events_known=declared.evaluation is not None and declared.checkpoint is not None,
        )
        rule = RecordRule(
            "",
            Numbers(pattern, declared),
            shape,
            declared.first_iteration,
            stamp,
            counts_steps=declared.counts_steps,
        )
    metric = (declared.metric or "", declared.metric_unit)
    evaluation, checkpoint = _compiled(declared.evaluation), _compiled(declared.checkpoint)
    return Family(
        name=declared.name,
        title=f"the declared format {declared.name}",
        framework=declared.framework or framework,
        unit=f"{'samples' if unit.noun == 'steps' else unit.noun}/s",
        records=(rule,) if rule else (),
        evaluations=(EvaluationRule("", evaluation, *metric),) if evaluation else (),
        marks=(MarkRule("", "checkpoint", checkpoint),) if checkpoint else (),
        make_reader=lambda family: _Reader(family, declared),
    )


def _compiled(expression: str | None) -> Pattern | None:
    return None if expression is None else expressions.compiled(expression)


def training_line(declared: LogFormat) -> Pattern | None:
    """Return the pattern of a training line; None without one."""
    return JsonFields(declared.fields) if declared.fields else _compiled(declared.record)


def _wraps(stamp_format: str) -> float | None:
    """Seconds after which stamps of a format begin anew; None: they carry the year."""
    moment = datetime.datetime(2025, 3, 10, 9, tzinfo=datetime.UTC)

    def read(at: datetime.datetime) -> datetime.datetime:
        return datetime.datetime.strptime(at.strftime(stamp_format), stamp_format)  # noqa: DTZ007 - only differences matter

    spans = (DAY / 2, DAY, 365 * DAY)
    return next(
        (s for s in spans if read(moment + datetime.timedelta(seconds=s)) == read(moment)), None
    )


def _unread(line: CleanLine, match: Converted) -> Iterator[Mark]:
    """Name what a group matched and is no number, or one in another unit."""
    for problem in match.problems:
        yield line.mark("unread", match[0], problem._asdict())


def stated(name: str, text: str) -> dict[str, str]:
    """Return the facts of a group in ``facts``; empty if its text is invalid."""
    if name == "gpu_model":
        return {name: text.strip()} if text.strip() else {}
    if name == "precision":
        precision, half = PRECISIONS.get(text.strip().lower(), (None, None))
        facts = {"precision": precision, "amp_dtype": half}
        return {key: value for key, value in facts.items() if value is not None}
    number = number_in(text)
    whole = number is not None and 1 <= number < MOST_ITERATIONS and number == int(number)
    return {name: str(int(number))} if number is not None and whole else {}


_NODES = {"gpus_per_node", "replicas"}


class _Reader(LineReader):
    def __init__(self, family: Family, declared: LogFormat) -> None:
        self._counts_steps = declared.counts_steps
        self._plain = declared.plain
        summary = _compiled(declared.summary)
        self._summary = None if summary is None else Numbers(summary, declared)
        self._facts = [expressions.compiled(text) for text in declared.facts]
        self._nodes: dict[str, int] = {}
        """GPUs of a node and nodes, as far as they are stated."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        # The empty text is in every line: a pattern may match anything.
        others = [rule.read for rule in super().rules()[len(self._family.records) :]]
        return [LineRule("", _cut(read)) for read in (self._records, *others, self._others)]

    def _records(self, line: CleanLine) -> Iterator[Item]:
        for rule in self._family.records:
            for match in rule.pattern.finditer(line.text):
                if (record := rule.record(line, match)) is not None:
                    yield record
                if isinstance(match, Converted):
                    yield from _unread(line, match)

    def _others(self, line: CleanLine) -> Iterator[Item]:
        for fact in self._facts:
            if stating := fact.search(line.text):
                for group, value in stating.groupdict().items():
                    for name, said in stated(group, self._plain(value or "")).items():
                        yield line.fact(name, said)
                        yield from self._gpus(line, name, said)
        for summary in self._summary.finditer(line.text) if self._summary else ():
            yield from _unread(line, summary)
            groups = summary.groupdict()
            rate, seconds = positive(groups.get("rate")), positive(groups.get("step_seconds"))
            if self._counts_steps and rate is not None:
                seconds, rate = 1.0 / rate, None
            values = {
                "whole_run_rate": rate,
                "whole_run_seconds": seconds,
                "final_loss": number_in(groups.get("loss")),
            }
            yield line.mark("summary", summary[0], values)

    def _gpus(self, line: CleanLine, name: str, said: str) -> Iterator[Fact]:
        """GPUs of the job, once those of a node and the nodes are known."""
        if name in _NODES and name not in self._nodes:
            self._nodes[name] = int(said)
            if self._nodes.keys() == _NODES:
                yield line.fact("gpus", str(math.prod(self._nodes.values())))


def _cut(read: Read) -> Read:
    def cut(line: CleanLine) -> CleanLine:
        # RE2 takes no bytes that a followed log has in place of characters.
        return line._replace(text=line.text[:MAX_LINE].encode(errors="replace").decode())

    return lambda line: read(cut(line))


# -- explanation ----------------------------------------------------------------------------------
#
# The expressions of a declared format on a log: which lines they match.

SHOWN = 3
"""Lines of each expression that are shown."""
Quote = Callable[[int, str], Place]
"""Makes a place of a line's number and its text, which it redacts."""


class Expression(msgspec.Struct):
    """One expression of a declared format on a log."""

    variant: str
    """``framework/name`` of the variants that declare it."""
    name: str
    """``record``, ``summary`` or ``facts[0]``."""
    pattern: str
    matches: Pattern
    matched: int = 0
    """Lines."""
    lines: list[tuple[Place, dict[str, str]]] = []
    """The first few of those, and what their named groups match."""

    def try_line(self, number: int, text: str, quote: Quote) -> None:
        """Try a line."""
        if (match := self.matches.search(text)) is None:
            return
        self.matched += 1
        if len(self.lines) < SHOWN:
            groups = match.groupdict().items()
            shown = {name: quote(number, text).text for name, text in groups if text is not None}
            self.lines.append((quote(number, text), shown))


def formats(spec: BenchmarkSpec) -> list[tuple[LogFormat, str]]:
    """Return the formats that a benchmark declares, with their variants."""
    found: list[tuple[LogFormat, str]] = []
    for declared in [v.log for v in spec.variants if isinstance(v.log, LogFormat)]:
        its = ", ".join(f"{v.framework}/{v.name}" for v in spec.variants if v.log == declared)
        if (declared, its) not in found:
            found.append((declared, its))
    return found


def matches(
    blocks: Iterable[str], formats: Iterable[tuple[LogFormat, str]], quote: Quote
) -> tuple[int, list[Expression]]:
    """Try every line on every expression, as the reader of the format does.

    ``formats`` come with the variants of each. Returns how many lines there are, and what matches.
    """
    tried = [
        Expression(variant=variant, name=name, pattern=text, matches=pattern)
        for declared, variant in formats
        for name, text, pattern in _patterns(declared)
    ]
    whole, rest = 0, ""
    for block in blocks:
        for line in ended(block):
            rest = line.rstrip("\n")
            for piece in pieces(rest):
                text = piece.text[:MAX_LINE]
                for expression in tried:
                    expression.try_line(whole + 1, text, quote)
            if len(rest) < len(line):
                whole, rest = whole + 1, ""
    return whole + bool(rest), tried


def _patterns(declared: LogFormat) -> Iterator[tuple[str, str, Pattern]]:
    """Give the expressions of a declared format, with their keys."""
    if declared.fields:
        paths = ", ".join(f"{name}: {path}" for name, path in declared.fields.items())
        yield "fields", paths, JsonFields(declared.fields)
    named = {
        key: getattr(declared, key) for key in ("record", "summary", "evaluation", "checkpoint")
    }
    named |= {f"facts[{index}]": text for index, text in enumerate(declared.facts)}
    for key, text in named.items():
        if text is not None:
            yield key, text, expressions.compiled(text)
