"""The operator's metrics for Prometheus, by prometheus-client.

Labels hold names that users choose, so that the number of series is bounded: of benchmarks and
cases the ones that were seen last are kept.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from k8sbench.app import stores
from k8sbench.app.comparisons import ChangeKind, changed_cases, held_against
from k8sbench.model.creation import QUOTA_FULL, WAITS_FOR_TURN
from k8sbench.model.errors import BenchError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.operator.controller import OperatorState
from k8sbench.results.groups import comparison
from k8sbench.results.groups.comparison import Held

V = TypeVar("V")
L = TypeVar("L", bound=tuple[str, ...])
MOST_CASES, MOST_BENCHMARKS, MOST_CODES = 200, 50, 30
"""Series of each metric that has these labels."""
LONGEST_LABEL = 63
STUCK_SECONDS = 1800.0
"""Seconds after which a job that has its turn and does not run counts as stuck."""
BEFORE_RUNNING = frozenset(
    {Phase.CREATED, Phase.QUEUED, Phase.PENDING, Phase.PULLING, Phase.STARTING}
)
WAITS_ITS_TURN = frozenset(
    {WAITS_FOR_TURN, QUOTA_FULL, "queued", "queue-evicted", "no-node-fits", "quota-exceeded"}
)
"""Causes of jobs that do not have their turn: others go first."""
ROOM_SECONDS = 300.0
"""Interval of measuring the store's size."""
HELD_SECONDS = 300.0
"""Interval of comparisons with earlier sets and the baseline, unless a run has ended."""
CHANGES: Mapping[ChangeKind, tuple[str, str]] = {
    "confirmed": (
        "open_change_ratio",
        "Level of a case divided by that before a confirmed drop, from which it has not recovered.",
    ),
    "unconfirmed": (
        "unconfirmed_change_ratio",
        "Newest set of a case divided by the level before, where one set alone shows a drop.",
    ),
    "alternating": (
        "alternating_ratio",
        "Lower level of a case divided by the higher, where it alternates between the two.",
    ),
}
"""Kind of a changed case → its metric, and what that says. Alerts are of confirmed ones alone."""
CASE = (
    *("benchmark", "variant", "framework", "precision", "case", "preset", "pool"),
    "served_namespace",
)
"""Names of what `comparison.labels` returns."""


class Metrics(Collector):
    """Prometheus metrics, reported by the collecting thread, read by any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cases: OrderedDict[tuple[str, ...], tuple[float | None, bool]] = OrderedDict()
        """Throughput of the last run of each case, and whether the run is valid."""
        self._queued: OrderedDict[tuple[str, ...], float] = OrderedDict()
        self._room: Room | None = None
        self._room_at = -ROOM_SECONDS
        self._held: dict[tuple[str, ...], Held] = {}
        self._changed: dict[ChangeKind, dict[tuple[str, ...], float]] = {}
        self._held_at = -HELD_SECONDS
        self.state: OperatorState | None = None
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def closed(self, run: Run) -> None:
        """Take in a run that is over."""
        facts, measured = run.facts, run.measurement
        with self._lock:
            self._held_at = -HELD_SECONDS
            if run.started_at is not None:
                waited = run.started_at - run.created_at
                _put(self._queued, _cut([facts.benchmark]), waited, MOST_BENCHMARKS)
            if run.phase is Phase.CANCELLED or (run.phase is Phase.SUCCEEDED and measured is None):
                return
            rate = None if measured is None else measured.rate
            is_valid = measured is not None and measured.verdict == "valid"
            _put(
                self._cases,
                _cut(comparison.labels(facts, run.group_key)),
                (rate, is_valid),
                MOST_CASES,
            )

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        state = self.state
        if state is None:
            return
        with self._lock:
            cases = dict(self._cases)
            queued = dict(self._queued)
        rates = {labels: rate for labels, (rate, _) in cases.items() if rate is not None}
        about = "Of the last run of a case."
        yield _family("throughput_samples_per_second", about, rates, CASE)
        about = "Whether the last run of a case is valid."
        valid = {labels: is_valid for labels, (_, is_valid) in cases.items()}
        yield _family("run_valid", about, valid, CASE)
        about = "From the creation of the last job of a benchmark until it ran."
        yield _family("queue_wait_seconds", about, queued, ("benchmark",))
        yield from self._over_time(state)
        yield from self._yield_collection(state)
        yield from self._yield_store(state)

    def _over_time(self, state: OperatorState) -> Iterator[Metric]:
        """Hold the newest sets against earlier ones and a baseline; drop unreadable data."""
        name = state.settings.baseline or ""
        now = time.monotonic()
        with self._lock:
            is_due = now - self._held_at >= HELD_SECONDS and not state.is_opening
            self._held_at = now if is_due else self._held_at
        if is_due:
            self._held = {}
            self._changed = {}
            with contextlib.suppress(BenchError, OSError):
                self._changed = changed_cases(state.settings.store)
            with contextlib.suppress(BenchError, OSError):
                held = held_against(state.settings.store, name) if name else {}
                self._held = {_cut(c): h for c, h in [*held.items()][:MOST_CASES]}
        for kind, (metric, about) in CHANGES.items():
            ratios = [*self._changed.get(kind, {}).items()][:MOST_CASES]
            yield _family(metric, about, {_cut(case): ratio for case, ratio in ratios}, CASE)
        about = "Throughput of the newest complete set of a case, divided by the baseline's."
        yield _family("baseline_ratio", about, {c: h.ratio for c, h in self._held.items()}, CASE)
        about = "Whether the two differ by more than chance: a t-test, p up to 5 %."
        separated = {c: h.is_separated for c, h in self._held.items()}
        yield _family("baseline_separated", about, separated, CASE)

    def _yield_collection(self, state: OperatorState) -> Iterator[Metric]:
        look = state.look if state.is_leader else None
        runs = () if look is None else look.runs
        phases = Counter(run.phase for run in runs)
        counts = {(str(phase),): phases[phase] for phase in Phase}
        yield _family("jobs", "Jobs that are followed.", counts, ("phase",))
        codes = Counter({} if look is None else look.api_errors)
        del codes["404"]  # a job or a pod's log that is gone is an answer, not an error
        about = "Requests that the API server refused (but for 404) or did not answer (none)."
        errors = {(code,): count for code, count in codes.most_common(MOST_CODES)}
        yield _family("api_errors", about, errors, ("code",), CounterMetricFamily)
        if look is not None and look.now is not None:  # else it is not known
            stuck = sum(_is_stuck(run, look.now) for run in runs)
            about = "Jobs that cannot start, or have not in half an hour of their turn."
            yield _family("stuck_jobs", about, {(): stuck})
        yield _family("operator_start_time_seconds", "When it started.", {(): state.started_at})
        yield _family("operator_leader", "Whether this one collects.", {(): state.is_leader})
        about = "Whether it collects or stands by: 0 while /readyz answers 503."
        yield _family("operator_ready", about, {(): not state.unready})
        unready = state.unready_places
        about = "Whether a namespace is served: 0 while /readyz names it."
        ready = {(name,): name not in unready for name in (look.places if look else ())}
        yield _family("namespace_ready", about, ready, ("served_namespace",))
        if state.succeeded_at is not None and not state.stands_by:
            about = "When it had last listed all jobs and could write."
            yield _family("last_success_timestamp_seconds", about, {(): state.succeeded_at})

    def _yield_store(self, state: OperatorState) -> Iterator[Metric]:
        if time.monotonic() - self._room_at >= ROOM_SECONDS:
            self._room_at = time.monotonic()
            with contextlib.suppress(BenchError, OSError):
                self._room = room(state.settings.store)
        if self._room is not None:
            yield _family("store_bytes", "Of the store's files.", {(): self._room.taken})
            yield _family("store_free_bytes", "Of its disk.", {(): self._room.free})
            yield _family("store_disk_bytes", "Of its disk in all.", {(): self._room.disk})


def _is_stuck(run: Run, now: float) -> bool:
    if run.history[-1].unrecoverable:
        return True
    turn_at = now
    for step in reversed(run.history):  # its cause may change while it waits
        if step.phase not in BEFORE_RUNNING or step.cause_id in WAITS_ITS_TURN:
            break
        turn_at = step.at
    return now - turn_at > STUCK_SECONDS


class Room(NamedTuple):
    """Bytes of a store and of its disk."""

    taken: int
    """Size of the store's files."""
    free: int
    """Free space of the disk that the operator may use."""
    disk: int
    """Size of the disk, whoever fills it."""


def room(where: str | None) -> Room:
    """Return the sizes of a store, also of one that cannot be opened."""
    root = stores.folder(where)
    usage = shutil.disk_usage(root)
    return Room(taken=_size(root), free=usage.free, disk=usage.total)


def _size(root: Path) -> int:
    """Add up the sizes of the files below a folder, with one look at each: there are many."""
    size = 0
    folders = [os.fspath(root)]
    while folders:
        with contextlib.suppress(FileNotFoundError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    size += entry.stat(follow_symlinks=False).st_size
    return size


def _family(
    name: str,
    about: str,
    values: Mapping[L, float],
    labels: Sequence[str] = (),
    kind: type[CounterMetricFamily | GaugeMetricFamily] = GaugeMetricFamily,
) -> Metric:
    """Make a metric of its values by the values of its labels."""
    family = kind(f"k8sbench_{name}", about, labels=labels)
    for key, value in values.items():
        family.add_metric(key, float(value))
    return family


def _cut(labels: Sequence[str]) -> tuple[str, ...]:
    return tuple(value[:LONGEST_LABEL] for value in labels)


def _put(kept: OrderedDict[tuple[str, ...], V], key: tuple[str, ...], value: V, most: int) -> None:
    """Keep a value as the latest, and forget the oldest beyond so many."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
