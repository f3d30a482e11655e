"""TFLOP/s of each GPU, and their share of what its data sheet says."""

from typing import Any

import msgspec
import pytest

from k8sbench.catalog import spec_files
from k8sbench.model.arithmetic import beyond_fp32, peak_of, tflops
from k8sbench.model.fingerprint import Fingerprint
from k8sbench.model.run import Run
from k8sbench.results.groups.grouping import groups
from k8sbench.results.groups.speedup import results
from tests.results.groups.rows import by_case
from tests.results.groups.spread import RESNET50
from tests.results.report.factory import repeats, run, smoke
from tests.results.said import text, texts
from tests.unit.presence import present

A100 = "NVIDIA A100-SXM4-40GB"
MODEL = Fingerprint(model="same", parameters=26_000_000, gmac=4.0, input="3×224×224")


def test_the_reports_resnet50_does_nine_tflops_per_gpu() -> None:
    found = by_case(repeats(RESNET50["1x1"][0], case="1x1"))["1x1"]
    assert found.tflops_per_gpu.value == pytest.approx(6 * 4.089 * 366.14 / 1000)
    assert found.peak_share.value == pytest.approx(8.983 / 15.7, abs=0.001)
    assert texts(found.peak_share.notes) == (
        "peak: 15.7 TFLOP/s fp32, NVIDIA V100 data sheet (WP-09369, Jan 2020)",
    )


def test_the_first_layers_input_has_no_gradient_and_a_sharded_head_counts() -> None:
    plain = tflops(MODEL, 1000.0, 1)
    assert plain == pytest.approx(6 * 4.0)
    first = msgspec.structs.replace(MODEL, first_layer_gmac=0.5)
    assert tflops(first, 1000.0, 1) == pytest.approx(plain - 2 * 0.5)
    both = msgspec.structs.replace(first, head_gmac=0.1)
    assert tflops(both, 1000.0, 1) == pytest.approx(plain - 2 * 0.5 + 6 * 0.1)


@pytest.mark.parametrize(
    "name",
    [
        "Tesla V100-SXM3-32GB-H",  # of the DGX-2H: it has another limit of power
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 5090 Laptop GPU",
        "NVIDIA H100",  # on a card or not
        "NVIDIA A40-48Q",  # a virtual one
        "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
        "AMD Instinct MI300A",
    ],
)
def test_a_gpu_without_a_data_sheet_has_no_peak(name: str) -> None:
    assert peak_of(name) is None


H100 = "NVIDIA H100 80GB HBM3"
FP32: dict[str, Any] = {"precision_effective": "fp32", "impl": "upstream", "environment": {}}
AMP, TF32 = ({**FP32, "precision_effective": each} for each in ("amp", "tf32"))
STATED: dict[str, Any] = {**FP32, "environment": {"option.tf32": "False"}}


@pytest.mark.parametrize(
    ("gpu", "rate", "known", "benchmark", "names"),
    [
        (H100, 1903.0, FP32, "resnet50", "69 %"),
        # The fastest without TF32 that was measured, on an H200.
        ("NVIDIA H200", 1000.3, FP32, "resnet50", None),
        ("NVIDIA H200", 2205.4, FP32, "resnet50", "80 %"),
        (A100, 780.0, FP32, "resnet50", "97 %"),
        (A100, 500.0, FP32, "resnet50", None),
        ("Tesla V100-SXM2-16GB", 393.4, FP32, "resnet50", None),
        ("Tesla V100-SXM2-16GB", 600.0, FP32, "resnet50", None),
        (None, 1903.0, FP32, "resnet50", None),
        (H100, 1903.0, AMP, "resnet50", None),
        (H100, 1903.0, TF32, "resnet50", None),
        (H100, 1903.0, STATED, "resnet50", None),
        (H100, 1903.0, {**FP32, "impl": "k8sbench"}, "resnet50", None),
        (H100, 1903.0, FP32, "arcface", None),
        (H100, 1903.0, FP32, None, None),
    ],
)
def test_a_rate_above_what_fp32_reaches_names_its_share(
    gpu: str | None, rate: float, known: dict[str, Any], benchmark: str | None, names: str | None
) -> None:
    model = spec_files.load_spec("resnet50").spec.variants[0].fingerprint
    found = msgspec.structs.replace(present(run(rate).measurement), gpus=1, gpu_model=gpu, **known)
    said = beyond_fp32(found, rate, model, None, benchmark)
    assert (said is None) == (names is None)
    assert names is None or present(said).args["share"] == names


OF_A100: dict[str, Any] = {"measured": {"gpu_model": A100}}
OWN: dict[str, Any] = {"impl": "upstream", "trainer": None, "trainers_digest": None}


@pytest.mark.parametrize(
    ("fields", "peak"),
    [
        ({}, 15.7),
        ({"precision": "amp", "amp_dtype": "fp16"}, 125.0),
        (OF_A100, 19.5),
        (OF_A100 | {"options": {"tf32": True}}, 156.0),
        (OF_A100 | {"precision": "amp", "amp_dtype": "bf16"}, 312.0),
    ],
)
def test_the_peak_is_that_of_the_precision_in_effect(fields: dict[str, Any], peak: float) -> None:
    (found,) = results(groups([run(800.0, **fields)]))
    assert found.peak_share.value == pytest.approx(present(found.tflops_per_gpu.value) / peak)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"measured": {"gpu_model": "Mystery 1"}}, "the peak of GPU 'Mystery 1' is not known"),
        ({"measured": {"gpu_model": f"{A100} MIG 3g.20gb"}}, "MIG 3g.20gb' is not known"),
        ({"measured": {"precision_effective": None}}, "the precision in effect is not known"),
        ({"precision": "amp", "amp_dtype": "bf16"}, "Tesla V100-SXM2-16GB has no bf16"),
        (OF_A100 | OWN, "the program does not say whether TF32 was on"),
    ],
)
def test_without_a_known_peak_no_share_has_a_reason(fields: dict[str, Any], reason: str) -> None:
    (found,) = results(groups([run(800.0, **fields)]))
    assert found.tflops_per_gpu.value is not None
    assert found.peak_share.value is None
    assert text(found.peak_share.reason).endswith(reason)


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
    assert (found.tflops_per_gpu.value, text(found.tflops_per_gpu.reason)) == (None, reason)
    assert found.peak_share.value is None


@pytest.mark.parametrize(
    ("name", "fp32", "fp16", "tf32"),
    [
        ("Tesla V100-SXM2-32GB", 15.7, 125.0, None),
        ("Tesla P100-PCIE-16GB", 9.3, 18.7, None),
        ("Tesla T4", 8.1, 65.0, None),
        ("NVIDIA A100-SXM4-80GB", 19.5, 312.0, 156.0),
        ("NVIDIA H100 80GB HBM3", 66.9, 989.4, 494.7),
        ("NVIDIA H100 PCIe", 51.2, 756.0, 378.0),
        ("NVIDIA H800", 66.9, 989.4, 494.7),
        ("NVIDIA H800 PCIe", 51.2, 756.0, 378.0),
        ("NVIDIA H20", 44.0, 148.0, 74.0),
        ("NVIDIA H20-3e", 44.0, 148.0, 74.0),
        ("NVIDIA GH200 480GB", 67.0, 990.0, 494.0),
        ("NVIDIA GH200 144G HBM3e", 67.0, 990.0, 494.0),
        ("NVIDIA B200", 75.0, 2250.0, 1100.0),
        ("NVIDIA GB200", 80.0, 2500.0, 1250.0),
        ("NVIDIA A40", 37.4, 149.7, 74.8),
        ("NVIDIA L40", 90.5, 181.05, 90.5),
        ("NVIDIA GeForce RTX 4090", 82.6, 165.2, 82.6),
        ("NVIDIA GeForce RTX 5090", 104.8, 209.5, 104.8),
        ("AMD Instinct MI300X", 163.4, 1307.4, 653.7),
    ],
)
def test_figures_match_data_sheets(name: str, fp32: float, fp16: float, tf32: float | None) -> None:
    """Dense figures, also by the label that a node has for the driver's name."""
    for spelling in (name, name.replace(" ", "-"), name.replace(" ", "_")):
        found = present(peak_of(spelling))
        assert (found.fp32, found.fp16, found.tf32) == (fp32, fp16, tf32)


GPT = spec_files.load_spec("gpt").spec.variants[0]


@pytest.mark.parametrize("length", [1024, 256])
def test_a_language_models_share_of_peak_is_its_mfu_at_its_sequence_length(length: int) -> None:
    """6 N + 12 L d s operations per token."""
    fields: dict[str, Any] = {
        "benchmark": "gpt",
        "variant": "gpt2",
        "unit": "tokens",
        "trainer": "gpt",
        "precision": "amp",
        "amp_dtype": "bf16",
        "fingerprint": GPT.fingerprint,
        "options": {"sequence-length": length},
        "measured": {"gpu_model": A100, "parameters": 124_439_808},
    }
    (found,) = results(groups([run(800_000.0, **fields)]))
    flops = 6 * 123_653_376 + 12 * 12 * 768 * length
    each = 800_000.0 / 8 * flops / 1e12
    assert found.tflops_per_gpu.value == pytest.approx(each)
    assert found.group.gmac == pytest.approx(flops / 6e9)
    assert found.peak_share.value == pytest.approx(each / 312.0)
    assert [note.id for note in found.peak_share.notes] == ["peak-of", "mfu-of"]
