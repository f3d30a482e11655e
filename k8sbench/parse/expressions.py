"""The expressions of a declared format on a log: which lines they match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from k8sbench.model.explanation import ExpressionExplained, MatchedLine
from k8sbench.model.sample import Place
from k8sbench.model.spec import LogFormat
from k8sbench.parse.cleaning import pieces
from k8sbench.parse.declared import MAX_LINE, stated
from k8sbench.parse.lines import ended
from k8sbench.parse.records import number_in

SHOWN = 3
"""Lines of each expression that are shown."""
Quote = Callable[[int, str], Place]
"""Makes a place of a line's number and its text, which it redacts."""


def explain(
    blocks: Iterable[str], formats: Mapping[LogFormat, str], quote: Quote
) -> tuple[int, tuple[ExpressionExplained, ...]]:
    """Try every line on every expression, as the reader of the format does.

    ``formats`` has the variants of each. Returns how many lines there are, and what matches.
    """
    tried = [
        ExpressionExplained(variant=variant, name=name, pattern=pattern)
        for declared, variant in formats.items()
        for name, pattern in _patterns(declared)
    ]
    whole, rest = 0, ""
    for block in blocks:
        for line in ended(block):
            rest = line.rstrip("\n")
            for _, text in pieces(rest):
                for expression in tried:
                    _take(expression, whole + 1, text[:MAX_LINE], quote)
            if len(rest) < len(line):
                whole, rest = whole + 1, ""
    return whole + bool(rest), tuple(tried)


def _patterns(declared: LogFormat) -> list[tuple[str, str]]:
    """Give the expressions of a declared format, with the names of their keys."""
    facts = [(f"facts[{index}]", text) for index, text in enumerate(declared.facts)]
    named = [("record", declared.record), ("summary", declared.summary), *facts]
    return [(name, text) for name, text in named if text is not None]


def _take(expression: ExpressionExplained, number: int, text: str, quote: Quote) -> None:
    match = re.search(expression.pattern, text)
    if match is None:
        return
    groups = {name: value for name, value in match.groupdict().items() if value is not None}
    unread = tuple(name for name, value in groups.items() if not _reads(expression, name, value))
    expression.matched += 1
    expression.unread += bool(unread)
    if len(expression.lines) < SHOWN:
        shown = {name: quote(number, value).text for name, value in groups.items()}
        line = MatchedLine(place=quote(number, text), groups=shown, unread=unread)
        expression.lines.append(line)


def _reads(expression: ExpressionExplained, name: str, text: str) -> bool:
    if expression.name.startswith("facts"):
        return bool(stated(name, text))
    return name == "stamp" or number_in(text) is not None
