"""Expressions that match similar lines, with a group for each chosen column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from k8sbench.model.notation import Match, compile_expression
from k8sbench.reader.guess.stamps import Stamp
from k8sbench.reader.number_columns import NumberColumn

_Group = tuple[str, NumberColumn | Stamp]
"""Name of a group, and its place."""
_COUNTS = {"epoch", "iteration", "total", "steps", "step_samples", "all_samples"}
"""Groups of whole numbers."""


def quoted(text: str) -> str:
    """Quote a text for YAML."""
    return "'" + text.replace("'", "''") + "'"


def written(lines: Sequence[str], columns: Mapping[str, NumberColumn], stamp: Stamp | None) -> str:
    """Write an expression: each group, after as many words as tell its place."""
    groups: list[_Group] = [*columns.items()]
    if stamp:
        groups.append(("stamp", stamp))
    groups.sort(key=lambda group: group[1].begin)
    expression = ""
    for words in range(1, 6):
        expression = _write_expression(lines[0], groups, words)
        found = compile_expression(expression)
        if all(_fits(found.search(line), dict(groups), n) for n, line in enumerate(lines)):
            break
    return expression


def _fits(match: Match | None, groups: Mapping[str, NumberColumn | Stamp], line: int) -> bool:
    """True if a match has the texts of the columns."""
    texts = match.groupdict() if match else {}
    wanted = {name: each.texts for name, each in groups.items() if line < len(each.texts)}
    return match is not None and all(
        texts[name].startswith(each[line]) if name == "rate" else texts[name] == each[line]
        for name, each in wanted.items()
    )


def _write_expression(line: str, groups: Sequence[_Group], words: int) -> str:
    made, at = "", 0
    for name, group in groups:
        text = line[at : group.begin]
        word = re.findall(rf"(?:\w+\W+){{0,{words - 1}}}\w*\W*$", text)[0]
        if isinstance(group, NumberColumn) and group.label in text.lower():
            word = max(word, text[text.lower().rindex(group.label) :], key=len)
        if not (at or re.search(r"\d", text)):
            made, word = "^", text
        if at > 0 and word != text:
            made += ".*?"
        if re.search(rf"[^\w]{re.escape(word)}$", text) and re.match("[A-Za-z]", word):
            made += r"\b"
        made += rf"{_literal(word)}\s*(?P<{name}>{_form(name, group)})"
        at = group.end + (len(many(group)) if name == "rate" else 0)
    return made + _literal(
        re.findall(r"^ ?[\w/]*", line[at:])[0] if groups[-1][0] != "stamp" else ""
    )


def many(column: NumberColumn | Stamp) -> str:
    """Return the K or M behind a rate."""
    found = isinstance(column, NumberColumn) and re.match(r" ?[kKMG](?!\w)", column.behind)
    return found[0] if found else ""


def _form(name: str, group: NumberColumn | Stamp) -> str:
    """Write what the text of a group looks like."""
    if isinstance(group, Stamp):
        return group.pattern
    if name == "loss":
        return r"[-+.\w]+"
    comma = "," if any("," in text for text in group.texts) else ""
    if any(":" in text for text in group.texts):
        return r"(?:\d+ days?,? )?[\d:.]+"
    if name in _COUNTS and not any("." in text for text in group.texts):
        return rf"[\d{comma}]+" if comma else r"\d+"
    power = (
        r"(?:[eE][-+]?\d+)?" if any(re.search("e", t, re.IGNORECASE) for t in group.texts) else ""
    )
    prefix = " ?[kKMG]?" if name == "rate" and many(group) else ""
    return rf"[\d.{comma}]+{power}{prefix}"


_TOKENS = re.compile(r"(?s)(?P<space>(?:\\[ \t\n\f\r])+)|(?P<number>(?:\\\.|\d)+)|\\?.")
"""Parts of an escaped text."""


def _literal(text: str) -> str:
    """Escape a text whose numbers and spaces may differ."""

    def written(token: re.Match[str]) -> str:
        if token["space"] or token["number"]:
            return r"\s*" if token["space"] else r"[\d.]+"
        return token[0] if token[0].isprintable() else "."  # YAML has no control characters

    return _TOKENS.sub(written, re.escape(text.rstrip(" \t\n\f\r")))
