"""A comparison as tables, as data, and as JUnit's XML for CI; and in words what it shows.

What so few runs can and cannot show is said beside each case: a ratio alone says neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from k8sbench.measure.group import rank_test
from k8sbench.model.compared import Compared, Comparison, Difference, Figures
from k8sbench.model.counts import counted
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.plain_text import clean
from k8sbench.report import formats, group_words, numbers
from k8sbench.report.tables import Cell, Table, absent
from k8sbench.report.text_table import Column

NO_DIFFERENCE = "~"
"""As benchstat writes it: the runs show none."""
RUNS_OF_ONE_SET = (
    "runs of one set are more alike than sets: from set to set speeds vary more than these runs"
    " show, which the limit is for; three sets on each side are compared as sets"
)
_COLUMNS = (
    *("case", "benchmark", "framework", "precision", "A", "B", "change", "interval", "p", "n"),
    "verdict",
)
WORDS = ("case", "benchmark", "framework", "precision", "batch")
"""Words of a case's name."""
_RIGHT = ("A", "B", "change", "interval", "p")
_KEPT = ("case", "A", "B", "change", "verdict")


# Words


def words(one: Compared, limit: float | None) -> str:
    """Say what the observations of a case show, and what they cannot."""
    if one.a is None or one.b is None:
        return f"There is no counterpart in {'A' if one.a is None else 'B'}."
    if one.ratio is None:
        return f"No ratio is given ({', '.join(one.not_comparable)}).{_unknown_gpus(one)}"
    parts = [_shown(one, one.a, one.b)]
    if one.regression and limit is not None:
        parts.append(f"Slower by more than {_share(limit)}, and separated: a regression.")
    elif one.beyond_limit and limit is not None:
        parts.append(
            f"Slower by more than {_share(limit)}, but not separated: no regression is shown."
            " More repeats would decide."
        )
    return " ".join(parts)


def _unknown_gpus(one: Compared) -> str:
    """Say whose GPU model is not known, where that forbids a ratio."""
    sides = [
        name
        for name, side in (("A", one.a), ("B", one.b))
        if side is not None and side.groups[-1].key.gpu_model == "unknown"
    ]
    if not sides or not {"device", "gpu-model"} & {*one.not_comparable}:
        return ""
    return f" The GPU model of {' and of '.join(sides)} is not known; import takes --gpu-model."


def _shown(one: Compared, a: Figures, b: Figures) -> str:
    evidence = one.evidence
    assert evidence is not None  # it comes with the ratio
    who = f"{len(a.values)} and {counted(len(b.values), a.of.removesuffix('s'))}"
    if not rank_test.can_be_shown(evidence):
        return f"{who} cannot show a difference; 3 on each side are the fewest that can."
    p = numbers.percent(evidence.p)
    if one.finding in ("slower", "faster"):
        told = f"B is {one.finding}: p = {p}."
        if evidence.least > rank_test.ALPHA:
            told += f" {who} cannot reach p ≤ 5 %; {rank_test.fewest()} on each side can."
        return told
    told = f"No difference is shown: p = {p}."
    if one.interval is not None and one.interval.low < 1:
        slowdown = numbers.percent(1 - one.interval.low)
        told += f" A slowdown of {slowdown} is within the interval."
    return told


def _share(value: float) -> str:
    return f"{100 * value:g} %"


def _p(value: float) -> str:
    return numbers.plain(value, 2)


def verdict(one: Compared) -> str:
    """Write the verdict of a case in a few words."""
    if one.regression:
        return "REGRESSION"
    if one.finding == "one-side":
        return "only in B" if one.a is None else "only in A"
    if one.finding == "not-comparable":
        return f"not comparable: {', '.join(one.not_comparable)}"
    return NO_DIFFERENCE if one.finding == "no-difference" else one.finding


# Tables


def tables(compared: Comparison) -> list[Table]:
    """Lay out the cases, and what differs besides the figures."""
    names = case_names(compared)
    estimators = {
        side.estimator
        for one in compared.cases
        for side in (one.a, one.b)
        if side is not None and side.values
    }
    rows = [_row(one, compared.limit, name_them=len(estimators) > 1) for one in compared.cases]
    by = tuple(f"A, B: medians by {only}" for only in estimators) if len(estimators) == 1 else ()
    columns = tuple(
        Column(n, right=n in _RIGHT, stays=n in _KEPT, states=n == "verdict") for n in _COLUMNS
    )
    title = f"A: {clean(compared.a)}   B: {clean(compared.b)}"
    found = [Table(title=title, columns=columns, rows=tuple(rows), notes=by)]
    if compared.differences:
        columns = (Column("differs in"), Column("A"), Column("B"), Column("cases"))
        lines = tuple(_difference(one, compared, names) for one in compared.differences)
        found.append(Table(title="What differs besides the figures", columns=columns, rows=lines))
    return found


def case_names(compared: Comparison, *, in_full: bool = False) -> list[str]:
    """Name each case, with as many words as tell them apart, or all of :data:`WORDS`."""
    groups = {one.group.key.id: one.group for one in compared.cases}
    more = ("variant", "data", "pool")
    names = group_words.unique_names(
        list(groups.values()),
        (lambda group: " ".join(group_words.word(group, name) for name in WORDS))
        if in_full
        else (lambda group: group.key.case),
        *(more if in_full else (*WORDS[1:], *more)),
    )
    return [names[one.group.key.id] for one in compared.cases]


def _row(one: Compared, limit: float | None, *, name_them: bool) -> tuple[Cell, ...]:
    """Lay out a case; ``name_them``: whether its figures have a footnote with their estimator."""
    key = one.group.key
    if one.ratio is None:
        why = verdict(one)
        change, interval, p = (absent(why) for _ in range(3))
    else:
        notes = (RUNS_OF_ONE_SET,) if _of_runs_of_two_sets(one) else ()
        change = Cell(numbers.signed_percent(one.ratio - 1))
        interval = absent(one.interval_reason)
        if one.interval is not None:
            low, high = (
                numbers.signed_percent(each - 1) for each in (one.interval.low, one.interval.high)
            )
            of = numbers.coverage(one.interval.coverage)
            interval = Cell(f"{low} … {high} ({of})", notes)
        p = Cell(_p(one.evidence.p)) if one.evidence else absent(one.interval_reason)
    return (
        Cell(key.case),
        Cell(key.benchmark),
        Cell(key.framework),
        Cell(group_words.precision(one.group)),
        _figure(one.a, name_it=name_them),
        _figure(one.b, name_it=name_them),
        change,
        interval,
        p,
        Cell(_n(one)),
        Cell(verdict(one), (words(one, limit), *one.notes)),
    )


def _of_runs_of_two_sets(one: Compared) -> bool:
    sides = [side for side in (one.a, one.b) if side is not None]
    return all(side.of == "runs" for side in sides) and len({s for f in sides for s in f.sets}) > 1


def _figure(side: Figures | None, *, name_it: bool) -> Cell:
    if side is None:
        return absent("there is no counterpart")
    by = (f"by {side.estimator}",) if name_it else ()
    if side.spread is None:
        newest = side.groups[-1]
        return Cell(group_words.no_figure(newest), group_words.footnotes(newest, "reject"))
    return Cell(f"{numbers.rate(side.spread.median)} {side.unit}", by)


def _n(one: Compared) -> str:
    """Count the observations of both sides, as benchstat does."""
    counts = [0 if side is None else len(side.values) for side in (one.a, one.b)]
    of_sets = any(side is not None and side.of == "sets" for side in (one.a, one.b))
    return f"{counts[0]}+{counts[1]}{' sets' if of_sets else ''}"


def _difference(one: Difference, compared: Comparison, names: Sequence[str]) -> tuple[Cell, ...]:
    both = [n for n, case in enumerate(compared.cases) if case.a and case.b]
    cases = "all" if list(one.cases) == both else ", ".join(names[n] for n in one.cases)
    change = "" if one.change is None else f" ({numbers.signed_percent(one.change)})"
    sides = [absent("not known") if text is None else Cell(text) for text in (one.a, one.b)]
    if one.b is not None:
        sides[1] = Cell(f"{one.b}{change}")
    kind = "" if one.kind in ("image", "gpu") else f"{one.kind}: "
    return (Cell(f"{kind}{one.name}"), *sides, Cell(cases))


# Data


def document(compared: Comparison) -> dict[str, Any]:
    """All of it, as ``-o json`` prints it."""
    names = case_names(compared)
    return {
        "schema": SCHEMA,
        "a": compared.a,
        "b": compared.b,
        "limit": compared.limit,
        "regressions": len(compared.regressions),
        "cases": [
            case_fields(one, name, compared.limit)
            for one, name in zip(compared.cases, names, strict=True)
        ],
        "differences": [
            {
                "kind": one.kind,
                "name": one.name,
                "a": one.a,
                "b": one.b,
                "change": one.change,
                "cases": [names[n] for n in one.cases],
            }
            for one in compared.differences
        ],
    }


def case_fields(one: Compared, name: str, limit: float | None) -> dict[str, Any]:
    """Build the fields of one case."""
    key, interval, evidence = one.group.key, one.interval, one.evidence
    missing: dict[str, str] = {}
    if one.ratio is None:
        missing["ratio"] = verdict(one)
    if interval is None:
        missing["interval"] = one.interval_reason or verdict(one)
    if evidence is None:
        missing["p"] = one.interval_reason or verdict(one)
    return {
        "name": name,
        "benchmark": key.benchmark,
        "framework": key.framework,
        "variant": key.variant,
        "case": key.case,
        "precision": key.precision,
        "batch_size_per_gpu": key.batch_size,
        "gpu_model": None if key.gpu_model == "unknown" else key.gpu_model,
        "a": _side(one.a),
        "b": _side(one.b),
        "ratio": one.ratio,
        "interval_low": interval and interval.low,
        "interval_high": interval and interval.high,
        "interval_coverage": interval and interval.coverage,
        "p": evidence and evidence.p,
        "p_least": evidence and evidence.least,
        "finding": one.finding,
        "beyond_limit": one.beyond_limit,
        "regression": one.regression,
        "not_comparable": list(one.not_comparable),
        "notes": list(one.notes),
        "words": words(one, limit),
        "missing": missing,
    }


def _side(side: Figures | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "groups": [group.key.id for group in side.groups],
        "sets": list(side.sets),
        "runs": side.runs,
        "of": side.of,
        "n": len(side.values),
        "values": list(side.values),
        "median": side.spread and side.spread.median,
        "unit": side.unit,
        "estimator": side.estimator,
    }


def flat(compared: Comparison) -> tuple[list[str], list[list[Any]]]:
    """Build the header and rows of the CSV: one row for each case."""
    return formats.flattened(document(compared)["cases"], without=("missing",))


# JUnit


def junit(compared: Comparison) -> str:
    """Write a test suite with a test for each case: a regression is a failure.

    A case without a ratio, or that so few runs cannot decide, is skipped; one whose second side has
    runs, but none that counts, is an error.
    """
    import xml.etree.ElementTree as ET  # noqa: PLC0415

    # The same words whatever else is compared: CI servers follow a test over time by its name.
    names = case_names(compared, in_full=True)
    suite = ET.Element("testsuite", name=_xml(f"k8sbench compare {compared.a} {compared.b}"))
    count = {"failure": 0, "error": 0, "skipped": 0}
    for one, name in zip(compared.cases, names, strict=True):
        key = one.group.key
        test = ET.SubElement(
            suite,
            "testcase",
            classname=_xml(f"{key.benchmark}.{key.framework}"),
            name=_xml(name),
        )
        told = f"{verdict(one)}. {words(one, compared.limit)}"
        if one.ratio is not None:
            told = f"{numbers.signed_percent(one.ratio - 1)}: {told}"
        kind = outcome(one)
        if kind is not None:
            count[kind] += 1
            ET.SubElement(test, kind, message=_xml(told))
        ET.SubElement(test, "system-out").text = _xml(told)
    suite.set("tests", str(len(compared.cases)))
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(count[kind]))
    ET.indent(suite)
    text = ET.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def outcome(one: Compared) -> str | None:
    """Name JUnit's element for a case; None for a test that has passed."""
    if one.regression:
        return "failure"
    if lacks_figure(one):
        return "error"
    return "skipped" if one.ratio is None or one.finding == "undecided" else None


def lacks_figure(one: Compared) -> bool:
    """Whether the first side has a figure and of the second's runs none counts."""
    return (
        one.a is not None
        and one.b is not None
        and bool(one.a.values)
        and not one.b.values
        and one.b.runs > 0
    )


def _xml(text: str) -> str:
    """Leave out what no XML document may hold, even escaped."""
    return "".join(char for char in clean(text) if char not in "\ufffe\uffff")
