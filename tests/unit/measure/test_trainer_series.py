"""GPU metrics printed by trainers: from a log and as a source."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.metrics.trainer import TrainerSource
from k8sbench.app.imports import measure
from k8sbench.model.gpu_metrics import METRICS, Gpu, SeriesQuery
from k8sbench.model.measurement import Measurement
from k8sbench.reader.measuring.expectation import MeasureOptions
from k8sbench.reader.measuring.gpu_series import NONE_PRINTED
from k8sbench.trainers.parts import events

T = 1772445600.0
WANTED = SeriesQuery(run_id="r-1", namespace=None, nodes={}, start=T, end=T + 60)


def printed(
    rank: int, *, gpu: bool = True, of: int = 2, stamped: bool = False, **values: Any
) -> Iterator[str]:
    """A rank's log: 60 steps of a second, of which 10 are the warm-up."""

    def line(event: str, fields: dict[str, Any]) -> str:
        return ("2026-03-02T10:00:00.000000Z " if stamped else "") + events.line(event, fields)

    start: dict[str, Any] = {"rank": rank, "world_size": of, "batch_size_per_gpu": 4, "warmup": 10}
    start |= {"impl": "k8sbench", "benchmark": "tsm", "precision": "fp32", "iterations": 50}
    start |= {"device": "cuda", "framework": "pytorch"}
    yield line("start", start)
    about = {"gpu_model": "V100", "gpu_uuid": f"8c6f-{rank}", "node": "n-1", "pod": f"p-{rank}"}
    yield line("environment", {"rank": rank, "host": "h", **(about if gpu else {})})
    for step in range(1, 61):
        if rank == 0:
            fields = {"step": step, "of": 60, "steps": 1, "seconds": 1.0, "loss": 1.0}
            yield line("step", {**fields, "time": T + step})
        if step % 10 == 0 and values:
            at = [T + step - 9 + i for i in range(10)]
            of_gpu = {n: v if isinstance(v, list) else [v] * 10 for n, v in values.items()}
            yield line("gpu", {"rank": rank, "every": 1.0, "at": at, **of_gpu})


def log(path: Path, *ranks: Iterator[str]) -> Path:
    path.write_text("".join(line + "\n" for rank in ranks for line in rank))
    return path


def measured(*paths: Path) -> Measurement:
    options = MeasureOptions(family="k8sbench", one_run=len(paths) > 1)
    ((found, *_),), _ = measure([str(path) for path in paths], options)
    return found


def test_a_log_alone_gives_the_metrics_of_all_ranks(tmp_path: Path) -> None:
    first = printed(0, gpu_utilization=0.5, power=200.0, throttled=4)
    second = printed(1, gpu_utilization=[1.0] * 9 + [None], power=300.0, throttled=4)
    found = measured(log(tmp_path / "0.log", first), log(tmp_path / "1.log", second))
    metrics = found.gpu_metrics
    assert metrics is not None
    values = {name: figure.value for name, figure in metrics.figures.items()}
    assert values == pytest.approx({"gpu_utilization": 0.75, "power": 250.0, "throttled": 0.0})
    assert {figure.source for figure in metrics.figures.values()} == {"trainer"}
    assert metrics.figures["power"].coverage == pytest.approx(1.0)
    assert [one.gpu for one in metrics.gpus] == [
        Gpu(node="n-1", uuid=f"8c6f-{rank}", model="V100", pod=f"p-{rank}") for rank in (0, 1)
    ]
    assert metrics.energy_per_1000_samples == pytest.approx(1000 * 500 / 8)
    assert found.missing["gpu_metrics.energy"] == "The GPU does not support it."
    assert found.missing["gpu_metrics.tensor_active"] == "NVML does not have it."
    assert [each.id for each in found.reasons if "gpu" in each.id] == []


def test_a_reason_of_a_log_alone_points_at_no_artifact(tmp_path: Path) -> None:
    held = log(tmp_path / "held.log", printed(0, of=1, power=200.0, throttled=0x20))
    found = measured(held)
    (reason,) = [each for each in found.reasons if each.id == "gpu-throttled"]
    assert "GPU 8c6f-0 of n-1 was held down by heat, by the driver for 100" in reason.sentence
    assert reason.evidence == ()
    assert found.verdict == "rejected"


def fetched(*logs: Path) -> Any:
    source = TrainerSource(lambda run_id: logs if run_id == "r-1" else ())
    assert source.settles_in(WANTED) == 0
    return source.fetch(WANTED)


def test_the_source_has_the_series_of_archived_logs(tmp_path: Path) -> None:
    first = printed(0, stamped=True, power=200.0)
    second = printed(1, stamped=True, power=[*range(9), None])
    noise = iter(["Epoch 1 gpu", 'K8SBENCH {"event": "gpu", "rank": 1, "at": [1'])
    found = fetched(
        log(tmp_path / "master-0.log", first), log(tmp_path / "worker-0.log", second, noise)
    )
    assert [(one.gpu.pod, one.metric, len(one.at), one.every) for one in found.series] == [
        ("p-0", "power", 60, 1.0),
        ("p-1", "power", 54, 1.0),
    ]
    assert found.series[1].values[:10] == (*map(float, range(9)), 0.0)
    assert found.series[1].at[8:10] == (T + 9, T + 11)
    assert set(found.missing) == {metric.id for metric in METRICS} - {"power"}


def test_the_source_says_why_it_has_none(tmp_path: Path) -> None:
    assert fetched(log(tmp_path / "log", printed(0))).missing == {"*": NONE_PRINTED}
    assert fetched().missing == {"*": NONE_PRINTED}
    (why,) = fetched(tmp_path / "gone").missing.values()
    assert why.startswith("The logs cannot be read: ")
