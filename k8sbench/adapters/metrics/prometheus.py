"""The port ``MetricSource`` over Prometheus' HTTP API, of any server that speaks it.

A fetch asks for the time, for the UUIDs of the run's GPUs, for one GPU's samples to see how far
they are apart, and then for all samples of these GPUs within the window, in pieces of less than
11,000 for each series. It does not take longer than :data:`SECONDS`, whatever Prometheus does.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator

import msgspec

from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.metrics import attribution, discovery, prometheus_api, promql
from k8sbench.adapters.metrics.attribution import Labelled, Target
from k8sbench.adapters.metrics.discovery import Denied, Found
from k8sbench.adapters.metrics.prometheus_api import Direct, PrometheusFault, Proxied, Row, Way
from k8sbench.model.gpu_metrics import Fetched, SourceName, Wanted
from k8sbench.model.run import Run

SECONDS = 30.0
"""For all queries of a fetch."""
FIRST_SECONDS = 4.0
"""For the first answer of one that was named."""
TRIED_SECONDS = 1.5
"""For that of one that may be a Prometheus."""
POINTS = 10_000
"""Of one series in one answer; servers refuse more than 11,000."""
SAMPLES = 200_000
"""In one answer: about 6 MB."""
EXPORTER_SECONDS = 30.0
"""The interval of DCGM's exporter unless it is told another."""
LOOK_BACK_SECONDS = 3600.0
"""How much of a long window shows which GPUs are the run's."""
INTERVAL_SECONDS = 300.0
"""How much of the window shows how far its samples are apart."""
SKEW_SECONDS = 5.0
"""Clocks that differ by less are taken for equal."""


class PrometheusSource:
    """GPU metrics that a Prometheus has scraped."""

    name: SourceName = "prometheus"

    def __init__(
        self,
        find: Callable[[], Found],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._find = find
        self._clock = clock
        """The cluster's, Unix seconds."""
        self._way: Way | None = None
        self.denied: Denied | None = None
        """The service that the user may not reach through the API server, if that was why."""

    def follow(self, run: Run) -> None:
        """Do nothing: Prometheus takes the samples."""

    def release(self, run_id: str) -> None:
        """Do nothing: Prometheus keeps them."""

    def settles_in(self, wanted: Wanted) -> float:
        """One interval of the samples; 0 where there are none to wait for."""
        deadline = time.monotonic() + SECONDS
        try:
            window = self._window(wanted, deadline)
        except PrometheusFault:
            return 0.0
        return min(window.interval or EXPORTER_SECONDS, EXPORTER_SECONDS) if window.uuids else 0.0

    def fetch(self, wanted: Wanted) -> Fetched:
        """Return the series of the run's GPUs, or why there are none."""
        try:
            return self._fetch(wanted, time.monotonic() + SECONDS)
        except PrometheusFault as fault:
            return Fetched(source=self.name, missing={"*": str(fault)})

    def close(self) -> None:
        """Close connections."""
        if isinstance(self._way, Direct):
            self._way.close()

    def _fetch(self, wanted: Wanted, deadline: float) -> Fetched:
        window = self._window(wanted, deadline)
        if not window.uuids:
            why = self._nothing(window, wanted, deadline)
            return Fetched(source=self.name, missing={"*": why}, warnings=window.said())
        rows = self._samples(window, deadline)
        targets = self._targets(window, attribution.unsure(rows, wanted), deadline)
        found = attribution.attribute(rows, wanted, self.name, targets)
        nothing = {"*": f"{window.way.name} has no sample of the run's GPUs in its window."}
        return msgspec.structs.replace(
            found,
            missing=found.missing or nothing,
            warnings=(*window.said(), *found.warnings),
        )

    def _window(self, wanted: Wanted, deadline: float) -> _Window:
        """Find the Prometheus that knows the run's GPUs, else the first that answers."""
        if wanted.end <= wanted.start:
            raise PrometheusFault("The run has no window in which GPU metrics could be read.")
        if self._way is not None:
            return self._opened(self._way, wanted, FIRST_SECONDS, deadline)
        self.denied = None
        found = self._find()
        if not found.ways:
            raise PrometheusFault(found.why)
        seconds = FIRST_SECONDS if len(found.ways) == 1 else TRIED_SECONDS
        answered: _Window | None = None
        faults: list[PrometheusFault] = []
        for way in found.ways:
            try:
                window = self._opened(way, wanted, seconds, deadline)
            except PrometheusFault as fault:
                faults.append(fault)
                if fault.status == 403 and self.denied is None and isinstance(way, Proxied):
                    self.denied = Denied(way.namespace, way.service)
                continue
            if answered is None or window.uuids:
                answered = window
            if window.uuids:
                break
        if answered is None:
            # A refusal says more than a service that is not there.
            raise next((one for one in faults if one.status == 403), faults[0])
        self._way, self.denied = answered.way, None
        return answered

    def _opened(self, way: Way, wanted: Wanted, seconds: float, deadline: float) -> _Window:
        before = self._clock()
        rows, _ = prometheus_api.ask(way, promql.CLOCK, min(seconds, _left(deadline)))
        theirs = prometheus_api.number(rows[0].value[1]) if rows else math.nan
        ahead = theirs - (before + self._clock()) / 2
        window = _Window(way=way, wanted=wanted)
        if abs(ahead) >= SKEW_SECONDS:
            window.ahead = ahead
            window.warnings[
                f"The clock of {way.name} is {abs(ahead):.0f} s"
                f" {'ahead of' if ahead > 0 else 'behind'} the cluster's; its stamps are corrected."
            ] = None
        for pods, uuids in _paired(wanted):
            query = promql.owned(
                wanted.namespace, pods, uuids, min(window.seconds, LOOK_BACK_SECONDS)
            )
            for row in self._ask(window, query, window.end, deadline):
                for label in promql.UUID_LABELS:
                    if row.metric.get(label):
                        window.uuids.setdefault(label, set()).add(row.metric[label])
        for label, known in window.uuids.items():
            query = promql.all_of(label, min(known), min(window.seconds, INTERVAL_SECONDS))
            gaps = [
                statistics.median(
                    later[0] - one[0] for one, later in itertools.pairwise(row.values)
                )
                for row in self._ask(window, query, window.end, deadline)
                if len(row.values) > 1
            ]
            window.interval = min(gaps, default=None)
        return window

    def _samples(self, window: _Window, deadline: float) -> list[Labelled]:
        found: dict[frozenset[tuple[str, str]], tuple[list[float], list[float]]] = {}
        for label, known in window.uuids.items():
            for uuids in promql.batches(known):
                for seconds, end in window.pieces(len(uuids)):
                    query = promql.samples(label, uuids, seconds)
                    for row in self._ask(window, query, end, deadline):
                        stamps, values = found.setdefault(frozenset(row.metric.items()), ([], []))
                        window.take(row, stamps, values)
        # One scrape stamps all its samples alike: the stamps are kept once.
        same: dict[tuple[float, ...], tuple[float, ...]] = {}
        rows = []
        for labels, (stamps, values) in found.items():
            at = tuple(stamps)
            rows.append(Labelled(dict(labels), same.setdefault(at, at), values))
        return sorted((row for row in rows if row.at), key=lambda row: sorted(row.labels.items()))

    def _targets(self, window: _Window, instances: set[str], deadline: float) -> set[Target]:
        seconds = min(window.seconds, LOOK_BACK_SECONDS)
        return {
            Target(*(row.metric.get(name, "") for name in Target._fields))
            for some in promql.batches(instances)
            for row in self._ask(window, promql.targets(some, seconds), window.end, deadline)
        }

    def _nothing(self, window: _Window, wanted: Wanted, deadline: float) -> str:
        """Say why there is nothing of the run's GPUs."""
        query = promql.nodes(min(window.seconds, INTERVAL_SECONDS))
        has = {
            row.metric[label]
            for row in self._ask(window, query, window.end, deadline)
            for label in promql.HOST_LABELS
            if row.metric.get(label)
        }
        who = window.way.name
        if not has:
            return f"{who} had no GPU metrics in the run's window: it scrapes no DCGM exporter."
        ours = {node for node in wanted.nodes.values() if node is not None}
        known = {node.partition(".")[0] for node in has}
        there = sorted(node for node in ours if node.partition(".")[0] in known)
        if ours and not there:
            return (
                f"{who} has GPU metrics of {_some(has)}, and none of {_some(ours)}, where the run"
                " was: no DCGM exporter is scraped there."
            )
        why = (
            "the log does not name its GPUs"
            if not wanted.uuids
            else "none has a UUID that the run's log names"
        )
        return (
            f"{who} has GPU metrics of {_some(there or has)}, but none names the run's pods, and"
            f" {why}: start the DCGM exporter with DCGM_EXPORTER_KUBERNETES=true."
        )

    def _ask(self, window: _Window, query: str, at: float, deadline: float) -> list[Row]:
        rows, warnings = prometheus_api.ask(window.way, query, _left(deadline), at=at)
        window.warnings.update(dict.fromkeys(warnings))
        return rows


class _Window(msgspec.Struct, kw_only=True):
    """A run's window by Prometheus' clock, and what is known of it."""

    way: Way
    wanted: Wanted
    ahead: float = 0.0
    """Seconds by which Prometheus' clock is ahead."""
    uuids: dict[str, set[str]] = {}
    """Of the run's GPUs, by the label that has them."""
    interval: float | None = None
    """Seconds between samples."""
    warnings: dict[str, None] = {}

    @property
    def end(self) -> float:
        return self.wanted.end + self.ahead

    @property
    def seconds(self) -> float:
        return self.wanted.end - self.wanted.start

    def said(self) -> tuple[str, ...]:
        return tuple(self.warnings)

    def pieces(self, gpus: int) -> Iterator[tuple[float, float]]:
        """Yield length and end of the parts in which the window is read, the earliest first."""
        interval = self.interval or 1.0
        points = min(POINTS, SAMPLES / (gpus * len(promql.FIELDS)))
        longest = max(1.0, interval * points)
        start, last = self.wanted.start + self.ahead, self.end
        while start < last:
            end = min(start + longest, last)
            # From Prometheus 3 on a range does not include its beginning.
            yield end - start + 0.001, end
            start = end

    def take(self, row: Row, stamps: list[float], values: list[float]) -> None:
        """Add an answer's samples; one on the boundary of two parts is in both."""
        for at, value in row.values:
            moment = round(at - self.ahead, 3)
            if self.wanted.start <= moment <= self.wanted.end and (
                not stamps or moment > stamps[-1]
            ):
                stamps.append(moment)
                values.append(prometheus_api.number(value))


def source(
    place: str, api: Api | None, *, clock: Callable[[], float] = time.time
) -> PrometheusSource:
    """Make the source of ``--prometheus``: a URL, or ``auto`` for the cluster's own.

    ``clock`` is the cluster's. The API client stays its owner's to close.
    """

    def find() -> Found:
        if place != "auto":
            return discovery.named(place, api)
        if api is None:
            return Found(why="There is no cluster in which a Prometheus could be looked for.")
        return discovery.in_cluster(api)

    return PrometheusSource(find, clock=clock)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise PrometheusFault(f"Prometheus did not answer all queries within {SECONDS:.0f} s.")
    return left


def _paired(wanted: Wanted) -> Iterator[tuple[list[str], list[str]]]:
    """Yield pods and UUIDs, as many as one query can name."""
    pods = promql.batches(wanted.nodes if wanted.namespace is not None else ())
    uuids = promql.batches(wanted.uuids)
    for number in range(max(len(pods), len(uuids))):
        yield (
            pods[number] if number < len(pods) else [],
            uuids[number] if number < len(uuids) else [],
        )


def _some(names: set[str] | list[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return ", ".join(shown[:3]) + more
