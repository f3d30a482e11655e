"""Commands to type next, after a comparison of the newest two nights, and for a case of the page.

After a comparison there is one for each kind of finding, of the case with the largest change.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from k8sbench.model.compared import Compared, Comparison, UnjudgedSets
from k8sbench.model.group import Group
from k8sbench.results.report import group_words
from k8sbench.results.report.attention import Noted


class NextCommand(NamedTuple):
    """A command, and what it is for."""

    purpose: str
    """Beginning of a sentence: ``To see tsm pytorch amp 1x8 over time``."""
    command: str


def of_nights(compared: Comparison, names: Sequence[str]) -> list[NextCommand]:
    """Return the commands to type next; ``names`` are those of the cases.

    None if the sides were named, or if the newest night shows nothing.
    """
    if len(compared.nights) < 2:
        return []
    ranked = sorted(
        zip(compared.cases, names, strict=True), key=lambda one: -abs((one[0].ratio or 1.0) - 1)
    )
    first: dict[str, NextCommand] = {}
    for case, name in ranked:
        for kind, found in _of_case(case, name, compared.b):
            first.setdefault(kind, found)
    return list(first.values())


def of_noted(noted: Noted) -> Iterator[str]:
    """Yield the commands to type next for a case of the page, the most useful first."""
    first, *_ = noted.findings
    group = noted.series.group
    if first.sides is not None:
        yield shlex.join(["k8sbench", "compare", *first.sides])
    if first.kind == "invalid":
        yield shlex.join(["k8sbench", "explain", group.key.id])
    if first.kind == "alternating":
        yield _history(group)
    still = noted.series.open
    if still is not None and still.kind != "unconfirmed":
        yield f"{_history(group)} --accept-level"
    # It is refused while a change is open.
    if noted.series.unjudged is not None:
        yield fixing_range(noted.series.unjudged) or _history(group)
    if run := _run_again(group):
        yield run


def fixing_range(sets: UnjudgedSets) -> str:
    """Return the command that fixes the range of a case anew; empty if its newest sets fix none."""
    return f"{_history(sets.groups[-1])} --range" if sets.has_other_range else ""


def _of_case(case: Compared, name: str, newest: str) -> Iterator[tuple[str, NextCommand]]:
    """Yield the commands for a case by their kinds."""
    a, b = case.a, case.b
    if a is not None and a.values and b is None and (run := _run_again(a.groups[-1])):
        yield "missing", NextCommand(f"To run {name}, which {newest} lacks", run)
    if a is not None and a.values and b is not None and not b.values:
        rejected = [member for group in b.groups for member in group.members if member.reasons]
        if rejected and not any(group.in_progress for group in b.groups):
            why = f"k8sbench explain {rejected[0].run_id}"
            yield "no-figure", NextCommand(f"To see why {name} has no figure", why)
    if case.finding not in ("faster", "slower") and case.open is None:
        return
    over_time = _history(case.group)
    yield "history", NextCommand(f"To see {name} over time", over_time)
    if case.alternating is not None:
        return
    if case.open is None or case.open.kind == "unconfirmed":
        if run := _run_again(case.group):
            yield "again", NextCommand(f"The next set of {name} decides. To run it now", run)
    else:
        accepting = f"{over_time} --accept-level"
        yield "accept", NextCommand(f"If the change of {name} is to stay", accepting)


def _run_again(group: Group) -> str:
    """Return the command that runs a case in a set of its own; empty for imported logs."""
    return group_words.command(group.planned, len(group.members))


def _history(group: Group) -> str:
    facts = group.facts
    words = ["k8sbench", "history", group.key.benchmark]
    for name, value in (
        ("framework", facts.framework),
        ("precision", facts.precision),
        ("case", facts.case),
    ):
        words += [] if value is None else [f"--{name}", value]
    return shlex.join(words)
