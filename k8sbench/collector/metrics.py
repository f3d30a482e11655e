"""The collector's metrics for Prometheus, by prometheus-client.

Labels hold names that users choose, so that the number of series is bounded: of cases the ones that
were seen last are kept.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from k8sbench.app import comparing, reading
from k8sbench.app.comparing import Held
from k8sbench.collector.controller import State
from k8sbench.model.errors import BenchError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run

MOST_CASES, MOST_CODES = 200, 30
"""Series of each metric that has these labels."""
LONGEST_LABEL = 63
STUCK_SECONDS = 1800.0
"""For which a job may be pending or starting."""
ROOM_SECONDS = 300.0
"""Between two counts of what the store takes."""
HELD_SECONDS = 300.0
"""Between two comparisons with the baseline, unless a run has ended."""
NEWEST = 500
"""Runs among which the newest sets are looked for."""
CASE = ("benchmark", "variant", "framework", "precision", "case", "preset", "pool")
"""Names of what `comparing.labels` returns."""


class _Last(NamedTuple):
    """The last run of a case."""

    rate: float | None
    valid: bool


class Metrics(Collector):
    """What is exposed; the thread that collects reports to it, and any thread may read it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._cases: OrderedDict[tuple[str, ...], _Last] = OrderedDict()
        self._room: tuple[int, int] | None = None
        self._room_at = -ROOM_SECONDS
        self._held: list[Held] = []
        self._held_at, self._held_name = -HELD_SECONDS, ""
        self.state: State | None = None
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def closed(self, run: Run) -> None:
        """Take in a run that is over."""
        plan, measured = run.plan, run.measurement
        with self._lock:
            self._held_at = -HELD_SECONDS
            if run.phase is Phase.CANCELLED or (run.phase is Phase.SUCCEEDED and measured is None):
                return
            values = comparing.labels(plan)
            last = _Last(
                rate=None if measured is None else measured.rate,
                valid=measured is not None and measured.verdict == "valid",
            )
            key = tuple(value[:LONGEST_LABEL] for value in values)
            self._cases[key] = last
            self._cases.move_to_end(key)
            if len(self._cases) > MOST_CASES:
                self._cases.popitem(last=False)

    def describe(self) -> Iterable[Metric]:
        """Name nothing in advance: there is no other source of metrics here."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        state = self.state
        if state is None:
            return
        with self._lock:
            cases = dict(self._cases)
        rate = GaugeMetricFamily(
            "k8sbench_throughput_samples_per_second", "Of the last run of a case.", labels=CASE
        )
        valid = GaugeMetricFamily(
            "k8sbench_run_valid", "Whether the last run of a case is valid.", labels=CASE
        )
        for labels, last in cases.items():
            if last.rate is not None:
                rate.add_metric(labels, last.rate)
            valid.add_metric(labels, float(last.valid))
        yield from (rate, valid)
        yield from self._against_the_baseline(state)
        yield from self._of_collecting(state)
        yield from self._of_the_store(state)

    def _against_the_baseline(self, state: State) -> Iterator[Metric]:
        """Compare the newest sets; what cannot be read has no series rather than old ones."""
        name, now = state.settings.baseline or "", time.monotonic()
        with self._lock:
            is_due = now - self._held_at >= HELD_SECONDS or name != self._held_name
            self._held_at, self._held_name = (now, name) if is_due else (self._held_at, name)
        if is_due:
            held: list[Held] = []
            with contextlib.suppress(BenchError, OSError):
                held = comparing.held_against(state.settings.store, name, NEWEST) if name else []
            self._held = held[:MOST_CASES]
        ratio = GaugeMetricFamily(
            "k8sbench_baseline_ratio",
            "Throughput of the newest complete set of a case, divided by the baseline's.",
            labels=CASE,
        )
        separated = GaugeMetricFamily(
            "k8sbench_baseline_separated",
            "Whether the two differ by more than chance: an exact test, p up to 5 %.",
            labels=CASE,
        )
        for comparison in self._held:
            labels = tuple(label[:LONGEST_LABEL] for label in comparison.labels)
            ratio.add_metric(labels, comparison.ratio)
            separated.add_metric(labels, float(comparison.is_separated))
        yield from (ratio, separated)

    def _of_collecting(self, state: State) -> Iterator[Metric]:
        look = state.look if state.is_leader else None
        runs = () if look is None else look.runs
        phases = Counter(str(run.phase) for run in runs)
        jobs = GaugeMetricFamily("k8sbench_jobs", "Jobs that are followed.", labels=["phase"])
        for phase in Phase:
            jobs.add_metric([str(phase)], phases[str(phase)])
        yield jobs
        codes = Counter({} if look is None else look.api_errors).most_common(MOST_CODES)
        errors = CounterMetricFamily(
            "k8sbench_api_errors",
            "Requests that the API server refused (404 among them) or did not answer (none).",
            labels=["code"],
        )
        for code, count in codes:
            errors.add_metric([code], count)
        yield errors
        stuck = sum(self._is_stuck(run) for run in runs)
        for name, about, value in (
            ("stuck_jobs", "Jobs that cannot start, or have not in half an hour.", stuck),
            ("collector_leader", "Whether this collector collects.", state.is_leader),
        ):
            yield GaugeMetricFamily(f"k8sbench_{name}", about, value=float(value))
        if look is not None and look.listed_at is not None:
            yield GaugeMetricFamily(
                "k8sbench_last_success_timestamp_seconds",
                "When the jobs of all namespaces were last listed.",
                value=look.listed_at,
            )

    def _is_stuck(self, run: Run) -> bool:
        latest = run.history[-1]
        is_late = self._clock() - latest.at > STUCK_SECONDS
        waits = run.phase in {Phase.CREATED, Phase.PENDING, Phase.PULLING, Phase.STARTING}
        return latest.unrecoverable or (waits and is_late)

    def _of_the_store(self, state: State) -> Iterator[Metric]:
        if time.monotonic() - self._room_at >= ROOM_SECONDS:
            self._room_at = time.monotonic()
            with contextlib.suppress(BenchError, OSError):
                self._room = reading.room(state.settings.store)
        if self._room is not None:
            taken, free = self._room
            yield GaugeMetricFamily("k8sbench_store_bytes", "Of the store's files.", value=taken)
            yield GaugeMetricFamily("k8sbench_store_free_bytes", "Of its disk.", value=free)
