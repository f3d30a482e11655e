"""Facts about a run's case: what is known of its program, whoever planned it."""

from __future__ import annotations

import msgspec

from k8sbench.model.plan import Device, RunPlan, case_name, per_step
from k8sbench.model.spec_values import AmpDtype, Mode, Precision, Preset

UNREAD = "unknown"
"""Framework in the plan of an observed job whose log is not read."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run's case; None where nothing states it.

    Comparisons and outputs ask the facts. The plan says how k8sbench runs a job.
    """

    benchmark: str
    """Name in the catalog, in the user's file, or of the case."""
    variant: str
    """Name of the benchmark's program."""
    impl: str
    """``k8sbench``, ``upstream``, ``user`` or ``unknown``: whose program it is."""
    framework: str | None
    """Framework of the program."""
    precision: Precision | None
    """Requested precision."""
    amp_dtype: AmpDtype | None
    """Half type of AMP; None also without AMP."""
    device: Device | None
    """Device that trains."""
    replicas: int
    """Pods, or groups of processes: nodes."""
    processes_per_replica: int | None
    """Trainers per replica: one per GPU, or as many on CPUs."""
    batch_size: int | float | None
    """Per GPU (per process where there is no GPU)."""
    preset: Preset
    """``smoke`` is the small form: a functional test."""
    mode: Mode
    """A window of steps, or training to an accuracy."""
    data: str
    """Source of the samples, as in a plan; ``unknown`` where nothing states it."""
    unit: str
    """Counted unit per second, as in a plan."""
    is_packed: bool
    """True if replicas may share a node."""
    is_read: bool
    """False for an observed job whose log is not read: its objects alone state facts."""

    @property
    def world_size(self) -> int | None:
        """Number of processes of the job: GPUs, or CPU processes."""
        if self.processes_per_replica is None:
            return None
        return self.replicas * self.processes_per_replica

    @property
    def global_batch(self) -> float | None:
        """Samples per step of the job, or another amount of the unit."""
        if self.batch_size is None or self.world_size is None:
            return None
        return per_step(self.unit, self.batch_size, self.world_size)

    @property
    def case(self) -> str | None:
        """Case name: ``4x8``; ``2x1-cpu`` without GPUs, ``2x1-packed`` on shared nodes."""
        if self.processes_per_replica is None:
            return None
        name = case_name(self.replicas, self.processes_per_replica, self.device or "cuda")
        return f"{name}-packed" if self.is_packed else name


def facts_of(plan: RunPlan) -> Facts:
    """Return the facts that a plan states."""
    is_read = plan.framework != UNREAD
    has_shape = is_read or plan.gpus_per_replica > 0
    return Facts(
        benchmark=plan.benchmark,
        variant=plan.variant,
        impl=plan.impl,
        framework=plan.framework if is_read else None,
        precision=plan.precision if is_read else None,
        amp_dtype=plan.amp_dtype,
        device=_device(plan) if has_shape else None,
        replicas=plan.replicas,
        processes_per_replica=plan.processes_per_replica if has_shape else None,
        batch_size=plan.batch_size or None,
        preset=plan.preset,
        mode=plan.mode,
        data=plan.data,
        unit=plan.unit,
        is_packed=plan.pack,
        is_read=is_read,
    )


def _device(plan: RunPlan) -> Device | None:
    """Return the device; of an imported log it is what follows from a GPU model or CPUs."""
    is_stated = plan.backend != "imported" or plan.device == "cpu" or plan.pool.gpu_model
    return plan.device if is_stated else None
