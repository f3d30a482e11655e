"""GPU metrics that trainers print, measured from their logs alone."""

from collections.abc import Iterable

import pytest

from k8sbench.catalog.measure_options import MeasureOptions
from k8sbench.model.gpu_metrics import Gpu
from k8sbench.model.measurement import Measurement
from tests.reader.measuring.sampled_gpus import printed
from tests.reader.measuring.support import Lines, judged


def measured(*ranks: Iterable[str]) -> Measurement:
    """Measure the logs of the ranks of one run."""
    logs = [Lines(lines, f"{rank}.log") for rank, lines in enumerate(ranks)]
    return judged(logs, MeasureOptions(family="k8sbench", one_run=len(logs) > 1)).measurement


def test_a_log_alone_gives_the_metrics_of_all_ranks() -> None:
    first = printed(0, gpu_utilization=0.5, power=200.0, throttled=4)
    second = printed(1, gpu_utilization=[1.0] * 9 + [None], power=300.0, throttled=4)
    found = measured(first, second)
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


def test_a_reason_of_a_log_alone_points_at_no_artifact() -> None:
    found = measured(printed(0, of=1, power=200.0, throttled=0x20))
    (reason,) = [each for each in found.reasons if each.id == "gpu-throttled"]
    assert "GPU 8c6f-0 of n-1 was held down by heat, by the driver for 100" in reason.sentence
    assert reason.evidence == ()
    assert found.verdict == "rejected"
