"""Expressions that match similar lines, with a group for each number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_TOKENS = re.compile(r"(?s)(?P<space>(?:\\[ \t\n\f\r])+)|(?P<number>\d(?:\\\.|\d)*)|\\?.")
"""Parts of an escaped text."""


class Group(NamedTuple):
    """A part of a line that an expression reads."""

    begin: int
    end: int
    pattern: str
    label: str = ""
    """Text right before it, which tells its place."""


def quoted(text: str) -> str:
    """Quote a text for YAML."""
    return "'" + text.replace("'", "''") + "'"


def literal(text: str) -> str:
    """Escape a text whose numbers and spaces may differ."""

    def written(token: re.Match[str]) -> str:
        if token["space"] or token["number"]:
            return r"\s*" if token["space"] else r"[\d.]+"
        return token[0] if token[0].isprintable() else "."  # YAML has no control characters

    return _TOKENS.sub(written, re.escape(text))


def number_pattern(texts: Sequence[str], behind: str = "") -> str:
    """Return an expression for numbers like these; ``behind`` may hold their K or M."""
    if any(":" in text for text in texts):
        return r"(?:\d+ days?,? )?[\d:.]+"
    if any(not re.search(r"\d", text) for text in texts):
        return r"[-+.\w]+"
    comma = "," if any("," in text for text in texts) else ""
    power = r"(?:[eE][-+]?\d+)?" if any("e" in text.lower() for text in texts) else ""
    prefix = " ?[kKMG]?" if re.match(r" ?[kKMG](?!\w)", behind) else ""
    return rf"[-+]?[\d.{comma}]+{power}{prefix}"


def expression(line: str, groups: Sequence[Group]) -> str:
    """Write an expression for lines like this one: its groups in their order."""
    written = ""
    at = 0
    for group in groups:
        gap = line[at : group.begin]
        if not re.search(r"\d", gap):
            written += ("" if at else "^") + literal(gap)
        else:
            words = re.split(r"\d", gap)[-1]
            label = gap[gap.rindex(group.label) :] if group.label in gap else words
            written += (".*?" if at else "") + literal(max(words, label, key=len))
        written += f"({group.pattern})"
        at = group.end + _prefix_length(line[group.end :], group.pattern)
    return written


def _prefix_length(behind: str, pattern: str) -> int:
    """Return the length of the K or M that a pattern takes."""
    prefix = re.match(r" ?[kKMG](?!\w)", behind) if pattern.endswith("[kKMG]?") else None
    return prefix.end() if prefix else 0
