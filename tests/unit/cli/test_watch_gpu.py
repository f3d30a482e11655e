"""``k8sbench watch --gpu`` in pipes and on terminals of any width."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.cells import cell_len

from k8sbench.adapters.store.sql_store import open_store
from k8sbench.app import connections, follow
from k8sbench.cli.commands import runs
from k8sbench.cli.terminal import drawing
from k8sbench.lifecycle import live
from k8sbench.lifecycle.context import Stop
from k8sbench.lifecycle.live import LiveMetrics
from k8sbench.measure.run import gpu_metrics
from k8sbench.model.gpu_metrics import Fetched, Gpu, Series, SeriesQuery, SourceName
from k8sbench.model.phase import Phase
from k8sbench.model.request import ClusterAccess
from k8sbench.ports import JobEvent
from tests.tiers import ROOT
from tests.unit import goldens
from tests.unit.cli import live_runs
from tests.unit.cli.live_runs import NOW, moved
from tests.unit.cli.live_runs import step as printed
from tests.unit.cli.test_drawing import FOLDER, alive, lines
from tests.unit.command_line import Cli
from tests.unit.presence import present
from tests.unit.store.examples import plan, step

NODE = "ip-10-0-12-34.eu-central-1.compute.internal"
VALUES = {
    "gpu_utilization": 0.97,
    "memory_used": 14130.0,
    "power": 251.4,
    "temperature": 65.0,
    "sm_clock": 1380.0,
}
WITHOUT_DCP = "The exporter collects no DCP metrics."


class Source:
    """Fake source with one-second-old samples of each pod's two GPUs."""

    name: SourceName = "dcgm"

    def __init__(self, **changes: Any) -> None:
        self.asked: list[SeriesQuery] = []
        self.why: str | None = changes.get("why")
        self.missing: str = changes.get("missing", WITHOUT_DCP)
        self.gpus: int = changes.get("gpus", 2)
        self.then: Callable[[int], object] = lambda _: None
        """Is called with the number of each fetch."""

    def settles_in(self, wanted: SeriesQuery) -> float:
        raise NotImplementedError

    def fetch(self, wanted: SeriesQuery) -> Fetched:
        self.asked.append(wanted)
        self.then(len(self.asked))
        if self.why is not None:
            return Fetched(source=self.name, missing={"*": self.why})
        return Fetched(
            source=self.name,
            series=tuple(self._series(wanted)),
            missing={"tensor_active": self.missing},
        )

    def _series(self, wanted: SeriesQuery) -> Iterator[Series]:
        at = wanted.end - 1
        for pod, node in wanted.nodes.items():
            for index in map(str, range(self.gpus)):
                gpu = Gpu(node=node, index=index, uuid=f"GPU-{pod}-{index}", pod=pod)
                for metric, value in VALUES.items():
                    yield Series(
                        metric=metric, gpu=gpu, source=self.name, at=(at - 1, at), values=(0, value)
                    )

    def close(self) -> None:
        pass


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    one = Source()
    monkeypatch.setattr(connections, "metric_sources", lambda *_: [one])
    monkeypatch.setattr(live, "REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.0)
    return one


def local(*events: JobEvent, device: str = "cuda") -> None:
    """Record a run of this machine that goes on, and lines of its log."""
    with open_store() as store:
        store.record(plan(device=device, log="k8sbench"), at=time.time(), owner=None)
        store.move("seg-1", step(Phase.RUNNING, time.time()))
        archive = store.archive("seg-1")
        for event in events:
            archive.write(present(event.line))


@pytest.mark.usefixtures("root")
def test_a_run_on_cpus_has_no_gpus(cli: Cli) -> None:
    local(device="cpu")
    assert "Leave --gpu out." in cli("watch", "seg-1", "--gpu", code=2).err


@pytest.mark.usefixtures("root")
def test_a_pipe_gets_blocks_until_end(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    local()
    began = time.time()

    def then(number: int) -> None:
        source.why = "It answers 503." if number == 2 else None
        if number == 3:
            with open_store() as store:
                store.move("seg-1", step(Phase.SUCCEEDED, time.time(), cause="All ended with 0."))

    source.then = then
    with runs._gpu_printer() as show:
        follow.look("seg-1", None, ClusterAccess(), print, Stop(), show)
    out = capsys.readouterr().out
    blocks = out.rstrip().split("\n\n")
    assert len(blocks) >= 2
    assert all(each.startswith("Running ") for each in blocks)
    # A source that fails for once does not take away what it said before.
    (failed,) = [each for each in blocks if "503" in each]
    assert "251W" in failed
    assert "No GPU metrics: It answers 503." in failed
    wanted = source.asked[0]
    assert wanted.end - wanted.start == live.WINDOW_SECONDS
    assert began <= wanted.end <= time.time()


@pytest.mark.usefixtures("root")
def test_without_a_prometheus_the_log_of_a_run_here_is_its_source() -> None:
    sample = {"event": "gpu", "rank": 0, "every": 1.0, "at": [time.time()], "power": [251.4]}
    gpu = {"event": "environment", "rank": 0, "gpu_model": "Tesla T4", "gpu_uuid": "GPU-7"}
    events = [live_runs.line(f"K8SBENCH {json.dumps(e)}", at=time.time()) for e in (gpu, sample)]
    assert alive("seg-1", *events).gpu_uuids() == ["GPU-7"]
    local(*events)
    with open_store() as store:
        sources = connections.metric_sources("none", None, store)
        metrics = LiveMetrics(store.run("seg-1"), sources, time.time)
        metrics.read()
        ((gpu_now,), _) = metrics.gpus()
    assert (gpu_now.gpu.uuid, gpu_now.metrics["power"].value) == ("GPU-7", 251.4)


def test_before_a_run_has_begun_no_source_is_asked(source: Source) -> None:
    metrics = LiveMetrics(live_runs.run("seg-1", device="cuda"), [source], lambda: NOW)
    metrics.read()
    assert metrics.gpus() == ((), {"*": "Nothing was read yet."})
    assert not source.asked


def watched(width: int, **changes: Any) -> list[str]:
    """Return the displayed lines of a running run with changed GPU samples."""
    run = live_runs.run("seg-1", device="cuda")
    metrics = LiveMetrics(run, [Source(**changes)], lambda: NOW + 83)
    metrics.take(
        (
            moved(Phase.RUNNING),
            live_runs.replica("master-0", Phase.RUNNING, node=NODE),
            printed(10, at=NOW + 60),
            printed(30, at=NOW + 80),
        ),
        print,
    )
    metrics.read()
    return lines(drawing.gpus(metrics, width), width)


def test_what_is_drawn_of_gpus_is_the_golden_text() -> None:
    """Columns are dropped in a fixed order; notes fit the terminal."""
    scenes = {
        "80 columns": watched(80),
        "60 columns": watched(60, gpus=1),
        "21 columns": watched(21, gpus=1),
        "80 columns without a sample": watched(80, why="There is none of them."),
        "40 columns for hostile notes": watched(40, missing="资源不足 " * 30 + "\x1b[2JNo."),
    }
    for name, seen in scenes.items():
        assert max(map(cell_len, seen)) <= int(name[:2])
    parts = [f"# {name}\n" + "".join(f"{row}\n" for row in rows) for name, rows in scenes.items()]
    goldens.check(FOLDER / "gpus.txt", "\n".join(parts))


def test_the_page_states_the_order_in_which_columns_are_left_out() -> None:
    optional = sorted(
        (-column.optional, column.title) for column in drawing.GPU_COLUMNS if column.optional
    )
    page = (ROOT / "docs" / "gpu-metrics.md").read_text()
    assert ", ".join(f"`{title}`" for _, title in optional) in page


def test_a_part_of_a_gpu_and_an_address_are_named_whole() -> None:
    gpu = Gpu(node="10.0.12.34", index="0", mig="2 (1g.5gb)", pod="seg-1-worker-10")
    one = gpu_metrics.GpuNow(gpu=gpu, metrics={})
    cells = [column.cell(one) for column in drawing.GPU_COLUMNS[:3] if column.cell]
    assert cells == ["worker-10", "0/2 (1g.5gb)", "10.0.12.34"]
