"""Columns of numbers in similar lines, by their labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum, auto
from typing import NamedTuple

from k8sbench.model.notation import MANY, NOUNS, Unit
from k8sbench.reader import declared
from k8sbench.reader.family import number_in
from k8sbench.reader.json_fields import json_objects


class Kind(IntEnum):
    """Meaning of a number, by its label and unit."""

    OTHER = auto()
    """An accuracy, a learning rate, a wait, a remaining time, a total …"""
    BARE = auto()
    """Without a label."""
    STEP = auto()
    EPOCH = auto()
    OF = auto()
    """The second number of ``120/250``."""
    RATE = auto()
    SECONDS = auto()
    """Time of one step."""
    LOSS = auto()


_NUMBER = re.compile(
    r"(?<![\w.,])[-+]?(?:(?:\d{1,3}(?:,\d{3})+(?![,\d])|\d+)(?:\.\d*)?(?:e[-+]?\d+)?|nan\b|inf\b)",
    re.IGNORECASE,
)
DATES = re.compile(
    r"\d{1,4}[-/]\d\d?[-/]\d{1,4}[T -]+\d|\d*\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?: [AP]M\b)?"
    r"|\b\d\d/\d\d(?= \d\d:)|(?<!\d)\d{4}[-/]\d\d[-/]\d\d(?!\d)|(?<=\b[IWEF])\d{4}(?= \d\d:)"
)
"""Dates, times and durations, whose numbers are none of the line's."""
_WORDS = re.compile(r"(?<=[a-z\d])(?=[A-Z])|[_\-.]+|\s+")
_BEHIND = r"(?: ?\([\w/ ]+\))?$"
_TIME = r"(?: ?(?:in )?\(?(?:s|secs?|seconds?|ms|msecs?|us|µs)(?: ?(?:/|per) ?\w+)?\)?)?$"
_STEPS = r"(?:step|iter(?:ation)?|it|batch|update)"
_NOT = re.compile(
    r"\b(?:eta|remain\w*|required|left|total time|wall|since|so far|cumul\w*|forward|fwd|bwd"
    r"|backward|optim\w*|comm\w*|comput\w*|allreduce|eval\w*|val\w*|test|save|saving|checkpoint"
    r"|compile|epoch time|t?flops?|gflops?|mfu|hfu|mem\w*|lr|learning rate|acc\w*|top ?\d|grad\w*"
    r"|gnorm|skipped|nan|number of|max|warm ?up|accum\w*|scale|data|reader|load\w*|fetch|feed"
    r"|input|io|wait\w*|consumed|seen|log|interval|size|seed)\b"
)
"""Words of numbers that are no speed, step or training loss."""
_KINDS = [
    (Kind.LOSS, re.compile(r"\bloss(?: avg)?$")),
    (Kind.EPOCH, re.compile(r"(?:\bepoch|\bep|^e)$")),
    (Kind.RATE, re.compile(rf"\b(?:ips|qps|fps|tps|wps|ups|tgs|sps|throughput|speed){_BEHIND}")),
    (Kind.RATE, re.compile(rf"(?:/|per) ?s(?:ec(?:ond)?)?(?: ?(?:/|per) ?\w+)?\)?{_BEHIND}")),
    (Kind.SECONDS, re.compile(rf"\b(?:time|cost|elapsed?|duration|latency|timing|dt){_TIME}")),
    (Kind.SECONDS, re.compile(rf"\b(?:time|cost|elapsed?|took) (?:per|each) {_STEPS}{_TIME}")),
    (Kind.SECONDS, re.compile(rf"\b(?:ms|s|secs?|seconds?) ?(?:/|per) ?{_STEPS}{_BEHIND}")),
    (Kind.SECONDS, re.compile(rf"\b{_STEPS} (?:ms|s|secs?|seconds?|avg)$")),
    (Kind.STEP, re.compile(rf"(?<!per )(?<!/)\b(?:{_STEPS}s?|batches)(?: ?#| no| num| idx)?$")),
]
_STEP_BEHIND = re.compile(rf" ?\w+ ?(?:/|per) ?{_STEPS}\b", re.IGNORECASE)
_SLOW = re.compile(r" ?[a-z]* ?(?:/|per) ?(?:min|h|day)", re.IGNORECASE)
"""A rate by the hour: in a text, unless its label is that of a speed."""
_NO_SAMPLES = {"FLOP", "bytes", "GB", "km", "m", "mi", "mile", "miles", "meters", "metres", "feet"}
"""Counts of a rate that is none of samples."""
_DURATION = re.compile(
    r"(?<![\d:/.-])(?:\d{1,6} days?,? )?\d{1,9}:\d\d(?::\d\d)?(?:\.\d+)?(?![\d:/-])"
)
_LABEL = re.compile(r"(?P<label>[A-Za-z][\w ]{0,40})[\"']?\s*[:=]?\s*[\"'(\[]*$")
"""Words before a duration."""
_REMAINS = re.compile(r"\b(?:eta|remain\w*|left|at|time stamp|date)\b")
LONGEST_TIME = 1e6
"""Seconds; what is longer is no step's time."""


class NumberColumn(NamedTuple):
    """One number of similar lines."""

    label: str
    """Words before it, in lower case; of JSON the path of its key."""
    kind: Kind
    unit: Unit | None
    """Unit beside it."""
    behind: str
    """Text after it."""
    begin: int
    end: int
    """Its place in the first line; -1 in JSON."""
    path: str
    """Path of its key in JSON, else empty."""
    texts: tuple[str, ...]
    """As printed, one a line."""

    @property
    def values(self) -> list[float]:
        """Return the numbers; of a duration its seconds."""
        plain = (text.replace(",", "") for text in self.texts)
        return [_clock(text) or number_in(text) or 0.0 for text in plain]

    @property
    def words(self) -> str:
        """Return the label in lower-case words; of JSON its last key."""
        key = re.sub(r"\.\d+$", "", self.label)
        return _words(re.split(r"[./]", key)[-1] if self.path else key)

    @property
    def time_unit(self) -> Unit | None:
        """Unit of a time, beside the number or in its label; None without one."""
        if any(":" in text for text in self.texts):
            return Unit(1.0, "", is_time=True)
        if self.unit is not None and self.unit.is_time:
            return self.unit
        near, _ = declared.after(self.behind, is_time=True)
        return near or declared.before(self.path or self.label, is_time=True)


def _clock(text: str) -> float:
    """Return the seconds of a duration such as ``0:01:23``; 0 for another text."""
    found = declared.CLOCK.fullmatch(text)
    return declared.clock_seconds(found) if found else 0.0


def _words(label: str) -> str:
    return " ".join(word for word in _WORDS.split(label) if word).lower()


def _kind(label: str) -> Kind:
    words = _words(label)
    if not words:
        return Kind.BARE
    kind = next((kind for kind, pattern in _KINDS if pattern.search(words)), Kind.OTHER)
    excluded = _NOT.search(words.replace("interval", "") if kind == Kind.RATE else words)
    return Kind.OTHER if excluded or ("loss" in words and kind != Kind.LOSS) else kind


def find_columns(lines: Sequence[str]) -> list[NumberColumn]:
    """Return the columns of similar lines, by the first of them."""
    objects = [_object(line) for line in lines]
    first = objects[0]
    keyed = [
        _keyed(path, objects)
        for path, text in first.items()
        if number_in(text) is not None and path.isprintable()
    ]
    if any(each.kind == Kind.STEP for each in keyed):
        return keyed
    spans = [_numbers(line) for line in lines]
    texts = [[line[b:e] for b, e in each] for line, each in zip(lines, spans, strict=True)]
    return list(_labelled(_masked(lines[0]), spans[0], texts))


def durations(lines: Sequence[str]) -> list[NumberColumn]:
    """Return the columns of durations that are no remaining time: ``elapsed 0:01:23``."""
    keyed = {
        path: texts
        for path, texts in strings(lines).items()
        if path.isprintable() and all(declared.CLOCK.fullmatch(text) for text in texts)
    }
    if keyed:
        of = (
            NumberColumn(p.lower(), Kind.OTHER, None, "", -1, -1, p, tuple(keyed[p])) for p in keyed
        )
        return [each for each in of if not _REMAINS.search(each.words)]
    found = [list(_DURATION.finditer(line)) for line in lines]
    columns = [
        NumberColumn(
            label["label"].strip().lower(),
            Kind.OTHER,
            None,
            lines[0][first.end() :],
            *first.span(),
            "",
            tuple(every[number][0] for every in found),
        )
        for number, first in enumerate(found[0])
        if all(len(every) == len(found[0]) for every in found)
        and (label := _LABEL.search(lines[0][max(first.start() - 60, 0) : first.start()]))
    ]
    return [each for each in columns if not _REMAINS.search(each.words)]


def similar(lines: Sequence[str]) -> list[str]:
    """Return the lines that have as many numbers as the first."""
    count = len(_numbers(lines[0]))
    return [line for line in lines if len(_numbers(line)) == count]


def _masked(line: str) -> str:
    return DATES.sub(lambda found: "#" * len(found[0]), line)


def _numbers(line: str) -> list[tuple[int, int]]:
    return [match.span() for match in _NUMBER.finditer(_masked(line))]


def _labelled(
    line: str, spans: Sequence[tuple[int, int]], texts: Sequence[Sequence[str]]
) -> Iterator[NumberColumn]:
    """Yield a column for each number, with its label and unit."""
    at = 0
    ends = [*(begin for begin, _ in spans[1:]), len(line)]
    for index, (begin, end) in enumerate(spans):
        gap, behind = line[at:begin], line[end : ends[index]]
        is_of = index > 0 and re.fullmatch(r" *(?:/|of) *", gap) is not None
        label = "" if is_of else re.split(r"[,;|{}\t#\]]|  +| [-–] ", gap.rstrip(" \t:=\"'[(."))[-1]
        label = label.lstrip(")\"' [:.-(")
        kind = Kind.OF if is_of else _kind(label)
        unit, used = _beside(label, kind, behind)
        rest = behind[used:].strip()
        is_label = False
        if label and gap.endswith(f"{label} ") and index + 1 < len(spans) and not rest:
            # ``loss 3.9 tokens/s 52001``: a label, as that before.
            following = line[spans[index + 1][1] : ends[index + 1]]
            is_label = not _owns_unit(following, index + 2 == len(spans))
        if used and (is_label or rest[:1] in {":", "="}):
            unit = declared.before(label, is_time=kind == Kind.SECONDS)
            used = 0
        if used and kind in {Kind.BARE, Kind.OF, Kind.OTHER} and behind[:used].strip() not in MANY:
            is_noise = kind == Kind.OTHER and _NOT.search(_words(label)) is not None
            is_rate = unit and (
                unit.kind or (not unit.noun and (kind != Kind.OTHER or _ends_in_noun(label)))
            )
            is_slow = not unit or (not unit.is_time and _SLOW.match(behind))
            if (
                unit
                and is_rate
                and not (is_noise or is_slow)
                and (not unit.is_time or _STEP_BEHIND.match(behind))
            ):
                kind = Kind.RATE
        per_other = kind == Kind.RATE and not unit and re.match(r" ?[a-z]+ ?/ ?[a-z]", behind)
        if per_other or (unit and unit.noun in _NO_SAMPLES):
            kind = Kind.OTHER
        if unit and kind in {Kind.RATE, Kind.SECONDS}:
            kind = Kind.SECONDS if unit.is_time else Kind.RATE
        at = end + (used if kind in {Kind.RATE, Kind.SECONDS} else 0)
        column = tuple(line_texts[index] for line_texts in texts)
        yield NumberColumn(label.lower(), kind, unit, line[end:], begin, end, "", column)


def _ends_in_noun(label: str) -> bool:
    """True if a label ends with the name of a sample: ``samples 412.7/s``."""
    return _words(label).rpartition(" ")[2] in NOUNS


def _owns_unit(behind: str, is_last: bool) -> bool:
    """True if a number's unit follows, not the next one's label."""
    used = max(declared.after(behind, is_time=is_time)[1] for is_time in (True, False))
    return used > 0 and (is_last or bool(behind[used:].strip()))


def _beside(label: str, kind: Kind, behind: str) -> tuple[Unit | None, int]:
    """Return the unit beside a number, and its characters after it."""
    of_time = kind == Kind.SECONDS
    for is_time in (of_time, not of_time):
        near, used = declared.after(behind, is_time=is_time)
        if near is not None and (kind != Kind.RATE or not is_time or _STEP_BEHIND.match(behind)):
            named = None if near.noun else declared.before(label, is_time=is_time)
            return near._replace(noun=named.noun) if named else near, used
    if kind not in {Kind.SECONDS, Kind.RATE}:
        return None, 0
    return declared.before(label, is_time=of_time), 0


# -- JSON -----------------------------------------------------------------------------------------


def _object(line: str) -> dict[str, str]:
    """Return the texts and numbers of a line's first JSON object, by path."""
    return next((values for _, values in json_objects(line)), {})


def strings(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of JSON objects by path, one a line."""
    objects = [_object(line) for line in lines]
    return {path: [each.get(path, "") for each in objects] for path in objects[0]}


def _keyed(path: str, objects: Sequence[dict[str, str]]) -> NumberColumn:
    kind = _kind(re.split(r"[./]", re.sub(r"\.\d+$", "", path))[-1])
    times = kind == Kind.SECONDS
    unit = declared.before(path, is_time=times) if kind in {Kind.SECONDS, Kind.RATE} else None
    texts = tuple(each.get(path, "") for each in objects)
    return NumberColumn(path.lower(), kind, unit, "", -1, -1, path, texts)
