"""GPU metrics of measured runs, fetched in the background.

A source is asked when the last sample of the run's steady part must have arrived. A thread of its
own fetches each run, a few at a time. The thread that follows the runs completes and records the
measurement.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

import msgspec

from k8sbench.lifecycle.context import Reporter, RunContext, Stop, in_thread
from k8sbench.model import times
from k8sbench.model.errors import BenchError, StoreError
from k8sbench.model.gpu_metrics import Fetched, SeriesQuery
from k8sbench.model.kinds import kind_of
from k8sbench.model.measurement import Measurement, SteadyPart
from k8sbench.model.phase import ReplicaState
from k8sbench.model.run import Run
from k8sbench.ports import MetricSource, Store

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
OWED = "They have not been fetched."
"""Start of the reason while a measurement's GPU metrics are not fetched."""

T = TypeVar("T")


class _Owed(msgspec.Struct, kw_only=True):
    """A run whose GPU metrics are still to be fetched."""

    run: Run
    wanted: SeriesQuery
    due: float | None = None
    """Time when the metrics are available, Unix seconds.

    None until the sources have said.
    """
    work: Future[float | list[Fetched]] | None = None
    """Pending request to the sources; None if there is none.

    First for the seconds until the last sample is available, then for the samples.
    """
    began: float = 0.0
    """Start of that request, Unix seconds."""


class Gathering:
    """The GPU metrics of the runs that one command follows; does nothing without sources."""

    def __init__(self, context: RunContext, reporter: Reporter) -> None:
        self._context, self._reporter = context, reporter
        self._sources: Sequence[MetricSource] = context.metric_sources
        self._nodes: dict[str, dict[str, str | None]] = {}
        """By run id and pod: its node."""
        self._owed: dict[str, _Owed] = {}
        """By run id."""
        self._came = threading.Event()
        self.wait: Callable[[float], object] = self._came.wait
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
        if not self._owes(run, found):
            return found
        way = f" Fetch them with: k8sbench collect {run.run_id}" if run.location else ""
        missing = found.missing | {"gpu_metrics": f"{OWED}{way}"}
        return msgspec.structs.replace(found, missing=missing)

    def _owes(self, run: Run, found: Measurement | None) -> bool:
        return (
            bool(self._sources)
            and run.plan.device != "cpu"
            and found is not None
            and found.steady is not None
            and found.gpu_metrics is None
        )

    def add(self, run: Run) -> None:
        """Queue a measured run for fetching its metrics when available."""
        nodes = self._nodes.pop(run.run_id, {})
        found = run.measurement
        if found is None or found.steady is None or not self._owes(run, found):
            return
        try:
            wanted = self._wanted(run, found.steady, nodes)
        except StoreError as wrong:  # its files may be on another machine
            self._reporter.note(f"warning: no GPU metrics of {run.run_id} are fetched: {wrong}")
            return
        self._owed[run.run_id] = _Owed(run=run, wanted=wanted)

    def _wanted(self, run: Run, steady: SteadyPart, nodes: Mapping[str, str | None]) -> SeriesQuery:
        """Return the query for a run's series, and record it.

        A recorded query is reused.
        """
        store = self._context.store
        wanted = _kept(store, run.run_id)
        if wanted is None:
            wanted = wanted_of(run, nodes, steady.gpu_uuids, steady.started_at, steady.ended_at)
            store.keep(run.run_id, WANTED, msgspec.json.encode(wanted).decode() + "\n")
        return wanted

    def step(self) -> None:
        """Start due fetches and record answers; returns at once."""
        now = self._context.clock()
        free = FETCHES - sum(one.work is not None for one in self._owed.values())
        for run_id, one in list(self._owed.items()):
            if one.work is not None and one.work.done():
                found, one.work, free = one.work.result(), None, free + 1
                if isinstance(found, list):
                    del self._owed[run_id]
                    self._complete(one.run, one.wanted, found)
                    continue
                # The cluster's clock may be ahead of ours.
                one.due = min(now, one.wanted.end) + found
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
        ask: Callable[[Sequence[MetricSource], SeriesQuery], float | list[Fetched]]
        ask = _settled_or_fetched if one.due is None else all_fetched
        one.work = in_thread(partial(ask, self._sources, one.wanted), "gpu-metrics")
        one.work.add_done_callback(lambda _: self._came.set())

    def to_the_end(self, stop: Stop, announce: Callable[[float | None], None]) -> None:
        """Wait for the metrics of all measured runs, or a stop request.

        ``announce`` is called once before a longer wait, with the seconds until the metrics are
        available, or None while a source has not said. Metrics that are not fetched by a stop
        request can be collected later.
        """
        began, announced = self._context.clock(), False
        with stop:
            while self._owed and stop.cause is None:
                self.step()
                now = self._context.clock()
                dues = [one.due for one in self._owed.values()]
                last = None if None in dues else max([due for due in dues if due], default=now)
                is_later = last is not None and last > now
                if self._owed and not announced and (is_later or now >= began + AT_ONCE_SECONDS):
                    announced = True
                    announce(None if last is None else max(0.0, last - now))
                if self._owed:
                    self.wait(LOOK_SECONDS)
                    self._came.clear()
        if self._owed:
            names = " ".join(self._owed)
            self._reporter.note(
                f"{stop.cause}: the GPU metrics of {names} were not fetched;"
                f" the figures stand without them. Fetch them with: k8sbench collect {names}"
            )

    def _complete(self, run: Run, wanted: SeriesQuery, found: Sequence[Fetched]) -> None:
        from k8sbench.measure.run import gpu_metrics

        store, run_id = self._context.store, run.run_id
        try:
            for one in found:
                if one.series:
                    lines = b"\n".join(map(msgspec.json.encode, one.series))
                    store.keep(run_id, series_file(one.source), lines.decode() + "\n")
            rest = [msgspec.structs.replace(one, series=()) for one in found]
            store.keep(run_id, FETCHED, msgspec.json.encode(rest).decode() + "\n")
            measured = store.run(run_id).measurement
            if measured is not None:
                completed = gpu_metrics.completed(
                    measured, run.plan, wanted, found, accept=self._context.accept
                )
                self.completed[run_id] = store.measured(run_id, completed)
        except StoreError as wrong:
            self._reporter.note(f"warning: the GPU metrics of {run_id} are not recorded: {wrong}")


def is_owed(run: Run) -> bool:
    """Return True if GPU metrics of a run are still to be fetched."""
    found = run.measurement
    return found is not None and found.missing.get("gpu_metrics", "").startswith(OWED)


def wanted_of(
    run: Run, nodes: Mapping[str, str | None], uuids: Sequence[str], start: float, end: float
) -> SeriesQuery:
    """Build the query for a run's series from its replicas' known nodes."""
    prefix = "" if run.location is None else f"{run.plan.job_name}-"
    nodes = dict.fromkeys(kind_of(run.plan).names(run.plan.replicas)) | dict(nodes)
    return SeriesQuery(
        run_id=run.run_id,
        namespace=run.location.namespace if run.location else None,
        nodes={prefix + replica: node for replica, node in nodes.items()},
        uuids=tuple(uuids),
        start=start,
        end=end,
    )


def series_file(source: str) -> str:
    """Name the artifact with a source's series, one per JSON line."""
    return f"{SERIES}/{source}.jsonl"


def _kept(store: Store, run_id: str) -> SeriesQuery | None:
    content = store.kept(run_id, WANTED)
    try:
        return (content and msgspec.json.decode(content, type=SeriesQuery)) or None
    except msgspec.MsgspecError:
        return None


def _settled_or_fetched(
    sources: Sequence[MetricSource], wanted: SeriesQuery
) -> float | list[Fetched]:
    """Return the delay of the last sample, or the answers without one."""
    found = [0.0]
    for source in sources:
        with contextlib.suppress(Exception):  # its fetch says what is wrong with it
            found.append(source.settles_in(wanted))
    return max(found) or all_fetched(sources, wanted)


def all_fetched(sources: Sequence[MetricSource], wanted: SeriesQuery) -> list[Fetched]:
    """Ask the sources in turn; a failed one gives its reason."""
    return [_fetched(source, wanted) for source in sources]


def _fetched(source: MetricSource, wanted: SeriesQuery) -> Fetched:
    try:
        return source.fetch(wanted)
    except Exception as wrong:  # the run is measured, whatever becomes of its GPU metrics
        why = wrong.message if isinstance(wrong, BenchError) else f"{type(wrong).__name__}: {wrong}"
        return Fetched(source=source.name, missing={"*": f"The source failed: {why}"})
