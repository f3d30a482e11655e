"""First sentences of an analysis."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from k8sbench.catalog import spec_files
from k8sbench.model.errors import Finding
from k8sbench.model.group import Deviation
from k8sbench.model.measurement import Throughput
from k8sbench.model.pool import NodePool
from k8sbench.model.run import Run
from k8sbench.results.groups import speedup
from k8sbench.results.groups.grouping import groups
from k8sbench.results.groups.selection import Wanted
from k8sbench.results.report import analysis, publication, standing_out
from k8sbench.results.report.words import say
from tests.results.groups.grouped import report
from tests.results.report.factory import V100_16, run, throughput

CASES = {1: "1x1", 4: "1x4", 8: "1x8", 16: "2x8", 32: "4x8"}
ARCFACE: dict[str, Any] = {"benchmark": "arcface", "framework": "paddle", "variant": "plsc"}
PUBLISHED = {1: 397.78, 4: 1539.66, 8: 2545.3, 16: 5953.84, 32: 11084.53}


def sentences(runs: Sequence[Run], lang: Any = "en") -> list[str]:
    """Return the sentences of the only program."""
    results = report(
        runs,
        Wanted(every=True),
        find=lambda plan: spec_files.load_spec(plan.benchmark).spec,
        published=True,
    ).results
    names = publication.names([result.group for result in results])
    ((_, found),) = analysis.analysis(results, names, lang)
    return found


def scaled(rates: Mapping[int, float], **fields: Any) -> list[Run]:
    return [
        run(rate, case=CASES[gpus], run_id=f"of-{gpus}", **(ARCFACE | fields))
        for gpus, rate in rates.items()
    ]


def test_more_gpus_that_are_more_efficient_come_first_and_whether_published_ones_are_too() -> None:
    first, *_ = sentences(scaled(PUBLISHED))
    assert "8 GPUs reach 80.0 %" in first
    assert "16 reach 93.5 %" in first
    assert "(dlperf-2021-03: 80.0 % and 93.5 %)" in first
    other, *_ = sentences(scaled(PUBLISHED, batch_size=64))
    assert "16 reach 93.5 %" in other
    assert "dlperf" not in other
    even = sentences(scaled(PUBLISHED | {8: 3000.0}))
    assert not any("16 reach" in one for one in even)


def test_poor_scaling_comes_before_the_list_of_speedups() -> None:
    found = sentences(scaled({1: 400.0, 8: 2000.0}))
    assert ["62.5 %" in one for one in found[:2]] == [True, True]
    assert "8 GPUs" in found[0]


def test_slow_lines_come_before_the_rows_figures_with_the_number_of_runs() -> None:
    slow = Finding(id="unsteady", severity="warn", sentence="688 of 3192 lines took twice as long.")
    runs = [
        run(400.0, repeat=n, run_id=f"n-{n}", measured={"reasons": (slow,) * (n > 1)}, **ARCFACE)
        for n in (1, 2, 3)
    ]
    said, *_ = sentences(runs)
    assert said.startswith("gpu8_fp32_bs128 (2 of 3 runs): 688 of 3192 lines")


@pytest.mark.parametrize(("median", "is_named"), [(58.72, True), (57.0, False), (50.0, False)])
def test_a_published_figure_that_is_near_our_median_is_named(median: float, is_named: bool) -> None:
    figures = Throughput(
        time_weighted=46.4,
        time_weighted_steady=47.0,
        median=median,
        arithmetic=51.9,
        timestamps=None,
        printed_steps=None,
        unit="samples/s",
    )
    fields: dict[str, Any] = {
        "benchmark": "deeplabv3p",
        "variant": "mmseg",
        "precision": "amp",
        "amp_dtype": "fp16",
        "batch_size": 4,
        "measured": {"throughput": figures, "gpu_model": "Tesla V100-SXM2-32GB"},
    }
    found = sentences([run(46.4, **fields)])
    figures_named = ("58.2", f"{median:.2f}", "46.40")
    assert any(all(figure in one for figure in figures_named) for one in found) is is_named


@pytest.mark.parametrize(("published", "is_named"), [(101.4, True), (98.6, True), (102.0, False)])
def test_a_published_figure_is_near_another_estimator_up_to_1_5_percent(
    published: float, is_named: bool
) -> None:
    figure = Deviation(
        source="dlperf",
        title="DLPerf",
        case="1x8",
        precision="fp32",
        batch_size=128,
        gpu_model=V100_16,
        published=published,
        estimator="unknown",
        ours=None,
        ratio=None,
        ratios=(-0.2, 0.0),
    )
    own = {"throughput": throughput(80.0, median=100.0)}
    (result,) = speedup.results(groups([run(80.0, measured=own)]))
    with_figure = msgspec.structs.replace(result, deviations=(figure,))
    assert any(standing_out.other_estimator(with_figure, "row", "en")) is is_named


def test_amp_is_held_against_fp32_of_its_batch_before_that_of_its_set() -> None:
    other_set = run(390.0, batch_size=128, set_name="b", run_id="b")
    other_batch = run(350.0, batch_size=64, set_name="a", run_id="c")
    amp = run(780.0, batch_size=128, set_name="a", run_id="a", precision="amp", amp_dtype="fp16")
    (found,) = analysis.gains(groups([amp, other_batch, other_set]))
    assert found.ratio == pytest.approx(2.0)


V1, V2 = ({"environment": {"program_version": version}} for version in ("1.0", "2.0"))


@pytest.mark.parametrize(
    ("changes", "unlike"),
    [
        ({}, ()),
        ({"set_name": "b"}, ()),
        ({"batch_size": 64}, ("batch",)),
        ({"image": "registry.example/pytorch:2"}, ("image",)),
        ({"trainers_digest": "f" * 64}, ("program",)),
        ({"measured": V2}, ("program",)),
        ({"pool": NodePool(name="other", gpus_per_node=8, gpu_model=V100_16)}, ("pool",)),
        ({"measured": V1 | {"gpu_model": "NVIDIA H100 80GB HBM3"}}, ("gpu-model",)),
        ({"options": {"channels_last": True}}, ("options",)),
        ({"data": "synthetic-host"}, ("data",)),
    ],
)
def test_amp_has_a_ratio_to_fp32_that_differs_in_nothing_else(
    changes: dict[str, Any], unlike: tuple[str, ...]
) -> None:
    alike: dict[str, Any] = {"batch_size": 128, "measured": V1}
    fp32 = run(390.0, **(alike | changes))
    amp = run(780.0, precision="amp", amp_dtype="fp16", **alike)
    (found,) = analysis.gains(groups([amp, fp32]))
    assert found.unlike == unlike
    assert found.ratio == (None if unlike else pytest.approx(2.0))
    for lang in ("en", "zh"):
        assert all(say(lang, f"unlike_{name}") for name in unlike)
