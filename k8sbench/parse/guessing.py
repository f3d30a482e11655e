"""Guesses a log's format from its most frequent line."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from k8sbench.model.plain_text import clean
from k8sbench.parse.declared import MAX_LINE
from k8sbench.parse.lines import ended, pieces

FIRST_LINES = 100_000
"""Lines that are read."""
FEWEST = 5
"""Similar lines that make a training line."""
_NUMBER = r"(?<![\d.,])(?P<{}>\d++(?:\.\d++)?+(?:e[-+]?\d++)?+)"
_RATE, _SECONDS, _LOSS = map(_NUMBER.format, ("rate", "step_seconds", "loss"))
_PER_SECOND = r"(?:/ ?|[_ ]per[_ ])s(?:ec(?:ond)?)?\b"
NAMED = (
    r"\bepoch\W{0,4}(?P<epoch>\d{1,6})(?![\d.])",
    r"\b(?P<epoch>\d{1,6})\]? *\[ *(?P<iteration>\d{1,12})/(?P<total>\d{1,12})(?!\d)",
    r"(?<![\d/.])(?P<iteration>\d{1,12}) ?/ ?(?P<total>\d{1,12})(?![\d/.]| \d\d:)",
    r"\b(?:step|iter|iteration|it|batch)\W{0,4}(?P<iteration>\d{1,12})(?![\d.])",
    rf"{_RATE} ?\w{{0,15}}{_PER_SECOND}",
    rf"(?:{_PER_SECOND}|\b(?:ips|qps|throughput|speed))\W{{0,4}}{_RATE}",
    rf"(?:time|cost|elapsed)\W{{0,4}}{_SECONDS}(?! ?ms)",
    rf"\bloss\W{{0,4}}{_LOSS}",
)
"""Expressions for each group, by the words near its number; the first match counts."""
UNITS = {"im": "images", "tok": "tokens", "seq": "sequences", "clip": "clips"}
"""Beginning of the word before "per second" → unit; default: samples."""
UNITS |= dict.fromkeys(("step", "it", "batch"), "steps")
_UNIT = re.compile(rf"(?<![a-z])({'|'.join(UNITS)})[a-z]*{_PER_SECOND}", re.IGNORECASE)
_OTHER = re.compile(r"\b(?:test|val|eval)|%\|", re.IGNORECASE)
"""Evaluations, and progress bars with their smoothed rates."""
_BATCH = re.compile(r"(?i)\bbatch[ _-]?size\D{0,20}([1-9]\d{0,5})\b")
Spans = dict[str, tuple[int, int]]
"""Group → begin and end of its number in a line."""


def first_lines(blocks: Iterable[str]) -> list[str]:
    """Return the first lines of logs as their readers see them."""
    every = (line for block in blocks for line in ended(block))
    some = (line.rstrip("\r\n") for line in itertools.islice(every, FIRST_LINES))
    return [piece.text[:MAX_LINE] for line in some for piece in pieces(line)]


def guess(lines: Sequence[str]) -> dict[str, str | int] | None:
    """Return values for the template of a benchmark file.

    They describe the most frequent line that can be a training line, else the rarest line that can
    be a summary. None: the log has neither.
    """
    kinds = defaultdict[str, list[str]](list)
    for line in lines:
        kinds[re.sub(r"[\d. ]+", "0", line)].append(line)
    often = sorted((kind for kind in kinds.values() if not _OTHER.search(kind[0])), key=len)
    frequent = [alike for alike in often[::-1] if len(alike) >= FEWEST]
    rare = often[: len(often) - len(frequent)]
    for is_training, likely in ((True, frequent), (False, rare)):
        for alike in likely:
            spans = _spans(alike[0])
            if ("iteration" in spans) == is_training and {"rate", "step_seconds"} & spans.keys():
                batch = _BATCH.search("\n".join(lines))
                return _values(alike, spans) | {"batch": batch[1] if batch else 1}
    return None


def _spans(line: str) -> Spans:
    found: Spans = {}
    for pattern in NAMED:
        for match in re.finditer(pattern, line, re.IGNORECASE):
            spans = {name: match.span(name) for name in match.groupdict()}
            own, taken = (
                {place for span in each.values() for place in range(*span)}
                for each in (spans, found)
            )
            if not (taken & own or found.keys() & spans.keys()):
                found |= spans
    if "rate" in found:
        found.pop("step_seconds", None)
    return found


def _values(lines: list[str], spans: Spans) -> dict[str, str | int]:
    line, expression = lines[0], _expression(lines[0], spans)
    begin, end = spans.get("rate") or spans["step_seconds"]
    near = _UNIT.search(line[max(begin - 25, 0) : end + 20])
    unit = UNITS[near[1].lower()] if near else "samples"
    # As many programs print a meter: that step, and the mean in brackets.
    single = re.match(r"\S{0,4} *\( *\d", line[end:]) is not None
    found = [m.groupdict() for each in lines[:2] if (m := re.search(expression, each))]
    first, second = (int(each.get("iteration", 1)) for each in (found[0], found[-1]))
    every = max(second - first, 1)
    return {
        "line": clean(line),
        "key": "record" if "iteration" in spans else "summary",
        "expression": expression.replace("'", "''"),
        "unit": f"{unit}/s" if "rate" in spans else "s/step",
        "sample": "samples" if unit == "steps" else unit,
        "averaged": "step" if single else "interval",
        "first": min(first, 1),
        "every": every,
        "warmup": every * (len(lines) // 4),
        "iterations": max((1 if single else every) * (len(lines) // 2), 1),
    }


def _expression(line: str, spans: Spans) -> str:
    """Write an expression: each group, after the word before it."""
    made, at = "", 0
    for (begin, end), name in sorted((span, name) for name, span in spans.items()):
        text = line[at:begin]
        word = re.findall(r"\w*\W*$", text)[0]
        if not (at or re.search(r"\d", text)):
            made, word = "^", text
        made += ".*?" * (at > 0 and word != text) + _literal(word)
        form = r"\d+" if name in {"epoch", "iteration", "total"} else r"[-+.\w]+"
        made += rf"\s*(?P<{name}>{form})"
        at = end
    return made + _literal(re.findall(r"^ ?[\w/]*", line[at:])[0])


def _literal(text: str) -> str:
    """Escape a text whose numbers and spaces may differ."""
    escaped = re.sub(r"(?:\\\s)+", r"\\s*", re.escape(text.rstrip()))
    return re.sub(r"(?:\\\.|\d)+", r"[\\d.]+", escaped)
