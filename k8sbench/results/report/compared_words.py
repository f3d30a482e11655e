"""Words of a comparison: its answer, and the verdicts and names of its cases."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from k8sbench.messages import Note, note
from k8sbench.model.compared import Compared, Comparison
from k8sbench.model.errors import list_few
from k8sbench.model.group import Group
from k8sbench.model.plain_text import ABSENT, counted
from k8sbench.results.report import formats, group_words, range_words
from k8sbench.results.report.words import english

NO_DIFFERENCE = "~"
"""Sign of "no difference shown", as in benchstat."""
DECIDES = 3
"""Runs of a side that decide."""
NOT_SHOWN = {
    "back": ("is back after one night", "are back after one night"),
    "no-difference": ("shows no change", "show no change"),
    "undecided": ("is undecided", "are undecided"),
    "no-figure": ("has no figure on a side", "have no figure on a side"),
    "not-comparable": ("is not comparable", "are not comparable"),
    "one-side": ("has no counterpart", "have no counterpart"),
}
"""Kind of a case without a change → its verb, singular and plural."""


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
        named = list_few([f"{name}{change(case)}" for case, name in cases]) if is_loud else ""
        parts.append(f"{len(cases)} {words}" + (named and f": {named}"))
    first, _, rest = "; ".join(parts).partition(" ")
    return f"{first} of {counted(len(names), 'case')} {rest}.{_largest(compared, names, advises)}"


def counts(compared: Comparison) -> list[Note]:
    """Count the cases of each finding: ``1 slower``, ``3 show no change``."""
    kinds: dict[str, int] = {}
    for cases in _kinds(compared).values():
        case = cases[0][0]
        kind = "no-figure" if "no-figure" in case.not_comparable else case.finding
        name = f"count-{kind}{'-between' if between(case) else ''}"
        kinds[name] = kinds.get(name, 0) + len(cases)
    return [note(name, number=number) for name, number in kinds.items()]


def changed(compared: Comparison) -> list[tuple[Compared, str]]:
    """List the changed cases with their names, the largest change first."""
    every = (one for cases in _kinds(compared).values() for one in cases)
    found = [one for one in every if one[0].finding in ("faster", "slower")]
    return sorted(found, key=lambda one: rank(one[0]))


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
    return f"{case.finding}{by}{between(case)}"


def between(case: Compared) -> str:
    """Say that a verdict is of these sets alone, else nothing."""
    if case.earlier_sets is not None or case.finding not in ("faster", "slower"):
        return ""
    sides = [side for side in (case.a, case.b) if side is not None]
    return f" between these {'two ' if all(len(s.groups) == 1 for s in sides) else ''}sets"


def change(case: Compared) -> str:
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
    text = f" Largest difference: {name}{change(case)}."
    if not advises or case.finding != "undecided" or case.a is None or case.b is None:
        return text
    if len(case.a.values) < 2:
        return f"{text} Repeat both sides: {DECIDES} runs on each decide."
    if command := group_words.resuming(case.group.planned, DECIDES):
        return f"{text} To decide it: {command}"
    return f"{text} {DECIDES} runs in B decide it."


def counts_of_runs(case: Compared) -> str:
    """Count the runs of both sides, as benchstat does."""
    counts = [0 if side is None else len(side.values) for side in (case.a, case.b)]
    return f"{counts[0]} vs {counted(counts[1], 'run')}"


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

    return names_by(compared, named)


def names_by(compared: Comparison, base: Callable[[Group], str]) -> list[str]:
    """Name each case by ``base`` and what tells it from the others."""
    names = group_words.names([case.group for case in compared.cases], base)
    return [names[case.group.key.id] for case in compared.cases]


def missing_names(compared: Comparison) -> list[str]:
    """Name each case that neither night has."""
    groups = [group for group, _ in compared.missing]
    names = group_words.names(groups, group_words.with_models(groups))
    return [names[group.key.id] for group in groups]


def rank(case: Compared) -> tuple[int, float]:
    """Return the sort key: changed cases first, larger changes first."""
    is_shown = case.finding in ("faster", "slower") or case.regression
    size = 0.0 if case.ratio is None else abs(case.ratio - 1)
    return (0 if is_shown else 1, -size)


def without_ratio(case: Compared) -> Iterable[str]:
    """Yield why two sides have no ratio; nothing if they have one."""
    for name, side in (("A", case.a), ("B", case.b)):
        if side is not None and side.spread is None:
            yield f"No figure in {name}: {english(group_words.no_figure(side.groups[-1]))}."
    # What has no figure may not even have told its GPU.
    if case.not_comparable and "no-figure" not in case.not_comparable:
        yield f"Not comparable: {english(formats.unlike(case.not_comparable))}."
        yield from map(english, range_words.without_ratio(case))


def lacks_figure(case: Compared) -> bool:
    """True if only the first side has a figure."""
    return bool(case.a and case.b and case.a.values and case.b.runs and not case.b.values)
