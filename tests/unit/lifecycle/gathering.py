"""Runs whose GPU metrics are fetched, with sources that answer when a test says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec

from k8sbench.adapters.metrics.trainer import TrainerSource
from k8sbench.lifecycle import collecting
from k8sbench.lifecycle.context import RunContext
from k8sbench.lifecycle.gpu_metrics_fetcher import GpuMetricsFetcher
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.gpu_metrics import Fetched, Gpu, Series, SeriesQuery, SourceName
from k8sbench.model.measurement import Measurement, SteadyPart
from k8sbench.model.phase import Phase, ReplicaState
from k8sbench.model.run import Run
from k8sbench.ports.cluster import JobEvent
from k8sbench.store.interface import Store
from k8sbench.threads import Threads
from tests.unit.lifecycle.played import FakeCluster, Silent, at, context, planned_case, submitted
from tests.unit.model.measurements import measurement
from tests.unit.model.specs import a_request

START, END = 1000.0, 1200.0


class Source:
    """Has what it is given; stands at our own port."""

    def __init__(self, *values: float, settles_in: float = 0.0) -> None:
        self.name: SourceName = "prometheus"
        self.values, self.wait_s = values, settles_in
        self.asked: list[SeriesQuery] = []
        self.gate = threading.Event()
        """Closed, it hangs."""
        self.gate.set()

    def settles_in(self, wanted: SeriesQuery) -> float:
        assert threading.current_thread() is not threading.main_thread()
        return self.wait_s

    def fetch(self, wanted: SeriesQuery) -> Fetched:
        self.asked.append(wanted)
        assert self.gate.wait(20)
        at = tuple(START + 20 * i for i in range(10))
        one = Series(
            metric="power", gpu=Gpu(index="0"), source=self.name, at=at, values=self.values * 10
        )
        return Fetched(source=self.name, series=(one,), warnings=("a warning",))

    def close(self) -> None:
        pass


def measured(**changes: Any) -> Measurement:
    steady = SteadyPart(started_at=START, ended_at=END, gpu_uuids=("GPU-1",))
    return measurement(**{"steady": steady, "missing": {"gpu_metrics": "not asked"}, **changes})


T = TypeVar("T")


class SteppedThreads(Threads):
    """Threads whose waits advance the clock of the cluster if all calls are blocked or done."""

    def __init__(self, cluster: FakeCluster, sources: Sequence[Source | TrainerSource]) -> None:
        super().__init__()
        self.cluster = cluster
        self.sources = sources
        self.has_news = threading.Event()
        self.calls: list[Future[Any]] = []

    def start(self, call: Callable[[], T], name: str) -> Future[T]:
        future = super().start(call, name)
        future.add_done_callback(lambda _: self.has_news.set())
        self.calls.append(future)
        return future

    def wait(self, seconds: float) -> None:
        if self.has_news.is_set():
            self.has_news.clear()
            return
        open_ = all(one.gate.is_set() for one in self.sources if isinstance(one, Source))
        working = [one for one in self.calls if not one.done()]
        if open_ and working:
            futures.wait(working, 20)
        else:
            self.cluster.now += seconds


class Bench:
    """Runs cases on a fake cluster with metric sources.

    Its clock advances only during waits.
    """

    def __init__(
        self,
        store: Store,
        *sources: Source | TrainerSource,
        now: float = END,
        accept: Sequence[str] = (),
        **measurement: Any,
    ) -> None:
        running = ReplicaState(replica="master-0", phase=Phase.RUNNING, node="node-1")
        state = JobEvent(run_id="", replica=running)
        script = (state, at(Phase.RUNNING), at(Phase.SUCCEEDED))
        self.cluster = FakeCluster(*script, outlives=True, now=now)
        self.reporter, self.stop = Silent(), Stop()
        self.sources = sources
        self.context: RunContext = context(
            store,
            self.cluster,
            measure=lambda *_: measured(**measurement),
            metric_sources=sources,
            accept=accept,
        )
        threads = SteppedThreads(self.cluster, sources)
        self.gathering = GpuMetricsFetcher(self.context, self.reporter, threads)

    def submit(self, cases: int = 1, device: str = "cuda", **asked: Any) -> list[Run]:
        case = planned_case("kubernetes")
        draft = msgspec.structs.replace(case.draft, device=device, preset="full")
        case = msgspec.structs.replace(case, draft=draft)
        options = a_request(set_name="night", **asked)
        done = submitted(
            [case] * cases, self.context, self.reporter, self.stop, options, self.gathering
        )
        return [one.run for one in done]

    def collect(self, run: Run) -> list[Run]:
        args = ([run], self.context, self.reporter, self.stop)
        return collecting.collect(*args, follow=False, gathering=self.gathering).closed

    def finish(self) -> None:
        self.gathering.finish([], self.stop)

    def interrupt(self) -> None:
        self.stop("Interrupted (Ctrl-C)")
        self.finish()
