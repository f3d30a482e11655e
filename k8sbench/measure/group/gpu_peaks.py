"""What a GPU can do at most, by its maker's data sheet.

Dense figures (no structured sparsity) at the boost clock, TFLOP/s of one GPU. The share of peak is
taken from them, and a throughput above them is rejected. A GPU that is not here, or a slice of one
(MIG), has no known peak: no share, no check, and the table says so. A name is matched whole, as
the driver writes it, less the vendor's words: "Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-40GB".
"""

from __future__ import annotations

import re

import msgspec


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """Peak arithmetic of one model of GPU, TFLOP/s."""

    pattern: str
    """Regular expression for the whole :func:`plain_name`."""
    fp32: float
    tf32: float | None = None
    """None where the GPU has no TF32."""
    fp16: float
    """Tensor cores with FP32 accumulation, where the GPU has them."""
    bf16: float | None = None
    source: str


_V100 = "NVIDIA V100 data sheet (WP-09369, Jan 2020)"
_A100 = "NVIDIA A100 data sheet (r4, 2021)"
_H100 = "NVIDIA H100 data sheet (2023), halved where it counts sparsity"
_H200 = "NVIDIA H200 data sheet (2024), halved where it counts sparsity"
_ADA = "NVIDIA L4 and L40S data sheets (2023), halved where they count sparsity"

PEAKS = (
    Peak(pattern=r"v100-sxm2(-\d+gb)?", fp32=15.7, fp16=125.0, source=_V100),
    Peak(pattern=r"v100s-pcie(-\d+gb)?", fp32=16.4, fp16=130.0, source=_V100),
    Peak(pattern=r"v100-pcie(-\d+gb)?", fp32=14.0, fp16=112.0, source=_V100),
    Peak(
        pattern=r"p100-sxm2(-\d+gb)?", fp32=10.6, fp16=21.2, source="NVIDIA P100 data sheet (2016)"
    ),
    Peak(
        pattern=r"p100-pcie(-\d+gb)?", fp32=9.3, fp16=18.7, source="NVIDIA P100 data sheet (2016)"
    ),
    Peak(pattern=r"t4", fp32=8.1, fp16=65.0, source="NVIDIA T4 data sheet (2019)"),
    Peak(
        pattern=r"a[18]00(-sxm4|-pcie|-sxm| pcie)?[- ]?(\d+gb)?( pcie)?",
        fp32=19.5,
        tf32=156.0,
        fp16=312.0,
        bf16=312.0,
        source=_A100,
    ),
    Peak(
        pattern=r"a30",
        fp32=10.3,
        tf32=82.0,
        fp16=165.0,
        bf16=165.0,
        source="NVIDIA A30 data sheet (2022)",
    ),
    Peak(
        pattern=r"a10",
        fp32=31.2,
        tf32=62.5,
        fp16=125.0,
        bf16=125.0,
        source="NVIDIA A10 data sheet (2021)",
    ),
    Peak(pattern=r"l4", fp32=30.3, tf32=60.0, fp16=121.0, bf16=121.0, source=_ADA),
    Peak(pattern=r"l40s", fp32=91.6, tf32=183.0, fp16=362.0, bf16=362.0, source=_ADA),
    Peak(
        pattern=r"h[18]00( 80gb hbm3|-sxm5.*|-80gb-hbm3)",
        fp32=66.9,
        tf32=494.7,
        fp16=989.4,
        bf16=989.4,
        source=_H100,
    ),
    Peak(pattern=r"h100 pcie", fp32=51.2, tf32=378.0, fp16=756.0, bf16=756.0, source=_H100),
    Peak(pattern=r"h100 nvl", fp32=60.0, tf32=417.5, fp16=835.5, bf16=835.5, source=_H100),
    Peak(pattern=r"h200", fp32=66.9, tf32=494.7, fp16=989.4, bf16=989.4, source=_H200),
    Peak(pattern=r"h200 nvl", fp32=60.0, tf32=417.5, fp16=835.5, bf16=835.5, source=_H200),
)


def peak_of(gpu_model: str | None) -> Peak | None:
    """The data sheet's figures of a GPU, by its name; None where they are not known."""
    if gpu_model is None:
        return None
    name = plain_name(gpu_model)
    return next((peak for peak in PEAKS if re.fullmatch(peak.pattern, name)), None)


def plain_name(gpu_model: str) -> str:
    """A GPU's name as two sources can share it: "Tesla" came and went, as did "NVIDIA"."""
    words = gpu_model.lower().replace("(tm)", "").split()
    return " ".join(word for word in words if word not in ("nvidia", "tesla"))
