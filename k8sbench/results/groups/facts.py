"""Facts of runs that may decide their throughput, and which of them differ between two sets.

Image, program, plan, environment, GPU metrics. Of each set the counted runs are looked at together.
A fact differs if runs of the second set have a value that no run of the first has: what both share
explains nothing, nor does what one of them does not state. What is momentary, a result, or names a
single run is left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from k8sbench.model.compared import Difference
from k8sbench.model.gpu_metrics import METRICS
from k8sbench.model.identity import case_values
from k8sbench.model.measurement import OWN_TIME_TO_TRAIN, GpuFigure
from k8sbench.model.run import Run
from k8sbench.results.groups.group_figures import joined

LEFT_OUT = {
    "run_id": "Every run has its own.",
    "pod": "Every run has its own.",
    "seed": "Every repeat has its own.",
    "host": "In a pod it is the pod's name; the node has a field of its own.",
    "node": "Nodes are held against each other one by one.",
    "gpu_uuid": "The node says which GPUs it may be.",
    "gpu_index": "Any of a node's GPUs may be the first.",
    "visible_gpus": "Any of a node's GPUs may be the first.",
    "clock_sm_mhz": "It is of one moment; the GPU metrics have it over the run.",
    "clock_memory_mhz": "It is of one moment.",
    "throttle_reasons": "They are of one moment; the GPU metrics have them over the run.",
    "mfu_by_program": "It follows the throughput.",
    "tflops_by_program": "It follows the throughput.",
    OWN_TIME_TO_TRAIN: "It is a result.",
}
"""Fields of an environment that are not compared, and why."""
RESULT = "(final)"
"""End of the names of an environment's results."""
CHANGE = 0.02
"""Smallest change of a GPU metric: relative; for shares absolute.

No two runs of a well node show it.
"""
LIMITERS = ("throttled", "sm_clock", "power", "temperature", "xid", "ecc_errors", "processes")
"""GPU metrics that stand before those that only follow the throughput."""
WAIT = "wait for data"
"""Name of the share of a step's time in which the program waits for data."""


class Change(msgspec.Struct, frozen=True):
    """A difference, and what is new of it."""

    difference: Difference
    new: frozenset[str]
    """Values that the first set lacks; of a metric its direction."""

    @property
    def fact(self) -> tuple[str, str]:
        """Kind and name."""
        return self.difference.kind, self.difference.name


def changes(before: Sequence[Run], after: Sequence[Run]) -> list[Change]:
    """List the facts of two sets of runs that differ."""
    if not before or not after:
        return []
    readers = (_images, _plans, _environments, _metrics)
    return [change for read in readers for change in read(before, after)]


def nodes(runs: Sequence[Run]) -> set[str]:
    """Return the names of the nodes that runs report."""
    return {name for run in runs for name in run.nodes}


Kind = Literal["plan", "image", "environment", "gpu"]
Read = Callable[[Run], str | None]


def _reported(
    kind: Kind, name: str, read: Read, before: Sequence[Run], after: Sequence[Run]
) -> Iterator[Change]:
    """Yield the difference of what runs report, if it is one."""
    old, new = ({value for run in runs if (value := read(run))} for runs in (before, after))
    if old and new - old:
        difference = Difference(kind=kind, name=name, a=joined(old), b=joined(new))
        yield Change(difference, frozenset(new - old))


def _images(before: Sequence[Run], after: Sequence[Run]) -> Iterator[Change]:
    # A digest is held against digests alone.
    known = all(run.image_digest for run in (*before, *after))
    read = _digest if known else _image
    yield from _reported("image", "image", read, before, after)
    if any(run.planned and run.planned.trainers_digest for run in (*before, *after)):
        yield from _reported("image", "program", lambda run: run.group_key.program, before, after)
    for name in ("data_digest", "weights_digest"):
        yield from _reported("plan", name, partial(_read_key, name), before, after)


def _digest(run: Run) -> str | None:
    return run.image_digest


def _image(run: Run) -> str | None:
    return run.facts.image


def _read_key(name: str, run: Run) -> str | None:
    value = getattr(run.group_key, name)
    return None if value == "-" else str(value)


def _plans(before: Sequence[Run], after: Sequence[Run]) -> Iterator[Change]:
    """Yield what differs in the plans of the newest runs: single options and variables."""
    old, new = (_plan(runs[-1]) for runs in (before, after))
    for name in sorted({*old, *new} - {"image", "node"}):
        for part, a, b in _parts(old.get(name), new.get(name)):
            difference = Difference(kind="plan", name=name + part, a=a, b=b)
            yield Change(difference, frozenset([b or ""]))


def _plan(run: Run) -> dict[str, Any]:
    values = {
        name: msgspec.json.decode(text)
        for name, text in case_values(run.planned or run.facts).items()
    }
    return values | {"options": dict(run.facts.options)}


def _parts(a: Any, b: Any) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the differing parts of a value: of mappings by key, of lists the words."""
    if a == b:
        return
    if isinstance(a or b, dict) and isinstance(b or a, dict):
        old, new = ((value or {}) for value in (a, b))
        for key in sorted({*old, *new}):
            for part, one, two in _parts(old.get(key), new.get(key)):
                yield f" {key}{part}", one, two
    elif isinstance(a, list) and isinstance(b, list):
        gone, come = ([str(word) for word in x if word not in y] for x, y in ((a, b), (b, a)))
        if gone or come:
            yield "", " ".join(gone) or None, " ".join(come) or None
        else:
            yield "", " ".join(map(str, a)), " ".join(map(str, b))
    else:
        yield "", _text(a), _text(b)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _environments(before: Sequence[Run], after: Sequence[Run]) -> Iterator[Change]:
    for name in sorted({name for run in after for name in _environment(run)} - LEFT_OUT.keys()):
        if not name.endswith(RESULT):
            yield from _reported("environment", name, partial(_stated, name), before, after)


def _stated(name: str, run: Run) -> str | None:
    return _environment(run).get(name)


def _environment(run: Run) -> dict[str, str]:
    known = {} if run.measurement is None else run.measurement.environment
    return {key: str(value) for key, value in known.items() if value is not None}


# -- GPU metrics ----------------------------------------------------------------------------------


def _metrics(before: Sequence[Run], after: Sequence[Run]) -> Iterator[Change]:
    yield from _reported("gpu", "XID errors", _codes, before, after)
    yield from _moved(WAIT, "ratio", *(_waits(runs) for runs in (before, after)))
    for metric in sorted(METRICS, key=lambda one: one.id not in LIMITERS):
        if metric.id != "xid":
            values = (_values(metric.id, runs) for runs in (before, after))
            yield from _moved(metric.title, metric.unit, *values)


def _moved(name: str, unit: str, before: list[float], after: list[float]) -> Iterator[Change]:
    """Yield the difference of two medians, if it is more than well nodes show."""
    if not before or not after:
        return
    a, b = statistics.median(before), statistics.median(after)
    if abs(b - a) > (CHANGE if unit == "ratio" else CHANGE * abs(a)):
        change = b / a - 1 if a and unit != "ratio" else None
        texts = {"a": _written(a, unit), "b": _written(b, unit)}
        difference = Difference(kind="gpu", name=name, **texts, change=change)
        yield Change(difference, frozenset(["up" if b > a else "down"]))


def _waits(runs: Sequence[Run]) -> list[float]:
    known = (run.measurement.data_fraction for run in runs if run.measurement is not None)
    return [share for share in known if share is not None]


def _figures(name: str, runs: Sequence[Run]) -> list[GpuFigure]:
    measured = (run.measurement.gpu_metrics for run in runs if run.measurement is not None)
    return [metrics.figures[name] for metrics in measured if metrics and name in metrics.figures]


def _values(name: str, runs: Sequence[Run]) -> list[float]:
    return [figure.value for figure in _figures(name, runs) if figure.value is not None]


def _codes(run: Run) -> str | None:
    found = _figures("xid", [run])
    codes = sorted({code for figure in found for code in figure.codes})
    return ", ".join(map(str, codes)) or "none" if found else None


def _written(value: float, unit: str) -> str:
    return f"{100 * value:.1f} %" if unit == "ratio" else f"{value:,.0f} {unit}".rstrip()
