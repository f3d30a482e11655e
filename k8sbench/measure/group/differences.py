"""Differences of two sides besides figures: image, driver, environment, metrics.

Of each side the counted runs are looked at together: the values that they report, each once. What
is momentary or names a single pod is left out; GPU metrics count as different from a change on that
no two runs of a well node show.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from k8sbench.measure.group.grouping import joined
from k8sbench.model.compared import Difference
from k8sbench.model.gpu_metrics import METRICS, GpuMetric
from k8sbench.model.identity import case_values
from k8sbench.model.measurement import GpuFigure
from k8sbench.model.run import Run

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


def differences(pairs: Iterable[Pair]) -> list[Difference]:
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
