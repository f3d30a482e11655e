"""Comparison of two sides, case by case: ratio, finding, regression.

The observations are the runs of both sides, or, if both have enough sets, the sets' medians: speeds
vary more from set to set than within one, so several runs of a set say less than as many sets.
``faster`` and ``slower`` hold for all cases together
(:func:`~k8sbench.measure.group.permutation.adjusted`). A regression is a ratio beyond the limit
*and* p ≤ 5 % in its own case: CI follows each case by itself. The same differences forbid a ratio
as between frameworks, except those that cannot be known of one and the same program.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from k8sbench.measure.group import grouping, permutation, ratios, sides
from k8sbench.measure.group.grouping import joined, spread
from k8sbench.measure.group.permutation import ALPHA, TwoSides, adjusted, least_p
from k8sbench.measure.group.sides import Side, counterparts, differing
from k8sbench.model.compared import (
    Compared,
    Comparison,
    Difference,
    Figures,
    Finding,
    Point,
    Series,
)
from k8sbench.model.gpu_metrics import METRICS, GpuMetric
from k8sbench.model.group import Group
from k8sbench.model.identity import case_values
from k8sbench.model.measurement import GpuFigure
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Baseline, Run

# -- cases ----------------------------------------------------------------------------------------


def compare(a: Side, b: Side, *, limit: float | None = None) -> Comparison:
    """Compare two sides; ``limit`` is the share by which the second may be slower."""
    pairs = counterparts(a, b)
    differences = _differences(
        [
            ([a.runs[one] for one in _counted(mine)], [b.runs[one] for one in _counted(theirs)])
            for mine, theirs in pairs
        ]
    )
    cases = _cases(pairs, limit)
    return Comparison(a=a.name, b=b.name, limit=limit, cases=cases, differences=tuple(differences))


def newest_sets(groups: Sequence[Group]) -> Comparison | None:
    """Compare the newest two sets that share a case; None without such sets."""
    by_set: dict[str, list[Group]] = {}
    for group in sorted(groups, key=lambda group: -group.began[1]):
        by_set.setdefault(group.key.set_name, []).append(group)
    (b, last), *others = by_set.items() if by_set else [("", [])]
    has = {group.key.only("series") for group in last if group.spread is not None}
    for a, older in others:
        if any(group.spread is not None and group.key.only("series") in has for group in older):
            sides = [Side(name=n, groups=tuple(g), runs={}) for n, g in ((a, older), (b, last))]
            cases = _cases(counterparts(*sides), None)
            return Comparison(a=a, b=b, limit=None, cases=cases, differences=())
    return None


def _cases(
    pairs: Sequence[tuple[Sequence[Group], Sequence[Group]]], limit: float | None
) -> tuple[Compared, ...]:
    cases = [_beside(mine, theirs) for mine, theirs in pairs]
    tests = {
        place: TwoSides(case.a.values, case.b.values)
        for place, case in enumerate(cases)
        if case.ratio is not None and case.a is not None and case.b is not None
    }
    for (place, test), p in zip(tests.items(), adjusted(list(tests.values())), strict=True):
        ratio = cases[place].ratio or 1.0
        finding: Finding = "no-difference"
        if test.least_p > ALPHA:
            finding = "undecided"
        elif p <= ALPHA and (ratio - 1) * test.direction > 0:
            finding = "slower" if test.direction < 0 else "faster"
        cases[place] = msgspec.structs.replace(
            cases[place],
            p=test.p,
            p_adjusted=p,
            p_least=test.least_p,
            finding=finding,
            regression=limit is not None and is_regression(ratio, test, limit),
        )
    return tuple(cases)


def _counted(groups: Sequence[Group]) -> list[str]:
    return [m.run_id for group in groups for m in group.members if m.rate is not None]


def _beside(mine: Sequence[Group], theirs: Sequence[Group]) -> Compared:
    """Pair the two sides of a case, with their ratio if they have one."""
    of_sets = have_sets(mine) and have_sets(theirs)
    one, two = (figures(groups, of_sets=of_sets) if groups else None for groups in (mine, theirs))
    if one is None or two is None:
        return Compared(a=one, b=two, finding="one-side")
    forbidden = unlike(mine[-1], theirs[-1])
    if one.spread is None or two.spread is None:
        forbidden = tuple(dict.fromkeys((*forbidden, "no-figure")))
        ratio = None
    else:
        ratio = two.spread.median / one.spread.median
    return Compared(
        a=one,
        b=two,
        ratio=None if forbidden else ratio,
        finding="not-comparable",
        not_comparable=forbidden,
        notes=_notes(mine[-1], theirs[-1]),
    )


def figures(groups: Sequence[Group], *, of_sets: bool) -> Figures:
    """Take a case's figures: of its runs, or of its sets."""
    newest, counted = groups[-1], [group for group in groups if group.spread is not None]
    if of_sets:
        values = [group.spread.median for group in counted if group.spread is not None]
    else:
        rates = (member.rate for group in groups for member in group.members)
        values = [rate for rate in rates if rate is not None]
    return Figures(
        groups=tuple(groups),
        values=tuple(values),
        unit=newest.unit,
        estimator=newest.estimator,
        spread=spread(values) if values else None,
        runs=sum(len(group.members) for group in groups),
        of="sets" if of_sets else "runs",
    )


def have_sets(groups: Sequence[Group]) -> bool:
    """Return True if a comparison of sets has enough sets with a figure."""
    return sum(group.spread is not None for group in groups) >= permutation.fewest()


def is_regression(ratio: float, test: TwoSides, limit: float) -> bool:
    """Return True if the second side is significantly slower beyond the limit."""
    return ratio < 1 - limit and test.direction < 0 and test.p <= ALPHA


# What may differ


def unlike(one: Group, two: Group) -> tuple[str, ...]:
    """Ids of what forbids a ratio of two groups; ``docs/results.md`` explains them."""
    fields = differing(one, two)
    ids = [name for name in ("benchmark", "case", "precision") if name in fields]
    # Of one program, planned alike, what neither side states is taken as equal.
    return tuple(dict.fromkeys((*ids, *ratios.unlike_in_parity(one, two, is_alike=not fields))))


def _notes(one: Group, two: Group) -> tuple[str, ...]:
    """Return the allowed differences of the plans."""
    named = {"benchmark", "case", "replicas", "processes_per_replica", "precision", "preset"}
    shown = [name for name in differing(one, two) if name not in named]
    return tuple(
        f"{name}: {getattr(one.key, name)} in A, {getattr(two.key, name)} in B" for name in shown
    )


# -- differences ----------------------------------------------------------------------------------
#
# What is not the same on two sides besides the figures: image, driver, environment, GPU metrics. Of
# each side the counted runs are looked at together: the values that they report, each once. What is
# momentary or names a single pod is left out; GPU metrics count as different from a change on that
# no two runs of a well node show.

Pair = tuple[Sequence[Run], Sequence[Run]]

MOMENTARY = {
    "run_id": "Every run has its own.",
    "pod": "Every run has its own.",
    "host": "In a pod it is the pod's name; the node has a field of its own.",
    "gpu_uuid": "The node says which GPUs it may be.",
    "gpu_index": "Any of a node's GPUs may be the first.",
    "clock_sm_mhz": "It is of one moment; the GPU metrics have it over the run.",
    "clock_memory_mhz": "It is of one moment.",
    "throttle_reasons": "They are of one moment; the GPU metrics have them over the run.",
}
"""Fields of an environment that are not compared, and why."""
CHANGE = 0.02
"""Smallest change of a GPU metric: relative; for shares absolute."""


def _differences(pairs: Iterable[Pair]) -> list[Difference]:
    """List the differences, each once with the places of its pairs."""
    places: dict[Difference, list[int]] = {}
    for place, (mine, theirs) in enumerate(pairs):
        if mine and theirs:
            for difference in _of_pair((mine, theirs)):
                places.setdefault(difference, []).append(place)
    kinds = ("image", "plan", "environment", "gpu")
    made = [msgspec.structs.replace(entry, cases=tuple(at)) for entry, at in places.items()]
    return sorted(made, key=lambda entry: kinds.index(entry.kind))


def _of_pair(pair: Pair) -> Iterable[Difference]:
    yield from _texts("image", "image", lambda r: r.image_digest or r.plan.image, pair)
    yield from _texts("image", "program", lambda r: r.group_key.program, pair)
    first = [case_values(runs[-1].plan, but="series") for runs in pair]
    for name in sorted({*first[0], *first[1]} - {"image"}):
        a, b = (values.get(name) for values in first)
        if a != b:
            yield Difference(kind="plan", name=name, a=a, b=b)
    yield from _environments(pair)
    for metric in METRICS:
        yield from _metric(metric, pair)


def _texts(
    kind: str, name: str, read: Callable[[Run], str | None], pair: Pair
) -> Iterable[Difference]:
    a, b = (joined(read(run) for run in runs) for runs in pair)
    if a != b:
        yield msgspec.convert({"kind": kind, "name": name, "a": a, "b": b}, Difference)


def _environments(pair: Pair) -> Iterable[Difference]:
    sides = [{key for run in runs for key in _environment(run)} for runs in pair]
    if not all(sides):
        if any(sides):
            a, b = ("recorded" if side else None for side in sides)
            yield Difference(kind="environment", name="environment", a=a, b=b)
        return
    for name in sorted(sides[0] | sides[1]):
        yield from _texts("environment", name, partial(_reported, name), pair)


def _reported(name: str, run: Run) -> str | None:
    return _environment(run).get(name)


def _environment(run: Run) -> dict[str, str]:
    known = {} if run.measurement is None else run.measurement.environment
    return {
        key: str(value)
        for key, value in known.items()
        if value is not None and key not in MOMENTARY
    }


def _metric(metric: GpuMetric, pair: Pair) -> Iterable[Difference]:
    if metric.id == "xid":
        a, b = map(_codes, pair)
        if a != b:
            yield Difference(kind="gpu", name=metric.title, a=a, b=b)
        return
    values = [_value(metric.id, runs) for runs in pair]
    if values[0] is None and values[1] is None:
        return
    change = None
    if values[0] is not None and values[1] is not None:
        apart = abs(values[1] - values[0])
        if apart <= (CHANGE if metric.unit == "ratio" else CHANGE * abs(values[0])):
            return
        change = values[1] / values[0] - 1 if values[0] else None
    a, b = (None if value is None else _written(value, metric.unit) for value in values)
    yield Difference(kind="gpu", name=metric.title, a=a, b=b, change=change)


def _gpu_figures(name: str, runs: Sequence[Run]) -> list[GpuFigure]:
    measured = (run.measurement.gpu_metrics for run in runs if run.measurement is not None)
    return [metrics.figures[name] for metrics in measured if metrics and name in metrics.figures]


def _value(name: str, runs: Sequence[Run]) -> float | None:
    values = [figure.value for figure in _gpu_figures(name, runs) if figure.value is not None]
    return statistics.median(values) if values else None


def _codes(runs: Sequence[Run]) -> str | None:
    figures = _gpu_figures("xid", runs)
    codes = sorted({code for figure in figures for code in figure.codes})
    return ", ".join(map(str, codes)) or "none" if figures else None


def _written(value: float, unit: str) -> str:
    return f"{100 * value:.1f} %" if unit == "ratio" else f"{value:,.0f} {unit}".rstrip()


# -- the newest sets against a baseline -----------------------------------------------------------


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A case of the newest set, held against a baseline."""

    ratio: float
    is_separated: bool
    """True if the difference is statistically significant."""


def labels(plan: RunPlan) -> tuple[str, ...]:
    """Return the user-chosen names that make throughputs comparable over time."""
    return (
        *(plan.benchmark, plan.variant, plan.framework, plan.precision, plan.case),
        *(plan.preset, plan.pool.name),
    )


def against(kept: Baseline, runs: Sequence[Run]) -> dict[tuple[str, ...], Held]:
    """Compare the newest set of each case with a baseline, by :func:`labels`.

    Sets with active runs are left out, and the baseline's own: they are no news.
    """
    ours = sides.of_baseline(kept)
    own = {run.plan.set_name for run in ours.runs.values()}
    by_id = {run.run_id: run for run in runs}
    held: dict[tuple[str, ...], Held] = {}
    for group in sorted(grouping.groups(runs), key=lambda group: group.began[1]):
        alike = tuple(one for one in ours.groups if not differing(one, group))
        if group.spread is None or group.in_progress or group.key.set_name in own or not alike:
            continue
        side = Side(name="", groups=(group,), runs=by_id)
        for case in compare(msgspec.structs.replace(ours, groups=alike), side).cases:
            if case.ratio is not None:
                is_separated = case.finding in ("faster", "slower")
                held[labels(group.plan)] = Held(ratio=case.ratio, is_separated=is_separated)
    return held


# -- history ---------------------------------------------------------------------------------------


BEFORE = 10
"""The most sets before a change that are looked at."""
AFTER = (3, 6)
"""The fewest and the most sets from a change on."""
P = 0.008
CLEAR = 3.5
"""Difference of the sides' means for a change, in standard deviations.

The deviation is that of the sets within the sides.
"""
LEAST_CHANGE = 0.015
"""Sets of one case differ by 1 % now and then."""


class Change(NamedTuple):
    """A place from which on the values are others."""

    place: int
    ratio: float
    """Median of those looked at from there on ÷ median of those before."""
    p: float


def history(groups: Iterable[Group], since: float = 0.0) -> list[Series]:
    """Order the groups of each case by when they began, and mark the changes.

    Sets that began before ``since`` count for the changes, and are no points.
    """
    every = map(_series, Side(name="", groups=tuple(groups), runs={}).cases())
    shown = (
        msgspec.structs.replace(
            one, points=tuple(point for point in one.points if point.group.began[1] >= since)
        )
        for one in every
    )
    return [one for one in shown if one.points]


def _series(groups: Sequence[Group]) -> Series:
    points = [Point(group=g, at=g.began[0]) for g in sorted(groups, key=lambda g: g.began[0])]
    known = [n for n, point in enumerate(points) if point.group.spread is not None]
    medians = [spread.median for n in known if (spread := points[n].group.spread) is not None]
    why = _unmarked(groups[-1], len(medians))
    for change in () if why else changes(medians):
        place = known[change.place]
        points[place] = msgspec.structs.replace(points[place], change=change.ratio - 1, p=change.p)
    return Series(points=tuple(points), unmarked=why)


def _unmarked(group: Group, count: int) -> str | None:
    if group.smoke:
        return "smoke runs are functional tests, not speed measurements"
    if group.on_cpu:
        return "CPU processes: they share the machine"
    some = range(AFTER[0], AFTER[1] + 1)
    fewest = min(n + m for m in some for n in range(1, BEFORE + 1) if least_p(n, m) <= P)
    if count < fewest:
        return f"a change takes {fewest} sets with a figure to be seen; there are {count}"
    return None


def changes(values: Sequence[float]) -> list[Change]:
    """Find where a series of positive values, oldest first, changed for good."""
    found: list[Change] = []
    start, place = 0, 1
    while place < len(values):
        change = _change_at(values, start, place)
        if change is None:
            place += 1
        else:
            found.append(change)
            start, place = change.place, change.place + 1
    return found


def _change_at(values: Sequence[float], start: int, place: int) -> Change | None:
    first = max(start, place - BEFORE)
    for count in range(AFTER[0], min(AFTER[1], len(values) - place) + 1):
        end = place + count
        seen = _differs(values[first:place], values[place:end])
        if seen is None:
            continue
        # The test may hold one or two sets early: of a few that follow, most are others already.
        best = min(range(place, end), key=lambda n: _unevenness(values, first, n, end))
        last = min(best + AFTER[1], len(values))
        told = _differs(values[first:best], values[best:last])
        return Change(best, *told) if told else Change(place, *seen)
    return None


def _differs(before: Sequence[float], after: Sequence[float]) -> tuple[float, float] | None:
    """Return ratio and p where two sides differ; None where they do not."""
    ratio = statistics.median(after) / statistics.median(before)
    if abs(ratio - 1) <= LEAST_CHANGE:
        return None
    test = TwoSides(before, after)
    # The squared difference of the means by the variance of a set: t² without the sets' numbers.
    distance = test.t_squared * (1 / len(before) + 1 / len(after))
    return (ratio, test.p) if test.p <= P and distance >= CLEAR**2 else None


def _unevenness(values: Sequence[float], first: int, place: int, end: int) -> float:
    """Return the deviations on both sides of a place from their medians."""
    sides = (values[first:place], values[place:end])
    return sum(abs(math.log(v / statistics.median(side))) for side in sides for v in side)
