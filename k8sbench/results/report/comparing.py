"""A comparison: the answer, a line per changed case, one for the rest, and what may explain it.

Below the table, each reason stands once: what these runs can show, why a case has no ratio.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from k8sbench.messages import Note, note
from k8sbench.model.compared import Compared, Comparison, Figures, NewCase, SinceBaseline
from k8sbench.model.errors import list_few
from k8sbench.model.group import Changed, Group
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.plain_text import ABSENT, clean, counted
from k8sbench.results.report import causes as cause_words
from k8sbench.results.report import document as fields
from k8sbench.results.report import formats, group_words, next_commands, range_words
from k8sbench.results.report import noted_tables as layouts
from k8sbench.results.report.noted_tables import Cell, Table
from k8sbench.results.report.tables import Column, Paint, wrapped
from k8sbench.results.report.words import english

NO_DIFFERENCE = "~"
"""Sign of "no difference shown", as in benchstat."""
DECIDES = 3
"""Runs of a side that decide."""
MOST_NAMED = 3
"""Cases that a line below the table names."""
CHANGED_ALIKE = 0.01
"""Difference up to which the ratios of new cases are alike, and share a line."""


NOT_SHOWN = {
    "back": ("is back after one night", "are back after one night"),
    "no-difference": ("shows no change", "show no change"),
    "undecided": ("is undecided", "are undecided"),
    "no-figure": ("has no figure on a side", "have no figure on a side"),
    "not-comparable": ("is not comparable", "are not comparable"),
    "one-side": ("has no counterpart", "have no counterpart"),
}
"""Kind of a case without a change → its verb, singular and plural."""


# Words


def verdict(case: Compared) -> str:
    """Write the verdict of a case in one or two words."""
    if case.regression:
        return "REGRESSION"
    if case.finding == "one-side":
        return "only in B" if case.a is None else "only in A"
    words = {
        "back": "back after one night",
        "no-difference": NO_DIFFERENCE,
        "not-comparable": "not comparable",
    }
    return words.get(case.finding, case.finding)


def summary(compared: Comparison, *, advises: bool = True) -> str:
    """Summarize the comparison: number and names of changed cases, largest change.

    Without a decision, ``advises`` adds how to get one.
    """
    if len(compared.nights) == 1:
        return (
            f"The store has one night, {compared.nights[0]} (UTC): there is none before to compare"
            " it with."
        )
    names = case_names(compared)
    parts = []
    for words, cases in _kinds(compared).items():
        is_loud = cases[0][0].finding in ("faster", "slower")
        named = list_few([f"{name}{_change(case)}" for case, name in cases]) if is_loud else ""
        parts.append(f"{len(cases)} {words}" + (named and f": {named}"))
    first, _, rest = "; ".join(parts).partition(" ")
    return f"{first} of {counted(len(names), 'case')} {rest}.{_largest(compared, names, advises)}"


def counts(compared: Comparison) -> list[Note]:
    """Count the cases of each finding: ``1 slower``, ``3 show no change``."""
    kinds: dict[str, int] = {}
    for cases in _kinds(compared).values():
        case = cases[0][0]
        kind = "no-figure" if "no-figure" in case.not_comparable else case.finding
        name = f"count-{kind}{'-between' if _between(case) else ''}"
        kinds[name] = kinds.get(name, 0) + len(cases)
    return [note(name, number=number) for name, number in kinds.items()]


def changed(compared: Comparison) -> list[tuple[Compared, str]]:
    """List the changed cases with their names, the largest change first."""
    every = (one for cases in _kinds(compared).values() for one in cases)
    found = [one for one in every if one[0].finding in ("faster", "slower")]
    return sorted(found, key=lambda one: _rank(one[0]))


def _kinds(compared: Comparison) -> dict[str, list[tuple[Compared, str]]]:
    """Map the words of each kind → cases, names; changes first."""
    kinds: dict[str, list[tuple[Compared, str]]] = {}
    for case, name in zip(compared.cases, case_names(compared), strict=True):
        kinds.setdefault(_kind(case, compared), []).append((case, name))
    loud = sorted((kind for kind in kinds if kind not in NOT_SHOWN), reverse=True)
    quiet = {
        verbs[len(kinds[kind]) != 1]: kinds[kind]
        for kind, verbs in NOT_SHOWN.items()
        if kind in kinds
    }
    return {kind: kinds[kind] for kind in loud} | quiet


def _kind(case: Compared, compared: Comparison) -> str:
    """Return the kind of a case: a key of :data:`NOT_SHOWN`, or words."""
    if "no-figure" in case.not_comparable:
        return "no-figure"
    if case.finding not in ("faster", "slower"):
        return case.finding
    by = f" by more than {100 * (compared.limit or 0.0):g} %" if case.regression else ""
    return f"{case.finding}{by}{_between(case)}"


def _between(case: Compared) -> str:
    """Say that a verdict is of these sets alone, else nothing."""
    if case.earlier_sets is not None or case.finding not in ("faster", "slower"):
        return ""
    sides = [side for side in (case.a, case.b) if side is not None]
    return f" between these {'two ' if all(len(s.groups) == 1 for s in sides) else ''}sets"


def _change(case: Compared) -> str:
    """Write the change with its interval, after a comma; empty without a ratio."""
    if case.ratio is None:
        return ""
    end = "" if case.low is None else f" ({interval(case, ' to ')})"
    return f", {formats.signed_percent(case.ratio - 1)}{end}"


def interval(case: Compared, to: str = "…") -> str:
    """Write the interval of the change: ``−6.9…−5.9 %``."""
    if case.low is None or case.high is None:
        return ABSENT
    return formats.signed_range(case.low, case.high, to)


def _largest(compared: Comparison, names: Sequence[str], advises: bool) -> str:
    """Name the largest change if none is shown, and how to decide it."""
    cases = [(c, n) for c, n in zip(compared.cases, names, strict=True) if c.ratio is not None]
    if not cases or any(case.finding in ("faster", "slower") for case, _ in cases):
        return ""
    case, name = max(cases, key=lambda one: abs((one[0].ratio or 1.0) - 1))
    text = f" Largest difference: {name}{_change(case)}."
    if not advises or case.finding != "undecided" or case.a is None or case.b is None:
        return text
    if len(case.a.values) < 2:
        return f"{text} Repeat both sides: {DECIDES} runs on each decide."
    if command := group_words.resuming(case.group.planned, DECIDES):
        return f"{text} To decide it: {command}"
    return f"{text} {DECIDES} runs in B decide it."


def _n(case: Compared) -> str:
    """Count the runs of both sides, as benchstat does."""
    counts = [0 if side is None else len(side.values) for side in (case.a, case.b)]
    return f"{counts[0]} vs {counted(counts[1], 'run')}"


# Tables


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
    changed = [case.finding in ("faster", "slower") for case in sorted(compared.cases, key=_rank)]
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
    ranked = sorted(zip(compared.cases, names, strict=True), key=lambda one: _rank(one[0]))
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


def case_names(compared: Comparison, among: Iterable[Group] = ()) -> list[str]:
    """Name each case so that no two are alike.

    If its sides are other cases, it names both: ``1x1 → 1x8``. If its sides and ``among`` have
    several GPU models, with its own: ``H100 → H200`` of two.
    """
    groups = {
        case.group.key.id: [g for side in (case.a, case.b) if side for g in side.groups]
        for case in compared.cases
    }
    every = itertools.chain(among, *groups.values())
    has_models = group_words.has_several_models(every)

    def named(group: Group) -> str:
        of_sides = groups[group.key.id]
        parts = zip(*(group_words.case_name(one).split(" ") for one in of_sides), strict=True)
        texts = [" → ".join(dict.fromkeys(part)) for part in parts]
        if has_models:
            models = dict.fromkeys(group_words.value(one, "GPU model") for one in of_sides)
            texts.append(" → ".join(filter(None, models)))
        return " ".join(texts).rstrip()

    return _names(compared, named)


def _names(compared: Comparison, base: Callable[[Group], str]) -> list[str]:
    names = group_words.names([case.group for case in compared.cases], base)
    return [names[case.group.key.id] for case in compared.cases]


def _rank(case: Compared) -> tuple[int, float]:
    """Return the sort key: changed cases first, larger changes first."""
    is_shown = case.finding in ("faster", "slower") or case.regression
    size = 0.0 if case.ratio is None else abs(case.ratio - 1)
    return (0 if is_shown else 1, -size)


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
        cases = [f"{one['name']} since {one['since']}" for one in _missing_fields(compared)]
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
    yield from _without_ratio(case)
    yield from case.left_out
    if case.finding == "undecided":
        yield f"One run on a side has no spread ({_n(case)}); use {DECIDES} on each."
    elif case.ratio is not None and case.earlier_sets is None:
        yield (
            "The store has fewer than four earlier sets, so the spread between days is not known:"
            f" only a change of {100 * floor:g} % or more counts (--floor)."
        )
    if case.finding not in ("faster", "slower"):
        # Of a case that changed they are among the causes.
        yield from map(english, case.notes)


def _without_ratio(case: Compared) -> Iterable[str]:
    """Yield why two sides have no ratio; nothing if they have one."""
    for name, side in (("A", case.a), ("B", case.b)):
        if side is not None and side.spread is None:
            yield f"No figure in {name}: {english(group_words.no_figure(side.groups[-1]))}."
    # What has no figure may not even have told its GPU.
    if case.not_comparable and "no-figure" not in case.not_comparable:
        yield f"Not comparable: {english(formats.unlike(case.not_comparable))}."
        yield from map(english, range_words.without_ratio(case))


# Data


def document(compared: Comparison) -> dict[str, Any]:
    """Build the document of ``-o json``."""
    names = case_names(compared)
    return {
        "schema": SCHEMA,
        "a": compared.a or None,
        "b": compared.b,
        "nights": list(compared.nights),
        "limit": compared.limit,
        "floor": compared.floor,
        "regressions": len(compared.regressions),
        "summary": summary(compared),
        "cases": [
            case_fields(case, name) for case, name in zip(compared.cases, names, strict=True)
        ],
        "causes": [cause_words.fields(one, names) for one in compared.causes],
        "missing": _missing_fields(compared),
        "next": [one._asdict() for one in next_commands.of_nights(compared, names)],
    }


def _missing_fields(compared: Comparison) -> list[dict[str, Any]]:
    """Build the fields of the missing cases."""
    groups = [group for group, _ in compared.missing]
    names = group_words.names(groups, group_words.with_models(groups))
    return [
        {
            "name": names[group.key.id],
            **fields.group_fields(group, ("group", "set")),
            "since": missing.since,
            "sets": missing.sets,
        }
        for group, missing in compared.missing
    ]


_OF_CASE = (
    *("benchmark", "framework", "variant", "case", "precision", "batch_size_per_gpu"),
    "gpu_model",
)
_OF_TEST = ("low", "high", "least", "p", "p_adjusted")
_OF_COMPARED = ("ratio", *_OF_TEST, "earlier_sets", "finding", "regression")


def case_fields(case: Compared, name: str) -> dict[str, Any]:
    """Build the fields of one case."""
    why = " ".join(_without_ratio(case)) or "There is no counterpart."
    if case.finding == "undecided":
        why = f"One run on a side has no spread ({_n(case)})."
    elif case.ratio is not None:
        why = "The store has fewer than four earlier sets."
    missing = {name: why for name in _OF_COMPARED if getattr(case, name) is None}
    return {
        "name": name,
        **fields.group_fields(case.group, _OF_CASE),
        "a": _side(case.a),
        "b": _side(case.b),
        **{name: getattr(case, name) for name in _OF_COMPARED},
        "open": None if case.open is None else case.open._asdict(),
        "odd": None if case.odd is None else case.odd._asdict(),
        "changed": case.changed and msgspec.structs.asdict(case.changed),
        "alternating": case.alternating and group_words.levels(case.alternating),
        "new": case.new and new_fields(case.new),
        "since_baseline": case.since_baseline and msgspec.structs.asdict(case.since_baseline),
        "range": case.over and case.over.text,
        "not_comparable": list(case.not_comparable),
        "notes": [*map(english, case.notes), *case.left_out],
        "missing": missing,
    }


def new_fields(new: NewCase) -> dict[str, Any]:
    """Build the fields of a case in the place of another."""
    return {
        "since": new.since,
        "fields": {one.name: {"a": one.a, "b": one.b} for one in new.fields},
        "a": new.a,
        "b": new.b,
        "ratio": new.ratio,
        "not_comparable": list(new.not_comparable),
    }


def _side(side: Figures | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "groups": [group.key.id for group in side.groups],
        "sets": list(side.sets),
        "runs": side.runs,
        "n": len(side.values),
        "values": list(side.values),
        "median": side.spread and side.spread.median,
        "cv": side.spread and side.spread.cv,
        "unit": side.unit,
        "estimator": side.estimator,
    }


def flat(compared: Comparison) -> tuple[list[str], list[list[Any]]]:
    """Build the header and rows of the CSV, one row per case."""
    return formats.flattened(document(compared)["cases"])


def junit(compared: Comparison) -> str:
    """Write a JUnit test suite: one test per case, a failure per regression.

    A case without a ratio or with one run on a side is skipped. A case whose second side has no
    valid run is an error. The suite's output is the summary line.
    """
    import xml.etree.ElementTree as ET  # noqa: PLC0415

    suite = ET.Element("testsuite", name=_xml(_typed(compared)))
    # The same words whatever else is compared: CI servers follow a test over time by its name.
    names = _names(compared, group_words.with_batch)
    for case, name in zip(compared.cases, names, strict=True):
        key = case.group.key
        where = {"classname": f"{key.benchmark}.{key.framework}", "name": name}
        test = ET.SubElement(suite, "testcase", {what: _xml(text) for what, text in where.items()})
        told = " ".join(_without_ratio(case)) or f"{verdict(case)}{_between(case)}"
        if case.ratio is not None:
            told += f"{_change(case)}; {_n(case)}"
        if case.regression:
            ET.SubElement(test, "failure", message=_xml(told))
        elif lacks_figure(case):
            ET.SubElement(test, "error", message=_xml(told))
        elif case.ratio is None or case.finding == "undecided":
            ET.SubElement(test, "skipped", message=_xml(told))
        ET.SubElement(test, "system-out").text = _xml(told)
    ET.SubElement(suite, "system-out").text = _xml(summary(compared))
    suite.set("tests", str(len(compared.cases)))
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{kind}"))))
    ET.indent(suite)
    text = ET.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _typed(compared: Comparison) -> str:
    """Write the command of a comparison; that of nights is the same each night."""
    return "k8sbench compare" + ("" if compared.nights else f" {compared.a} {compared.b}")


def _xml(text: str) -> str:
    """Remove characters that XML forbids even when escaped."""
    return "".join(char for char in clean(text) if char not in "\ufffe\uffff")


def lacks_figure(case: Compared) -> bool:
    """True if only the first side has a figure."""
    return bool(case.a and case.b and case.a.values and case.b.runs and not case.b.values)
