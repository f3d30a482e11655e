"""One series of a GPU metric over the steady part of a run.

A sample stands for the time around it, half way to its neighbours; where the next one is more than
two intervals away the series is stale between them, and that time is not covered.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from k8sbench.messages import note
from k8sbench.model import times
from k8sbench.model.gpu_metrics import (
    EXPORTER_SECONDS,
    HELD_DOWN,
    METRICS,
    NO_FIGURE,
    PLAUSIBLE_WATTS,
    THROTTLED,
    Fetched,
    Gpu,
    GpuMetric,
    Series,
)
from k8sbench.model.measurement import GpuFigure
from k8sbench.model.missing import Missing
from k8sbench.model.sample import GpuSamples, Item, Mark
from k8sbench.reader.measuring import evidence

Samples = Sequence[tuple[float, float]]
"""Pairs of time and value."""
Pairs = Sequence[tuple[tuple[float, float], tuple[float, float]]]
"""Samples that follow on one another."""
FEWEST = 4
"""Intervals that the steady part must have, and samples in it, for a figure."""
STALE = 2.0
"""Intervals without a sample after which nothing is known."""
SLACK = 1.1
"""Scrapes jitter."""


class WindowFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of one GPU over the steady part."""

    value: float
    coverage: float
    samples: int
    span: tuple[float, float]
    """Times of the first and the last sample."""
    codes: tuple[int, ...] = ()
    """XID errors, or the bits that held the clocks down."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """One metric from the source that counts."""

    figure: GpuFigure
    by_gpu: dict[int, WindowFigure]
    """By the GPU's place in the list of all."""
    lines: dict[int, int]
    """And the line of the source's artifact that has its series, from 1."""


def over_time(
    series: Series, metric: GpuMetric, start: float, end: float
) -> WindowFigure | Missing:
    """Return the figure of a series over the time from ``start`` to ``end``, Unix seconds."""
    every = [(at, value) for at, value in dict(_sorted(series)).items() if abs(value) < NO_FIGURE]
    if series.at and not every:
        return Missing(UNSUPPORTED)
    inside = [(at, value) for at, value in every if start <= at <= end]
    seconds = end - start
    interval = series.every or EXPORTER_SECONDS
    if len(inside) > 1:
        interval = max(interval, statistics.median(b[0] - a[0] for a, b in pairwise(inside)))
    if seconds * SLACK < FEWEST * interval:
        return Missing(
            note(
                "no-gpu-metric-short",
                duration=times.duration(seconds),
                fewest=FEWEST,
                interval=times.duration(interval),
            )
        )
    samples = _samples(inside, interval)
    if samples < FEWEST:
        return Missing(note("no-gpu-metric-few-samples", samples=samples, needed=FEWEST))
    wrong = [value for _, value in inside if not metric.is_plausible(value)]
    if wrong:
        example = f"{wrong[0]:.12g} {metric.unit}".rstrip()
        return Missing(
            note("no-gpu-metric-implausible", wrong=len(wrong), of=len(inside), example=example)
        )
    weights = _weights([at for at, _ in inside], start, end, interval)
    # Also those of which one is before or after the steady part: what is new may have been in it.
    pairs = [(a, b) for a, b in pairwise(every) if a[0] <= end and b[0] >= start]
    value, codes = _value(metric, pairs, inside, weights)
    if metric.over_time == "increase":
        rate = _per_second(pairs, inside, samples, interval)
        if rate is None:
            return Missing(note("no-gpu-metric-counter-reset"))
        if not PLAUSIBLE_WATTS[0] <= rate <= PLAUSIBLE_WATTS[1]:
            return Missing(note("no-gpu-metric-counter-implausible", power=f"{rate:.3g} W"))
        value = rate * seconds
    coverage = min(1.0, sum(weights) / seconds)
    span = inside[0][0], inside[-1][0]
    return WindowFigure(value=value, coverage=coverage, samples=samples, span=span, codes=codes)


def idle_edges(series: Series, busy: float, start: float, end: float) -> tuple[float, float]:
    """Return for how long the values are below ``busy`` at the begin and at the end, s.

    Two samples at least show it: else 0.
    """
    inside = [(at, value) for at, value in _sorted(series) if start <= at <= end]
    at_work = [at for at, value in inside if value >= busy]
    if not at_work:
        return 0.0, 0.0
    before = [at for at, _ in inside if at < at_work[0]]
    after = [at for at, _ in inside if at > at_work[-1]]
    return (
        before[-1] - start if len(before) > 1 else 0.0,
        end - after[0] if len(after) > 1 else 0.0,
    )


def _sorted(series: Series) -> Samples:
    return sorted(zip(series.at, series.values, strict=True))


def _samples(inside: Samples, interval: float) -> int:
    """Count the samples; a scrape that repeats a value does not count."""
    count = 0
    last = -interval
    kept = None
    for at, value in inside:
        if value != kept or (at - last) * SLACK >= interval:
            count += 1
            last = at
            kept = value
    return count


def _weights(at: Sequence[float], start: float, end: float, interval: float) -> list[float]:
    """Seconds of the steady part that each sample stands for."""
    half = interval / 2
    longest = STALE * interval * SLACK
    gaps = [b - a for a, b in pairwise(at)]
    parts = [gap / 2 if gap <= longest else half for gap in gaps]
    first, last = (
        edge if edge <= interval * SLACK else half for edge in (at[0] - start, end - at[-1])
    )
    return [a + b for a, b in zip([first, *parts], [*parts, last], strict=True)]


def _value(
    metric: GpuMetric, pairs: Pairs, inside: Samples, weights: Sequence[float]
) -> tuple[float, tuple[int, ...]]:
    values = [value for _, value in inside]
    if metric.over_time == "peak":
        return max(values), ()
    if metric.over_time == "count":
        # A counter that goes back was reset, and has counted from 0 since.
        return sum(b - a if b >= a else b for (_, a), (_, b) in pairs), ()
    if metric.over_time == "new":
        # The field holds the last error, which may be from long before.
        codes = {int(b) for (_, a), (_, b) in pairs if b not in (a, 0)}
        return float(len(codes)), tuple(sorted(codes))
    if metric.over_time == "share":
        bits = [int(value) & THROTTLED for value in values]
        held = sum(weight for weight, set_bits in zip(weights, bits, strict=True) if set_bits)
        codes = {bit for bit in HELD_DOWN if any(bit & set_bits for set_bits in bits)}
        return held / sum(weights), tuple(sorted(codes))
    return sum(map(float.__mul__, map(float, values), weights)) / sum(weights), ()


def _per_second(pairs: Pairs, inside: Samples, samples: int, interval: float) -> float | None:
    """Return by how much a counter increased in a second.

    A sample may repeat what the exporter read up to an interval before; one that has changed is
    what it has just read. So a counter that runs is measured from one change to another; one that
    stands still for long from the first sample to the last. Where it goes back it was reset, and
    what it counted between the two samples is not known: None if it was between all.
    """
    first, last = inside[0][0], inside[-1][0]
    changes = [
        b
        for a, b in pairs
        if b[1] != a[1] and first <= b[0] <= last and b[0] - a[0] <= interval * SLACK
    ]
    read = pairwise(changes if 2 * len(changes) > samples else inside)
    known = [(b[0] - a[0], b[1] - a[1]) for a, b in read if b[1] >= a[1]]
    return sum(more for _, more in known) / sum(seconds for seconds, _ in known) if known else None


NONE_PRINTED = note("no-gpu-metrics-printed")
UNSUPPORTED = note("no-gpu-metric-unsupported")


class TrainerSeries:
    """The series of a run's logs, while they are read."""

    def __init__(self) -> None:
        self._gpus: dict[int, Gpu] = {}
        """By rank."""
        self._found: dict[tuple[Gpu, str], tuple[float | None, list[float], list[float]]] = {}
        """By GPU and metric: the interval, times and values."""

    def add(self, item: Item) -> None:
        """Take which GPU a rank has, and what it did; of other items nothing."""
        if isinstance(item, Mark):
            rank = item.number("rank")
            # One that it does not name by its UUID cannot be told from those of other sources.
            if item.kind == "gpu" and rank is not None and item.values.get("gpu_uuid"):
                self._gpus[int(rank)] = _gpu(item)
        elif isinstance(item, GpuSamples) and (gpu := self._gpus.get(item.rank)) is not None:
            for metric, values in item.values.items():
                if (gpu, metric) not in self._found:
                    self._found[gpu, metric] = (item.every, [], [])
                _, at, kept = self._found[gpu, metric]
                for when, value in zip(item.at, values, strict=True):
                    if value is not None:
                        at.append(when)
                        kept.append(value)

    def fetched(self) -> Fetched:
        """Return what the logs have."""
        found = [
            Series(
                metric=metric,
                gpu=gpu,
                source="trainer",
                at=tuple(at),
                values=tuple(values),
                every=every,
            )
            for (gpu, metric), (every, at, values) in self._found.items()
        ]
        if not found:
            return Fetched(source="trainer", missing={"*": NONE_PRINTED})
        missing = {
            metric.id: UNSUPPORTED if metric.nvml else note("no-gpu-metric-nvml")
            for metric in METRICS
        }
        for series in found:
            missing.pop(series.metric, None)
        return Fetched(source="trainer", series=tuple(found), missing=missing)


def _gpu(mark: Mark) -> Gpu:
    known = {
        name: evidence.redact(value)
        for name, value in mark.values.items()
        if isinstance(value, str)
    }
    return Gpu(
        node=known.get("node") or known.get("host"),
        uuid=known.get("gpu_uuid"),
        model=known.get("gpu_model"),
        pod=known.get("pod"),
    )
