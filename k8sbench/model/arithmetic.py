"""Arithmetic per second and GPU, and its share of the GPU's peak."""

from __future__ import annotations

import re
from typing import NamedTuple

from k8sbench.messages import Note, note
from k8sbench.model.facts import Facts
from k8sbench.model.fingerprint import Fingerprint
from k8sbench.model.group import NOTHING_STATES_GPUS, Figure, Group
from k8sbench.model.measurement import Measurement

SAME_MODEL = 0.001
"""Relative difference up to which parameters or GMAC are equal: the catalog rounds them."""
TF32_UNKNOWN = "fp32 or tf32"


def arithmetic_speed(group: Group, rate: float | None) -> tuple[Figure, Figure]:
    """TFLOP/s per GPU at a rate of the group's runs, and its share of the GPU's peak."""
    if group.smoke:
        reason = note("smoke-small-shapes")
    elif group.on_cpu:
        reason = note("no-gpu-used")
    elif rate is None:
        reason = note("no-valid-figure")
    elif group.facts.world_size is None:
        reason = NOTHING_STATES_GPUS
    elif group.gmac is not None:
        assert group.facts.fingerprint is not None  # the GMAC is from there
        model = group.facts.fingerprint.at(group.facts.sequence_length)
        done = tflops(model, rate, group.facts.world_size)
        return Figure(value=done), _peak_share(group, done)
    else:
        reason = group.missing.get("gmac", note("gmac-unknown"))
    none = Figure(value=None, reason=reason)
    return none, none


def _peak_share(group: Group, done: float) -> Figure:
    gpu = group.key.gpu_model
    peak = peak_of(gpu)
    kind = number_format(group.facts, group.precision_effective, gpu)
    if peak is None:
        return Figure(value=None, reason=note("peak-unknown", gpu=gpu))
    if kind is None:
        return Figure(value=None, reason=note("effective-precision-unknown"))
    if kind == TF32_UNKNOWN:
        return Figure(value=None, reason=note("tf32-not-reported"))
    limit = getattr(peak, kind)
    if limit is None:
        return Figure(value=None, reason=note("no-peak-of-format", gpu=gpu, format=kind))
    notes = [note("peak-of", peak=f"{limit:g}", format=kind, source=peak.source)]
    if group.facts.fingerprint and group.facts.fingerprint.position_gmac:
        notes.append(note("mfu-of", note=group.facts.fingerprint.note or ""))
    return Figure(value=done / limit, notes=tuple(notes))


def number_format(facts: Facts, effective: str | None, gpu_model: str | None) -> str | None:
    """Return the number format: fp32, tf32, fp16, bf16; None if unknown.

    :data:`TF32_UNKNOWN` if the GPU has TF32 and the program is not ours and does not report it.
    """
    if effective in ("fp16", "bf16", "tf32"):
        return effective
    if effective == "amp":
        return facts.amp_dtype
    if effective != "fp32":
        return None
    peak = peak_of(gpu_model)
    if peak is not None and peak.tf32 is None:
        return "fp32"
    if facts.options.get("tf32"):
        return "tf32"
    return "fp32" if facts.impl == "k8sbench" else TF32_UNKNOWN


def beyond_peak(
    measurement: Measurement, rate: float, model: Fingerprint | None, gpu_model: str | None
) -> Note | None:
    """Return why ``rate`` exceeds the GPUs' peak, or None.

    ``rate`` is samples/s of the job. There is no check for another model than the catalog's, for
    smoke runs, whose model is small, and for GPUs without a known peak. If the format of operations
    is unknown, the limit is that of the fastest possible format.
    """
    gpu_model = measurement.gpu_model or gpu_model
    peak = peak_of(gpu_model)
    parameters = measurement.parameters
    if model is None or peak is None or not measurement.gpus or measurement.device == "cpu":
        return None
    if measurement.environment.get("preset") == "smoke" or (
        parameters is not None
        and abs(parameters - model.parameters) > SAME_MODEL * model.parameters
    ):
        return None
    limit = peak.fp16
    tf32 = measurement.environment.get("option.tf32")
    if measurement.precision_effective in ("fp32", "tf32"):
        # Our trainers switch TF32 off unless an option switches it on.
        is_off = tf32 != "True" if measurement.impl == "k8sbench" else tf32 == "False"
        limit = peak.fp32 if is_off else peak.tf32 or peak.fp32
    done = tflops(model, rate, measurement.gpus)
    if done <= limit:
        return None
    return note("above-peak", speed=f"{done:.1f}", gpu=str(gpu_model), peak=f"{limit:g}")


RESIDUAL = {"deeplabv3p", "resnet50", "tsm"}
"""Benchmarks of ResNet-50, on whose convolutions the shares of FP32 were measured."""


def beyond_fp32(
    measurement: Measurement,
    rate: float,
    model: Fingerprint | None,
    gpu_model: str | None,
    benchmark: str | None,
) -> Note | None:
    """Return why a rate in FP32 needs TF32, or None.

    The limit is :attr:`Peak.residual_share` of the GPU's FP32 peak. There is no check where TF32 is
    stated, on or off, and for models with other layers: without TF32 an H200 reached 68 % of its
    peak with GPT-2, and 97 % with VGG-16 (docs/measured.md).
    """
    gpu_model = measurement.gpu_model or gpu_model
    peak = peak_of(gpu_model)
    if model is None or peak is None or peak.tf32 is None or not measurement.gpus:
        return None
    is_stated = "option.tf32" in measurement.environment or measurement.impl == "k8sbench"
    if benchmark not in RESIDUAL or is_stated or measurement.precision_effective != "fp32":
        return None
    share = tflops(model, rate, measurement.gpus) / peak.fp32
    if share <= peak.residual_share:
        return None
    return note(
        "tf32-likely",
        speed=f"{share * peak.fp32:.1f}",
        share=f"{100 * share:.0f} %",
        gpu=str(gpu_model),
        most=f"{100 * peak.residual_share:.0f} %",
    )


# -- peaks by data sheet ---------------------------------------------------------------------------
#
# Dense figures (no structured sparsity) at the boost clock, TFLOP/s of one GPU. The share of peak
# is based on them, and a throughput above them is rejected. A GPU that is not here, or a slice of
# one (MIG), has no known peak: no share, no check, and the table says so. The data sheets of
# DGX-2 and DGX Station give the tensor cores of all their GPUs together; the FP32 figure is the
# one that the V100's data sheet has beside these 125 TFLOP/s. Names are matched whole: an RTX
# 4090 D or one of a laptop is another GPU.

_MAKERS = {"nvidia", "tesla", "geforce", "amd", "instinct"}


class Peak(NamedTuple):
    """Peak arithmetic of one model of GPU, TFLOP/s."""

    pattern: str
    """Regular expression for the whole :func:`plain_name`."""
    source: str
    fp32: float
    fp16: float
    """Tensor cores with FP32 accumulation, where the GPU has them."""
    tf32: float | None = None
    """None where the GPU has no TF32."""
    residual_share: float = 0.65
    """Share of ``fp32`` above which a ResNet-50 must have used TF32.

    Without TF32 a V100 reached 61 % (PaddleClas' ResNet-50) and 60 % (mmsegmentation's DeepLabV3+)
    in public logs, an H200 39 % (DeepLabV3+) and 36 % (ResNet-50 in NHWC, 1,000 images/s).
    """

    @property
    def bf16(self) -> float | None:
        """Peak in bf16: that of fp16 on GPUs with TF32."""
        return self.fp16 if self.tf32 else None


_P100 = "NVIDIA P100 data sheet (2016)"
_V100 = "NVIDIA V100 data sheet (WP-09369, Jan 2020)"
_DGX_2 = "NVIDIA DGX-2 data sheet (2018): 2 PFLOP/s of 16 GPUs"
_DGX_STATION = "NVIDIA DGX Station data sheet (2018): 500 TFLOP/s of 4 GPUs"
_T4 = "NVIDIA T4 data sheet (2019)"
_A100 = "NVIDIA A100 data sheet (r4, 2021)"
_A30 = "NVIDIA A30 data sheet (2022)"
_A10 = "NVIDIA A10 data sheet (2021)"
_ADA = "NVIDIA L4 and L40S data sheets (2023), halved where they count sparsity"
_H100 = "NVIDIA H100 data sheet (2023), halved where it counts sparsity"
_H200 = "NVIDIA H200 data sheet (2024), halved where it counts sparsity"
_H20 = "NVIDIA's figures of the H20 for server makers (November 2023); it has no public data sheet"
_GH200 = "NVIDIA GH200 data sheet (2705455, 2023)"
_BLACKWELL = "NVIDIA Blackwell data sheet (2025), p. 8, halved where it counts sparsity"
_L40 = "NVIDIA L40 data sheet (January 2023)"
_A40 = "NVIDIA A40 data sheet (1469711, r8)"
_RTX_ADA = "NVIDIA Ada GPU architecture (v2.02), appendix A, with FP32 accumulation"
_RTX_BLACKWELL = "NVIDIA RTX Blackwell GPU architecture (v1.1, 2025), pp. 46-48, FP32 accumulation"
_MI300X = "AMD Instinct MI300X data sheet (2023)"
_HOPPER_SHARE = 0.45

PEAKS = (
    # pattern, source, fp32, fp16, tf32, residual_share
    Peak(r"v100 sxm2( \d+gb)?", _V100, 15.7, 125.0),
    Peak(r"v100 sxm3( \d+gb)?", _DGX_2, 15.7, 125.0),
    Peak(r"v100 dgxs( \d+gb)?", _DGX_STATION, 15.7, 125.0),
    Peak(r"v100s pcie( \d+gb)?", _V100, 16.4, 130.0),
    Peak(r"v100 pcie( \d+gb)?", _V100, 14.0, 112.0),
    Peak(r"p100 sxm2( \d+gb)?", _P100, 10.6, 21.2),
    Peak(r"p100 pcie( \d+gb)?", _P100, 9.3, 18.7),
    Peak(r"t4", _T4, 8.1, 65.0),
    Peak(r"a[18]00( sxm4| pcie| sxm)?( \d+gb)?( pcie)?", _A100, 19.5, 312.0, 156.0),
    Peak(r"a30", _A30, 10.3, 165.0, 82.0),
    Peak(r"a40", _A40, 37.4, 149.7, 74.8),
    Peak(r"a10", _A10, 31.2, 125.0, 62.5),
    Peak(r"l4", _ADA, 30.3, 121.0, 60.0),
    Peak(r"l40", _L40, 90.5, 181.05, 90.5),
    Peak(r"l40s", _ADA, 91.6, 362.0, 183.0),
    Peak(r"rtx 4090", _RTX_ADA, 82.6, 165.2, 82.6),
    Peak(r"rtx 5090", _RTX_BLACKWELL, 104.8, 209.5, 104.8),
    # A driver names the H800 on SXM5 without more.
    Peak(r"h[18]00( 80gb hbm3| sxm5.*)|h800", _H100, 66.9, 989.4, 494.7, _HOPPER_SHARE),
    Peak(r"h[18]00 pcie", _H100, 51.2, 756.0, 378.0, _HOPPER_SHARE),
    Peak(r"h100 nvl", _H100, 60.0, 835.5, 417.5, _HOPPER_SHARE),
    Peak(r"h200", _H200, 66.9, 989.4, 494.7, _HOPPER_SHARE),
    Peak(r"h200 nvl", _H200, 60.0, 835.5, 417.5, _HOPPER_SHARE),
    Peak(r"h20( 3e)?", _H20, 44.0, 148.0, 74.0),
    # By the memory of its processor, or by its own.
    Peak(r"gh200( (120|240|480)gb| 144gb? hbm3e)?", _GH200, 67.0, 990.0, 494.0, _HOPPER_SHARE),
    Peak(r"b200", _BLACKWELL, 75.0, 2250.0, 1100.0),
    Peak(r"gb200", _BLACKWELL, 80.0, 2500.0, 1250.0),
    Peak(r"mi300x( oam)?", _MI300X, 163.4, 1307.4, 653.7),
)


def peak_of(gpu_model: str | None) -> Peak | None:
    """Return a GPU's data sheet figures by its name; None if unknown."""
    name = plain_name(gpu_model or "")
    return next((peak for peak in PEAKS if re.fullmatch(peak.pattern, name)), None)


def plain_name(gpu_model: str) -> str:
    """Return a GPU's name as words, without its maker's, which only some sources write.

    Drivers write ``NVIDIA H100 80GB HBM3``, labels of nodes ``NVIDIA-H100-80GB-HBM3``.
    """
    words = re.split(r"[\s_-]+", gpu_model.lower().replace("(tm)", ""))
    return " ".join(word for word in words if word and word not in _MAKERS)


def tflops(model: Fingerprint, rate: float, gpus: int) -> float:
    """TFLOP/s of each GPU, from the model and the samples/s of the job.

    The backward pass of the first layer computes no gradient of its input.
    """
    # A multiply-accumulate is two operations; backward takes two of them for each one forward.
    done = 6 * (model.gmac + (model.head_gmac or 0.0)) - 2 * (model.first_layer_gmac or 0.0)
    return done * rate / gpus / 1000
