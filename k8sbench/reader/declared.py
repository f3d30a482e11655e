"""A log format that a catalog file declares: regular expressions with named groups.

A unit in a group or beside it is compared with the declared one: a number in another unit is no
number, and the file must say more.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.messages import Note, note
from k8sbench.model.log_format import ExpressionMatches, LogFormat
from k8sbench.model.notation import (
    MANY,
    SECONDS,
    Match,
    Pattern,
    Unit,
    compile_expression,
    parse_count,
)
from k8sbench.model.sample import Fact, Item, Mark, Place, Shape
from k8sbench.reader.family import (
    DAY,
    MOST_ITERATIONS,
    EvaluationRule,
    Family,
    LineRule,
    MarkRule,
    RecordRule,
    clock_seconds,
    leading_stamp,
    number_in,
    positive,
    stamp_reader,
)
from k8sbench.reader.json_fields import JsonFields
from k8sbench.reader.lines import CleanLine, ended, pieces
from k8sbench.reader.totals import TotalsReader

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
    unix = SECONDS.get(stamp_format or "s")
    read = stamp_reader(stamp_format or "")

    def stamp(text: str) -> float | None:
        if stamp_format is None or unix is not None:
            number = positive(text)
            return None if number is None else number * (unix or 1.0)
        try:
            at = read(text)
            return (at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp()
        except (ValueError, OverflowError, re.error):
            return None

    rule = None
    if (pattern := training_line(declared)) is not None:
        groups = pattern.groupindex
        has_length = declared.sequence_length is not None or "step_samples" in groups
        times_samples = declared.times_samples and "step_seconds" in groups
        is_rate = times_samples or ("rate" in groups and not declared.counts_steps)
        is_limit = is_rate and unit.noun == "tokens" and not has_length
        shape = Shape(
            name=declared.name,
            number="rate" if is_rate else "seconds",
            counts_samples=declared.iteration_counts == "samples",
            per=declared.per,
            averaged=declared.averaged,
            last=declared.last or 0,
            numbering=declared.numbering if "epoch" in groups else "run",
            first_epoch=declared.first_epoch,
            limits_batch=is_limit,
            begins_late="elapsed" in groups,
            holds_events=declared.includes_events,
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
            convert=_reduce_to_a_rate if times_samples else _reduce_to_one_step,
        )
    metric = (declared.metric or "", declared.metric_unit)
    evaluation = _compiled(declared.evaluation)
    checkpoint = _compiled(declared.checkpoint)
    return Family(
        name=declared.name,
        title=f"the declared format {declared.name}",
        framework=declared.framework or framework,
        unit=f"{'samples' if unit.noun == 'steps' else unit.noun}/s",
        records=(rule,) if rule else (),
        evaluations=(EvaluationRule("", evaluation, *metric),) if evaluation else (),
        marks=(MarkRule("", "checkpoint", checkpoint),) if checkpoint else (),
        make_reader=lambda family: _DeclaredReader(family, declared),
    )


def _reduce_to_one_step(texts: dict[str, Any]) -> None:
    """Add the second time of a step, and divide the time of several by their number."""
    seconds = number_in(texts.get("step_seconds"))
    steps = positive(texts.get("steps"))
    if "added_seconds" in texts and seconds is not None:
        added = number_in(texts["added_seconds"])
        seconds = None if added is None else seconds + added
        texts["step_seconds"] = seconds
    if "steps" in texts:
        texts["step_seconds"] = seconds / steps if seconds is not None and steps else None


def _reduce_to_a_rate(texts: dict[str, Any]) -> None:
    """Replace the time of one sample by samples per second."""
    _reduce_to_one_step(texts)
    seconds = positive(texts.pop("step_seconds"))
    texts["rate"] = None if seconds is None else 1.0 / seconds


def _compiled(expression: str | None) -> Pattern | None:
    return None if expression is None else compile_expression(expression)


def training_line(declared: LogFormat) -> Pattern | None:
    """Return the pattern of a training line; None without one."""
    if declared.record is not None and declared.fields:
        return NumberedGroups(compile_expression(declared.record), declared.fields)
    return JsonFields(paths_of(declared)) if declared.fields else _compiled(declared.record)


def paths_of(declared: LogFormat) -> dict[str, str]:
    """Return the paths of a format of JSON objects, by field."""
    return {} if declared.record else {name: str(path) for name, path in declared.fields.items()}


class _NumberedMatch:
    """A match whose groups are named by their numbers."""

    def __init__(self, match: Any, numbers: Mapping[str, int]) -> None:
        self._match, self._numbers = match, numbers
        self.span = match.span

    def __getitem__(self, group: int, /) -> Any:
        """Return the text of a group; 0: of the match."""
        return self._match[group]

    def groupdict(self) -> dict[str, Any]:
        """Return the text of each named group, None where it takes no part."""
        return {name: self._match[number] for name, number in self._numbers.items()}


class NumberedGroups:
    """An expression whose groups have their names from ``fields``, by number."""

    def __init__(self, pattern: Pattern, fields: Mapping[str, str | int]) -> None:
        self._pattern = pattern
        self.groupindex = {name: int(number) for name, number in fields.items()}

    def search(self, text: str, /) -> _NumberedMatch | None:
        """Return the first match."""
        return next(self.finditer(text), None)

    def finditer(self, text: str, /) -> Iterator[_NumberedMatch]:
        """Return all matches."""
        for match in self._pattern.finditer(text):
            yield _NumberedMatch(match, self.groupindex)


def _wraps(stamp_format: str) -> float | None:
    """Seconds after which stamps of a format begin anew; None: they carry the year."""
    moment = datetime.datetime(2025, 3, 10, 9, tzinfo=datetime.UTC)
    parse = stamp_reader(stamp_format)

    def read(at: datetime.datetime) -> datetime.datetime:
        return parse(at.strftime(stamp_format))

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


class _DeclaredReader(TotalsReader):
    def __init__(self, family: Family, declared: LogFormat) -> None:
        self._counts_steps = declared.counts_steps
        self._times_samples = declared.times_samples
        self._plain = declared.plain
        summary = _compiled(declared.summary)
        self._summary = None if summary is None else Numbers(summary, declared)
        self._facts = [compile_expression(text) for text in declared.facts]
        self._nodes: dict[str, int] = {}
        """GPUs of a node and nodes, as far as they are stated."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        # The empty text is in every line: a pattern may match anything.
        others = [rule.read for rule in super().rules()[len(self._family.records) :]]
        return [LineRule("", read) for read in (self._records, *others, self._others)]

    def read(self, line: CleanLine) -> list[Item]:
        # RE2 takes no bytes that a followed log has in place of characters.
        text = line.text[:MAX_LINE].encode(errors="replace").decode()
        return super().read(line._replace(text=text))

    def _records(self, line: CleanLine) -> Iterator[Item]:
        for rule in self._family.records:
            for match in rule.pattern.finditer(line.text):
                if (record := self.record(rule, line, match)) is not None:
                    if "stamp" not in rule.pattern.groupindex:
                        record = msgspec.structs.replace(record, stamp=leading_stamp(line.text))
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
            rate = positive(groups.get("rate"))
            seconds = positive(groups.get("step_seconds"))
            if self._counts_steps and rate is not None:
                seconds = 1.0 / rate
                rate = None
            elif self._times_samples and seconds is not None:
                rate = 1.0 / seconds
                seconds = None
            values = {
                "whole_run_rate": rate,
                "whole_run_seconds": seconds,
                "final_loss": number_in(groups.get("loss")),
            }
            yield line.mark("summary", summary[0], values)

    def _gpus(self, line: CleanLine, name: str, said: str) -> Iterator[Fact]:
        """GPUs of the job, once those of a node and the nodes are known, and where they change."""
        if name in _NODES and self._nodes.get(name) != int(said):
            self._nodes[name] = int(said)
            if self._nodes.keys() == _NODES:
                yield line.fact("gpus", str(math.prod(self._nodes.values())))


# -- explanation ----------------------------------------------------------------------------------
#
# The expressions of a declared format on a log: which lines they match.

SHOWN = 3
"""Lines of each expression that are shown."""
Quote = Callable[[int, str], Place]
"""Makes a place of a line's number and its text, which it redacts."""


class _Expression(msgspec.Struct):
    """An expression of a declared format, tried on the lines of a log."""

    variant: str
    name: str
    text: str
    pattern: Pattern
    matched: int = 0
    lines: list[tuple[Place, dict[str, str]]] = []

    def try_line(self, number: int, text: str, quote: Quote) -> None:
        """Try a line."""
        if (match := self.pattern.search(text)) is None:
            return
        self.matched += 1
        if len(self.lines) < SHOWN:
            groups = match.groupdict().items()
            shown = {name: quote(number, text).text for name, text in groups if text is not None}
            self.lines.append((quote(number, text), shown))

    def matches(self) -> ExpressionMatches:
        """Return what it has matched."""
        return ExpressionMatches(
            variant=self.variant,
            name=self.name,
            pattern=self.text,
            matched=self.matched,
            lines=tuple(self.lines),
        )


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
) -> tuple[int, list[ExpressionMatches]]:
    """Try every line on every expression, as the reader of the format does.

    ``formats`` come with the variants of each. Returns how many lines there are, and what matches.
    """
    tried = [
        _Expression(variant=variant, name=name, text=text, pattern=pattern)
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
                whole += 1
                rest = ""
    return whole + bool(rest), [expression.matches() for expression in tried]


def _patterns(declared: LogFormat) -> Iterator[tuple[str, str, Pattern]]:
    """Give the expressions of a declared format, with their keys."""
    if (line := training_line(declared)) is not None:
        paths = ", ".join(f"{name}: {path}" for name, path in declared.fields.items())
        yield "record" if declared.record else "fields", declared.record or paths, line
    named = {key: getattr(declared, key) for key in ("summary", "evaluation", "checkpoint")}
    named |= {f"facts[{index}]": text for index, text in enumerate(declared.facts)}
    for key, text in named.items():
        if text is not None:
            yield key, text, compile_expression(text)


# -- units beside the numbers, and their conversion -----------------------------------------------

NEAR = 40
"""Characters before and after a number in which its unit stands."""
_CARDS = ("gpu", "device", "card", "npu", "rank", "chip")
_CARD = rf"(?P<card>[_ ]?(?:/|per)[_ ]?(?:{'|'.join(_CARDS)}))?"
_TIME = "|".join(sorted(SECONDS.keys() - {"min", "h"}, key=len, reverse=True))
_SECOND = rf"(?:/ ?|[_ ]?per[_ ]?)(?P<time>{_TIME}|min|h){_CARD}(?![a-z])"
_END = r"[\"')\]]*(?: \([a-z]+\))?(?P<glue>[\s.:=|]*)[\"'(\[]?$"
"""From a label to its number."""
_TIME_AFTER = re.compile(
    r"(?:(?=\w)| (?!\w+(?:[ :=(]*[-+]?\d|/)))(?P<time>min|h)(?!\w)"
    rf"| ?(?P<unit>{_TIME})(?!\w)",
    re.IGNORECASE,
)
"""A unit of a time; ``min`` is a label in ``time 0.5 min 0.3 max 0.7``."""
_SEVERAL = re.compile(
    r"(?:(?<![\d ])/|per) ?(?:[2-9]|\d\d+) ?(?:it(?:er(?:ation)?)?s?|steps?|batch(?:es)?)\b",
    re.IGNORECASE,
)
"""Text of a time of several steps, ``/100 iters``, and not of a step of a total."""
_SEVERAL_BEFORE = re.compile(rf"{_SEVERAL.pattern}\D*$", re.IGNORECASE)
_TIME_BEFORE = re.compile(
    rf"(?:^|(?-i:(?<=[a-z])(?=[A-Z]))|[^a-z/]|/(?!s(?:ec|econd)?s?\b))(?P<time>{_TIME})"
    rf"(?:[_ ]?(?:/|per)[_ ]?[a-z]+)?{_END}",
    re.IGNORECASE,
)
_WORD = r"(?P<word>(?-i:\b[kKMG] )?[a-z]*)"
_RATE_AFTER = re.compile(rf" ?{_WORD} ?{_SECOND}", re.IGNORECASE)
_NAMED = {"fps": "images", "tps": "tokens", "wps": "tokens", "ips": "", "sps": "", "qps": ""}
_NAMED_AFTER = re.compile(rf" ?(?P<name>{'|'.join(_NAMED)})(?!\w| ?[:=])")
_MANY_AFTER = re.compile(r" ?(?P<word>[kKMG])(?![\w/])")
_RATE_BEFORE = re.compile(rf"{_WORD}{_SECOND}{_END}", re.IGNORECASE)
_PARTS = re.compile(r"[KMG] ?[a-z]+|[A-Z]?[a-z]+|[A-Z]+")
_TORN = re.compile(r"(?:[,'_]\d{3})+(?!\d|,\d)|[eE][-+]?\d")
_TORN_BEFORE = re.compile(r"(?<![\d.,])\d{1,3}[,'_]$")
_SPLIT = re.compile(r"([-+]?[\d.]+(?:[eE][-+]?\d+)?)(\D.*)", re.DOTALL)
_THOUSANDS = re.compile(r"\d{1,3}(?:[,'_ ]\d{3})+(?:\.\d*)?")
_SPEEDS = {"rate", "step_seconds", "data_seconds", "elapsed", "added_seconds"}
"""Groups that have a unit."""
NOT_A_NUMBER = note("unread-not-a-number")
_SEPARATED = note("unread-separated")


def after(text: str, *, is_time: bool) -> tuple[Unit | None, int]:
    """Return the unit that a text begins with, None if none, and its length."""
    if is_time:
        found = _TIME_AFTER.match(text)
        unit = found and _time(found["time"] or found["unit"])
    elif found := _RATE_AFTER.match(text):
        unit = _rate(found, found["word"])
    elif found := _NAMED_AFTER.match(text):
        unit = Unit(1.0, _NAMED[found["name"]])
    else:
        found = _MANY_AFTER.match(text)
        unit = found and Unit(MANY[found["word"]], "")
    return unit, found.end() if found else 0


def before(text: str, *, is_time: bool) -> Unit | None:
    """Return the unit in the label that a text ends with; None without one."""
    found = (_TIME_BEFORE if is_time else _RATE_BEFORE).search(text)
    if not found:
        return None
    begin = found.start("time" if is_time else "word")
    if found["glue"].isspace() and re.search(r"\d ?$", text[:begin]):
        return None  # that of the number before
    if is_time:
        return _time(found["time"])
    return _rate(found, (_PARTS.findall(found["word"]) or [""])[-1])


def _time(name: str) -> Unit:
    return Unit(SECONDS[name.lower()], "steps", is_time=True)


def _rate(found: re.Match[str], word: str) -> Unit:
    scale, noun = parse_count(word)
    is_card = noun.lower() in _CARDS
    per_card = is_card or bool(found["card"])
    noun = "" if is_card else noun
    return Unit(scale / SECONDS[found["time"].lower()], noun, per_card=per_card)


class Numbers:
    """A declared pattern whose matches have plain numbers, in seconds or per second."""

    def __init__(self, pattern: Pattern, declared: LogFormat) -> None:
        self._pattern = pattern
        self.declared = declared
        self.unit = declared.read_unit
        self.groupindex = pattern.groupindex
        is_json = isinstance(pattern, JsonFields)
        self.paths: Mapping[str, str] = paths_of(declared) if is_json else {}

    def search(self, text: str, /) -> Converted | None:
        """Return the first match."""
        return next(self.finditer(text), None)

    def finditer(self, text: str, /) -> Iterator[Converted]:
        """Yield all matches."""
        for found in self._pattern.finditer(text):
            yield Converted(self, found, text)


class Problem(NamedTuple):
    """A group's text that is not read."""

    name: str
    text: str
    why: Note
    """Clause that follows the text: ``which is not a number``."""


class Converted:
    """A match with converted numbers; a text that is not read stays."""

    def __init__(self, numbers: Numbers, found: Match, text: str) -> None:
        self._numbers, self._text = numbers, text
        self._found: Any = found
        self.problems: list[Problem] = []
        self._named = {
            name: None if value is None else value if name == "stamp" else self._read(name, value)
            for name, value in found.groupdict().items()
        }

    def __getitem__(self, group: int, /) -> Any:
        """Return the text of the match."""
        return self._found[group]

    def groupdict(self) -> dict[str, Any]:
        """Return the numbers by group, as text."""
        return self._named

    def _read(self, name: str, text: str) -> str:
        """Convert a number; note a problem, and return a text that is no number."""
        declared, unit = self._numbers.declared, self._numbers.unit
        plain = declared.plain(text.strip())
        if name == "elapsed" and (seconds := clock_seconds(plain)) is not None:
            return repr(seconds)
        if name not in _SPEEDS:
            if number_in(plain) is None:
                self.problems.append(Problem(name, text, NOT_A_NUMBER))
            return plain
        is_time = name != "rate"
        own = many = None
        # A total is of all steps, and a group may tell how many a time is of.
        is_one = is_time and name != "elapsed" and "steps" not in self._numbers.groupindex
        if number_in(plain) is None and (parts := _SPLIT.fullmatch(plain)):
            many = MANY.get(parts[2].strip())
            own = after(parts[2], is_time=is_time)[0] if many is None else Unit(many, "")
            plain = plain if own is None else parts[1]
        ahead, behind = self._around(name)
        if own is not None and many is not None:
            beside = after(behind, is_time=is_time)[0] or before(ahead, is_time=is_time)
            beside = beside or (unit if unit.is_time == is_time else Unit(1.0, ""))
            own = own._replace(scale=many * (beside.scale if is_time else beside.per_second))
        near = own or after(behind, is_time=is_time)[0]
        label = None if near and near.noun else before(ahead, is_time=is_time)
        found = near or label
        number = number_in(plain)
        # The declared unit is that of the rate, or of the time where there is none.
        is_declared = is_time == unit.is_time and name in {"rate", "step_seconds"}
        if number is None:
            why = _SEPARATED if _THOUSANDS.fullmatch(plain) else NOT_A_NUMBER
        elif self._is_torn(name, ahead, behind):
            why = note("unread-part-of-a-number")
        elif is_one and (_SEVERAL.match(behind.lstrip(" ms")) or _SEVERAL_BEFORE.search(ahead)):
            why = note("unread-several-steps")
        else:
            other = None
            if is_declared:
                others = (self._other(each) for each in (near, label) if each)
                other = next(others, None)
                if not other and found and own is None and found.scale != unit.scale:
                    right = unit._replace(scale=found.scale)
                    other = note("unread-other-unit", unit=declared.unit, right=str(right))
            if other is None:
                by = found if own or not is_declared else unit
                default = unit.scale if is_time == unit.is_time else 1.0
                scale = by.scale if by else default
                return plain if scale == 1.0 else repr(number * scale)
            why = other
        self.problems.append(Problem(name, text, why))
        return f"{text}?"

    def _other(self, found: Unit) -> Note | None:
        """Say how a unit beside the number counts something else; else None."""
        declared, unit = self._numbers.declared, self._numbers.unit
        is_other = found.kind and unit.kind and found.kind != unit.kind
        if is_other and not found.is_time:  # a time is printed without what it is of
            return note("unread-other-count", found=f"{found.noun}/s", unit=declared.unit)
        if found.per_card and declared.per == "job":
            return note("unread-of-one-gpu")
        return None

    def _around(self, name: str) -> tuple[str, str]:
        """Return the texts before and after a group, or the path of its key."""
        if path := self._numbers.paths.get(name):
            return path, ""
        begin, end = self._span(name)
        return self._text[max(begin - NEAR, 0) : begin], self._text[end : end + NEAR]

    def _span(self, name: str) -> tuple[int, int]:
        begin, end = self._found.span(self._numbers.groupindex[name])
        return begin, end

    def _is_torn(self, name: str, ahead: str, behind: str) -> bool:
        """True if a group has only a part of a number."""
        if self._numbers.paths:
            return False
        (begin, end), others = self._span(name), [self._span(n) for n in self._numbers.groupindex]
        if _TORN.match(behind) and all(other[0] != end + 1 for other in others):
            return True
        three = re.match(r"\d{3}(?!\d)", self._text[begin:end]) is not None
        is_next = any(other[1] == begin - 1 for other in others)
        return three and not is_next and _TORN_BEFORE.search(ahead) is not None
