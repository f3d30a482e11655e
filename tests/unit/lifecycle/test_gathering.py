"""GPU metrics of runs: fetched after the row, beside other runs.

The runs' results are kept whatever happens.
"""

from __future__ import annotations

import msgspec

from k8sbench.lifecycle import collecting, gpu_metrics_fetcher, serving
from k8sbench.messages import note
from k8sbench.model.gpu_metrics import Fetched, Series, SeriesQuery
from k8sbench.store.interface import RunFilter, Store
from tests.unit.lifecycle.gathering import END, START, Bench, Source, measured
from tests.unit.lifecycle.played import FakeObjects
from tests.unit.presence import present

OWED = {"gpu_metrics": note("no-gpu-metrics-yet-collect", run="seg-1")}


WAITS = "  GPU metrics follow; Ctrl-C leaves them out."


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
    assert kept.measurement == measured(missing={}, missing_notes=OWED)
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
    assert store.run("seg-1").measurement == measured(missing={}, missing_notes=OWED)
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
