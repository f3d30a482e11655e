"""GPU metrics of a run: from series to figures, reasons and judgement."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench import messages
from k8sbench.messages import quoted
from k8sbench.model.gpu_metrics import BY_ID, METRICS, Fetched, Series
from k8sbench.model.measurement import Measurement
from k8sbench.model.missing import Missing
from k8sbench.reader.measuring import gpu_series
from tests import struct_docs
from tests.reader.measuring.gpu_metrics import END, IDLE, START, completed, gpu, of, series
from tests.reader.measuring.support import NOT_SUPPORTED
from tests.unit.model.measurements import measurement
from tests.unit.presence import present

PAGE = Path(__file__).parents[3] / "docs" / "gpu-metrics.md"
OVER_TIME = {
    "mean": "mean",
    "peak": "highest",
    "increase": "increase of a counter",
    "count": "increase of a counter, not extrapolated",
    "share": "share of the time",
    "new": "codes that appear",
}
OVER_GPUS = {"mean": "mean", "peak": "highest", "sum": "sum", "union": "all"}


def reasons(found: Measurement) -> dict[str, str]:
    return {one.id: one.sentence for one in found.reasons if one.id != "too-few-records"}


def said(found: object) -> str:
    """Return why there is no figure; empty for a figure."""
    return messages.text("en", found.reason) if isinstance(found, Missing) else ""


# The table


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.id)
def test_each_metric_of_the_table_is_complete(metric: Any) -> None:
    assert metric.dcgm or metric.nvml
    assert metric.meaning.endswith(".")
    assert metric.meaning[0].isupper()
    assert (metric.over_time in {"increase", "count"}) == (metric.over_gpus == "sum")
    assert (metric.over_time == "new") == (metric.over_gpus == "union")
    assert all(name.startswith("DCGM_FI_") for name in (field.name for field in metric.dcgm))


def test_the_table_of_the_page_is_generated_golden() -> None:
    rows = ["| id | unit | over time | over GPUs | what it means |", "|---|---|---|---|---|"]
    for metric in METRICS:
        aggregated = f"{OVER_TIME[metric.over_time]} | {OVER_GPUS[metric.over_gpus]}"
        rows.append(f"| `{metric.id}` | {metric.unit or '–'} | {aggregated} | {metric.meaning} |")
    struct_docs.assert_generated(PAGE, "metrics", "\n".join(rows))


@pytest.mark.parametrize(
    ("metric", "raw", "value"), [("energy", 250_000.0, 250.0), ("gpu_utilization", 97.0, 0.97)]
)
def test_millijoules_are_joules_and_per_cent_shares(metric: str, raw: float, value: float) -> None:
    assert BY_ID[metric].dcgm[0].value(raw) == pytest.approx(value)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.id)
def test_what_dcgm_gives_for_no_value_is_none_in_every_unit(metric: Any) -> None:
    for field in metric.dcgm:
        for raw in (NOT_SUPPORTED - 2, NOT_SUPPORTED, NOT_SUPPORTED + 1, 140737488355328.0):
            assert field.value(raw) is None
        assert field.value(float("nan")) is None
        assert field.value(50) == 50 * field.factor
        scaled = series(metric.id, [NOT_SUPPORTED * field.factor] * 10)
        assert "not support" in said(gpu_series.over_time(scaled, metric, START, END))


# One series

ONE_MISSING = [t for t in range(1010, 1200, 20) if t != 1090]
TWO_MISSING = [t for t in ONE_MISSING if t != 1070]
HOLE = [1010, 1030, 1050, 1150, 1170, 1190]
UNEVEN = [*range(1005, 1100, 10), *range(1110, 1200, 20)]
SCRAPES = range(1000, 1200, 5)
RESET = [5000, 5100, 5200, 5300, 100, 200, 300, 400, 500, 600]
BITS = [0x4, 0x4, 0x40, 0x44, 0x1, 0x8, 0x0, 0x20, 0x4, 0x4]


def about(value: float, within: float = 1e-6) -> Any:
    return pytest.approx(value, abs=within)


def steady(at: Sequence[float]) -> Series:
    """Samples of 250 W."""
    return series("power", [250] * len(at), at=at)


def inside(t: float) -> float:
    """A value of the steady part, and another one beyond it."""
    return 100.0 if START <= t <= END else 9e4


def errors(*since: float) -> Series:
    """Memory errors, counted since these moments."""
    at = range(1000, 1201, 10)
    counts = [sum(t >= each for each in since) for t in at]
    return series("ecc_errors", counts, at=at, every=30.0)


def xid(begin: int, *codes: int) -> Series:
    """Codes of errors from a moment on."""
    return series("xid", codes, at=range(begin, begin + 20 * len(codes), 20))


SERIES: dict[str, tuple[Series, dict[str, Any] | str]] = {
    # A plain mean would be 0.33.
    "a sample stands for its time": (
        series("gpu_utilization", lambda t: float(t >= 1100), at=UNEVEN),
        {"value": about(0.5, 0.02), "coverage": about(1.0)},
    ),
    "one sample is missing": (steady(ONE_MISSING), {"coverage": 1.0}),
    "two are missing": (steady(TWO_MISSING), {"coverage": about(0.8)}),
    "a hole": (steady(HOLE), {"coverage": about(0.6), "value": 250}),
    "samples outside the steady part": (
        series("memory_used", inside, at=range(900, 1300, 20)),
        {"value": 100, "samples": 11},
    ),
    "a value that is only scraped again": (
        series("power", lambda t: t // 30, at=SCRAPES, every=None),
        {"samples": len({t // 30 for t in SCRAPES})},
    ),
    "a value that stays": (series("power", lambda _: 7, at=SCRAPES, every=30.0), {"samples": 7}),
    "few scrapes": (
        series("power", lambda t: t, at=range(1000, 1300, 90), every=30.0),
        "shorter than 4 intervals of 1m30s",
    ),
    "three samples": (steady([1010, 1030, 1050]), "3 samples lie"),
    "one sample": (steady([1010]), "1 sample lies"),
    "none": (steady([]), "0 samples lie"),
    # 100 J in 20 s are 1,000 J in 200 s.
    "a counter": (series("energy", range(5000, 6000, 100)), {"value": about(1000)}),
    "a counter that was reset": (series("energy", RESET), {"value": about(1000)}),
    "rare errors": (errors(1030, 1190), {"value": 2}),
    "no new errors": (errors(0, 0, 0), {"value": 0}),
    # From 11 to 12; 0 to 7 since the reset. Half of the time has no samples.
    "events are not extrapolated": (
        series("ecc_errors", [11, 12, 12, 3, 7], at=[1000, 1020, 1040, 1060, 1080]),
        {"value": 8},
    ),
    "events at the edges": (
        series("ecc_errors", [*[1] * 2, *[2] * 10, *[3] * 2], at=range(970, 1250, 20)),
        {"value": 2},
    ),
    "a reset loses no interval": (
        series("energy", lambda t: 5 * t if t < 1090 else 900 + 5 * (t - 1090)),
        {"value": about(1000)},
    ),
    "a reset between two readings of an exporter": (
        series(
            "energy", lambda t: 5.0 * (t // 30 * 30 - 1080 * (t >= 1080)), at=SCRAPES, every=30.0
        ),
        {"value": about(1000)},
    ),
    "a power below 0": (series("power", [250] * 9 + [-12]), "1 of 10 samples cannot be true"),
    "250 %": (series("gpu_utilization", [2.5] * 10), "as 2.5 ratio"),
    "a profiling field that rounds up": (series("sm_active", [1.01] * 10), {"value": about(1.01)}),
    "32 bits for no value": (series("memory_used", [0x7FFFFFF0] * 10), "cannot be true"),
    "such bits are no heat": (series("throttled", [0x7FFFFFF0] * 10), "cannot be true"),
    "bytes for MiB": (series("memory_used", [31e9] * 10), "as 31000000000 MiB"),
    # 250 W, counted in J in place of mJ.
    "J for mJ": (series("energy", lambda t: 0.25 * t), "drew 0.25 W"),
    "nothing but resets": (
        series("energy", range(9000, 8000, -100)),
        "reset between all",
    ),
    "an error of before": (xid(970, *[31] * 12), {"value": 0, "codes": ()}),
    "errors meanwhile": (xid(970, 0, 0, *[79] * 5, *[43] * 5), {"value": 2, "codes": (43, 79)}),
    "errors at the edges": (xid(980, 0, 13, *[0] * 9, 31), {"codes": (13, 31)}),
    "errors in the first and the last interval": (
        xid(950, 62, 62, 0, 13, *[0] * 9, 31, 48),
        {"codes": (13, 31)},
    ),
    "heat and brakes alone": (
        series("throttled", BITS),
        {"value": about(0.3), "codes": (0x20, 0x40)},
    ),
}


@pytest.mark.parametrize("case", SERIES)
def test_a_series_has_its_value_over_the_steady_part(case: str) -> None:
    one, expected = SERIES[case]
    found = gpu_series.over_time(one, BY_ID[one.metric], START, END + 100 * (case == "few scrapes"))
    if isinstance(expected, str):
        assert expected in said(found)
    else:
        assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("seconds", "every", "enough"),
    [(110, 30, True), (100, 30, False), (119, None, True), (80, None, False), (5, 1.0, True)],
)
def test_four_intervals_are_needed(seconds: float, every: float | None, enough: bool) -> None:
    step = min(every or 15, 15)
    at = [START + step * i for i in range(1, int(seconds / step) + 1)]
    one = series("power", [200 + i for i in range(len(at))], at=at, every=every)
    found = gpu_series.over_time(one, BY_ID["power"], START, START + seconds)
    assert ("shorter than 4 intervals of 30s" in said(found)) != enough


@pytest.mark.parametrize("scrapes", [5, 10, 15, 30])
@pytest.mark.parametrize("phase", [0, 1, 7, 14, 16, 29])
def test_a_counter_is_measured_from_change_to_change(scrapes: int, phase: int) -> None:
    """250 W; the exporter reads the counter each 30 s, which scrapes repeat."""
    steps, hole = range(900, 1300, scrapes), range(1090, 1130)
    for at in (steps, [t for t in steps if t not in hole], range(1001, 1200, scrapes)):
        one = series("energy", lambda t: 250.0 * ((t + phase) // 30 * 30), at=at, every=30.0)
        found: Any = gpu_series.over_time(one, BY_ID["energy"], START, END)
        assert found.value == pytest.approx(250 * (END - START), rel=1e-9)


# Sources and GPUs


def test_each_metric_is_from_the_source_that_covers_it_best() -> None:
    found = completed(
        of(series("power", [200] * 6, at=HOLE), series("gpu_utilization", [0.9] * 10)),
        of(
            series("power", [210] * 10, source="dcgm"),
            series("gpu_utilization", [0.8] * 10, source="dcgm"),
        ),
        of(series("power", [220] * 10, source="trainer")),
    )
    figures = present(found.gpu_metrics).figures
    assert {name: (one.source, one.value) for name, one in figures.items()} == {
        "power": ("dcgm", 210),
        "gpu_utilization": ("prometheus", 0.9),
    }
    assert (figures["power"].coverage, figures["power"].samples) == (1.0, 10)


def test_over_gpus_means_are_averaged_peaks_highest_and_energy_summed() -> None:
    every = [
        one
        for i in (0, 1)
        for one in (
            series("power", [200 + 100 * i] * 10, of=gpu(i)),
            series("memory_used", [1000 + i] * 10, of=gpu(i)),
            series("energy", [100 * n for n in range(10)], of=gpu(i)),
        )
    ]
    metrics = present(completed(of(*every), gpus=2).gpu_metrics)
    assert {name: one.value for name, one in metrics.figures.items()} == {
        "power": 250,
        "memory_used": 1001,
        "energy": pytest.approx(2000),
    }
    # 2,000 J in 200 s at 12.5 samples/s.
    assert metrics.energy_per_1000_samples == pytest.approx(800)


def test_gpus_without_series_lower_the_coverage_and_leave_no_sum() -> None:
    found = completed(
        of(series("power", [200] * 10), series("energy", [100 * n for n in range(10)])), gpus=4
    )
    assert found.gpu_metrics is not None
    assert found.gpu_metrics.figures["power"].coverage == 0.25
    assert found.missing["gpu_metrics.energy"] == "It is known of 1 of 4 GPUs."
    # From power: 4 GPUs of 200 W at 12.5 samples/s.
    assert found.gpu_metrics.energy_per_1000_samples == pytest.approx(64000)


def moved(*parts: tuple[range, int]) -> Measurement:
    """A run of 8 GPUs of 250 W whose pod has others in each part of the time, from a number on."""
    every = [
        one
        for at, first in parts
        for i in range(first, first + 8)
        for one in (
            series("gpu_utilization", [0.9] * len(at), at=at, every=5.0, of=gpu(i)),
            series("power", [150 + 25 * (i // 8) * 4] * len(at), at=at, every=5.0, of=gpu(i)),
            series("energy", [250 * t for t in at], at=at, every=5.0, of=gpu(i)),
        )
    ]
    return completed(of(*every), gpus=8)


@pytest.mark.parametrize(
    ("parts", "power"),
    [
        ([(range(1000, 1205, 5), 0)], 150),
        ([(range(1000, 1070, 5), 0), (range(1070, 1205, 5), 8)], 215),
        ([(range(1000, 1100, 5), 0), (range(1100, 1205, 5), 8)], 200),
        ([(range(1000, 1050, 5), 0), (range(1100, 1205, 5), 8)], 217),
    ],
)
def test_gpus_that_a_pod_had_one_after_the_other_count_for_their_time(
    parts: list[tuple[range, int]], power: float
) -> None:
    found = moved(*parts)
    metrics = present(found.gpu_metrics)
    figures = metrics.figures
    assert figures["energy"].value == pytest.approx(8 * 250 * 200)
    assert figures["power"].value == pytest.approx(power, abs=2)
    is_whole = len(parts[0][0]) > 10
    assert figures["energy"].coverage == pytest.approx(1 if is_whole else 0.75, abs=0.05)
    energies = [each.figures["energy"] for each in metrics.gpus]
    assert sum(energies) == pytest.approx(8 * 250 * 200)
    assert "metrics-at-odds" not in reasons(found)


def test_more_gpus_than_planned_at_one_time_are_a_finding_in_whatever_part_of_it() -> None:
    assert "metrics-at-odds" in reasons(moved((range(1000, 1150, 5), 0), (range(1050, 1205, 5), 8)))


@pytest.mark.parametrize("edge", IDLE)
def test_a_clock_of_prometheus_that_is_wrong_is_named_where_an_edge_shows_it(edge: str) -> None:
    one = series("gpu_utilization", IDLE[edge])
    named = reasons(completed(of(one))).get("clocks-apart", "")
    assert (f"in the {edge} 30s" in named) if edge else not named
    busy = series("gpu_utilization", [0.9] * 10, of=gpu(1))
    for found in (
        completed(of(one, busy), gpus=2),
        completed(of(msgspec.structs.replace(one, source="trainer"))),
    ):
        assert "clocks-apart" not in reasons(found)


def test_without_any_series_there_is_one_reason_and_no_zero() -> None:
    found = completed(
        Fetched(source="prometheus", missing={"*": quoted("It answers 503.")}),
        Fetched(source="dcgm", missing={"*": quoted("No exporter runs.")}),
    )
    assert found.gpu_metrics is None
    assert found.missing["gpu_metrics"] == "Prometheus: It answers 503. DCGM: No exporter runs."
    assert not [path for path in found.missing if path.startswith("gpu_metrics.")]
    assert found.verdict == measurement().verdict
    assert reasons(found) == reasons(measurement())


# The judgement


LINKS = {"pcie_generation": 3, "pcie_width": 16, "nvlinks": 6}
LIMIT = {"power_limit_w": 250.0, "clock_sm_max_mhz": 1530}


WAITS = {"data_fraction": 0.41}


@pytest.mark.parametrize(
    ("values", "environment", "gpus", "judgement"),
    [
        (
            {"gpu_utilization": 0.38} | WAITS,
            {},
            1,
            "Input-bound: the GPUs were busy 38 % of the time",
        ),
        ({"gpu_utilization": 0.38} | WAITS, {}, 1, " while the loader took 41 % of each step."),
        ({"gpu_utilization": 0.97} | WAITS, {}, 1, None),
        ({"gpu_utilization": 0.38}, {}, 1, None),
        (
            {"pcie_transmitted": 12e9},
            LINKS,
            2,
            "Communication-bound: each GPU moved 12.0 GB/s over",
        ),
        ({"pcie_transmitted": 12e9}, LINKS, 2, " over PCIe, 76 % of what it carries."),
        ({"pcie_transmitted": 12e9}, LINKS, 1, None),
        ({"pcie_transmitted": 12e9}, {}, 2, None),
        ({"nvlink_received": 84e9}, LINKS, 2, " 84.0 GB/s over NVLink, 56 % of what it carries."),
        ({"dram_active": 0.8}, {}, 1, "Memory-bandwidth-bound: device memory was busy 80 %"),
        ({"dram_active": 0.79}, {}, 1, None),
        ({"power": 248, "sm_clock": 1290}, LIMIT, 1, "Power-bound: the GPUs drew 248 W of their "),
        ({"power": 248, "sm_clock": 1290}, LIMIT, 1, "limit of 250 W, at 1290 of 1530 MHz."),
        ({"power": 180}, LIMIT, 1, None),
    ],
)
def test_a_judgement_is_given_where_figures_show_it(
    values: dict[str, float], environment: dict[str, Any], gpus: int, judgement: str | None
) -> None:
    shares = {"data_fraction": 0.01} | values
    waiting = shares.pop("data_fraction")
    every = [series(n, [v] * 10, of=gpu(i)) for i in range(gpus) for n, v in shares.items()]
    found = completed(of(*every), gpus=gpus, environment=environment, data_fraction=waiting)
    told = present(found.gpu_metrics).judgement
    assert told is None if judgement is None else judgement in present(told)


@pytest.mark.parametrize(
    ("metric", "raw", "expected"),
    [("energy", 2500.0, 2.5), ("power", 300.0, 300.0)],
)
def test_figures_of_dcgm_are_converted_to_the_unit_of_their_metric(
    metric: str, raw: float, expected: float
) -> None:
    """DCGM counts energy in millijoules."""
    (field,) = BY_ID[metric].dcgm
    assert field.value(raw) == expected
