"""``MetricSource`` of any server with Prometheus' HTTP API.

Which Prometheus there is, and whether it has GPU metrics, is asked once for all runs, and again
after a minute. A fetch asks for the UUIDs of the run's GPUs, and then for all samples of these GPUs
within the window and an interval on both sides, in pieces of less than 11,000 for each series. It
is limited in time, whatever Prometheus does.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from k8sbench import limits
from k8sbench.adapters.metrics import prometheus_api
from k8sbench.adapters.metrics.prometheus_api import (
    HOST,
    POD_LABELS,
    UUID,
    Lookup,
    PrometheusFault,
    SeriesRow,
    Way,
)
from k8sbench.messages import Note, note, or_list, quoted
from k8sbench.model.gpu_metrics import (
    BY_ID,
    EXPORTER_SECONDS,
    METRICS,
    Fetched,
    Field,
    Gpu,
    GpuMetric,
    Series,
    SeriesQuery,
    Shared,
    SourceName,
)
from k8sbench.ports.metrics import MetricSource

QUERY_SECONDS = 10.0
"""Timeout of one query of a fetch, seconds."""
POINTS, SAMPLES = 10_000, 200_000
"""Maximum points of a series, and of all in one answer: about 6 MB."""
PIECE_SECONDS, GROWTH = 420.0, 8.0
"""Length of a window's first piece, s, and maximum growth of the next."""
LOOK_SECONDS = 3600.0
"""Part of a window in which the run's GPUs are looked up at a time, seconds."""
EDGE_SECONDS = 60.0
"""Time on both sides of a window in which a sample says what is new in it, seconds."""
NODES_SECONDS = 300.0
"""Recent seconds in which any GPU metric is looked for."""


class _Reached(msgspec.Struct, frozen=True, kw_only=True):
    """The Prometheus that is asked."""

    way: Way
    has_gpus: bool
    """True if it has GPU metrics now."""
    interval: float
    """Interval of scrapes or of an exporter's values, the shorter one, s."""


class PrometheusSource(MetricSource):
    """GPU metrics that a Prometheus has scraped."""

    name: SourceName = "prometheus"

    def __init__(self, find: Callable[[], tuple[Way, ...]]) -> None:
        self._find = find
        self._finding = threading.Lock()
        self._reached: _Reached | str = ""
        """The chosen Prometheus, or the reason why there is none."""
        self._reached_at = -math.inf

    def settles_in(self, wanted: SeriesQuery) -> float:
        """Return one interval of the samples; 0 without samples."""
        deadline = time.monotonic() + limits.now.prometheus
        try:
            has = self._window(wanted, deadline).uuids
            return self._known(deadline).interval if has else 0.0
        except PrometheusFault:
            return 0.0

    def fetch(self, wanted: SeriesQuery) -> Fetched:
        """Return the series of the run's GPUs, or the reason for none."""
        deadline = time.monotonic() + limits.now.prometheus
        try:
            window = self._window(wanted, deadline)
            rows = self._samples(window, deadline)
        except PrometheusFault as fault:
            return Fetched(source=self.name, missing={"*": quoted(str(fault))})
        if not window.uuids:
            why = note("no-gpu-metrics-of-pods", prometheus=window.way.name)
            return Fetched(source=self.name, missing={"*": why}, warnings=(*window.warnings,))
        fetched = attribute(rows, wanted, self.name)
        why = note("no-gpu-metrics-in-window", prometheus=window.way.name)
        if window.warnings:
            warnings = quoted(" ".join(window.warnings))
            why = note("two-sentences", one=why, other=warnings)
        nothing = {"*": why}
        return msgspec.structs.replace(
            fetched, missing=fetched.missing or nothing, warnings=(*window.warnings,)
        )

    def _known(self, deadline: float) -> _Reached:
        """Find the Prometheus to ask, once for all threads; raises :class:`PrometheusFault`."""
        with self._finding:
            if time.monotonic() >= self._reached_at + limits.now.prometheus_known:
                try:
                    self._reached = prometheus_api.first(
                        self._find(),
                        lambda way: self._opened(way, deadline),
                        lambda reached: reached.has_gpus,
                    )
                except PrometheusFault as fault:
                    self._reached = str(fault)
                self._reached_at = time.monotonic()
            if isinstance(self._reached, str):
                raise PrometheusFault(self._reached)
            return self._reached

    def _opened(self, way: Way, deadline: float) -> _Reached:
        seconds = min(limits.now.prometheus_first, _left(deadline))
        rows, _ = prometheus_api.ask(way, prometheus_api.known_nodes(NODES_SECONDS), seconds)
        scrapes = max((prometheus_api.number(row.value[1]) for row in rows), default=0.0)
        return _Reached(
            way=way,
            has_gpus=any(prometheus_api.either(row.metric, HOST)[1] for row in rows),
            interval=min(EXPORTER_SECONDS, NODES_SECONDS / max(scrapes, 1.0)),
        )

    def _window(self, wanted: SeriesQuery, deadline: float) -> _Window:
        """Ask which GPUs are the run's."""
        if wanted.end <= wanted.start:
            raise PrometheusFault("The run has no window in which GPU metrics could be read.")
        reached = self._known(deadline)
        window = _Window(way=reached.way, wanted=wanted)
        every = prometheus_api.batches(wanted.nodes if wanted.namespace is not None else ())
        named = prometheus_api.batches(wanted.uuids)
        batches = [*itertools.zip_longest(every, named, fillvalue=())]
        lookups: Sequence[Lookup] = prometheus_api.LOOKUPS
        at = wanted.end
        while at > wanted.start:
            seconds = min(at - wanted.start, LOOK_SECONDS)
            for lookup in lookups:
                for pods, uuids in batches:
                    query = prometheus_api.owned(wanted.namespace, pods, uuids, seconds, lookup)
                    rows = self._ask(window, query, at, deadline)
                    found = (prometheus_api.either(row.metric, UUID) for row in rows)
                    window.uuids |= {(label, uuid) for label, uuid in found if uuid}
                if window.uuids:
                    lookups = (lookup,)
                    break
            at -= seconds
        return window

    def _samples(self, window: _Window, deadline: float) -> list[Labelled]:
        samples: dict[frozenset[tuple[str, str]], tuple[list[float], list[float]]] = {}
        for label, uuids in window.batches():
            at, seconds = window.wanted.start - EDGE_SECONDS, PIECE_SECONDS
            last = window.wanted.end + EDGE_SECONDS
            while at < last:
                end = min(at + seconds, last)
                # From Prometheus 3 on a range does not include its beginning.
                query = prometheus_api.samples(uuids, end - at + 0.001, label)
                rows = self._series(window, self._ask(window, query, end, deadline))
                for row in rows:
                    stamps, values = samples.setdefault(frozenset(row.metric.items()), ([], []))
                    window.take(row, stamps, values)
                sizes = [len(row.values) for row in rows]
                at = end
                # There may be no series, or series without samples.
                most = max([1, *sizes])
                every = max(1, sum(sizes))
                seconds *= min(GROWTH, POINTS / most, SAMPLES / every)
        series = [Labelled(_as_dcgm(labels), *sampled) for labels, sampled in samples.items()]
        return sorted((row for row in series if row.at), key=lambda row: sorted(row.labels.items()))

    def _series(self, window: _Window, rows: Sequence[SeriesRow]) -> list[SeriesRow]:
        """Leave out what was not asked for: series of no field that counts."""
        named = [row for row in rows if row.metric.get("__name__", "").upper() in _FIELDS]
        if len(named) < len(rows):
            names = {repr(row.metric.get("__name__", "")) for row in rows if row not in named}
            text = (
                f"{window.way.name} answers with series of other names: {', '.join(sorted(names))}."
            )
            window.warnings[text] = None
        return named

    def _ask(self, window: _Window, query: str, at: float, deadline: float) -> list[SeriesRow]:
        seconds = min(QUERY_SECONDS, _left(deadline))
        rows, warnings = prometheus_api.ask(window.way, query, seconds, at=at)
        window.warnings.update(dict.fromkeys(warnings))
        return rows


class _Window(msgspec.Struct, kw_only=True):
    """A run's window, and what is known of it."""

    way: Way
    wanted: SeriesQuery
    uuids: set[tuple[str, str]] = set()
    """UUIDs of the run's GPUs, after the name of their label."""
    warnings: dict[str, None] = {}

    def batches(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield batches of the UUIDs with their label."""
        for label in sorted({label for label, _ in self.uuids}):
            for uuids in prometheus_api.batches(uuid for its, uuid in self.uuids if its == label):
                yield label, uuids

    def take(self, row: SeriesRow, stamps: list[float], values: list[float]) -> None:
        """Add new samples; those on a boundary are in both answers."""
        for at, value in sorted(row.values):
            moment = round(at, 3)
            if not stamps or moment > stamps[-1]:
                stamps.append(moment)
                values.append(prometheus_api.number(value))


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise PrometheusFault(
            f"Prometheus did not answer all queries within {limits.now.prometheus:.0f} s."
        )
    return left


# -- attribution of DCGM's series to a run's GPUs, by labels ---------------------------------------
#
# Pure: labelled samples in, series out. Old and new exporters are understood, and names in lower
# case. An exporter names the GPU's pod or none; a Prometheus may add the exporter's own pod, which
# never counts. A GPU is identified by its UUID, a MIG slice also by its instance.

_FIELDS: Mapping[str, tuple[str, int, Field]] = {
    field.name: (metric.id, place, field)
    for metric in METRICS
    for place, field in enumerate(metric.dcgm)
}
"""Field name → metric, the field's rank for it, and the field."""
_LABELS = {name.lower(): name for name in (UUID, HOST, "modelName", "GPU_I_ID", "GPU_I_PROFILE")}
"""Labels by their names in lower case."""
_OTHERS_SAMPLES = 2
"""Minimum samples of another pod on a GPU.

One may be from the moment at which the GPU changed hands.
"""
_HOLE = 2.2
"""Intervals without a sample that others may fill; fewer are jitter."""
_CHANGES = 3
"""Minimum changes of a value to estimate the exporter's interval."""


class Labelled(NamedTuple):
    """Samples of one series, oldest first."""

    labels: Mapping[str, str]
    """Labels with ``__name__``."""
    at: Sequence[float]
    values: Sequence[float]


_Key = tuple[str, str]
"""UUID of a GPU, and id of its instance or empty."""
_Pod = tuple[str, str]
"""Namespace and name."""


def _as_dcgm(labels: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Write the names of a field and of its labels as DCGM's exporter does."""
    given = dict(labels)
    named = {_LABELS.get(name, name): value for name, value in given.items()}
    return {**named, **given, "__name__": given["__name__"].upper()}


def attribute(rows: Sequence[Labelled], wanted: SeriesQuery, source: SourceName) -> Fetched:
    """Choose one series per metric and GPU of the run."""
    own = {(wanted.namespace, pod) for pod in wanted.nodes} if wanted.namespace else set()
    # A Prometheus may have put the exporter's own pod there. It has not where a pod of ours stands
    # there.
    styles = [
        style
        for style in POD_LABELS
        if style == POD_LABELS[0] or any(_workload(row.labels, [style]) in own for row in rows)
    ]
    by_gpu: dict[_Key, list[tuple[Labelled, _Pod | None]]] = defaultdict(list)
    for whole in rows:
        row = whole if _is_of_events(whole) else _within(whole, (wanted.start, wanted.end))
        if not row.at:
            continue
        key = row.labels.get(UUID, ""), row.labels.get("GPU_I_ID", "")
        by_gpu[key].append((row, _workload(row.labels, styles)))
    series: list[Series] = []
    shared: list[Shared] = []
    missing: dict[str, Note] = {}
    for key, known in by_gpu.items():
        pods = {pod for _, pod in known if pod is not None and pod in own}
        if not pods and key not in {(uuid, "") for uuid in wanted.uuids}:
            continue
        missing = {metric.id: _why_none(metric) for metric in METRICS} | missing
        others = {pod for _, pod in known if pod is not None} - pods
        # Of a GPU that only the log names, the exporter may name one of several pods.
        ranked = [
            (row, 0 if pod in pods else 1 if pod is None else 2)
            for row, pod in known
            if pod not in others or not pods
        ]
        gpu = _gpu([row for row, _ in ranked], key, pods, wanted)
        # Before and after its pods had the GPU, another pod or none had it.
        had = _span(row for row, pod in known if pod in pods or not pods)
        # An error that ends a pod may come to light when nobody has the GPU any more.
        around = had[0] - EDGE_SECONDS, had[1] + EDGE_SECONDS
        ranked = [
            (_within(row, around if _is_of_events(row) else had), whose) for row, whose in ranked
        ]
        beside = {
            pod
            for row, pod in known
            if pod in others and len(_within(row, had).at) >= _OTHERS_SAMPLES
        }
        # Two pods of the run on one GPU also share it.
        first = _span(row for row, pod in known if pod in pods and pod[1] == gpu.pod)
        beside |= {
            pod
            for row, pod in known
            if pod in pods and pod[1] != gpu.pod and len(_within(row, first).at) >= _OTHERS_SAMPLES
        }
        shared += [Shared(gpu=gpu, other="/".join(pod)) for pod in sorted(beside)]
        added, lacks = _choose_series(ranked, gpu, source)
        series += added
        missing |= lacks
    # Not missing if any GPU has the metric.
    for one in series:
        missing.pop(one.metric, None)
    series.sort(key=_place)
    return Fetched(source=source, series=tuple(series), missing=missing, shared=tuple(shared))


def _is_of_events(row: Labelled) -> bool:
    return BY_ID[_FIELDS[row.labels["__name__"]][0]].is_of_events


def _span(rows: Iterable[Labelled]) -> tuple[float, float]:
    """Return the times of the first and the last sample of series."""
    at = [moment for row in rows for moment in (row.at[0], row.at[-1])]
    return min(at, default=math.inf), max(at, default=-math.inf)


def _within(row: Labelled, span: tuple[float, float]) -> Labelled:
    """Return a series with its samples of a span of time."""
    kept = slice(bisect.bisect_left(row.at, span[0]), bisect.bisect_right(row.at, span[1]))
    return Labelled(row.labels, row.at[kept], row.values[kept])


def _workload(labels: Mapping[str, str], styles: Sequence[tuple[str, str]]) -> _Pod | None:
    """Return the GPU's pod; None without one or if uncertain."""
    for space, name in styles:
        if labels.get(name):
            return labels.get(space, ""), labels[name]
    return None


def _gpu(rows: Sequence[Labelled], key: _Key, pods: Collection[_Pod], wanted: SeriesQuery) -> Gpu:
    # All series of a GPU have these labels, but an exporter of another version may lack some.
    labels: dict[str, str] = {}
    for row in rows:
        labels |= {name: value for name, value in row.labels.items() if value}
    node = labels.get(HOST)
    pod = min((name for _, name in pods), default=None)
    if pod is None and node is not None:
        host = node.partition(".")[0]  # some leave out the domain
        there = [pod for pod, its in wanted.nodes.items() if (its or "").partition(".")[0] == host]
        pod = there[0] if len(there) == 1 else None
    mig = f"{key[1]} ({labels['GPU_I_PROFILE']})" if labels.get("GPU_I_PROFILE") else key[1]
    return Gpu(
        node=(wanted.nodes.get(pod) if pod is not None else None) or node,
        index=labels.get("gpu"),
        uuid=key[0],
        model=labels.get("modelName"),
        mig=mig or None,
        pod=pod,
    )


def _choose_series(
    rows: Iterable[tuple[Labelled, int]], gpu: Gpu, source: SourceName
) -> tuple[list[Series], dict[str, Note]]:
    """Return a GPU's best series per metric, and its missing metrics."""
    by_metric: dict[str, list[tuple[tuple[int, int, int, str], Labelled]]] = defaultdict(list)
    missing: dict[str, Note] = {}
    for row, whose in rows:
        name = row.labels["__name__"]
        metric, place, field = _FIELDS[name]
        if gpu.mig is not None and BY_ID[metric].of_whole_gpu:
            missing[metric] = note("no-gpu-metric-of-parts", field=name)
            continue
        kept = [
            (at, value)
            for at, raw in zip(row.at, row.values, strict=True)
            if (value := field.value(raw)) is not None
        ]
        if not kept:
            if row.at:
                missing[metric] = note("no-gpu-metric-value", field=name)
            continue
        at, values = zip(*kept, strict=True)
        # The exporter, and the Prometheus replica that scraped it.
        names = ("job", "instance", "prometheus_replica", "replica")
        exporter = " ".join(row.labels.get(name, "") for name in names)
        rank = (place, whose, -len(at), exporter)
        by_metric[metric].append((rank, Labelled(row.labels, at, values)))
    series = []
    for metric, candidates in by_metric.items():
        candidates.sort(key=lambda candidate: candidate[0])
        at, values = _joined([row for _, row in candidates])
        series.append(Series(metric=metric, gpu=gpu, source=source, at=at, values=values))
    every = _interval(series)
    return [msgspec.structs.replace(known, every=every) for known in series], missing


def _joined(rows: Sequence[Labelled]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Fill the holes of the best series, and its time before and after, with samples of others.

    An exporter was restarted, or the replicas of a Prometheus were down in turn.
    """
    found = dict(zip(rows[0].at, rows[0].values, strict=True))
    gaps = [b - a for a, b in itertools.pairwise(found)]
    interval = statistics.median(gaps) if gaps else EXPORTER_SECONDS
    for row in rows[1:]:
        known = sorted(found)
        for at, value in zip(row.at, row.values, strict=True):
            place = bisect.bisect(known, at)
            before = known[place - 1] if place else -math.inf
            after = known[place] if place < len(known) else math.inf
            nearest = min(at - before, after - at)
            if after - before > _HOLE * interval and nearest >= interval / 2:
                found[at] = value
    return tuple(sorted(found)), tuple(found[at] for at in sorted(found))


def _interval(series: Iterable[Series]) -> float | None:
    """Return an exporter's interval, s; None if values change too rarely.

    It may exceed the scrape interval; scrapes then repeat a value.
    """
    intervals = []
    for samples in series:
        changed = [
            at
            for at, value, before in zip(
                samples.at[1:], samples.values[1:], samples.values, strict=False
            )
            if value != before
        ]
        if len(changed) > _CHANGES:
            gaps = [later - at for at, later in itertools.pairwise(changed)]
            intervals.append(statistics.median(gaps))
    return min(intervals, default=None)


def _why_none(metric: GpuMetric) -> Note:
    if not metric.dcgm:
        return note("no-gpu-metric-field")
    names = or_list([field.name for field in metric.dcgm])
    return note("no-gpu-metric-collected", fields=names)


def _place(series: Series) -> tuple[int, str, str, str]:
    gpu = series.gpu
    return [*BY_ID].index(series.metric), gpu.pod or "", gpu.node or "", f"{gpu.index} {gpu.mig}"
