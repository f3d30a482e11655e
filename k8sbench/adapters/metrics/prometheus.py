"""``MetricSource`` of any server with Prometheus' HTTP API.

Which Prometheus there is, and whether it has GPU metrics, is asked once for all runs, and again
after a minute. A fetch asks for the UUIDs of the run's GPUs, and then for all samples of these GPUs
within the window, in pieces of less than 11,000 for each series. It is limited in time, whatever
Prometheus does.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from itertools import zip_longest

import msgspec

from k8sbench import limits
from k8sbench.adapters.metrics import attribution, prometheus_api
from k8sbench.adapters.metrics.attribution import Labelled
from k8sbench.adapters.metrics.prometheus_api import PrometheusFault, Row, Way
from k8sbench.model.gpu_metrics import EXPORTER_SECONDS, Fetched, SeriesQuery, SourceName
from k8sbench.ports import MetricSource

QUERY_SECONDS = 10.0
"""Timeout of one query of a fetch, seconds."""
POINTS, SAMPLES = 10_000, 200_000
"""Maximum points of a series, and of all in one answer: about 6 MB."""
PIECE_SECONDS, GROWTH = 300.0, 8.0
"""Length of a window's first piece, s, and maximum growth of the next."""
LOOK_BACK_SECONDS = 3600.0
"""End of a window in which the run's GPUs are looked up, seconds."""
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
        try:
            return self._fetch(wanted, time.monotonic() + limits.now.prometheus)
        except PrometheusFault as fault:
            return Fetched(source=self.name, missing={"*": str(fault)})

    def _fetch(self, wanted: SeriesQuery, deadline: float) -> Fetched:
        window = self._window(wanted, deadline)
        if not window.uuids:
            why = (
                f"{window.way.name} has no GPU metrics that name the run's pods, or a UUID of its"
                " log: it scrapes no DCGM exporter on its nodes, or one that was started without"
                " DCGM_EXPORTER_KUBERNETES=true."
            )
            return Fetched(source=self.name, missing={"*": why}, warnings=(*window.warnings,))
        rows = self._samples(window, deadline)
        fetched = attribution.attribute(rows, wanted, self.name)
        nothing = {"*": f"{window.way.name} has no sample of the run's GPUs in its window."}
        return msgspec.structs.replace(
            fetched, missing=fetched.missing or nothing, warnings=(*window.warnings,)
        )

    def _known(self, deadline: float) -> _Reached:
        """Find the Prometheus to ask, once for all threads; raises :class:`PrometheusFault`."""
        with self._finding:
            if time.monotonic() >= self._reached_at + limits.now.prometheus_known:
                try:
                    self._reached = self._reach(deadline)
                except PrometheusFault as fault:
                    self._reached = str(fault)
                self._reached_at = time.monotonic()
            if isinstance(self._reached, str):
                raise PrometheusFault(self._reached)
            return self._reached

    def _reach(self, deadline: float) -> _Reached:
        return prometheus_api.first(
            self._find(), lambda way: self._opened(way, deadline), lambda reached: reached.has_gpus
        )

    def _opened(self, way: Way, deadline: float) -> _Reached:
        seconds = min(limits.now.prometheus_first, _left(deadline))
        rows, _ = prometheus_api.ask(way, prometheus_api.known_nodes(NODES_SECONDS), seconds)
        scrapes = max((prometheus_api.number(row.value[1]) for row in rows), default=0.0)
        return _Reached(
            way=way,
            has_gpus=any(row.metric.get(prometheus_api.HOST) for row in rows),
            interval=min(EXPORTER_SECONDS, NODES_SECONDS / max(scrapes, 1.0)),
        )

    def _window(self, wanted: SeriesQuery, deadline: float) -> _Window:
        """Ask which GPUs are the run's."""
        if wanted.end <= wanted.start:
            raise PrometheusFault("The run has no window in which GPU metrics could be read.")
        reached = self._known(deadline)
        window = _Window(way=reached.way, wanted=wanted)
        seconds = min(wanted.end - wanted.start, LOOK_BACK_SECONDS)
        every = prometheus_api.batches(wanted.nodes if wanted.namespace is not None else ())
        named = prometheus_api.batches(wanted.uuids)
        for pods, uuids in zip_longest(every, named, fillvalue=()):
            query = prometheus_api.owned(wanted.namespace, pods, uuids, seconds)
            rows = self._ask(window, query, wanted.end, deadline)
            window.uuids |= {row.metric.get(prometheus_api.UUID, "") for row in rows} - {""}
        return window

    def _samples(self, window: _Window, deadline: float) -> list[Labelled]:
        samples: dict[frozenset[tuple[str, str]], tuple[list[float], list[float]]] = {}
        for uuids in prometheus_api.batches(window.uuids):
            at, seconds = window.wanted.start, PIECE_SECONDS
            while at < window.wanted.end:
                end = min(at + seconds, window.wanted.end)
                # From Prometheus 3 on a range does not include its beginning.
                query = prometheus_api.samples(uuids, end - at + 0.001)
                rows = self._ask(window, query, end, deadline)
                for row in rows:
                    stamps, values = samples.setdefault(frozenset(row.metric.items()), ([], []))
                    window.take(row, stamps, values)
                sizes = [len(row.values) for row in rows]
                at = end
                # There may be no series, or series without samples.
                most, every = max([1, *sizes]), max(1, sum(sizes))
                seconds *= min(GROWTH, POINTS / most, SAMPLES / every)
        series = [Labelled(dict(labels), *sampled) for labels, sampled in samples.items()]
        return sorted((row for row in series if row.at), key=lambda row: sorted(row.labels.items()))

    def _ask(self, window: _Window, query: str, at: float, deadline: float) -> list[Row]:
        seconds = min(QUERY_SECONDS, _left(deadline))
        rows, warnings = prometheus_api.ask(window.way, query, seconds, at=at)
        window.warnings.update(dict.fromkeys(warnings))
        return rows


class _Window(msgspec.Struct, kw_only=True):
    """A run's window, and what is known of it."""

    way: Way
    wanted: SeriesQuery
    uuids: set[str] = set()
    """UUIDs of the run's GPUs."""
    warnings: dict[str, None] = {}

    def take(self, row: Row, stamps: list[float], values: list[float]) -> None:
        """Add new samples; those on a boundary are in both answers."""
        for at, value in row.values:
            moment = round(at, 3)
            if self.wanted.start <= moment <= self.wanted.end and (
                not stamps or moment > stamps[-1]
            ):
                stamps.append(moment)
                values.append(prometheus_api.number(value))


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise PrometheusFault(
            f"Prometheus did not answer all queries within {limits.now.prometheus:.0f} s."
        )
    return left
