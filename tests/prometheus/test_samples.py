"""Samples of the window as stored: their stamps, gaps and resets."""

import itertools
import math
from typing import Any

import pytest

from k8sbench.adapters.metrics import prometheus_api
from k8sbench.messages import note
from k8sbench.model.gpu_metrics import METRICS, Gpu
from k8sbench.model.missing import written
from tests.harness.prometheus import Samples
from tests.prometheus.conftest import Start
from tests.prometheus.examples import (
    END,
    PODS,
    START,
    UUIDS,
    fetch,
    labels,
    of,
    opened,
    points,
    renamed,
    utilization,
    wanted,
)
from tests.reader.measuring.support import NOT_SUPPORTED

OURS = labels(UUIDS[0], **renamed(PODS[0]))


def test_samples_have_their_own_stamps_and_only_those_of_the_window_count(start: Start) -> None:
    stored = points((97.0, 64.0), every=13.7)
    server = start(Samples("DCGM_FI_DEV_GPU_UTIL", OURS, stored))
    found = fetch(server.url)
    assert "*" not in found.missing, found
    (series,) = found.series
    inside = [(at, value / 100) for at, value in stored if START <= at <= END]
    assert series.at == pytest.approx([at for at, _ in inside], abs=0.0011)
    assert series.values == pytest.approx([value for _, value in inside])
    assert series.source == "prometheus"
    assert series.gpu == Gpu(
        node="node-0", index="0", uuid=UUIDS[0], model="Tesla V100-SXM2-32GB", pod=PODS[0]
    )


def test_a_sample_on_each_edge_of_the_window_counts_and_one_comes_after_it(start: Start) -> None:
    server = start(utilization(OURS))
    (series,) = fetch(server.url).series
    assert (series.at[0], series.at[-1], len(series.at)) == (START, END, 41)
    assert "no window" in written(fetch(server.url, wanted(end=START)).missing)["*"]
    # The last sample is there one interval after the end.
    assert opened(server.url).settles_in(wanted()) == 30.0
    assert opened(server.url).settles_in(wanted({"other-0": None})) == 0.0


def test_every_field_of_the_table_becomes_its_metric_in_its_unit(start: Start) -> None:
    known = [metric for metric in METRICS if metric.dcgm]
    server = start(*(Samples(metric.dcgm[0].name, OURS, points((10.0, 20.0))) for metric in known))
    found = fetch(server.url)
    for metric in known:
        (series,) = of(found, metric.id)
        factor = metric.dcgm[0].factor
        assert series.values[:2] == pytest.approx((10 * factor, 20 * factor)), metric.id
    without = {metric.id for metric in METRICS if not metric.dcgm}
    assert found.missing == dict.fromkeys(without, note("no-gpu-metric-field"))


def test_an_older_name_of_a_field_counts_where_there_is_no_newer_one(start: Start) -> None:
    old, new = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
    other = labels(UUIDS[1], **renamed(PODS[0]))
    server = start(
        Samples(old, OURS, points(64.0)),
        Samples(old, other, points(32.0)),
        Samples(new, other, points(128.0)),
    )
    first, second = of(fetch(server.url), "throttled")
    assert {*first.values} == {64.0}
    assert {*second.values} == {128.0}


def test_a_counter_is_given_as_it_stood_resets_included(start: Start) -> None:
    stored = [
        (at, 5e6 + 4e3 * (at - START) if at < START + 300 else 4e3 * (at - START - 300))
        for at, _ in points()
    ]
    server = start(Samples("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", OURS, stored))
    (series,) = fetch(server.url).series
    assert series.values[0] == pytest.approx(5e3)
    assert series.values[20] == pytest.approx(0)


def test_the_interval_of_the_exporter_is_seen_where_scrapes_repeat_its_values(start: Start) -> None:
    stored = [(at, float(int((at - START) // 30) % 7)) for at, _ in points(every=10)]
    server = start(
        Samples("DCGM_FI_DEV_POWER_USAGE", OURS, stored),
        Samples("DCGM_FI_DEV_GPU_TEMP", OURS, points(60.0, every=10)),
    )
    found = fetch(server.url)
    assert {series.every for series in found.series} == {30.0}


def test_a_long_window_is_read_in_pieces(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    long = wanted(end=START + 25_000)
    stored = points((1.0, 2.0, 3.0), every=1.0, end=long.end)
    server = start(Samples("DCGM_FI_DEV_GPU_UTIL", OURS, stored))
    most: list[int] = []

    def counted(*words: Any, **more: Any) -> Any:
        rows, warnings = asked(*words, **more)
        most.extend(len(row.values) for row in rows)
        return rows, warnings

    asked = prometheus_api.ask
    monkeypatch.setattr(prometheus_api, "ask", counted)
    (series,) = fetch(server.url, long).series
    assert series.at == tuple(at for at, _ in stored if START <= at <= long.end)
    assert max(most) < 11_000
    assert len([size for size in most if size > 1000]) >= 3


def test_what_a_gpu_does_not_have_is_missing_with_its_reason(start: Start) -> None:
    server = start(
        utilization(OURS),
        Samples("DCGM_FI_PROF_SM_ACTIVE", OURS, points(float(NOT_SUPPORTED))),
        Samples("DCGM_FI_PROF_DRAM_ACTIVE", OURS, points((math.nan, math.inf))),
    )
    found = fetch(server.url)
    assert [series.metric for series in found.series] == ["gpu_utilization"]
    assert "DCGM reports no value" in written(found.missing)["sm_active"]
    assert "DCGM reports no value" in written(found.missing)["dram_active"]
    assert "There is no DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" in written(found.missing)["tensor_active"]
    assert {metric.id for metric in METRICS} == {"gpu_utilization", *found.missing}


def test_the_codes_of_errors_are_one_series_although_their_labels_change(start: Start) -> None:
    before = [point for point in points(0.0) if point[0] < START + 300]
    after = [point for point in points(79.0) if point[0] >= START + 300]
    server = start(
        Samples("DCGM_FI_DEV_XID_ERRORS", {**OURS, "err_code": "0"}, before),
        Samples("DCGM_FI_DEV_XID_ERRORS", {**OURS, "err_code": "79"}, after),
    )
    (series,) = fetch(server.url).series
    assert len(series.at) == 49, "four more on both sides say what is new in the window"
    assert (series.values[0], series.values[-1]) == (0.0, 79.0)


def test_an_error_comes_to_light_after_its_pod_has_ended(start: Start) -> None:
    free = labels(UUIDS[0])
    server = start(
        Samples("DCGM_FI_DEV_XID_ERRORS", OURS, points(0.0, end=END)),
        Samples("DCGM_FI_DEV_XID_ERRORS", free, points(79.0, start=END + 15)),
        utilization(OURS)._replace(points=points(end=END)),
    )
    (series,) = of(fetch(server.url), "xid")
    assert series.values[-2:] == (79.0, 79.0)
    assert len(series.at) == 49


def test_replicas_of_a_prometheus_that_are_down_in_turn_are_one_series(start: Start) -> None:
    stored = points((97.0, 96.0))
    server = start(
        *(
            Samples(
                "DCGM_FI_DEV_GPU_UTIL",
                {**OURS, "prometheus_replica": replica},
                [(at + place, v) for at, v in stored if (at - START) // 100 % 2 == place],
            )
            for place, replica in enumerate("ab")
        )
    )
    (series,) = fetch(server.url).series
    assert len(series.at) == 41
    gaps = [b - a for a, b in itertools.pairwise(series.at)]
    assert max(gaps) <= 30


def test_gpus_that_a_pod_left_hours_before_the_end_are_found(start: Start) -> None:
    long = wanted(end=START + 15_000)
    other = labels(UUIDS[1], **renamed(PODS[0]))
    server = start(
        utilization(OURS)._replace(points=points(97.0, every=30, end=START + 3000)),
        utilization(other)._replace(
            points=points(97.0, every=30, start=START + 3030, end=long.end)
        ),
    )
    assert [one.gpu.uuid for one in fetch(server.url, long).series] == list(UUIDS[:2])
