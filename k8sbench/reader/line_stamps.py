"""Time stamps of similar lines, and the format that reads them."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from k8sbench.model.notation import SECONDS
from k8sbench.reader.family import number_in, stamp_reader
from k8sbench.reader.numbered_lines import json_texts

_CLOCK = r"\d\d:\d\d:\d\d"
_DATES = [
    (r"\d{4}-\d\d-\d\d", ("%Y-%m-%d",)),
    (r"\d{4}/\d\d/\d\d", ("%Y/%m/%d",)),
    (r"\d\d/\d\d/\d{4}", ("%m/%d/%Y", "%d/%m/%Y")),
    (r"\d\d-\d\d-\d{4}", ("%d-%m-%Y", "%m-%d-%Y")),
    (r"\d\d\.\d\d\.\d{4}", ("%d.%m.%Y",)),
    (r"\d\d/\d\d", ("%m/%d",)),
    (r"\d\d-\d\d", ("%m-%d",)),
    (r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d", ("%a %b %d",)),
    (r"[A-Z][a-z]{2} [ \d]\d", ("%b %d",)),
    (r"\d{4}", ("%m%d",)),
    ("", ("",)),
]
"""Form of a date → its ``strptime`` formats."""
_FIRST = 80
"""Characters of a line in which its stamp begins."""


class Stamp(NamedTuple):
    """The stamps of similar lines."""

    form: str
    """``strptime`` format, or the unit of Unix times."""
    pattern: str
    begin: int
    end: int
    path: str
    """Path of its key in JSON, else empty."""


def find_stamp(lines: Sequence[str], *, is_json: bool) -> Stamp | None:
    """Return the stamps of similar lines; None without any that advance."""
    if not is_json:
        return next(_forms(lines, ""), None)
    for path, texts in json_texts(lines).items():
        if stamp := _unix(texts, path) or next(_forms(texts, path), None):
            return stamp
    return None


def _unix(texts: Sequence[str], path: str) -> Stamp | None:
    """Return Unix times, in the unit that gives years of this century."""
    numbers = [number_in(text) or 0.0 for text in texts]
    for unit in ("s", "ms", "us", "ns"):
        seconds = tuple(number * SECONDS[unit] for number in numbers)
        if all(1e9 < each < 4e9 for each in seconds) and _advance(seconds):
            return Stamp(unit, r"[\d.]+", -1, -1, path)
    return None


def _forms(texts: Sequence[str], path: str) -> Iterator[Stamp]:
    for date, formats in _DATES:
        joins = (" ", "T", " - ", ",") if date else ("",)
        for join, point, half in itertools.product(joins, (",", ".", ""), (" %p", "")):
            hours = "%I" if half else "%H"
            clock = f"{join}{hours}:%M:%S{point}{'%f' if point else ''}{half}"
            pattern = date + join + _CLOCK + (rf"[{point}]\d{{1,6}}" if point else "")
            pattern += " [AP]M" if half else ""
            search = re.compile(rf"(?<![\d.:/-]){pattern}").search
            matches = itertools.takewhile(bool, (search(text[:_FIRST]) for text in texts))
            places = [match.span() for match in matches if match]
            if len(places) < len(texts) or places[0][0] != places[-1][0]:
                continue
            begin, end = places[0]
            if not date and texts[0][:begin].strip("[( "):
                continue  # a time alone is an elapsed one, unless the line begins with it
            stamps = tuple(text[slice(*place)] for text, place in zip(texts, places, strict=True))
            for day in formats:
                seconds = _read(stamps, day + clock)
                if seconds and _advance(seconds):
                    yield Stamp(day + clock, pattern, begin, end, path)


def _read(texts: Sequence[str], form: str) -> tuple[float, ...]:
    reader = stamp_reader(form)
    try:
        read = [reader(text) for text in texts]
    except ValueError:
        return ()
    return tuple((each - datetime.datetime(1900, 1, 1)).total_seconds() for each in read)  # noqa: DTZ001


def _advance(seconds: Sequence[float]) -> bool:
    """True if stamps differ, and seldom go back, as at midnight."""
    back = sum(a > b for a, b in itertools.pairwise(seconds))
    return len(set(seconds)) > 1 and back <= len(seconds) // 20
