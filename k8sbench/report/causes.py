"""Likely causes of a comparison's changes, in sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from k8sbench.model.compared import Cause, Comparison, Difference
from k8sbench.model.errors import few
from k8sbench.model.plain_text import clean
from k8sbench.report import formats
from k8sbench.report.tables import escaped, wrapped

MOST = 5
"""Causes that are printed."""
MOST_FACTS = 4
"""Facts of a cause that are printed, and cases that are named."""
LONGEST = 60
"""Characters of a value that are printed."""


def text(compared: Comparison, names: Sequence[str], width: int) -> str:
    """Write the causes, likeliest first; ``names`` are those of the cases."""
    lines = []
    for head, sentences in _paragraphs(compared, names):
        lines += ["", wrapped(head, width, indent="  ")]
        for number, sentence in enumerate(sentences, 1):
            lines.append(wrapped(clean(f"{number}. {sentence}"), width, indent="   "))
    return "".join(f"{line}\n" for line in lines)


def markdown(compared: Comparison, names: Sequence[str]) -> list[str]:
    """Write the same as paragraphs and numbered lists of Markdown."""
    parts = []
    for head, sentences in _paragraphs(compared, names):
        parts.append(f"{escaped(head)}\n")
        numbered = (f"{number}. {escaped(line)}" for number, line in enumerate(sentences, 1))
        parts += ["".join(f"{line}\n" for line in numbered)] if sentences else []
    return parts


def fields(cause: Cause, names: Sequence[str]) -> dict[str, Any]:
    """Build the fields of one cause for ``-o json``."""
    return {
        "explains": cause.explains,
        "sets": list(cause.sets),
        "facts": [msgspec.structs.asdict(fact) for fact in cause.facts],
        "cases": [names[place] for place in cause.cases],
        "unchanged": [names[place] for place in cause.others],
    }


def _paragraphs(compared: Comparison, names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return headings, each with a sentence for each of its causes."""
    found = []
    kinds = dict.fromkeys(case.finding for case in compared.cases)
    for explains in ("slower", "faster", None):
        its = [cause for cause in compared.causes if cause.explains == explains]
        count = sum(case.finding == explains for case in compared.cases)
        if its:
            lines = [_sentence(cause, compared, names) for cause in its[:MOST]]
            more = [f"{len(its) - MOST} more: -o json."] if len(its) > MOST else []
            found.append((_heading(its[0], compared), lines + more))
        elif explains in kinds:
            cases = "the case is" if count == 1 else f"{count} cases are"
            found.append((f"Nothing that the runs report tells why {cases} {explains}.", []))
    return found


def _heading(cause: Cause, compared: Comparison) -> str:
    if cause.explains is None:
        return "What differs besides the figures:"
    a, b = cause.sets
    since = "" if cause.sets == (compared.a, compared.b) else f" from {a} to {b}"
    changed = sum(case.finding == cause.explains for case in compared.cases)
    cases = "case" if changed == 1 else "cases"
    return f"What changed{since} in the {cause.explains} {cases}, likeliest first:"


def _sentence(cause: Cause, compared: Comparison, names: Sequence[str]) -> str:
    by_name: dict[str, list[Difference]] = {}
    for fact in cause.facts:
        by_name.setdefault(fact.name, []).append(fact)
    told = few([_fact(values) for values in by_name.values()], MOST_FACTS)
    apart = " (cannot be told apart)" if len(by_name) > 1 and cause.facts[0].kind != "gpu" else ""
    return f"{told}{apart}: {_where(cause, compared, names)}."


def _where(cause: Cause, compared: Comparison, names: Sequence[str]) -> str:
    """Say in which cases the facts differ."""
    its = few([names[place] for place in cause.cases], MOST_FACTS)
    if cause.explains is None:
        both = sum(case.a is not None and case.b is not None for case in compared.cases)
        return "in all cases" if len(cause.cases) == both else f"in {its}"
    findings = [case.finding for case in compared.cases]
    changed = findings.count(cause.explains)
    others = findings.count("no-difference")
    if len(cause.cases) < changed:
        text = f"in {len(cause.cases)} of the {changed} {cause.explains} cases ({its})"
    else:
        text = f"in {'the' if changed == 1 else f'all {changed}'} {cause.explains} "
        text += "case" if changed == 1 else "cases"
    if cause.others:
        return f"{text}, but in {len(cause.others)} of the {others} unchanged, too"
    if others:
        return f"{text}, in none of the {others} unchanged"
    return text


def _fact(values: Sequence[Difference]) -> str:
    """Write a fact with its values: ``driver 550.54 → 555.42``."""
    first = values[0]
    changes = [value.change for value in values if value.change is not None]
    if first.name == "node":
        come = sorted({name for value in values for name in (value.b or "").split(", ")})
        return f"{'node' if len(come) == 1 else 'nodes'} {few(come, MOST_FACTS)}"
    if len(values) > 1 and len(changes) == len(values):
        return f"{first.name} {formats.signed_range(min(changes), max(changes), ' to ')}"
    change = f" ({formats.signed_percent(changes[0])})" if changes else ""
    pairs = [f"{_value(value.a)} → {_value(value.b)}" for value in values]
    more = f" and {len(pairs) - 2} more" if len(pairs) > 2 else ""
    return f"{first.name} {' and '.join(pairs[:2])}{more}{change if len(pairs) == 1 else ''}"


def _value(text: str | None) -> str:
    """Shorten digests and long texts."""
    if text is None:
        return "none"
    text = re.sub(r"\b((?:sha256:)?[0-9a-f]{12})[0-9a-f]{20,}\b", r"\1", text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
