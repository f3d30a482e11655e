"""GPU metrics of runs: fetched after the row, beside other runs.

The runs' results are kept whatever happens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec

from k8sbench.adapters.metrics.trainer import TrainerSource
from k8sbench.lifecycle import collecting, gpu_metrics_fetcher, serving, submitting
from k8sbench.lifecycle.context import RunContext
from k8sbench.lifecycle.gpu_metrics_fetcher import GpuMetricsFetcher
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.gpu_metrics import Fetched, Gpu, Series, SeriesQuery, SourceName
from k8sbench.model.measurement import Measurement, SteadyPart
from k8sbench.model.phase import Phase, ReplicaState
from k8sbench.model.run import Run
from k8sbench.ports import JobEvent, RunFilter, Store
from k8sbench.threads import Threads
from tests.unit.lifecycle.played import FakeCluster, FakeObjects, Silent, at, context, planned_case
from tests.unit.model.specs import a_request
from tests.unit.presence import present
from tests.unit.store.examples import measurement

START, END = 1000.0, 1200.0
OWED = "They have not been fetched. Fetch them with: k8sbench collect seg-1"


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


WAITS = "  GPU metrics follow; Ctrl-C leaves them out."


T = TypeVar("T")


class SteppedThreads(Threads):
    """Threads whose waits advance the clock of the cluster if all calls are blocked or done."""

    def __init__(self, cluster: FakeCluster, sources: Sequence[Source | TrainerSource]) -> None:
        super().__init__()
        self.cluster = cluster
        self.sources = sources
        self.has_news = threading.Event()

    def start(self, call: Callable[[], T], name: str) -> Future[T]:
        future = super().start(call, name)
        future.add_done_callback(lambda _: self.has_news.set())
        return future

    def wait(self, seconds: float) -> None:
        if self.has_news.is_set():
            self.has_news.clear()
            return
        open_ = all(one.gate.is_set() for one in self.sources if isinstance(one, Source))
        working = [one for one in threading.enumerate() if one.name == "gpu-metrics"]
        if open_ and working:
            for one in working:
                one.join(20)
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
        done = submitting.submit(
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


def test_the_figures_complete_the_measurement_and_its_series_are_kept(store: Store) -> None:
    source = Source(250.0)
    bench = Bench(store, source)
    bench.submit()
    bench.finish()
    (wanted,) = source.asked
    assert wanted == SeriesQuery(
        run_id="seg-1",
        namespace="bench",
        nodes={"seg-1-master-0": "node-1"},
        uuids=("GPU-1",),
        start=START,
        end=END,
    )
    kept = store.run("seg-1")
    assert kept == bench.gathering.completed["seg-1"]
    assert present(present(kept.measurement).gpu_metrics).figures["power"].value == 250
    lines = (store.folder("seg-1") / "gpu" / "prometheus.jsonl").read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=Series).values for line in lines] == [(250.0,) * 10]
    said = msgspec.json.decode((store.folder("seg-1") / gpu_metrics_fetcher.FETCHED).read_bytes())
    assert said[0]["warnings"] == ["a warning"]


def test_ctrl_c_leaves_the_run_as_it_was_measured_and_collect_fetches_later(store: Store) -> None:
    bench = Bench(store, Source(250.0, settles_in=60.0))
    bench.submit()
    bench.interrupt()
    kept = store.run("seg-1")
    assert kept.measurement == measured(missing={"gpu_metrics": OWED})
    assert bench.reporter.reported[-1] == (
        "Interrupted (Ctrl-C): the GPU metrics of seg-1 were not fetched; the figures stand without"
        " them. Fetch them with: k8sbench collect seg-1"
    )
    source = Source(260.0)
    assert [run.run_id for run in Bench(store, source).collect(kept)] == ["seg-1"]
    # What only the process that followed it knew is on record.
    assert source.asked[0].nodes == {"seg-1-master-0": "node-1"}
    completed = store.run("seg-1")
    assert present(completed.measurement).gpu_metrics is not None
    again = Source(270.0)
    Bench(store, again).collect(completed)
    assert not again.asked


def test_collecting_all_runs_fetches_what_is_owed_of_the_last_days_alone(store: Store) -> None:
    bench = Bench(store, Source(250.0, settles_in=60.0))
    runs = bench.submit(cases=2)
    bench.interrupt()
    created = max(run.created_at for run in runs)
    bench.cluster.now = created + collecting.OWED_SECONDS + 1
    assert collecting.owed_runs(bench.context) == [], "sources no longer have it"
    bench.cluster.now -= 2
    assert [run.run_id for run in collecting.owed_runs(bench.context)] == ["seg-1", "seg-2"]
    assert collecting.open_runs(bench.context) == []
    # An operator that is started takes them up as well.
    later = Bench(store, Source(260.0), now=created)
    with serving.Serving(later.context, later.reporter, FakeObjects(), lambda _: ()) as place:
        while any(run.owes_gpu_metrics for run in store.runs(RunFilter())):
            place.step(0.01)
    assert all(present(run.measurement).gpu_metrics for run in store.runs(RunFilter()))
    assert collecting.owed_runs(later.context) == []


def test_a_source_that_hangs_is_given_up(store: Store) -> None:
    source = Source(250.0)
    source.gate.clear()
    bench = Bench(store, source)
    bench.submit()
    bench.finish()
    assert bench.cluster.now < END + gpu_metrics_fetcher.GIVE_UP_SECONDS + 5
    assert bench.reporter.reported.count(WAITS) == 1
    assert bench.reporter.reported[-1].endswith("in 1m: a source does not answer.")
    assert store.run("seg-1").measurement == measured(missing={"gpu_metrics": OWED})
    source.gate.set()


def test_a_source_that_breaks_costs_the_run_nothing(store: Store) -> None:
    class Broken(Source):
        def fetch(self, wanted: SeriesQuery) -> Fetched:
            raise ValueError("no")

        def settles_in(self, wanted: SeriesQuery) -> float:
            raise ValueError("not ever")

    bench = Bench(store, Broken())
    bench.submit()
    bench.finish()
    kept = present(store.run("seg-1").measurement)
    assert kept.missing["gpu_metrics"] == "The source failed: ValueError: no"
    assert "GPU metrics of seg-1: an internal error: ValueError: not ever" in "\n".join(
        bench.reporter.reported
    )
    assert kept.throughput == measured().throughput
