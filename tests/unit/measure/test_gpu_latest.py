"""Current GPU state: the latest sample of each metric, from any source."""

from typing import Any

from k8sbench.measure.run import gpu_metrics
from k8sbench.model.gpu_metrics import Fetched, Gpu, Series, SourceName
from tests.unit.measure.support import NOT_SUPPORTED

NOW = 1000.0


def series(metric: str, value: float, at: float, source: SourceName = "dcgm", **gpu: Any) -> Series:
    known = {"node": "n-1", "index": "0", "uuid": "GPU-1", "pod": "seg-1-master-0", **gpu}
    return Series(
        metric=metric, gpu=Gpu(**known), source=source, at=(at - 15, at), values=(0.0, value)
    )


def fetched(*found: Series, source: SourceName = "dcgm", why: str = "", **missing: str) -> Fetched:
    missing |= {"*": why} if why else {}
    return Fetched(source=source, series=found, missing=missing)


def test_the_newest_sample_of_any_source_counts() -> None:
    by_exporter = fetched(series("power", 200.0, NOW - 20), series("temperature", 60.0, NOW - 20))
    # It names the GPU by its UUID alone.
    by_trainer = fetched(
        series("power", 250.0, NOW - 1, "trainer", node=None, index=None, uuid="1", pod=None),
        source="trainer",
    )
    for found in ([by_exporter, by_trainer], [by_trainer, by_exporter]):
        (one,) = gpu_metrics.latest(found, NOW)
        assert one.gpu.node == "n-1"
        assert [(each.value, each.age, each.source) for each in one.metrics.values()] == [
            (250.0, 1.0, "trainer"),
            (60.0, 20.0, "dcgm"),
        ]


def test_a_number_that_stands_for_none_is_no_sample() -> None:
    found = [fetched(series("power", float(NOT_SUPPORTED), NOW), series("sm_clock", 900, NOW))]
    (one,) = gpu_metrics.latest(found, NOW)
    # The sample before it was one.
    assert one.metrics["power"].value == 0.0
    never = Series(
        metric="power", gpu=one.gpu, source="dcgm", at=(NOW,), values=(float(NOT_SUPPORTED),)
    )
    found = [fetched(never, series("sm_clock", 900, NOW))]
    (one,) = gpu_metrics.latest(found, NOW)
    assert set(one.metrics) == {"sm_clock"}
    missing = gpu_metrics.missing(found, [one])
    assert missing["power"] == "The GPU does not support it."
    assert missing["temperature"] == "It has no sample of it."


def test_what_no_gpu_has_is_said_with_each_source_s_reason() -> None:
    found = [
        fetched(series("power", 1, NOW), tensor_active="It collects no DCP metrics."),
        fetched(source="prometheus", why="It answers 503."),
    ]
    missing = gpu_metrics.missing(found, gpu_metrics.latest(found, NOW))
    assert missing["tensor_active"] == (
        "DCGM: It collects no DCP metrics. Prometheus: It answers 503."
    )
    assert "power" not in missing
    assert "*" not in missing
    nothing = [fetched(why="No exporter."), fetched(source="prometheus", why="No.")]
    assert gpu_metrics.missing(nothing, gpu_metrics.latest(nothing, NOW)) == {
        "*": "DCGM: No exporter. Prometheus: No."
    }
