"""Peak arithmetic of GPUs by data sheet, and a job's arithmetic.

Dense figures (no structured sparsity) at the boost clock, TFLOP/s of one GPU. The share of peak is
based on them, and a throughput above them is rejected. A GPU that is not here, or a slice of one
(MIG), has no known peak: no share, no check, and the table says so. The data sheets of DGX-2 and
DGX Station give the tensor cores of all their GPUs together; the FP32 figure is the one that the
V100's data sheet has beside these 125 TFLOP/s. A name is matched whole, as the driver writes it,
less the vendor's words: "Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-40GB".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # a bench reads this table where msgspec, which the model needs, is missing
    from k8sbench.model.spec import Fingerprint


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

PEAKS = (
    # pattern, source, fp32, fp16, tf32
    Peak(r"v100-sxm2(-\d+gb)?", _V100, 15.7, 125.0),
    Peak(r"v100-sxm3(-\d+gb)?", _DGX_2, 15.7, 125.0),
    Peak(r"v100-dgxs(-\d+gb)?", _DGX_STATION, 15.7, 125.0),
    Peak(r"v100s-pcie(-\d+gb)?", _V100, 16.4, 130.0),
    Peak(r"v100-pcie(-\d+gb)?", _V100, 14.0, 112.0),
    Peak(r"p100-sxm2(-\d+gb)?", _P100, 10.6, 21.2),
    Peak(r"p100-pcie(-\d+gb)?", _P100, 9.3, 18.7),
    Peak(r"t4", _T4, 8.1, 65.0),
    Peak(r"a[18]00(-sxm4|-pcie|-sxm| pcie)?[- ]?(\d+gb)?( pcie)?", _A100, 19.5, 312.0, 156.0),
    Peak(r"a30", _A30, 10.3, 165.0, 82.0),
    Peak(r"a10", _A10, 31.2, 125.0, 62.5),
    Peak(r"l4", _ADA, 30.3, 121.0, 60.0),
    Peak(r"l40s", _ADA, 91.6, 362.0, 183.0),
    Peak(r"h[18]00( 80gb hbm3|-sxm5.*|-80gb-hbm3)", _H100, 66.9, 989.4, 494.7),
    Peak(r"h100 pcie", _H100, 51.2, 756.0, 378.0),
    Peak(r"h100 nvl", _H100, 60.0, 835.5, 417.5),
    Peak(r"h200", _H200, 66.9, 989.4, 494.7),
    Peak(r"h200 nvl", _H200, 60.0, 835.5, 417.5),
)


def peak_of(gpu_model: str | None) -> Peak | None:
    """Return a GPU's data sheet figures by its name; None if unknown."""
    name = plain_name(gpu_model or "")
    return next((peak for peak in PEAKS if re.fullmatch(peak.pattern, name)), None)


def plain_name(gpu_model: str) -> str:
    """Return a GPU's name without "Tesla" and "NVIDIA", which come and go."""
    words = gpu_model.lower().replace("(tm)", "").split()
    return " ".join(word for word in words if word not in ("nvidia", "tesla"))


def tflops(model: Fingerprint, rate: float, gpus: int) -> float:
    """TFLOP/s of each GPU, from the model and the samples/s of the job.

    The first layer's backward pass has no gradient of its input: nobody asks for that of images.
    """
    # A multiply-accumulate is two operations; backward takes two of them for each one forward.
    done = 6 * (model.gmac + (model.head_gmac or 0.0)) - 2 * (model.first_layer_gmac or 0.0)
    return done * rate / gpus / 1000
