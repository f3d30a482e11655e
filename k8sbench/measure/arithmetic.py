"""Arithmetic per second and GPU, and its share of the GPU's peak."""

from __future__ import annotations

from k8sbench.measure.gpu_peaks import peak_of, tflops
from k8sbench.model.group import Figure, Group
from k8sbench.model.measurement import Measurement
from k8sbench.model.plan import RunPlan
from k8sbench.model.spec import Fingerprint

SAME_MODEL = 0.001
"""Relative difference up to which parameters or GMAC are equal: the catalog rounds them."""
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
        model = group.plan.fingerprint.at(group.plan.sequence_length)
        done = tflops(model, group.spread.median, group.plan.world_size)
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
    notes = [f"peak: {limit:g} TFLOP/s {kind}, {peak.source}"]
    if group.plan.fingerprint and group.plan.fingerprint.position_gmac:
        notes.append(f"MFU: {group.plan.fingerprint.note}")
    return Figure(value=done / limit, notes=tuple(notes))


def arithmetic(plan: RunPlan, effective: str | None, gpu_model: str | None) -> str | None:
    """Return the number format: fp32, tf32, fp16, bf16; None if unknown.

    :data:`TF32_UNKNOWN` if the GPU has TF32 and the program is not ours and does not report it.
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


def beyond_peak(
    measurement: Measurement, rate: float, model: Fingerprint | None, gpu_model: str | None
) -> str | None:
    """Return why ``rate`` exceeds the GPUs' peak, or None.

    ``rate`` is samples/s of the job. There is no check for another model than the catalog's, for
    smoke runs, whose model is small, and for GPUs without a known peak. If the format of operations
    is unknown, the limit is that of the fastest possible format.
    """
    gpu_model = measurement.gpu_model or gpu_model
    peak, parameters = peak_of(gpu_model), measurement.parameters
    if model is None or peak is None or not measurement.gpus or measurement.device == "cpu":
        return None
    if measurement.environment.get("preset") == "smoke" or (
        parameters is not None
        and abs(parameters - model.parameters) > SAME_MODEL * model.parameters
    ):
        return None
    limit, tf32 = peak.fp16, measurement.environment.get("option.tf32")
    if measurement.precision_effective in ("fp32", "tf32"):
        # Our trainers switch TF32 off unless they are asked for it.
        is_off = tf32 != "True" if measurement.impl == "k8sbench" else tf32 == "False"
        limit = peak.fp32 if is_off else peak.tf32 or peak.fp32
    done = tflops(model, rate, measurement.gpus)
    if done <= limit:
        return None
    return f"{done:.1f} TFLOP/s per GPU are more than the peak of a {gpu_model}, {limit:g}."
