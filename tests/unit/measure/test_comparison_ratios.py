"""Ratios of equal things only: speedup, parity, deviation, share of peak."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.measure.group import comparison
from k8sbench.measure.group.comparison import NOT_COMPARABLE, data_source, parities, results, tflops
from k8sbench.measure.group.gpu_peaks import PEAKS, peak_of
from k8sbench.measure.group.grouping import groups
from k8sbench.model.group import Deviation, Group, Parity, Result
from k8sbench.model.identity import GroupKey, fields_for
from k8sbench.model.measurement import Arithmetic, arithmetic_digest
from k8sbench.model.phase import Phase
from k8sbench.model.plan import PlannedWindow
from k8sbench.model.pool import NodePool
from k8sbench.model.run import Run
from k8sbench.model.spec import BenchmarkSpec, Fingerprint
from tests.unit.measure.test_group_spread import ARCFACE, RESNET50
from tests.unit.report.factory import V100_16, V100_32, repeats, run, smoke, throughput

A100 = "NVIDIA A100-SXM4-40GB"


def by_case(runs: list[Run], **options: Any) -> dict[str, Result]:
    made = groups(runs)
    return {result.group.key.case: result for result in results(made, **options)}


def test_the_reports_speedups_follow_from_the_medians_of_their_runs() -> None:
    runs = [r for case, row in RESNET50.items() for r in repeats(row[0], case=case)]
    found = by_case(runs)
    assert {case: round(r.speedup.value or 0, 2) for case, r in found.items()} == {
        "1x1": 1.0,
        "1x4": 3.95,
        "1x8": 7.67,  # published as 7.65, from a folder with three side runs in it
    }
    assert found["1x8"].efficiency.value == pytest.approx(7.67 / 8, abs=0.001)
    assert found["1x8"].baseline == found["1x1"].group.key.id


def test_arcfaces_speedups_come_with_the_footnote_on_its_one_gpu_head() -> None:
    def arcface(case: str) -> list[Run]:
        head = "arcface" if case == "1x1" else "dist_arcface"
        pool = NodePool(name="v100-16gb", gpus_per_node=8, gpu_model=V100_16)
        return repeats(
            ARCFACE[case][0],
            benchmark="arcface",
            framework="paddle",
            case=case,
            pool=pool,
            options={"head": head},
            fingerprint=None,
            measured={"parameters": None},
        )

    found = by_case([r for case in ARCFACE for r in arcface(case)])
    assert [round(found[case].speedup.value or 0, 2) for case in ARCFACE] == [
        1.0,
        3.87,
        6.4,
        14.97,
        27.87,
    ]
    assert found["4x8"].speedup.notes == ("head: dist_arcface, on one GPU arcface",)
    assert found["1x1"].speedup.notes == ()


def test_a_head_that_only_the_program_tells_is_footnoted_too() -> None:
    one = run(100.0, case="1x1", measured={"environment": {"head": "arcface"}})
    many = run(700.0, measured={"environment": {"head": "dist_arcface"}})
    found = by_case([one, many])
    assert found["1x8"].speedup.value == 7.0
    assert found["1x8"].speedup.notes == ("head: dist_arcface, on one GPU arcface",)


def test_synchronised_batch_norm_is_a_footnote() -> None:
    found = by_case([run(100.0, case="1x1"), run(700.0, sync_bn=True)])
    assert found["1x8"].speedup.value == 7.0
    assert "synchronised batch norm" in found["1x8"].speedup.notes[0]


WINDOW = PlannedWindow(
    warmup=0, iterations=100, log_interval=1, min_steady_seconds=120.0, rule="ours"
)
UNLIKE: dict[str, dict[str, Any]] = {
    "variant": {"variant": "other"},
    "impl": {"impl": "user"},
    "precision": {"precision": "amp", "measured": {"precision_effective": "fp32"}},
    "precision_effective": {"measured": {"precision_effective": "amp"}},
    "amp_dtype": {"amp_dtype": "bf16", "measured": {"amp_dtype": None}},
    "batch_size": {"batch_size": 64},
    "preset": {"preset": "smoke"},
    "mode": {"mode": "train"},
    "data": {"data": "pvc:imagenet"},
    "window": {"window": WINDOW},
    "backend": {"backend": "local"},
    "pool": {"pool": NodePool(name="other", gpus_per_node=8, gpu_model=V100_16)},
    "gpu_model": {"measured": {"gpu_model": V100_32}},
    "image": {"image": "registry.example/pytorch:2"},
    "options": {"options": {"channels_last": True}},
    "node": {"node": "gpu-07"},
    "program": {"trainers_digest": "f" * 64},
}


@pytest.mark.parametrize("field", UNLIKE)
def test_a_1x1_case_that_differs_in_anything_is_no_baseline_and_the_cell_names_it(
    field: str,
) -> None:
    found = by_case([run(100.0, case="1x1", **UNLIKE[field]), run(700.0)])["1x8"]
    assert found.speedup.value is None
    assert found.efficiency.value is None
    assert found.baseline is None
    assert found.speedup.reason is not None
    assert found.speedup.reason.endswith(f"differs in {field}")


@pytest.mark.parametrize("other", [{"benchmark": "tsm"}, {"framework": "paddle"}])
def test_the_1x1_case_of_something_else_is_not_even_named(other: dict[str, Any]) -> None:
    found = by_case([run(100.0, case="1x1", **other), run(700.0)])["1x8"]
    assert found.speedup.reason == "no 1x1 case to refer to"


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (smoke(1.0), "smoke run: checks the path, not the speed"),
        (smoke(1.0, preset="full"), "CPU processes share the machine: no speedup"),
        (run(700.0, case="2x4", backend="local"), "the replicas shared one machine: no speedup"),
        (run(None), "no valid figure"),
        (run(700.0, measured={"gpu_model": None}), "the GPU model is not known"),
        (run(700.0), "no 1x1 case to refer to"),
    ],
)
def test_a_speedup_that_cannot_be_says_why(one: Run, reason: str) -> None:
    (found,) = results(groups([one]))
    assert (found.speedup.value, found.speedup.reason) == (None, reason)
    assert (found.efficiency.value, found.efficiency.reason) == (None, reason)


def test_gpus_of_one_local_machine_have_a_speedup() -> None:
    found = by_case([run(100.0, case="1x1", backend="local"), run(700.0, backend="local")])
    assert found["1x8"].speedup.value == 7.0


def test_the_baseline_is_that_of_the_own_set_then_the_youngest() -> None:
    runs = [
        run(100.0, case="1x1", set_name="old", at=1.0),
        run(101.0, case="1x1", set_name="own", at=2.0),
        run(102.0, case="1x1", set_name="young", at=3.0),
        run(700.0, set_name="own", at=4.0),
    ]
    found = results(groups(runs))
    eight = next(r for r in found if r.group.key.case == "1x8")
    assert eight.speedup.value == pytest.approx(700 / 101)
    assert eight.speedup.notes == ()
    without = results(groups([r for r in runs if r.created_at != 2.0]))
    eight = next(r for r in without if r.group.key.case == "1x8")
    assert eight.speedup.value == pytest.approx(700 / 102)
    assert eight.speedup.notes == ("1x1 case of another set: young",)


def test_a_baseline_without_a_figure_is_no_baseline() -> None:
    found = by_case([run(None, case="1x1", measured={"verdict": "valid"}), run(700.0)])["1x8"]
    assert found.speedup.value is None


def test_the_command_of_upstream_may_differ_by_its_number_of_gpus() -> None:
    own: dict[str, Any] = {"impl": "upstream", "trainer": None, "trainers_digest": None}
    runs = [
        run(100.0, case="1x1", command=("train", "-n", "1"), **own),
        run(700.0, command=("train", "-n", "8"), **own),
    ]
    assert by_case(runs)["1x8"].speedup.value == 7.0
    runs[1] = run(700.0, command=("train", "-n", "8"), spec_digest="0" * 64, **own)
    reason = by_case(runs)["1x8"].speedup.reason
    assert reason is not None
    assert reason.endswith("differs in program")


def test_a_comment_in_a_file_of_ones_own_makes_no_other_program() -> None:
    own: dict[str, Any] = {"impl": "user", "trainer": None, "trainers_digest": None}
    one = run(100.0, case="1x1", command=("-n", "1"), program_digest="p", **own)
    commented = run(700.0, command=("-n", "8"), program_digest="p", spec_digest="c", **own)
    edited = run(700.0, command=("-n", "8"), program_digest="q", spec_digest="c", **own)
    assert by_case([one, commented])["1x8"].speedup.value == 7.0
    assert by_case([one, edited])["1x8"].speedup.value is None


def test_the_ratio_is_by_one_estimator_on_both_sides() -> None:
    figures = throughput(100.0, time_weighted=None)
    alone = run(100.0, case="1x1", measured={"throughput": figures, "estimator": "median"})
    reason = by_case([alone, run(700.0)])["1x8"].speedup.reason
    assert reason is not None
    assert reason.endswith("has no figure by time_weighted")


@given(st.floats(1.0, 1000.0), st.floats(0.01, 8.3))
def test_speedup_is_the_ratio_of_the_medians_and_efficiency_its_share(
    alone: float, factor: float
) -> None:
    found = by_case(
        [
            run(alone, case="1x1", fingerprint=None),
            run(alone * factor, fingerprint=None),
        ]
    )["1x8"]
    assert found.speedup.value == pytest.approx(factor)
    assert found.efficiency.value == pytest.approx(factor / 8)


# Over sets


def in_sets(*rates: float, **fields: Any) -> list[Run]:
    return [run(rate, set_name=f"set-{n}", **fields) for n, rate in enumerate(rates)]


def test_three_sets_have_an_interval_of_their_medians() -> None:
    for found in results(groups(in_sets(100.0, 104.0, 101.0))):
        assert found.sets == 3
        assert found.over_sets is not None
        assert (found.over_sets.median, found.over_sets.coverage) == (101.0, 0.75)
        assert (found.over_sets.low, found.over_sets.high) == (100.0, 104.0)


def test_a_set_counts_once_however_many_repeats_it_has() -> None:
    many = repeats([99.0, 100.0, 101.0], set_name="set-many")
    found = results(groups([*in_sets(104.0, 105.0), *many]))[0]
    assert found.over_sets is not None
    assert (found.sets, found.over_sets.median) == (3, 104.0)


@pytest.mark.parametrize(
    "fields",
    [
        {"case": "1x4"},
        {"batch_size": 64},
        {"image": "registry.example/pytorch:2"},
        {"trainers_digest": "f" * 64},
        {"measured": {"gpu_model": V100_32}},
        {"measured": {"throughput": throughput(103.0, time_weighted=None), "estimator": "median"}},
        {"phase": Phase.FAILED, "measured": {"throughput": None, "verdict": "rejected"}},
    ],
)
def test_two_sets_and_something_else_have_no_interval_over_sets(fields: dict[str, Any]) -> None:
    other = run(103.0, set_name="set-other", **fields)
    found = results(groups([*in_sets(100.0, 101.0), other]))
    assert {(r.sets, r.over_sets) for r in found if r.group.key.set_name != "set-other"} == {
        (2, None)
    }


# TFLOP/s


def test_the_reports_resnet50_does_nine_tflops_per_gpu() -> None:
    found = by_case(repeats(RESNET50["1x1"][0], case="1x1"))["1x1"]
    assert found.tflops_per_gpu.value == pytest.approx(6 * 4.089 * 366.14 / 1000)
    assert found.peak_share.value == pytest.approx(8.983 / 15.7, abs=0.001)
    assert found.peak_share.notes == (
        "peak: 15.7 TFLOP/s fp32, NVIDIA V100 data sheet (WP-09369, Jan 2020)",
    )


def test_the_rate_is_shared_by_the_gpus() -> None:
    assert tflops(MODEL, 2806.66, 8) == pytest.approx(tflops(MODEL, 2806.66 / 8, 1))


def test_the_first_layers_input_has_no_gradient_and_a_sharded_head_counts() -> None:
    plain = tflops(MODEL, 1000.0, 1)
    assert plain == pytest.approx(6 * 4.0)
    first = msgspec.structs.replace(MODEL, first_layer_gmac=0.5)
    assert tflops(first, 1000.0, 1) == pytest.approx(plain - 2 * 0.5)
    both = msgspec.structs.replace(first, head_gmac=0.1)
    assert tflops(both, 1000.0, 1) == pytest.approx(plain - 2 * 0.5 + 6 * 0.1)


def test_a_rows_arithmetic_is_that_of_its_catalogs_model() -> None:
    model = msgspec.structs.replace(MODEL, first_layer_gmac=0.5, head_gmac=0.1)
    one = run(500.0, case="1x1", fingerprint=model, measured={"parameters": MODEL.parameters})
    assert by_case([one])["1x1"].tflops_per_gpu.value == pytest.approx(11.8)


@pytest.mark.parametrize(
    ("name", "gpus", "together"),
    [("Tesla V100-SXM3-32GB", 16, 2000.0), ("Tesla V100-DGXS-32GB", 4, 500.0)],
)
def test_a_machines_data_sheet_gives_the_sum_over_its_gpus(
    name: str, gpus: int, together: float
) -> None:
    peak = peak_of(name)
    assert peak is not None
    assert (peak.fp16 * gpus, peak.fp32) == (together, 15.7)
    assert f"of {gpus} GPUs" in peak.source


def test_a_gpu_without_a_data_sheet_has_no_peak() -> None:
    # Of the DGX-2H: it has another limit of power.
    assert peak_of("Tesla V100-SXM3-32GB-H") is None


def test_every_peak_names_its_data_sheet() -> None:
    assert all("data sheet" in peak.source for peak in PEAKS)


@pytest.mark.parametrize(
    ("fields", "peak"),
    [
        ({}, 15.7),
        ({"precision": "amp", "amp_dtype": "fp16"}, 125.0),
        ({"measured": {"gpu_model": A100}}, 19.5),
        ({"measured": {"gpu_model": A100}, "options": {"tf32": True}}, 156.0),
        (
            {"measured": {"gpu_model": A100}, "precision": "amp", "amp_dtype": "bf16"},
            312.0,
        ),
    ],
)
def test_the_peak_is_that_of_the_precision_in_effect(fields: dict[str, Any], peak: float) -> None:
    (found,) = results(groups([run(800.0, **fields)]))
    assert found.tflops_per_gpu.value is not None
    assert found.peak_share.value == pytest.approx(found.tflops_per_gpu.value / peak)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"measured": {"gpu_model": "Mystery 1"}}, "the peak of GPU 'Mystery 1' is not known"),
        ({"measured": {"gpu_model": f"{A100} MIG 3g.20gb"}}, "MIG 3g.20gb' is not known"),
        ({"measured": {"precision_effective": None}}, "the precision in effect is not known"),
        (
            {"precision": "amp", "amp_dtype": "bf16"},
            "Tesla V100-SXM2-16GB has no bf16",
        ),
        (
            {
                "measured": {"gpu_model": A100},
                "impl": "upstream",
                "trainer": None,
                "trainers_digest": None,
            },
            "the program does not say whether TF32 was on",
        ),
    ],
)
def test_without_a_known_peak_there_is_no_share_and_a_reason(
    fields: dict[str, Any], reason: str
) -> None:
    (found,) = results(groups([run(800.0, **fields)]))
    assert found.tflops_per_gpu.value is not None
    assert found.peak_share.value is None
    assert found.peak_share.reason is not None
    assert found.peak_share.reason.endswith(reason)


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (smoke(1.0), "smoke run: small shapes"),
        (smoke(1.0, preset="full"), "no GPU was used"),
        (run(None), "no valid figure"),
        (run(800.0, fingerprint=None), "the catalog has no fingerprint of the model"),
    ],
)
def test_without_a_model_on_a_gpu_there_are_no_tflops(one: Run, reason: str) -> None:
    (found,) = results(groups([one]))
    assert (found.tflops_per_gpu.value, found.tflops_per_gpu.reason) == (None, reason)
    assert found.peak_share.value is None


@pytest.mark.parametrize(
    "name",
    [
        V100_16,
        V100_32,
        A100,
        "A100-PCIE-40GB",
        "NVIDIA A100 80GB PCIe",
        "NVIDIA A100-SXM4-80GB",
        "NVIDIA H100 80GB HBM3",
        "NVIDIA H100 PCIe",
        "NVIDIA H200",
        "Tesla T4",
        "NVIDIA L40S",
    ],
)
def test_the_names_that_drivers_give_are_known(name: str) -> None:
    assert peak_of(name) is not None


def test_no_name_matches_two_peaks_and_every_peak_has_its_source() -> None:
    assert all(peak.source and peak.fp32 < peak.fp16 for peak in PEAKS)
    assert peak_of("NVIDIA L4") != peak_of("NVIDIA L40S")
    assert peak_of("NVIDIA H200") != peak_of("NVIDIA H200 NVL")
    assert peak_of("NVIDIA A1000 Laptop GPU") is None
    assert peak_of(None) is None


# Published figures


def catalog(**figure: Any) -> BenchmarkSpec:
    published = {
        "case": "1x8",
        "precision": "fp32",
        "batch_size": 128,
        "gpu_model": V100_16,
        "source": "dlperf",
        "throughput": 2802.14,
        "estimator": "timestamps",
        "aggregate": "median",
    }
    return msgspec.convert(
        {
            "name": "resnet50",
            "title": "ResNet-50",
            "task": "classification",
            "unit": "images",
            "default_framework": "pytorch",
            "sources": {"dlperf": {"title": "DLPerf"}, "other": {"title": "Other"}},
            "variants": [
                {
                    "name": "dle",
                    "framework": "pytorch",
                    "title": "PyTorch",
                    "trainer": "resnet50",
                    "log": "dle-resnet50",
                    "batch_size": {"fp32": 128},
                    "window": {
                        "warmup": 20,
                        "iterations": 100,
                        "rule": "ours",
                        "log_interval": {"one_gpu": 1, "many_gpus": 1},
                    },
                    "cases": ["1x8"],
                    "case_notes": {"1x1": "no all-reduce", "1x8": "a full node"},
                    "published": [
                        published | figure,
                        published | {"case": "1x1", "throughput": 366.14},
                        published | {"case": "1x4", "throughput": None, "source": "other"},
                        published
                        | {"source": "other", "estimator": "unknown", "throughput": 2900.0},
                    ],
                }
            ],
        },
        BenchmarkSpec,
    )


def deviation(one: Run, **figure: Any) -> Deviation:
    spec = catalog(**figure)
    (found,) = results(groups([one]), find=lambda _: spec, published=True)
    assert found.deviations is not None
    return next(d for d in found.deviations if d.source == "dlperf")


def test_a_deviation_is_by_the_published_estimator_and_names_what_differs() -> None:
    found = deviation(run(2900.0))
    assert found.ours == pytest.approx(2900.0 * 0.999)
    assert found.ratio == pytest.approx(2900.0 * 0.999 / 2802.14 - 1)
    assert found.notes == ("impl k8sbench", "data synthetic")
    assert found.not_comparable == ()


def test_loaders_and_speed_options_are_named_beside_a_deviation() -> None:
    quick = run(2900.0, data="synthetic-host", options={"compile": True})
    assert deviation(quick).notes == ("impl k8sbench", "data synthetic-host", "compile")
    # As ours, theirs is synthetic; what loading costs is in ours alone.
    assert "data synthetic-host" in deviation(quick, data="synthetic").notes


def test_the_published_system_itself_needs_no_note() -> None:
    own: dict[str, Any] = {"impl": "upstream", "trainer": None, "trainers_digest": None}
    assert deviation(run(2900.0, data="pvc:imagenet", **own)).notes == ()


@pytest.mark.parametrize(
    ("fields", "figure", "ids"),
    [
        ({"preset": "smoke"}, {}, ("smoke",)),
        ({"case": "2x8"}, {}, ("case",)),
        ({"batch_size": 64}, {}, ("batch",)),
        ({"measured": {"gpu_model": V100_32}}, {}, ("gpu-model",)),
        ({"measured": {"gpu_model": None}}, {}, ("gpu-model",)),
        ({"measured": {"precision_effective": None}}, {}, ("precision",)),
        ({"precision": "amp", "measured": {"precision_effective": "fp32"}}, {}, ("precision",)),
        (
            {"options": {"tf32": True}, "measured": {"gpu_model": A100}},
            {},
            ("precision", "gpu-model"),
        ),
        ({}, {"precision": "amp"}, ("precision",)),
        ({"precision": "amp", "amp_dtype": "bf16"}, {"precision": "amp"}, ("precision",)),
        ({}, {"estimator": "unknown"}, ("estimator",)),
        ({"measured": {"throughput": throughput(2900.0, timestamps=None)}}, {}, ("estimator",)),
        ({"measured": {"verdict": "rejected", "throughput": None}}, {}, ("no-figure",)),
        ({"phase": Phase.FAILED, "batch_size": 64}, {}, ("no-figure", "batch")),
    ],
)
def test_what_does_not_match_leaves_no_deviation_and_its_id(
    fields: dict[str, Any], figure: dict[str, Any], ids: tuple[str, ...]
) -> None:
    found = deviation(run(2900.0, **fields), **figure)
    assert found.ratio is None
    assert found.not_comparable == ids


def test_amp_in_the_reports_own_half_type_matches() -> None:
    one = run(2900.0, precision="amp", amp_dtype="fp16")
    assert deviation(one, precision="amp").ratio is not None


def test_every_source_stands_by_itself_with_its_nearest_figure() -> None:
    (found,) = results(groups([run(2900.0)]), find=lambda _: catalog(), published=True)
    assert found.deviations is not None
    assert [(d.source, d.case, d.published) for d in found.deviations] == [
        ("dlperf", "1x8", 2802.14),
        ("other", "1x8", 2900.0),
    ]
    assert [d.not_comparable for d in found.deviations] == [(), ("estimator",)]


def test_a_published_figure_that_is_odd_by_its_own_report_is_marked() -> None:
    assert "published figure is anomalous" in deviation(run(2900.0), anomalous=True).notes


def test_the_catalogs_note_on_a_figure_goes_with_it() -> None:
    assert deviation(run(2900.0), note="Wrong by its own logs.").remark == "Wrong by its own logs."


def test_a_published_mean_of_runs_is_named_as_one() -> None:
    assert "published mean of runs, our median" in deviation(run(1.0), aggregate="mean").notes


def test_nothing_published_is_a_reason_and_not_an_empty_cell() -> None:
    spec = catalog()
    (other,) = results(groups([run(1.0, variant="mine")]), find=lambda _: spec, published=True)
    assert other.deviations == ()
    assert other.deviations_reason == "the catalog has no published figure of this variant"
    (lost,) = results(groups([run(1.0)]), published=True)
    assert lost.deviations is None
    assert lost.deviations_reason == "no catalog entry for resnet50"
    (unasked,) = results(groups([run(1.0)]), find=lambda _: spec)
    assert (unasked.deviations, unasked.deviations_reason) == (None, None)


def test_the_catalogs_notes_on_a_case_are_footnotes_of_its_speedup() -> None:
    found = by_case([run(100.0, case="1x1"), run(700.0)], find=lambda _: catalog())
    assert found["1x8"].speedup.notes == ("1x1: no all-reduce", "1x8: a full node")
    assert found["1x1"].speedup.notes == ("1x1: no all-reduce",)


def test_the_catalogs_note_on_batch_norm_stands_in_for_ours() -> None:
    runs = [run(100.0, case="1x1"), run(700.0, sync_bn=True)]
    assert by_case(runs)["1x8"].speedup.notes == (comparison.SYNC_BN_NOTE,)
    noted = by_case(runs, find=lambda _: catalog())
    assert noted["1x8"].speedup.notes == ("1x1: no all-reduce", "1x8: a full node")


def test_the_catalog_is_not_read_where_it_adds_nothing() -> None:
    def find(_: object) -> BenchmarkSpec:
        raise AssertionError("read in vain")

    results(groups([smoke(1.0), run(None)]), find=find)


def test_image_data_and_volumes_are_real_data() -> None:
    assert data_source("synthetic") == data_source("synthetic-host") == "synthetic"
    assert data_source("pvc:cityscapes") == data_source("image") == "real"


# Parity

MODEL = Fingerprint(model="same", parameters=26_000_000, gmac=4.0, input="3×224×224")
PADDLE: dict[str, Any] = {"framework": "paddle", "variant": "ps", "image": "paddle:2"}


def pair(paddle: dict[str, Any] | None = None, pytorch: dict[str, Any] | None = None) -> Parity:
    base: dict[str, Any] = {"fingerprint": MODEL}
    made = groups(
        [run(900.0, **(base | PADDLE | (paddle or {}))), run(1000.0, **(base | (pytorch or {})))]
    )
    (found,) = parities(made)
    return found


def test_equal_things_have_a_ratio_whatever_their_images_and_sets() -> None:
    assert pair().ratio == pytest.approx(0.9)
    found = pair({"set_name": "paddles"})
    assert found.ratio == pytest.approx(0.9)
    assert found.notes == ("sets paddles : set-a",)


def test_a_ratio_of_unlike_speed_options_names_them() -> None:
    found = pair({"options": {"workers": 8, "recipe": "x"}}, {"options": {"compile": True}})
    assert found.ratio == pytest.approx(0.9)
    assert found.notes == ("speed options workers 8 : compile",)
    assert pair(pytorch={"options": {"tf32": False}}).notes == ("speed options none : no tf32",)
    assert pair({"data": "synthetic-host"}).not_comparable == ("data",)


DIFFER: dict[str, dict[str, Any]] = {
    "device": {"measured": {"gpu_model": V100_32}},
    "no-figure": {"measured": {"verdict": "rejected", "throughput": None}},
    "model": {"fingerprint": msgspec.structs.replace(MODEL, gmac=5.0)},
    "precision": {"measured": {"precision_effective": "amp"}},
    "estimator": {"measured": {"estimator": "median"}},
    "batch": {"batch_size": 64},
    "data": {"data": "pvc:imagenet"},
    "backend": {"backend": "local"},
    "mode": {"mode": "train"},
}


@pytest.mark.parametrize("side", ["paddle", "pytorch"])
@pytest.mark.parametrize("name", DIFFER)
def test_one_difference_and_there_is_no_ratio_but_its_id(name: str, side: str) -> None:
    found = pair(**{side: DIFFER[name]})
    assert found.ratio is None
    assert found.not_comparable == (name,)


@pytest.mark.parametrize(
    "model",
    [
        {"fingerprint": None},
        {"measured": {"parameters": 11_000_000}},
        {"fingerprint": msgspec.structs.replace(MODEL, parameters=27_000_000)},
    ],
)
def test_a_model_that_is_another_or_not_known_has_no_ratio(model: dict[str, Any]) -> None:
    assert pair(model).not_comparable == ("model",)


def test_rounding_in_the_catalog_is_no_other_model() -> None:
    near = msgspec.structs.replace(MODEL, parameters=26_010_000, gmac=4.001)
    assert pair({"fingerprint": near}).ratio is not None


@pytest.mark.parametrize("side", ["paddle", "pytorch"])
@pytest.mark.parametrize(("parameters", "same"), [(25_974_000, True), (25_973_999, False)])
def test_models_are_the_same_up_to_a_thousandth_of_the_larger(
    side: str, parameters: int, same: bool
) -> None:
    """The other one has 26,000,000 parameters."""
    models = {"paddle": MODEL, "pytorch": MODEL}
    models = {
        name: msgspec.structs.replace(model, parameters=parameters if name == side else 26_000_000)
        for name, model in models.items()
    }
    found = pair(*({"fingerprint": model} for model in models.values()))
    assert found.not_comparable == (() if same else ("model",))


@pytest.mark.parametrize("side", [{}, PADDLE])
def test_a_gpu_is_not_set_against_a_cpu(side: dict[str, Any]) -> None:
    other = {} if side else PADDLE
    assert parities(groups([run(900.0, device="cpu", **side), run(900.0, **other)])) == []


HALF = {"conv": "float16", "depthwise_conv": "float16", "loss": "float32", "resize": "float16"}


def stated(by: str = "seen", **types: str) -> Arithmetic:
    found = HALF | types
    return Arithmetic(types=found, digest=arithmetic_digest(found), by=by)  # type: ignore[arg-type]


def amp(arithmetic: Arithmetic | None) -> dict[str, Any]:
    """A side in mixed precision whose runs state this."""
    return {"precision": "amp", "amp_dtype": "fp16", "measured": {"arithmetic": arithmetic}}


def test_a_ratio_in_amp_is_of_one_arithmetic() -> None:
    found = pair(amp(stated()), amp(stated()))
    assert found.ratio == pytest.approx(0.9)
    assert (found.not_comparable, found.notes) == ((), ())


def test_kinds_of_operations_in_other_types_forbid_a_ratio_and_are_named() -> None:
    ours = stated(resize="float32", depthwise_conv="1 float16 + 4 float32", pool="float32")
    for sides in (ours, stated()), (stated(), ours):
        found = pair(*map(amp, sides))
        assert found.ratio is None
        assert found.not_comparable == ("arithmetic",)
        values = [("1 float16 + 4 float32", "float16"), ("float32", "none"), ("float32", "float16")]
        values = values if sides[0] is ours else [(two, one) for one, two in values]
        named = zip(("depthwise_conv", "pool", "resize"), values, strict=True)
        shown = ", ".join(f"{kind} {one} : {two}" for kind, (one, two) in named)
        assert found.notes == (f"arithmetic differs in {shown}",)


@pytest.mark.parametrize(
    ("paddle", "pytorch", "who"),
    [
        (None, stated(), "Paddle"),
        (stated(), None, "PyTorch"),
        (None, None, "Paddle and PyTorch"),
    ],
)
def test_what_amp_leaves_in_fp32_must_be_stated(
    paddle: Arithmetic | None, pytorch: Arithmetic | None, who: str
) -> None:
    found = pair(amp(paddle), amp(pytorch))
    assert (found.ratio, found.not_comparable) == (None, ("arithmetic",))
    assert found.notes == (f"arithmetic not stated by {who}",)


def test_in_fp32_all_is_fp32_whether_it_is_stated_or_not() -> None:
    whole = {"measured": {"arithmetic": stated(**dict.fromkeys(HALF, "float32"))}}
    for sides in ((whole, {}), ({}, whole), (whole, whole), ({}, {})):
        found = pair(*sides)
        assert found.ratio == pytest.approx(0.9)
        assert found.notes == ()
    # What is stated counts, whatever the precision is called.
    found = pair(whole, {"measured": {"arithmetic": stated()}})
    assert found.not_comparable == ("arithmetic",)


def test_derived_types_are_marked() -> None:
    found = pair(amp(stated(by="derived")), amp(stated()))
    assert found.ratio is not None
    assert found.notes == ("arithmetic derived for Paddle",)


def test_repeats_of_unlike_arithmetic_have_none() -> None:
    fp16 = amp(stated())
    runs = [run(900.0, repeat=1, **fp16), run(901.0, repeat=2, **fp16)]
    (alike,) = groups(runs)
    assert alike.arithmetic == stated()
    runs[1] = run(901.0, repeat=2, **amp(stated(resize="float32")))
    (unlike,) = groups(runs)
    assert unlike.arithmetic is None
    assert unlike.missing["arithmetic"] == "the runs state different ones"
    (unstated,) = groups([run(900.0, **amp(None))])
    assert unstated.missing["arithmetic"] == "the runs do not state it"


def test_amp_types_are_precisions() -> None:
    fp16 = amp(stated())
    assert pair(fp16, fp16).ratio is not None
    assert pair(fp16, fp16 | {"amp_dtype": "bf16"}).not_comparable == ("precision",)


def test_amp_without_effect_is_not_set_against_amp() -> None:
    fp16: dict[str, Any] = {"precision": "amp", "amp_dtype": "fp16"}
    found = pair(fp16 | {"measured": {"precision_effective": "fp32"}}, fp16)
    assert found.not_comparable == ("precision",)


def test_the_demos_pair_appears_and_says_why_it_has_no_ratio() -> None:
    paddle = smoke(1.0, framework="paddle", measured={"parameters": 26_790_000})
    torch = smoke(2.0, measured={"parameters": 43_590_000})
    (found,) = parities(groups([paddle, torch]))
    assert found.ratio is None
    assert found.not_comparable == ("smoke", "cpu", "model")
    assert (found.paddle.parameters, found.pytorch.parameters) == (26_790_000, 43_590_000)


def test_groups_of_other_cases_precisions_or_presets_do_not_pair() -> None:
    runs = [
        run(900.0, **PADDLE),
        run(1000.0, case="4x8"),
        run(1000.0, precision="amp", amp_dtype="fp16"),
        run(1000.0, benchmark="tsm"),
        run(1000.0, preset="smoke"),
    ]
    assert parities(groups(runs)) == []


def test_each_group_is_paired_with_the_counterpart_it_has_least_against() -> None:
    runs = [
        run(900.0, **PADDLE),
        run(1000.0),
        run(1000.0, batch_size=64),
        run(1000.0, set_name="older", at=1.0),
    ]
    found = parities(groups(runs))
    paddles = {pair.paddle.key.id for pair in found}
    assert len(paddles) == 1
    assert [(p.pytorch.key.batch_size, p.pytorch.key.set_name) for p in found] == [
        (64, "set-a"),
        (128, "older"),
        (128, "set-a"),
    ]
    assert [p.ratio is None for p in found] == [True, False, False]
    other = run(900.0, batch_size=64, **PADDLE)
    batches = [
        (p.paddle.key.batch_size, p.pytorch.key.batch_size)
        for p in parities(groups([*runs[:3], other]))
    ]
    assert sorted(batches) == [(64, 64), (128, 128)]


def test_another_program_is_named_beside_the_ratio() -> None:
    found = pair({"impl": "upstream", "trainer": None, "trainers_digest": None})
    assert found.ratio is not None
    assert found.notes == ("impl upstream : k8sbench",)


def test_every_id_is_in_the_table() -> None:
    used = {*DIFFER, "smoke", "cpu", "case", "gpu-model", "arithmetic"}
    assert used == set(NOT_COMPARABLE)


def test_every_field_of_a_group_key_is_judged_in_a_speedup() -> None:
    allowed = {"replicas", "processes_per_replica", "case", "set_name"}
    judged = set(GroupKey.__struct_fields__) - allowed
    assert set(fields_for("baseline")) == judged
    assert set(UNLIKE) | {"benchmark", "framework"} == judged


def test_a_group_is_its_own_baseline_on_one_gpu() -> None:
    found = by_case([run(100.0, case="1x1")])["1x1"]
    assert (found.speedup.value, found.efficiency.value) == (1.0, 1.0)


def test_results_stand_beside_the_groups_that_they_are_of() -> None:
    made: list[Group] = groups([run(100.0, case="1x1"), run(700.0)])
    assert [result.group for result in results(made)] == made
