"""Notation of declared formats: units and regular expressions.

A unit is that of seconds of a step, or of counts per second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, cast

from k8sbench.model.errors import InputError

SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "usecs", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("day", "days"), 86400.0),
}
"""Unit of a time → seconds."""
MANY = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
"""Prefix of a count → factor."""
_NOUNS = {
    "steps": ("step", "iteration", "iter", "it", "batch", "batche", "update"),
    "images": ("image", "img", "im", "frame"),
    "tokens": ("token", "tok", "tk", "word", "wd"),
    "sequences": ("sequence", "seq", "sentence", "sent"),
    "clips": ("clip", "video", "vid"),
    "samples": ("sample", "samp", "example", "ex", "instance", "item"),
    "GB": ("gb",),
    "FLOP": ("flop", "gflop", "tflop", "pflop"),
    "bytes": ("b", "kb", "mb", "tb"),
}
NOUNS = {form: noun for noun, forms in _NOUNS.items() for form in forms}
NOUNS |= {f"{form}s": noun for form, noun in NOUNS.items()}
"""Word for what is counted → unit of a benchmark, or ``steps``."""


class Unit(NamedTuple):
    """A unit of a rate, or of the time of a step or a sample."""

    scale: float
    """Seconds, or counts per second, in one of it."""
    noun: str
    """Counted unit of :data:`NOUNS`; else the printed word, or empty."""
    is_time: bool = False
    per_card: bool = False
    """True if it names one GPU."""

    @property
    def kind(self) -> str:
        """Kind of count: steps, tokens, samples …; empty where unknown."""
        if self.noun in {"images", "clips", "sequences"}:
            return "samples"
        return self.noun if self.noun in _NOUNS else ""

    def __str__(self) -> str:
        """The unit as a file declares it."""
        if self.is_time:
            name = next(name for name, scale in SECONDS.items() if scale == self.scale)
            return f"{name}/{self.noun.removesuffix('s')}"
        many, per = self._parts
        return f"{many.upper()}{self.noun or 'samples'}/{per}"

    @property
    def per_second(self) -> float:
        """Counts per second in one of a rate without its prefix: 1/3600 of ``Ktokens/h``."""
        return 1.0 / SECONDS[self._parts[1]]

    @property
    def _parts(self) -> tuple[str, str]:
        """Prefix and time of a rate."""
        names = ((many, per) for per in ("s", "min", "h", "day", "ms") for many in MANY)
        matching = ((m, per) for m, per in names if MANY[m] / SECONDS[per] == self.scale)
        return next(matching, ("", "s"))


def parse_count(word: str) -> tuple[float, str]:
    """Return the factor and noun of ``Ktokens``, ``img`` or ``K``."""
    first = word[:1]
    noun = word[1:].strip().lower()
    if word.lower() not in NOUNS and first in MANY and (not noun or noun in NOUNS):
        return MANY[first], NOUNS.get(noun, "")
    return 1.0, NOUNS.get(word.lower(), word)


def parse_unit(text: str) -> Unit | None:
    """Read a declared unit: ``images/s``, ``Ktokens/s``, ``ms/step``, ``s/sample``.

    A time alone, ``s``, is one of ``elapsed``. None if invalid.
    """
    first, _, last = (part.strip() for part in text.partition("/"))
    if first in SECONDS:
        noun = NOUNS.get(last, "") if "/" in text else "steps"
        unit = Unit(SECONDS[first], noun, is_time=True)
        return unit if unit.kind in {"steps", "samples", "tokens"} else None
    scale, noun = parse_count(first)
    return Unit(scale / SECONDS[last or "s"], noun) if (last or "s") in SECONDS else None


# -- regular expressions of users ------------------------------------------------------------------
#
# RE2 takes time in proportion to the line, whatever the expression. Python's re may take years for
# thirty characters, and nothing can stop it in a process that serves a team.


_CONTEXT = "match the text around a value as part of the expression: only named groups are read"
_REPEATED = "write the text of the group again"
INSTEAD = {
    **dict.fromkeys(("(?=", "(?!", "(?<=", "(?<!"), _CONTEXT),
    **dict.fromkeys(("(?P", *(f"\\{number}" for number in range(1, 10))), _REPEATED),
    "\\Z": "write \\z",
}
"""Construct named in RE2's error → its replacement."""
_NAMES = re.compile(r"\(\?P?<(\w+)>")
_NO_MINIMUM = re.compile(r"\{,\d+\}")


class Match(Protocol):
    """The common part of the matches of ``re`` and RE2."""

    def __getitem__(self, group: int, /) -> Any:
        """Return the text of a group; 0: of the match."""

    def groupdict(self) -> dict[str, Any]:
        """Return the text of each named group, None where it takes no part."""


class Pattern(Protocol):
    """The common part of the compiled expressions of ``re`` and RE2."""

    @property
    def groupindex(self) -> Mapping[str, int]:
        """The number of each named group."""

    def search(self, text: str, /) -> Match | None:
        """Return the first match."""

    def finditer(self, text: str, /) -> Iterator[Match]:
        """Return all matches."""


def compile_expression(text: str) -> Pattern:
    """Compile an expression of a user.

    Raises :class:`InputError` where RE2 does not take it, or where it would mean something else
    than in Python.
    """
    import re2  # noqa: PLC0415 - no built-in benchmark declares an expression

    options = re2.Options()
    options.log_errors = False
    try:
        expression = re2.compile(text, options)
    except re2.error as error:
        problem = error.args[0].decode(errors="replace")
        replacement = INSTEAD.get(problem.rpartition(": ")[2])
        raise InputError(f"{problem}; {replacement}" if replacement else problem) from error
    names = _NAMES.findall(text)
    if len(names) > len(set(names)):
        raise InputError("two groups have the same name")
    if _NO_MINIMUM.search(text):
        raise InputError("{,n} has no minimum; write {0,n}")
    return cast("Pattern", expression)


def count_groups(text: str) -> int:
    """Return how many groups an expression has; raises as :func:`compile_expression`."""
    expression: Any = compile_expression(text)
    return int(expression.groups)
