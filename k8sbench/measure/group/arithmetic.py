"""Arithmetic per second and GPU, and its share of what the GPU can do in that number format."""

from __future__ import annotations

from k8sbench.measure.group.gpu_peaks import peak_of, tflops
from k8sbench.model.group import Figure, Group
from k8sbench.model.plan import RunPlan

TF32_UNKNOWN = "fp32 or tf32"


def arithmetic_speed(group: Group) -> tuple[Figure, Figure]:
    """TFLOP/s per GPU, and its share of the GPU's peak."""
    if group.smoke:
        reason = "smoke run: small shapes"
    elif group.on_cpu:
        reason = "no GPU was used"
    elif group.spread is None:
        reason = "no valid figure"
    elif group.gmac is not None:
        assert group.plan.fingerprint is not None  # the GMAC is from there
        done = tflops(group.plan.fingerprint, group.spread.median, group.plan.world_size)
        return Figure(value=done), _peak_share(group, done)
    else:
        reason = group.missing.get("gmac", "the model's GMAC is not known")
    none = Figure(value=None, reason=reason)
    return none, none


def _peak_share(group: Group, done: float) -> Figure:
    gpu = group.key.gpu_model
    peak = peak_of(gpu)
    kind = arithmetic(group.plan, group.precision_effective, gpu)
    if peak is None:
        return Figure(value=None, reason=f"the peak of GPU {gpu!r} is not known")
    if kind is None:
        return Figure(value=None, reason="the precision in effect is not known")
    if kind == TF32_UNKNOWN:
        return Figure(value=None, reason="the program does not say whether TF32 was on")
    limit = getattr(peak, kind)
    if limit is None:
        return Figure(value=None, reason=f"{gpu} has no {kind}")
    note = f"peak: {limit:g} TFLOP/s {kind}, {peak.source}"
    return Figure(value=done / limit, notes=(note,))


def arithmetic(plan: RunPlan, effective: str | None, gpu_model: str | None) -> str | None:
    """The number format that the arithmetic had: fp32, tf32, fp16, bf16; None if not known.

    :data:`TF32_UNKNOWN` where the GPU has TF32 and the program is not ours and does not report it.
    """
    if effective in ("fp16", "bf16", "tf32"):
        return effective
    if effective == "amp":
        return plan.amp_dtype
    if effective != "fp32":
        return None
    peak = peak_of(gpu_model)
    if peak is not None and peak.tf32 is None:
        return "fp32"
    if plan.options.get("tf32"):
        return "tf32"
    return "fp32" if plan.impl == "k8sbench" else TF32_UNKNOWN


def peak_limit(plan: RunPlan, effective: str | None, gpu_model: str | None) -> float | None:
    """TFLOP/s that a run on this GPU cannot exceed; None where that is not known."""
    peak = peak_of(gpu_model)
    kind = arithmetic(plan, effective, gpu_model)
    if peak is None or kind is None:
        return None
    return peak.tf32 if kind == TF32_UNKNOWN else getattr(peak, kind)
