"""GPU metrics of runs of this machine, read from a compiled stand-in for the driver's library."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from k8sbench.adapters.local.cluster import LocalCluster
from k8sbench.adapters.local.launch import MARK
from k8sbench.adapters.metrics import nvml
from k8sbench.adapters.metrics.nvml import NvmlSource
from k8sbench.adapters.store.sql_store import open_store
from k8sbench.app import metric_sources
from k8sbench.app.context import run_context
from k8sbench.cli.main import main
from k8sbench.lifecycle import submitting
from k8sbench.lifecycle.context import PlannedCase, Stop
from k8sbench.lifecycle.gathering import Gathering
from k8sbench.model.gpu_metrics import METRICS, Fetched, SeriesQuery
from k8sbench.model.phase import Phase
from k8sbench.model.planning import DRAFT_ID
from tests.local.jobs import wait_for
from tests.trainers import stand_in
from tests.unit.cli import live_runs
from tests.unit.lifecycle.played import Silent
from tests.unit.local import examples
from tests.unit.model.specs import a_request
from tests.unit.store.examples import step
from tests.unit.store.test_private import seen_by_others

MODEL = "Tesla V100-SXM2-32GB"
LISTS = {metric.id for metric in METRICS if metric.nvml}
GIVEN = {"index": 0, "uuid": f"GPU-{stand_in.UUID}", "model": MODEL, "memory_mib": 32768}
RUN = live_runs.run(backend="local", device="cuda")
WANTED = SeriesQuery(run_id=RUN.run_id, namespace=None, nodes={}, start=0.0, end=9e9)


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ctypes.CDLL]]:
    """Put the library where k8sbench finds it; samples come a hundred times as fast."""
    monkeypatch.setattr(nvml, "EVERY", 0.01)
    libraries: list[ctypes.CDLL] = []

    def put(**given: object) -> ctypes.CDLL:
        libraries.append(stand_in.loaded(tmp_path, monkeypatch, **given))
        return libraries[-1]

    yield put
    wait_for(lambda: not threads(), "all threads to end")
    assert [library.users_left() for library in libraries] == [0] * len(libraries)


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == NvmlSource.name]


def recorded(folder: Path) -> Path:
    """Write what the local backend does when it has started a run with a GPU."""
    (folder / "local.json").write_text(json.dumps({"replicas": [{"name": "m-0", "gpus": [GIVEN]}]}))
    return folder


def read(source: NvmlSource, samples: int = 4) -> Fetched:
    """Follow the run until there are so many samples."""
    source.follow(RUN, [])
    wait_for(lambda: max(map(len, taken(source))) >= samples, f"{samples} samples")
    source.release(RUN.run_id)
    return source.fetch(WANTED)


def taken(source: NvmlSource) -> list[tuple[float, ...]]:
    return [one.at for one in source.fetch(WANTED).series]


TRAINER = """
import json, time
def event(name, **fields):
    print("K8SBENCH", json.dumps({"event": name, "rank": 0, **fields}), flush=True)
event("start", impl="k8sbench", world_size=1, batch_size_per_gpu=2, unit="images",
      precision="fp32", precision_effective="fp32", device="cuda", warmup=1, iterations=12)
for step in range(1, 14):
    time.sleep(0.1)
    event("step", step=step, of=13, steps=1, seconds=0.1, loss=1.0, time=time.time())
"""


def test_a_local_run_whose_program_samples_nothing_has_the_metrics_of_its_gpus(
    driver: Callable[..., ctypes.CDLL], tmp_path: Path
) -> None:
    """From submit to the measurement, with a real replica."""
    driver(SM_CLOCK=1380)
    files = {"little.py": TRAINER}
    draft = examples.plan(
        run_id=DRAFT_ID, files=files, replicas=1, gpus_per_replica=1, device="cuda", preset="full"
    )
    case = PlannedCase(
        draft=draft, manifests=lambda one: examples.rendered(one, files), text=lambda _: ""
    )
    store, cluster = open_store(str(tmp_path / "store")), LocalCluster(environ={})
    with metric_sources.opened("auto", None, store) as sources:
        context = run_context(store, cluster, metric_sources=sources)
        gathering = Gathering(context, Silent())
        options = a_request(set_name="night", run_id=None)
        ((done,)) = submitting.submit([case], context, Silent(), Stop(), options, gathering)
        gathering.to_the_end(Stop(), lambda _: None)
    cluster.close()
    run = store.run(done.run.run_id)
    assert (run.phase, run.history[-1].cause) == (Phase.SUCCEEDED, "1 replica ended with code 0.")
    measured = run.measurement
    assert measured is not None
    assert measured.gpu_metrics is not None, measured.missing
    figures = measured.gpu_metrics.figures
    assert figures.keys() == LISTS
    assert {one.source for one in figures.values()} == {"nvml"}
    assert figures["power"].value == pytest.approx(200)
    assert figures["gpu_utilization"].value == pytest.approx(0.9, abs=0.05)
    (gpu,) = measured.gpu_metrics.gpus
    assert (gpu.gpu.pod, gpu.gpu.index, gpu.gpu.model) == ("master-0", "0", MODEL)
    assert measured.missing["gpu_metrics.sm_active"].endswith("NVML does not have it.")
    lines = (store.folder(run.run_id) / "gpu" / "nvml.jsonl").read_bytes().splitlines()
    assert len(lines) == len(LISTS)
    store.close()
    assert seen_by_others(tmp_path / "store") == {}


def test_other_processes_on_its_gpus_are_named(
    driver: Callable[..., ctypes.CDLL], tmp_path: Path
) -> None:
    library = driver()
    children = [
        subprocess.Popen(
            [sys.executable, "-c", "print(input())"],
            env={**os.environ, **more},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        for more in ({MARK: f"{RUN.run_id}/master-0"}, {MARK: "another-1/worker-0"}, {})
    ]
    ours, others, strangers = (child.pid for child in children)
    said = []
    for pair in ((ours, others), (ours, strangers), (strangers, strangers), (ours, ours)):
        library.compute(*pair)
        found = read(NvmlSource(lambda _: recorded(tmp_path)))
        said.append([one.other for one in found.shared])
        (processes,) = (one for one in found.series if one.metric == "processes")
        assert set(processes.values) == {2}
    name = psutil.Process(strangers).name()
    for child in children:
        child.communicate(b"\n")
    # Where none is known for the run's own, the numbers may be those of another container.
    assert said == [["run another-1"], [f"{name} (process {strangers})"], [], []]


def test_what_the_driver_does_not_give_is_missing_with_its_answer(
    driver: Callable[..., ctypes.CDLL], tmp_path: Path
) -> None:
    driver(HAS_ENERGY=0, REASONS="nvmlDeviceGetCurrentClocksThrottleReasons")
    found = read(NvmlSource(lambda _: recorded(tmp_path)))
    assert {one.metric for one in found.series} == LISTS - {"energy", "sm_clock"}
    assert found.missing["energy"] == "The driver answers: Not Supported."
    assert found.missing["sm_clock"] == "The driver answers: Insufficient Permissions."
    assert found.missing["sm_active"] == "NVML does not have it."
    assert "throttled" not in found.missing  # an older driver's call gave it


@pytest.mark.parametrize(
    ("given", "least"), [({}, 3001.0), ({"MEMORY_V2": "no_such_call"}, 3401.0)]
)
def test_memory_that_the_driver_reserves_is_not_used_where_it_tells_it_apart(
    given: dict[str, object],
    least: float,
    driver: Callable[..., ctypes.CDLL],
    tmp_path: Path,
) -> None:
    """As DCGM counts it: 400 MiB more or less would be another figure of one metric."""
    driver(**given)
    found = read(NvmlSource(lambda _: recorded(tmp_path)))
    (memory,) = (one for one in found.series if one.metric == "memory_used")
    assert (memory.values[0], "memory_used" in found.missing) == (least, False)


def test_a_driver_that_hangs_holds_up_nobody(
    driver: Callable[..., ctypes.CDLL], tmp_path: Path
) -> None:
    library = driver(HANGS=1)
    source = NvmlSource(lambda _: recorded(tmp_path))
    source.follow(RUN, [])
    wait_for(library.hanging, "the driver to hang")
    assert {len(at) for at in taken(source)} == {2}
    source.close()
    library.wake()


def test_of_a_long_run_the_latest_samples_are_kept(
    driver: Callable[..., ctypes.CDLL], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "MOST", 8)
    driver()
    source = NvmlSource(lambda _: recorded(tmp_path))
    source.follow(RUN, [])

    first = taken(source)[0][0]
    wait_for(lambda: taken(source)[0][0] > first, "the first sample to be dropped")
    source.release(RUN.run_id)
    found = source.fetch(WANTED).series
    assert all(len(one.at) == len(one.values) == 8 for one in found)
    latest = msgspec.structs.replace(WANTED, start=found[0].at[-1])
    assert {len(one.at) for one in source.fetch(latest).series} == {1}


def test_top_reads_the_gpus_of_a_run_that_another_process_follows(
    driver: Callable[..., ctypes.CDLL],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    driver(SM_CLOCK=1380)
    said = top(tmp_path, monkeypatch, capsys)
    (gpu,) = json.loads(said)["gpus"]
    assert (gpu["gpu"]["pod"], gpu["gpu"]["uuid"]) == ("m-0", GIVEN["uuid"])
    assert gpu["metrics"]["sm_clock"] == gpu["metrics"]["sm_clock"] | {
        "value": 1380,
        "source": "nvml",
    }


def test_without_the_library_top_says_what_to_install(
    driver: Callable[..., ctypes.CDLL],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    driver(DRIVER_LOADED=0)
    said = top(tmp_path, monkeypatch, capsys, code=6)
    assert "NVML: Driver Not Loaded." in said
    assert "Install libnvidia-ml.so.1" in said


def top(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: int = 0,
) -> str:
    monkeypatch.setenv("K8SBENCH_STORE", str(folder / "store"))
    with open_store() as store:
        store.record(RUN.plan, at=time.time(), owner=None)
        store.move("seg-1", step(Phase.RUNNING, time.time()))
        recorded(store.folder("seg-1"))
    assert main(["top", "seg-1", "-o", "json"]) == code
    out, err = capsys.readouterr()
    return err if code else out
