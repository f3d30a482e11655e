"""Cases that somebody should look at, as their series mark them, and cases without a figure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from k8sbench.messages import Note, note
from k8sbench.model import times
from k8sbench.model.compared import CaseHistory, Compared, Comparison, Point, UnjudgedSets
from k8sbench.model.group import MissingIn, Result
from k8sbench.model.series import Alternation, Mark, Open
from k8sbench.results.report import formats, group_words, range_words

Kind = Literal["open", "changed", "missing", "invalid", "unjudged", "alternating", "closed", "back"]
"""Kind of a finding, in the order of a list.

``open``: a change downwards from which the case has not recovered. ``changed``: another change.
``missing``: newer sets lack the case, or it is open and not measured any more. ``invalid``: its
newest set has no valid figure. ``unjudged``: its newest set with a figure has none over the range
of the case. ``alternating``: it changes between two levels. ``closed``: what was open is over.
``back``: the set before its newest one differed once.
"""
ORDER: Mapping[Kind, int] = {
    "open": 0,
    "changed": 1,
    "missing": 2,
    "invalid": 3,
    "unjudged": 4,
    "alternating": 5,
    "closed": 6,
    "back": 7,
}
RECENT = 3
"""Newest sets whose steps and ends of open changes are listed: so many may confirm a step."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a case shows."""

    kind: Kind
    label: Note
    """The kind in words; of an invalid case, its state."""
    words: tuple[Note | str, ...] = ()
    """Kind of the change, or ids of the reasons, behind the label."""
    since: str = ""
    """Set that it begins with; empty without one."""
    change: float | None = None
    """Level ÷ the level before − 1; None without one."""
    sides: tuple[str, str] | None = None
    """Sets whose comparison shows it; None if they are not known."""


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """A case with its findings."""

    series: CaseHistory
    findings: tuple[Finding, ...]
    """One or more, by kind."""
    set_name: str
    """Newest set of the case."""
    compared: Compared | None = None
    """The case in the comparison of the newest two nights; None if it is in neither."""

    @property
    def change(self) -> float | None:
        """Change of the first finding that has one."""
        return next((one.change for one in self.findings if one.change is not None), None)


def noted(
    series: Sequence[CaseHistory], comparison: Comparison | None, results: Sequence[Result]
) -> list[Noted]:
    """Return the cases with findings; of one kind, the largest change first."""
    compared = {
        group.key.id: case
        for case in (comparison.cases if comparison else ())
        for side in (case.a, case.b)
        for group in (side.groups if side else ())
    }
    missing = {
        result.group.key.id: result.missing_in
        for result in results
        if result.missing_in is not None
    }
    listed: list[Noted] = []
    for one in series:
        ended = [point for point in one.points if point.group.state != "running"]
        ids = [point.group.key.id for point in reversed(ended)]
        lacking = next((missing[name] for name in ids if name in missing), None)
        if findings := [*_findings(one, ended, lacking)]:
            listed.append(
                Noted(
                    series=one,
                    findings=tuple(sorted(findings, key=lambda finding: ORDER[finding.kind])),
                    set_name=ended[-1].group.key.set_name,
                    compared=next((compared[name] for name in ids if name in compared), None),
                )
            )
    return sorted(listed, key=lambda it: (ORDER[it.findings[0].kind], -abs(it.change or 0.0)))


def _findings(
    one: CaseHistory, ended: Sequence[Point], lacking: MissingIn | None
) -> Iterator[Finding]:
    """Yield what a case shows."""
    if not ended:
        return
    if lacking is not None and lacking.gone and one.open is not None:
        yield _gone(one, one.open, lacking)
        return
    yield from _marked(one, [point for point in ended if point.group.spread is not None])
    if lacking is not None:
        newest = ended[-1].group.key.set_name
        yield Finding(
            kind="missing",
            label=note("found-missing"),
            since=lacking.since,
            sides=(newest, lacking.since),
        )
    yield from _invalid(ended)
    if one.unjudged is not None:
        yield _unjudged(one.unjudged)


def _marked(one: CaseHistory, known: Sequence[Point]) -> Iterator[Finding]:
    """Yield what the series of a case says of its newest sets with a figure."""
    if one.alternating is not None:
        yield _alternating(one, one.alternating)
        return
    if one.open is not None:
        yield _change("open", one, one.open, known)
        return
    recent = known[-RECENT:]
    closed = next((point.closed for point in reversed(recent) if point.closed is not None), None)
    if closed is not None:
        by_person = closed.by == "person"
        yield Finding(
            kind="closed",
            label=note("found-accepted" if by_person else "found-recovered"),
            words=(times.minute(closed.at), note("found-was-open", set=closed.since)),
            since=closed.since,
            sides=_sides(one, closed.since),
        )
        return
    marks = [point.mark for point in recent[:-1] if point.mark and point.mark.kind == "step"]
    marks += [point.mark for point in recent[-1:] if point.mark and point.mark.kind != "once"]
    if marks and marks[-1].is_change:
        yield _change("changed", one, marks[-1], known)
    elif marks:
        mark = marks[-1]
        words = (note("found-in", change=formats.signed_percent(mark.change), set=mark.since),)
        sides = _sides(one, mark.since, newest=mark.since)
        yield Finding(
            kind="back", label=group_words.BACK, words=words, since=mark.since, sides=sides
        )


def _change(kind: Kind, one: CaseHistory, change: Open | Mark, known: Sequence[Point]) -> Finding:
    """Return an open change, or one that a set shows, with what its marks say of it."""
    marks = [
        (point.group.key.set_name, point.mark)
        for point in known
        if point.mark is not None and point.mark.is_change and point.mark.since == change.since
    ]
    words: list[Note | str] = [note(f"found-{change.kind}")]
    name, mark = marks[-1] if marks else (change.since, None)
    if change.kind == "drift" and name != change.since:
        words.append(note("found-in-course", set=change.since, until=name))
    if mark is not None and mark.together:
        words.append(note("found-together", cases=mark.together))
    return Finding(
        kind=kind,
        label=note(f"found-{kind}"),
        words=tuple(words),
        since=change.since,
        change=change.change,
        sides=_sides(one, change.since),
    )


def _sides(one: CaseHistory, since: str, newest: str | None = None) -> tuple[str, str] | None:
    """Return the last set of a case before another one, and its newest; None without the first."""
    names = [point.group.key.set_name for point in one.points if point.group.spread is not None]
    place = names.index(since) if since in names else 0
    return (names[place - 1], newest or names[-1]) if place else None


def _alternating(one: CaseHistory, levels: Alternation) -> Finding:
    low, high = map(formats.rate, group_words.levels(levels).values())
    apart = formats.percent(math.expm1(levels.high - levels.low))
    return Finding(
        kind="alternating",
        label=note("mark-alternating"),
        words=(
            note("found-between", low=low, high=high, unit=one.group.unit),
            note("found-apart", apart=apart),
        ),
    )


def _gone(one: CaseHistory, still: Open, lacking: MissingIn) -> Finding:
    """Return an open case that is not measured any more."""
    name = one.points[-1].group.key.set_name
    change = formats.signed_percent(still.change)
    return Finding(
        kind="missing",
        label=note("not-measured-figure"),
        words=(note("found-open-since", set=name, change=change, since=still.since),),
        since=still.since,
        change=still.change,
        sides=(name, lacking.since),
    )


def _invalid(ended: Sequence[Point]) -> Iterator[Finding]:
    """Yield a case whose newest set is not valid."""
    group = ended[-1].group
    if group.state == "valid":
        return
    streak = itertools.takewhile(lambda point: point.group.state != "valid", reversed(ended))
    *_, first = streak
    yield Finding(
        kind="invalid",
        label=group_words.state_of(group.state),
        words=tuple(group.ids("reject")),
        since=first.group.key.set_name,
    )


def _unjudged(sets: UnjudgedSets) -> Finding:
    """Return a case whose newest sets have no figure over its range."""
    first, newest = sets.groups[0], sets.groups[-1]
    why = None if newest.range is None else range_words.unjudged(newest, newest.range)
    return Finding(
        kind="unjudged",
        label=note("found-not-judged"),
        words=() if why is None else (why,),
        since=first.key.set_name,
    )
