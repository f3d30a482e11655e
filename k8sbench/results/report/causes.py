"""Likely causes of a comparison's changes, in sentences; of open changes in Chinese, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from k8sbench import messages
from k8sbench.messages import Arg, Lang, Member, Note, and_list, few, note
from k8sbench.model import titles
from k8sbench.model.compared import Cause, Comparison, Difference, OpenBegin
from k8sbench.model.plain_text import clean, short_digests
from k8sbench.results.report import formats, words
from k8sbench.results.report.noted_tables import escaped
from k8sbench.results.report.tables import wrapped

MOST = 5
"""Causes that are printed."""
MOST_FACTS = 4
"""Facts of a cause that are printed, and cases that are named."""
MOST_PAIRS = 2
"""Changes of one fact that are printed."""
LONGEST = 60
"""Characters of a value that are printed."""
MOST_OF_BEGIN = 3
"""Causes of a begin of open changes that are printed."""


def text(compared: Comparison, names: Sequence[str], width: int | None) -> str:
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


def of_begin(
    begin: OpenBegin, names: Sequence[str], lang: Lang, dates: Mapping[str, str]
) -> tuple[str, list[str]]:
    """Write which open changes began in a set, and their causes, likeliest first.

    ``dates`` are those of the sets, by their names.
    """
    compared = begin.compared
    its = [
        name for name, case in zip(names, compared.cases, strict=True) if case.finding == "slower"
    ]
    sets = {
        side: f"{name} ({dates[name]})" if name in dates else name
        for side, name in (("a", compared.a), ("b", compared.b))
    }
    cases = few(its, MOST_FACTS)
    if not compared.causes:
        return words.say(lang, "begin_unexplained", cases=cases, **sets), []
    number = begin.left_out
    left_out = words.say(lang, "begin_left_out", number=number) if number else ""
    head = words.say(lang, "begin", cases=cases, left_out=left_out, **sets)
    shown = compared.causes[:MOST_OF_BEGIN]
    return head, [_sentence(cause, compared, names, lang) for cause in shown]


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


def _sentence(cause: Cause, compared: Comparison, names: Sequence[str], lang: Lang = "en") -> str:
    by_name: dict[str, list[Difference]] = {}
    for fact in cause.facts:
        by_name.setdefault(fact.name, []).append(fact)
    facts = few([_fact(values) for values in by_name.values()], MOST_FACTS)
    is_joint = len(by_name) > 1 and cause.facts[0].kind != "gpu"
    where = tuple(_where(cause, compared, names))
    return messages.text(
        lang, note("cause-joint" if is_joint else "cause", facts=facts, where=where)
    )


def _where(cause: Cause, compared: Comparison, names: Sequence[str]) -> Iterator[Note]:
    """Yield in which cases the facts differ."""
    its = few([names[place] for place in cause.cases], MOST_FACTS)
    if cause.explains is None:
        both = sum(case.a is not None and case.b is not None for case in compared.cases)
        yield note("cause-in-all") if len(cause.cases) == both else note("cause-in", cases=its)
        return
    findings = [case.finding for case in compared.cases]
    changed = findings.count(cause.explains)
    others = findings.count("no-difference")
    kind = note(f"cases-{cause.explains}")
    if len(cause.cases) < changed:
        counts: dict[str, Arg] = {"number": len(cause.cases), "of": changed}
        yield note("cause-in-some", kind=kind, cases=its, **counts)
    elif changed == 1:
        yield note("cause-in-the-case", kind=kind)
    else:
        yield note("cause-in-all-cases", number=changed, kind=kind)
    if cause.others:
        yield note("cause-also-unchanged", number=len(cause.others), of=others)
    elif others:
        yield note("cause-in-no-unchanged", number=others)


def _fact(values: Sequence[Difference]) -> Note:
    """Write a fact with its values: ``driver 550.54 → 555.42``."""
    first = values[0]
    if first.name == "node":
        come = sorted({name for value in values for name in (value.b or "").split(", ")})
        return note("cause-nodes", number=len(come), names=few(come, MOST_FACTS))
    return note("with-fact", fact=titles.title(first.name), value=_change(values))


def _change(values: Sequence[Difference]) -> Arg:
    changes = [value.change for value in values if value.change is not None]
    if len(values) > 1 and len(changes) == len(values):
        return formats.signed_range(min(changes), max(changes))
    pairs = [note("cause-change", **{"from": _value(one.a), "to": _value(one.b)}) for one in values]
    if len(values) == 1 and changes:
        return note("in-brackets", what=pairs[0], more=formats.signed_percent(changes[0]))
    return and_list(pairs) if len(pairs) <= MOST_PAIRS else few(pairs, MOST_PAIRS)


def _value(text: str | None) -> Member:
    """Shorten digests and long texts."""
    if text is None:
        return note("no-options")
    text = short_digests(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
