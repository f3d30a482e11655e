"""Similar lines of a log, and the numbers in them with their labels and units."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from k8sbench.model.notation import Unit
from k8sbench.reader import declared
from k8sbench.reader.declared import MAX_LINE
from k8sbench.reader.family import clock_seconds, number_in
from k8sbench.reader.json_fields import json_objects
from k8sbench.reader.lines import ended, pieces

FIRST_LINES = 100_000
"""Lines that are read."""
_COMPARED = 1000
"""Similar lines whose numbers are compared."""
_UNIX_SECONDS = (1e9, 4e9)
"""Times of this century, from 2001 on."""
_FEWEST_OF_CLOCK = 10
"""Lines; a few may rise by chance."""
_SHAPE = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?| +", re.IGNORECASE)
DATE = (
    r"\d{1,4}[-/]\d\d?[-/]\d{1,4}[T, -]+\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?(?: [AP]M\b)?"
    r"|\b\d\d[-/]\d\d(?= \d\d:)|(?<!\d)\d{4}[-/]\d\d[-/]\d\d(?!\d)|(?<=\b[IWEF])\d{4}(?= \d\d:)"
)
_DURATION = r"(?:\d{1,6} days?,? )?\d{1,9}:\d\d(?::\d\d)?(?:[.,]\d+)?(?![\d:])"
_NUMBER = (
    r"(?<![\w.,])[-+]?(?:(?:[1-9]\d{0,2}(?:,\d{3})+(?![,\d])|\d+(?!,\d|\d))(?:\.\d*)?(?:e[-+]?\d+)?"
    r"|nan\b|inf\b)"
)
"""No part of a word; no half of a number with a decimal comma."""
_TOKEN = re.compile(
    rf"(?P<date>{DATE})|(?P<duration>(?<![\w:.]){_DURATION})|(?P<number>{_NUMBER})", re.IGNORECASE
)
_SEPARATOR = re.compile(r"[,;|{}\t#\]]|  +| [-–] ")
_WORDS = re.compile(r"(?<=[a-z\d])(?=[A-Z])|[_\-.]+|\s+")


class Number(NamedTuple):
    """One number of similar lines, or a duration such as ``0:01:23``."""

    label: str
    """Text before it, back to the separator; of JSON the path of its key."""
    behind: str
    """Text after it, up to the next number."""
    unit: Unit | None
    """Unit beside it or in its label; None without one."""
    unit_text: str
    """Unit as it is printed behind the number; empty if none is."""
    begin: int
    end: int
    """Its place in the first line; -1 in JSON."""
    path: str
    """Path of its key in JSON, else empty."""
    texts: tuple[str, ...]
    """As printed, one a line."""

    @property
    def words(self) -> str:
        """Return the label in lower-case words; of JSON its last key."""
        label = (
            re.split(r"[./]", re.sub(r"\.\d+$", "", self.label))[-1] if self.path else self.label
        )
        return " ".join(word for word in _WORDS.split(label) if word).lower()

    @property
    def values(self) -> list[float]:
        """Return the numbers; of a duration its seconds."""
        return [_value(text) for text in self.texts]

    @property
    def is_duration(self) -> bool:
        """True for ``0:01:23``."""
        return ":" in self.texts[0]

    @property
    def accumulates(self) -> bool:
        """True if nearly every line has a higher number than the line before, as a total has."""
        pairs = list(itertools.pairwise(self.values))
        return 10 * sum(a < b for a, b in pairs) >= 9 * len(pairs)

    @property
    def is_clock(self) -> bool:
        """True if the number runs as a clock or counter does: up, and about as fast at the end.

        A mean since the beginning may rise in each line, too, but ever more slowly.
        """
        values = self.values
        rises = [max(later - earlier, 0.0) for earlier, later in itertools.pairwise(values)]
        if not self.accumulates or not any(rises):
            return False
        if _UNIX_SECONDS[0] < min(values) and max(values) < _UNIX_SECONDS[1]:
            return True
        half = len(rises) // 2
        is_steady = 2 * sum(rises[half:]) > sum(rises[:half])
        return len(values) >= _FEWEST_OF_CLOCK and is_steady and sum(rises) > max(values) / 20

    @property
    def is_constant(self) -> bool:
        """True if the number has only digits, the same in all lines."""
        return len(set(self.texts)) == 1 and self.texts[0].isdigit()

    @property
    def counts_up(self) -> bool:
        """True if the numbers are whole and mostly grow."""
        return self.is_whole and self.grows

    @property
    def is_total(self) -> bool:
        """True for the second number of ``120/250`` and ``120 of 250``."""
        return self.label in {"/", "of"}

    @property
    def is_whole(self) -> bool:
        """True if every number is whole."""
        return all(re.fullmatch(r"[\d,]+(?:\.0*)?", text) for text in self.texts)

    @property
    def grows(self) -> bool:
        """True if most lines have a higher number than the line before."""
        pairs = list(itertools.pairwise(self.values))
        return 2 * sum(a < b for a, b in pairs) > len(pairs)


def _value(text: str) -> float:
    seconds = clock_seconds(text)
    return number_in(text.replace(",", "")) or 0.0 if seconds is None else seconds


def first_lines(blocks: Iterable[str]) -> list[str]:
    """Return the first lines of logs as their readers see them."""
    every = (line for block in blocks for line in ended(block))
    some = (line.rstrip("\r\n") for line in itertools.islice(every, FIRST_LINES))
    return [piece.text[:MAX_LINE] for line in some for piece in pieces(line)]


def similar_lines(lines: Sequence[str]) -> list[list[str]]:
    """Group the lines that differ in their numbers alone, the largest group first."""
    kinds = defaultdict[str, list[str]](list)
    for line in lines:
        kinds[_SHAPE.sub("0", line)].append(line)
    return sorted(kinds.values(), key=len, reverse=True)


def numbers_of(lines: Sequence[str]) -> tuple[list[str], list[Number]]:
    """Return the lines with as many numbers as the first, and these numbers."""
    objects = [_json_values(line) for line in lines[:_COMPARED]]
    if objects[0] and not _spans(lines[0].partition("{")[0]):
        return list(lines[:_COMPARED]), list(_keyed(objects))
    spans = [_spans(line) for line in lines[:_COMPARED]]
    alike = [
        (line, places)
        for line, places in zip(lines, spans, strict=False)
        if len(places) == len(spans[0])
    ]
    texts = [[line[begin:end] for begin, end in places] for line, places in alike]
    numbers = list(_labelled(lines[0], spans[0], texts)) if spans[0] else []
    return [line for line, _ in alike], numbers


def _spans(line: str) -> list[tuple[int, int]]:
    return [token.span() for token in _TOKEN.finditer(line) if not token["date"]]


def _labelled(
    line: str, spans: Sequence[tuple[int, int]], texts: Sequence[Sequence[str]]
) -> Iterator[Number]:
    """Yield each number with the text before it and the unit beside it."""
    plain = re.sub(DATE, lambda date: "#" * len(date[0]), line)
    ends = [*(begin for begin, _ in spans[1:]), len(line)]
    units: list[tuple[Unit | None, int]] = []
    for (_, end), following in zip(reversed(spans), reversed(ends), strict=True):
        unit, used = _unit_after(plain[end:following])
        fills_gap = not plain[end + used : following].strip(" ,:=")
        if fills_gap and units and not units[0][1]:
            unit, used = None, 0  # ``loss 3.9 tokens/s 52001``: the label of the next number
        units.insert(0, (unit, used))
    at = 0
    label, shares = "", False
    for index, (begin, end) in enumerate(spans):
        gap = plain[at:begin]
        is_total = index > 0 and re.fullmatch(r" *(?:/|of) *", gap) is not None
        if not shares:
            label = gap.strip() if is_total else _label(gap)
        unit, used = units[index]
        is_shared = plain[end : ends[index]] == "/" and index + 1 < len(spans)
        shares = is_shared and _is_rate(units[index + 1][0])
        unit_text = plain[end : end + used] or _prefix(plain[end:])
        if shares:  # ``4466/6179 tok/s``
            unit, used_next = units[index + 1]
            unit_text = plain[spans[index + 1][1] :][:used_next]
        unit = unit or _unit_before(label)
        at = end + used
        yield Number(
            label=label,
            behind=plain[end : ends[index]],
            unit=unit,
            unit_text=unit_text,
            begin=begin,
            end=end,
            path="",
            texts=tuple(each[index] for each in texts),
        )


def _is_rate(unit: Unit | None) -> bool:
    return unit is not None and not unit.is_time


def _prefix(behind: str) -> str:
    """Return the K of ``12K``."""
    prefix = re.match(r" ?[kKMG](?!\w)", behind)
    return prefix[0] if prefix else ""


def _label(gap: str) -> str:
    """Return the words right before a number."""
    return _SEPARATOR.split(gap.rstrip(" \t:=\"'[(."))[-1].lstrip(")\"' [:.-(")


def _unit_after(text: str) -> tuple[Unit | None, int]:
    """Return the unit that a text begins with, and its length."""
    for is_time in (False, True):
        unit, used = declared.after(text, is_time=is_time)
        if unit is not None and text[:used].strip() not in {"k", "K", "M", "G"}:
            return unit, used
    return None, 0


def _unit_before(label: str) -> Unit | None:
    """Return the unit that a label ends with."""
    return declared.before(label, is_time=False) or declared.before(label, is_time=True)


# -- JSON -----------------------------------------------------------------------------------------


def _json_values(line: str) -> dict[str, str]:
    """Return the texts and numbers of a line's first JSON object, by path."""
    return next((values for _, values in json_objects(line)), {})


def json_texts(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of JSON objects by path, one a line."""
    objects = [_json_values(line) for line in lines]
    return {path: [each.get(path, "") for each in objects] for path in objects[0]}


def _keyed(objects: Sequence[dict[str, str]]) -> Iterator[Number]:
    for path, text in objects[0].items():
        is_number = number_in(text) is not None or clock_seconds(text) is not None
        if is_number and path.isprintable():
            texts = tuple(each.get(path, "") for each in objects)
            yield Number(path, "", _unit_before(path), "", -1, -1, path, texts)
