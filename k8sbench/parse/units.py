"""Units beside the numbers of a declared format, and their conversion.

A unit in a group or beside it is compared with the declared one: a number in another unit is no
number, and the file must say more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from k8sbench.model.expressions import Match, Pattern
from k8sbench.model.spec import LogFormat
from k8sbench.model.units import MANY, SECONDS, Unit, counted
from k8sbench.parse.family import JsonFields
from k8sbench.parse.records import number_in

NEAR = 40
"""Characters before and after a number in which its unit stands."""
_CARDS = ("gpu", "device", "card", "npu", "rank", "chip")
_CARD = rf"(?P<card>[_ ]?(?:/|per)[_ ]?(?:{'|'.join(_CARDS)}))?"
_TIME = "|".join(sorted(SECONDS.keys() - {"min", "h"}, key=len, reverse=True))
_SECOND = rf"(?:/ ?|[_ ]?per[_ ]?)(?P<time>{_TIME}|min|h){_CARD}(?![a-z])"
_END = r"[\"')\]]*(?: \([a-z]+\))?(?P<glue>[\s.:=|]*)[\"'(\[]?$"
"""From a label to its number."""
_TIME_AFTER = re.compile(rf"(?P<time>min|h)(?!\w)| ?(?P<unit>{_TIME})(?!\w)", re.IGNORECASE)
_SEVERAL = re.compile(r"(?:/|per) ?(?:[2-9]|\d\d+) ?(?:it|step|batch)", re.IGNORECASE)
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
NOT_A_NUMBER = "which is not a number"
_SEPARATED = f"{NOT_A_NUMBER} unless `thousands` declares its separator"


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
    scale, noun = counted(word)
    is_card = noun.lower() in _CARDS
    per_card, noun = is_card or bool(found["card"]), "" if is_card else noun
    return Unit(scale / SECONDS[found["time"].lower()], noun, per_card=per_card)


class Numbers:
    """A declared pattern whose matches have plain numbers, in seconds or per second."""

    def __init__(self, pattern: Pattern, declared: LogFormat) -> None:
        self._pattern = pattern
        self.declared = declared
        self.unit = declared.read_unit
        self.groupindex = pattern.groupindex
        is_json = isinstance(pattern, JsonFields)
        self.paths: Mapping[str, str] = declared.fields if is_json else {}

    def search(self, text: str, start: int = 0, /) -> Converted | None:
        """Return the first match from a place on."""
        found = self._pattern.search(text, start)
        return None if found is None else Converted(self, found, text)

    def finditer(self, text: str, /) -> Iterator[Converted]:
        """Yield all matches."""
        for found in self._pattern.finditer(text):
            yield Converted(self, found, text)


class Problem(NamedTuple):
    """A group's text that is not read."""

    name: str
    text: str
    why: str
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

    def end(self) -> int:
        """Return the place behind the match."""
        return int(self._found.end())

    def groupdict(self) -> dict[str, Any]:
        """Return the numbers by group, as text."""
        return self._named

    def _read(self, name: str, text: str) -> str:
        """Convert a number; note a problem, and return a text that is no number."""
        declared, unit = self._numbers.declared, self._numbers.unit
        plain = declared.plain(text.strip())
        if name not in {"rate", "step_seconds", "data_seconds"}:
            if number_in(plain) is None:
                self.problems.append(Problem(name, text, NOT_A_NUMBER))
            return plain
        is_time, own = name != "rate", None
        if number_in(plain) is None and (parts := _SPLIT.fullmatch(plain)):
            own, _ = after(parts[2], is_time=is_time)
            plain = plain if own is None else parts[1]
        ahead, behind = self._around(name)
        near = own or after(behind, is_time=is_time)[0]
        label = None if near and near.noun else before(ahead, is_time=is_time)
        found, number = near or label, number_in(plain)
        # The declared unit is that of the rate, or of the time where there is none.
        is_declared = is_time == unit.is_time and name != "data_seconds"
        if number is None:
            why = _SEPARATED if _THOUSANDS.fullmatch(plain) else NOT_A_NUMBER
        elif self._is_torn(name, ahead, behind):
            why = "which is part of a number; match all of it, and declare `thousands`"
        elif is_time and (_SEVERAL.match(behind.lstrip(" ms")) or _SEVERAL_BEFORE.search(ahead)):
            why = "which is the time of several steps; print that of one"
        else:
            why = ""
            if is_declared:
                why = next((self._other(each) for each in (near, label) if each), "")
                if not why and found and own is None and found.scale != unit.scale:
                    right = unit._replace(scale=found.scale)
                    why = f"whose unit is not {declared.unit}; declare `unit: {right}`"
            if not why:
                by = found if own or not is_declared else unit
                default = unit.scale if is_time == unit.is_time else 1.0
                scale = by.scale if by else default
                return plain if scale == 1.0 else repr(number * scale)
        self.problems.append(Problem(name, text, why))
        return f"{text}?"

    def _other(self, found: Unit) -> str:
        """Say how a unit beside the number counts something else; else empty."""
        declared, unit = self._numbers.declared, self._numbers.unit
        if found.kind and unit.kind and found.kind != unit.kind:
            return f"whose unit is {found.noun}/s, not {declared.unit}"
        if found.per_card and declared.per == "job":
            return "which is of one GPU; declare `per: card`"
        return ""

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
