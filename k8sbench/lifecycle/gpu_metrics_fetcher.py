"""GPU metrics of measured runs, fetched from their sources in threads.

A source of metrics is asked when the last sample of the run's steady part must have arrived. A
thread of its own fetches each run, a few at a time. The thread that follows the runs completes and
records the measurement.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import msgspec

from k8sbench.lifecycle import run_artifacts
from k8sbench.lifecycle.context import Reporter, RunContext
from k8sbench.lifecycle.stop import Stop
from k8sbench.messages import note, quoted
from k8sbench.model import times
from k8sbench.model.errors import BenchError, StoreError
from k8sbench.model.gpu_metrics import Fetched, SeriesQuery
from k8sbench.model.measurement import Measurement, SteadyPart
from k8sbench.model.missing import written
from k8sbench.model.phase import ReplicaState
from k8sbench.model.run import Run
from k8sbench.ports.metrics import MetricSource
from k8sbench.threads import Threads, internal

FETCHES = 4
"""Runs that are fetched at a time."""
GIVE_UP_SECONDS = 60.0
"""Timeout of a run's fetch.

A hanging source must not block the program.
"""
AT_ONCE_SECONDS = 0.3
"""Time in which available metrics arrive.

Only then is the user told to wait for others.
"""
LOOK_SECONDS = 0.25
"""Longest wait before stop requests and the clock are looked at."""
SERIES = "gpu"
"""Folder of a run's artifacts with the series."""
WANTED = f"{SERIES}/wanted.json"
"""Artifact of a run: the requested series; absent if none were requested."""
FETCHED = f"{SERIES}/fetched.json"
"""Artifact of a run: the sources' missing metrics and the reasons."""


class _Owed(msgspec.Struct, kw_only=True):
    """A run whose GPU metrics are still to be fetched."""

    run: Run
    wanted: SeriesQuery
    due: float | None = None
    """Time when the metrics are available, monotonic seconds.

    None until the sources have said.
    """
    work: Future[Any] | None = None
    """Pending request to the sources; None if there is none.

    First for the seconds until the last sample is available, then for the samples.
    """
    began: float = 0.0
    """Start of that request, monotonic seconds."""


class GpuMetricsFetcher:
    """The GPU metrics of the runs that one command follows; does nothing without sources."""

    def __init__(
        self, context: RunContext, reporter: Reporter, threads: Threads | None = None
    ) -> None:
        self._context, self._reporter = context, reporter
        self._sources: Sequence[MetricSource] = context.metric_sources
        self._nodes: dict[str, dict[str, str | None]] = {}
        """By run id and pod: its node."""
        self._owed: dict[str, _Owed] = {}
        """By run id."""
        self._threads = Threads() if threads is None else threads
        self.completed: dict[str, Run] = {}
        """The runs whose figures have come, by run id."""

    def seen(self, run: Run, replica: ReplicaState) -> None:
        """Keep where a replica runs."""
        if not self._sources or run.plan.device == "cpu":
            return
        nodes = self._nodes.setdefault(run.run_id, {})
        nodes[replica.replica] = replica.node or nodes.get(replica.replica)

    def promised(self, run: Run, found: Measurement) -> Measurement:
        """Note in a new measurement that its GPU metrics will follow.

        Returns the measurement unchanged if none will.
        """
        if self._steady(run, found) is None:
            return found
        is_collected = run.location is not None and run.planned is not None
        why = note("no-gpu-metrics-yet")
        if is_collected:
            why = note("no-gpu-metrics-yet-collect", run=run.run_id)
        return found.without({"gpu_metrics": why})

    def _steady(self, run: Run, found: Measurement | None) -> SteadyPart | None:
        """Return the part whose metrics are to be fetched; None: none are."""
        may_have = bool(self._sources) and run.plan.device != "cpu"
        return found.steady if may_have and found and found.gpu_metrics is None else None

    def add(self, run: Run) -> None:
        """Queue a measured run for fetching its metrics when available."""
        nodes = self._nodes.pop(run.run_id, {})
        steady = self._steady(run, run.measurement)
        if steady is None:
            return
        try:
            wanted = self._wanted(run, steady, nodes)
        except StoreError as wrong:  # its files may be on another machine
            self._reporter.note(f"warning: no GPU metrics of {run.run_id} are fetched: {wrong}")
            return
        self._owed[run.run_id] = _Owed(run=run, wanted=wanted)

    def _wanted(self, run: Run, steady: SteadyPart, nodes: Mapping[str, str | None]) -> SeriesQuery:
        """Return the query for a run's series, and record it.

        A recorded query is reused.
        """
        from k8sbench.reader.measuring import gpu_metrics

        store, wanted = self._context.store, None
        with contextlib.suppress(BenchError):  # one that cannot be read is made anew
            wanted = run_artifacts.read_value(store, run.run_id, WANTED, SeriesQuery)
        if wanted is None:
            wanted = gpu_metrics.query(run, nodes, steady)
            run_artifacts.keep_value(store, run.run_id, WANTED, wanted)
        return wanted

    def step(self) -> None:
        """Start due fetches and record answers; returns at once."""
        now = self._context.monotonic()
        free = FETCHES - sum(one.work is not None for one in self._owed.values())
        for run_id, one in list(self._owed.items()):
            if one.work is not None and one.work.done():
                work = one.work
                one.work = None
                free += 1
                if one.due is not None:
                    del self._owed[run_id]
                    self._complete(one.run, one.wanted, work.result())
                    continue
                if (error := work.exception()) is not None:
                    self._reporter.note(f"warning: GPU metrics of {run_id}: {internal(error)}")
                settles_s = 0.0 if error else work.result()
                passed_s = max(0.0, self._context.clock() - one.wanted.end)
                one.due = now + max(0.0, settles_s - passed_s)
            if one.work is None and free > 0 and (one.due is None or now >= one.due):
                self._begin(one, now)
                free -= 1
            elif one.work is not None and now >= one.began + GIVE_UP_SECONDS:
                del self._owed[run_id]
                self._reporter.note(
                    f"warning: the GPU metrics of {run_id} have not come in"
                    f" {times.duration(GIVE_UP_SECONDS)}: a source does not answer."
                )

    def _begin(self, one: _Owed, now: float) -> None:
        """Have a thread do what comes next for a run."""
        one.began = now
        ask: Callable[..., Any] = _settles_in if one.due is None else _all_fetched
        one.work = self._threads.start(partial(ask, self._sources, one.wanted), "gpu-metrics")

    def finish(self, runs: Sequence[Run], stop: Stop) -> list[Run]:
        """Wait for the metrics of all measured runs, or a stop request.

        Returns the runs with the metrics that have come. A longer wait is noted once, with the time
        until the metrics are available, as far as the sources have said. Metrics that are not
        fetched by a stop request can be collected later.
        """
        began = self._context.monotonic()
        announced = False
        with stop:
            while self._owed and stop.cause is None:
                self.step()
                now = self._context.monotonic()
                left_s = max((one.due or now for one in self._owed.values()), default=now) - now
                if self._owed and not announced and (left_s > 0 or now >= began + AT_ONCE_SECONDS):
                    announced = True
                    when = f" in {times.duration(left_s)}" if left_s > 0 else ""
                    self._reporter.note(f"  GPU metrics follow{when}; Ctrl-C leaves them out.")
                if self._owed:
                    self._threads.wait(LOOK_SECONDS)
        if self._owed:
            names = " ".join(self._owed)
            # Jobs of others are not collected.
            later = " ".join(n for n, one in self._owed.items() if one.run.planned is not None)
            self._reporter.note(
                f"{stop.cause}: the GPU metrics of {names} were not fetched; the figures stand"
                f" without them.{f' Fetch them with: k8sbench collect {later}' if later else ''}"
            )
        return [self.completed.get(run.run_id, run) for run in runs]

    def _complete(self, run: Run, wanted: SeriesQuery, found: Sequence[Fetched]) -> None:
        from k8sbench.reader.measuring import gpu_metrics

        store, run_id = self._context.store, run.run_id
        try:
            for one in found:
                if one.series:
                    lines = b"\n".join(map(msgspec.json.encode, one.series))
                    store.write_artifact(run_id, series_file(one.source), lines.decode() + "\n")
            rest = [
                msgspec.structs.asdict(one) | {"series": (), "missing": written(one.missing)}
                for one in found
            ]
            run_artifacts.keep_value(store, run_id, FETCHED, rest)
            measured = store.run(run_id).measurement
            if measured is not None:
                completed = gpu_metrics.completed(
                    measured, run.plan, wanted, found, accept=self._context.accept
                )
                self.completed[run_id] = store.save_measurement(run_id, completed)
        except StoreError as wrong:
            self._reporter.note(f"warning: the GPU metrics of {run_id} are not recorded: {wrong}")


def series_file(source: str) -> str:
    """Name the artifact with a source's series, one per JSON line."""
    return f"{SERIES}/{source}.jsonl"


def _settles_in(sources: Sequence[MetricSource], wanted: SeriesQuery) -> float:
    """Return the seconds until the last sample of every source is available."""
    return max(source.settles_in(wanted) for source in sources)


def _all_fetched(sources: Sequence[MetricSource], wanted: SeriesQuery) -> list[Fetched]:
    """Ask the sources in turn; a failed one gives its reason."""
    return [_fetched(source, wanted) for source in sources]


def _fetched(source: MetricSource, wanted: SeriesQuery) -> Fetched:
    try:
        return source.fetch(wanted)
    except Exception as wrong:  # the run is measured, whatever becomes of its GPU metrics
        why = quoted(f"{type(wrong).__name__}: {wrong}")
        if isinstance(wrong, BenchError):
            why = wrong.note
        missing = {"*": note("no-gpu-metrics-source-failed", why=why)}
        return Fetched(source=source.name, missing=missing)
