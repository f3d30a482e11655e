"""A comparison: the answer, a line per changed case, one for the rest, and what may explain it.

Below the table, each reason stands once: what these runs can show, why a case has no ratio.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from k8sbench.model.compared import Compared, Comparison, Figures, NewCase, SinceBaseline
from k8sbench.model.errors import list_few
from k8sbench.model.group import Changed
from k8sbench.model.plain_text import ABSENT, clean, counted
from k8sbench.results.report import causes as cause_words
from k8sbench.results.report import formats, group_words, next_commands, range_words
from k8sbench.results.report import noted_tables as layouts
from k8sbench.results.report.compared_words import (
    DECIDES,
    case_names,
    counts_of_runs,
    interval,
    missing_names,
    rank,
    summary,
    verdict,
    without_ratio,
)
from k8sbench.results.report.noted_tables import Cell, Table
from k8sbench.results.report.tables import Column, Paint, wrapped
from k8sbench.results.report.words import english

MOST_NAMED = 3
"""Cases that a line below the table names."""
CHANGED_ALIKE = 0.01
"""Difference up to which the ratios of new cases are alike, and share a line."""


def text(compared: Comparison, *, width: int | None = None, paint: Paint | None = None) -> str:
    """Write the answer and the tables as plain text; ``width`` None has no limit."""
    answer = wrapped(clean(summary(compared)), width, indent="  ")
    if len(compared.nights) == 1:
        return f"{answer}\n"
    names = case_names(compared)
    a, b = _side_names(compared)
    head = f"A: {a}   B: {b}"
    made = layouts.text([table(compared, is_short=True)], width=width, paint=paint)
    why = cause_words.text(compared, names, width)
    to_type = "".join(
        f"\n{wrapped(clean(f'{purpose}:'), width, indent='  ')}\n  {clean(command)}\n"
        for purpose, command in next_commands.of_nights(compared, names)
    )
    return f"{head}\n{answer}\n\n{made}{why}{to_type}"


def _side_names(compared: Comparison) -> list[str]:
    """Write what the two sides are; a night with its day."""
    names = [compared.a, compared.b]
    if compared.nights:
        with_days = zip(names, compared.nights, strict=True)
        names = [name if day in name else f"{name} of {day} (UTC)" for name, day in with_days]
    return [clean(name) for name in names]


def markdown(compared: Comparison) -> str:
    """Write the answer, the table and the causes as GitHub's Markdown."""
    if len(compared.nights) == 1:
        return f"{layouts.escaped(summary(compared))}\n"
    a, b = _side_names(compared)
    head = f"A: {a}, B: {b}. {clean(summary(compared))}"
    why = cause_words.markdown(compared, case_names(compared))
    to_type = _next_list(compared)
    return "\n".join([f"{head}\n", layouts.markdown([table(compared)]), *why, *to_type])


def _next_list(compared: Comparison) -> list[str]:
    """Write the commands to type next as a list of Markdown; empty without any."""
    found = next_commands.of_nights(compared, case_names(compared))
    lines = (f"- {layouts.escaped(purpose)}: `{clean(command)}`\n" for purpose, command in found)
    return ["".join(lines)] if found else []


def github(compared: Comparison) -> str:
    """Write a comment for a pull request: the changes, and the whole table folded."""
    if len(compared.nights) == 1:
        return markdown(compared)
    head = table(compared)
    changed = [case.finding in ("faster", "slower") for case in sorted(compared.cases, key=rank)]
    rows = tuple(itertools.compress(head.rows, changed))
    short = layouts.markdown([msgspec.structs.replace(head, rows=rows, notes=())])
    quiet = [case for case in compared.cases if case.finding == "no-difference"]
    parts = [
        f"**{layouts.escaped(' → '.join(_side_names(compared)))}**: "
        + layouts.escaped(summary(compared, advises=False)),
        short.strip(),
        *_quiet_line(quiet, "below are all"),
        *(part.strip() for part in cause_words.markdown(compared, case_names(compared))),
        *(part.strip() for part in _next_list(compared)),
        f"<details><summary>{counted(len(compared.cases), 'case')}</summary>",
        layouts.markdown([head]).strip(),
        "</details>",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def table(compared: Comparison, *, is_short: bool = False) -> Table:
    """Lay out the cases, changed ones first.

    ``is_short``: one line stands for all cases without a change.
    """
    names = case_names(compared)
    ranked = sorted(zip(compared.cases, names, strict=True), key=lambda one: rank(one[0]))
    loud = [
        one for one in ranked if not (is_short and one[0].finding == "no-difference")
    ] or ranked[:1]
    quiet = [case for case, name in ranked if (case, name) not in loud]
    units = [*group_words.units(case.group for case in compared.cases)]
    unit = f" {units[0]}" if len(units) == 1 else ""
    titles = ("case", f"A{unit}", f"B{unit}", "change", "interval", "verdict")
    return Table(
        title=None,
        columns=tuple(
            Column(
                title,
                right=0 < n < 5,
                whole=True,
                stays=True,
                tells_apart=title == "case",
                optional=title == "interval",
                states=title == "verdict",
            )
            for n, title in enumerate(titles)
        ),
        rows=tuple(_row(case, name) for case, name in loud),
        notes=(*_quiet_line(quiet, "-o markdown lists all"), *_notes(compared, names)),
        complete="-o markdown",
    )


def _quiet_line(quiet: Sequence[Compared], where: str) -> list[str]:
    """Write the line for the cases without a change."""
    changes = [case.ratio - 1 for case in quiet if case.ratio is not None]
    if not changes:
        return []
    count = counted(len(quiet), "more case", ("differs", "differ"))
    between = formats.signed_range(min(changes), max(changes), " to ")
    return [f"{count} by {between}, within usual variation; {where}."]


def _row(case: Compared, name: str) -> tuple[Cell, ...]:
    # The verdict says why there is no ratio.
    ratio = ABSENT if case.ratio is None else formats.signed_percent(case.ratio - 1)
    cells = (name, _figure(case.a), _figure(case.b), ratio, interval(case), verdict(case))
    return tuple(map(Cell, cells))


def _figure(side: Figures | None) -> str:
    if side is None:
        return ABSENT
    if side.spread is None:
        return side.groups[-1].state
    spread = ABSENT if side.spread.cv is None else formats.percent(side.spread.cv)
    return f"{formats.rate(side.spread.median)} ±{spread}"


def _notes(compared: Comparison, names: Sequence[str]) -> list[str]:
    """Write the notes below the table, each cause once."""
    sides = [side for case in compared.cases for side in (case.a, case.b) if side is not None]
    by = ", ".join(sorted({side.estimator for side in sides if side.values}))
    lines = [f"A, B: median ±coefficient of variation of the runs, by {by}."] if by else []
    units = group_words.units(case.group for case in compared.cases)
    listed = "; ".join(map(english, units.values()))
    lines += [f"Units: {listed}."] if len(units) > 1 else []
    lines += _abilities(compared, names)
    lines += _over_time(compared, names)
    lines += _new_cases(compared, names)
    lines += _since_baselines(compared, names)
    lines += _missing(compared)
    lines += map(english, dict.fromkeys(filter(None, map(range_words.compared, compared.cases))))
    causes: dict[str, list[str]] = {}
    for case, name in zip(compared.cases, names, strict=True):
        for cause in _causes(case, compared.floor):
            causes.setdefault(cause, []).append(name)
    lines += [
        cause if len(its) == len(names) else f"{list_few(its, MOST_NAMED)}: {cause}"
        for cause, its in causes.items()
    ]
    return lines


def _missing(compared: Comparison) -> Iterable[str]:
    """Yield a line for the missing cases that neither night has."""
    if compared.missing:
        named = zip(missing_names(compared), compared.missing, strict=True)
        cases = [f"{name} since {missing.since}" for name, (_, missing) in named]
        yield f"Missing in both nights: {list_few(cases, MOST_NAMED)}."


def _over_time(compared: Comparison, names: Sequence[str]) -> Iterable[str]:
    """Yield what the series of the cases say as of the newer side; equal changes share a line."""
    newer = "A" if compared.a_is_newer else "B"
    alike: dict[tuple[Changed, str], list[tuple[float, str]]] = {}
    for case, name in zip(compared.cases, names, strict=True):
        changed = case.changed
        if changed is None and case.open is not None:
            still = case.open
            changed = Changed(kind=still.kind, since=still.since, ratio=still.change)
        is_said = case.odd is not None and changed is not None and changed.kind == "back"
        if changed is not None and not is_said:
            side = case.a if compared.a_is_newer else case.b
            is_earlier = side is None or changed.since not in side.sets
            still_open = f", still open with {newer}" if case.open and is_earlier else ""
            shared = msgspec.structs.replace(changed, ratio=0.0, of_set=None)
            alike.setdefault((shared, still_open), []).append((changed.ratio, name))
    for (shared, still_open), its in alike.items():
        ratios = [ratio for ratio, _ in its]
        size = formats.signed_range(min(ratios), max(ratios), " to ")
        cases = list_few([name for _, name in its], MOST_NAMED)
        yield f"{cases}: {english(group_words.change(shared, size))}{still_open}."
    for case, name in zip(compared.cases, names, strict=True):
        if case.odd is not None:
            size = formats.signed_percent(case.odd.change)
            yield f"{name}: {size} in {case.odd.since} alone."
        if case.alternating is not None:
            yield f"{name} {english(group_words.alternation(case.alternating, case.group.unit))}."


def _new_cases(compared: Comparison, names: Sequence[str]) -> Iterable[str]:
    """Yield what is new of cases in the place of others; equal ones share a line."""
    alike: dict[tuple[object, ...], list[tuple[NewCase, str, str]]] = {}
    for case, name in zip(compared.cases, names, strict=True):
        if (new := case.new) is not None:
            # Without a ratio each has its own figures.
            key = (new.since, new.fields, name if new.ratio is None else "")
            alike.setdefault(key, []).append((new, name, case.group.unit))
    for its in itertools.chain.from_iterable(map(_apart, alike.values())):
        first, _, unit = its[0]
        ratios = [new.ratio for new, *_ in its if new.ratio is not None]
        size = ""
        if len(its) > 1 and not all(map(group_words.is_as_fast, ratios)):
            size = formats.signed_range(min(ratios) - 1, max(ratios) - 1, " to ")
        cases = list_few([name for _, name, _ in its], MOST_NAMED)
        yield f"{cases}: {english(group_words.new_case(first, unit, size))}."


def _apart(its: Sequence[tuple[NewCase, str, str]]) -> Iterator[list[tuple[NewCase, str, str]]]:
    """Divide new cases into those that change alike, the lowest ratios first."""
    alike: list[tuple[NewCase, str, str]] = []
    for one in sorted(its, key=lambda one: one[0].ratio or 0.0):
        if alike and (one[0].ratio or 0.0) - (alike[0][0].ratio or 0.0) > CHANGED_ALIKE:
            yield alike
            alike = []
        alike.append(one)
    yield alike


def _since_baselines(compared: Comparison, names: Sequence[str]) -> Iterable[str]:
    """Yield a line for each baseline: cases that changed since, and the range of the others."""
    by_name: dict[str, list[tuple[SinceBaseline, str]]] = {}
    for case, name in zip(compared.cases, names, strict=True):
        if case.since_baseline is not None:
            by_name.setdefault(case.since_baseline.name, []).append((case.since_baseline, name))
    for baseline, its in by_name.items():
        loud = [one for one in its if one[0].finding in ("faster", "slower")]
        loud.sort(key=lambda one: -abs(one[0].ratio - 1))
        parts = (
            [list_few([f"{name} {_since(one)}" for one, name in loud], MOST_NAMED)] if loud else []
        )
        changes = [one.ratio - 1 for one, name in its if (one, name) not in loud]
        if changes:
            count = f"{len(changes)} more " if loud else f"{counted(len(changes), 'case')} "
            between = formats.signed_range(min(changes), max(changes), " to ")
            parts.append(f"{count}{between}, no change shown")
        if len(compared.cases) == 1:
            one, _ = its[0]
            parts = [_since(one) + ("" if loud else ", no change shown")]
        yield f"Since baseline {baseline}: {'; '.join(parts)}."


def _since(one: SinceBaseline) -> str:
    change = formats.signed_percent(one.ratio - 1)
    if one.low is None or one.high is None:
        return change
    return f"{change} ({formats.signed_range(one.low, one.high, ' to ')})"


def _abilities(compared: Comparison, names: Sequence[str]) -> Iterable[str]:
    """Yield what the intervals are, and the least change that the runs can show."""
    known = [
        (c.least, n) for c, n in zip(compared.cases, names, strict=True) if c.least is not None
    ]
    if not known:
        return
    over = f" over all {len(known)} cases" if len(known) > 1 else ""
    sets = sorted({case.earlier_sets for case in compared.cases if case.earlier_sets is not None})
    counts = "–".join(map(str, dict.fromkeys((sets[0], sets[-1])))) if sets else ""
    spread = f", with the spread between {counts} earlier sets" if sets else ""
    yield f"Interval: of the change, at 95 %{over}{spread}."
    (least, one), (most, other) = min(known), max(known)
    first = formats.percent(least)
    last = formats.percent(most)
    some = first if first == last else f"{first} ({one}) to {last} ({other})"
    yield f"Least change that these runs can show: {some}."


def _causes(case: Compared, floor: float) -> Iterable[str]:
    """Yield the reasons of a case's verdict, and its allowed differences."""
    yield from without_ratio(case)
    yield from case.left_out
    if case.finding == "undecided":
        yield f"One run on a side has no spread ({counts_of_runs(case)}); use {DECIDES} on each."
    elif case.ratio is not None and case.earlier_sets is None:
        yield (
            "The store has fewer than four earlier sets, so the spread between days is not known:"
            f" only a change of {100 * floor:g} % or more counts (--floor)."
        )
    if case.finding not in ("faster", "slower"):
        # Of a case that changed they are among the causes.
        yield from map(english, case.notes)
