"""Facts about a run's case: what is known of its program, whoever planned it."""

from __future__ import annotations

from typing import Any

import msgspec

from k8sbench.model.fingerprint import Fingerprint
from k8sbench.model.log_format import LogFormat
from k8sbench.model.plan import (
    Backend,
    Device,
    ObservedJob,
    PlannedWindow,
    ProgramOf,
    RunPlan,
    case_name,
    per_step,
    rate_unit,
    sequence_length,
)
from k8sbench.model.pool import NodePool
from k8sbench.model.spec_values import AmpDtype, Mode, Precision, Preset

UNREAD = "unknown"
"""Framework in the plan of an observed job whose log is not read."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Known facts about a run's case; None where nothing states a value.

    Comparisons and outputs ask the facts. The plan says how k8sbench runs a job.
    """

    run_id: str
    """The run's id."""
    set_name: str
    """The set that the run belongs to."""
    repeat: int
    """From 1, within (set, case)."""
    benchmark: str
    """Name in the catalog, in the user's file, or of the case."""
    spec_source: str
    """``built-in`` or the user's path; empty without a benchmark."""
    spec_digest: str
    """SHA-256 of the catalog file's text; empty without one."""
    variant: str
    """Name of the benchmark's program."""
    impl: ProgramOf
    """``k8sbench``, ``upstream``, ``user`` or ``unknown``: whose program it is."""
    framework: str | None
    """Framework of the program; None if nothing states it."""
    precision: Precision | None
    """Requested precision; None if nothing states it."""
    amp_dtype: AmpDtype | None
    """Half type of AMP; None also without AMP."""
    device: Device | None
    """Device that trains; None if nothing states it."""
    replicas: int
    """Pods, or groups of processes: nodes."""
    processes_per_replica: int | None
    """Trainers per replica: one per GPU, or as many on CPUs; None if nothing states them."""
    batch_size: int | float | None
    """Per GPU (per process where there is no GPU); None if nothing states it."""
    preset: Preset
    """``smoke`` is the small form: a functional test."""
    mode: Mode
    """A window of steps, or training to an accuracy."""
    data: str
    """Source of the samples, as in a plan; ``unknown`` where nothing states it."""
    unit: str
    """Counted unit per second, as in a plan."""
    window: PlannedWindow
    """Measured iterations, and where they are from."""
    log: str | LogFormat
    """Log family, or the format that the user's file declares."""
    fingerprint: Fingerprint | None
    """Identity of the model; None if the catalog does not state it."""
    options: dict[str, str | int | float | bool]
    """Options of the program that decide its speed."""
    sync_bn: bool
    """True if batch norm is synchronised over GPUs."""
    image: str | None
    """The container image; None for none, or if nothing states it."""
    image_reason: str
    """The reason for this image, or for none."""
    pool: NodePool
    """The node pool; ``imported`` or ``observed`` is the name of one that nobody chose."""
    kind: str | None
    """Kind of the job; None: the framework's own, or no job."""
    queue: str | None
    """Kueue queue; None for none."""
    notes: tuple[str, ...]
    """Notes for the user."""
    backend: Backend
    """Backend of the run; ``imported`` and ``observed`` of those that nobody planned."""
    job: ObservedJob | None
    """The observed job; None without one."""
    is_packed: bool
    """True if replicas may share a node."""
    stated_by: dict[str, str] = {}
    """Fact → who states it, in words; empty for a planned run, and if 0.5 recorded none."""

    @property
    def unstated(self) -> tuple[str, ...]:
        """Names of the facts that an option could state, and nothing states."""
        names = ("framework", "precision", "batch_size")
        return tuple(name for name in names if getattr(self, name) is None)

    @property
    def undecided(self) -> tuple[str, ...]:
        """Names of the facts that nothing states, and without which two speeds may not be equal."""
        return tuple(name for name in self.unstated if name != "framework")

    @property
    def warmup(self) -> int:
        """Iterations before the measured window."""
        return self.window.warmup

    @property
    def sequence_length(self) -> int:
        """Tokens of a sample; 1 where samples are counted."""
        return sequence_length(self.unit, self.options, self.log)

    @property
    def world_size(self) -> int | None:
        """Number of processes of the job: GPUs, or CPU processes."""
        if self.processes_per_replica is None:
            return None
        return self.replicas * self.processes_per_replica

    @property
    def rate_unit(self) -> str:
        """Unit of its throughput: ``samples/s``."""
        return rate_unit(self.unit)

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
        run_id=plan.run_id,
        set_name=plan.set_name,
        repeat=plan.repeat,
        benchmark=plan.benchmark,
        spec_source=plan.spec_source,
        spec_digest=plan.spec_digest,
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
        window=plan.window,
        log=plan.log,
        fingerprint=plan.fingerprint,
        options=plan.options,
        sync_bn=plan.sync_bn,
        image=plan.image,
        image_reason=plan.image_reason,
        pool=plan.pool,
        kind=plan.kind,
        queue=plan.queue,
        notes=plan.notes,
        backend=plan.backend,
        job=plan.observed,
        is_packed=plan.pack,
        stated_by={} if plan.observed is None else plan.observed.sources,
    )


def stand_in(facts: Facts) -> RunPlan:
    """Return a plan that stands for a run which nobody planned, for who follows its job.

    It has placeholders where no fact is known, which nothing prints or compares.
    """
    device: Device = facts.device or ("cuda" if facts.backend == "imported" else "cpu")
    processes = facts.processes_per_replica or 1
    return RunPlan(
        run_id=facts.run_id,
        set_name=facts.set_name,
        repeat=facts.repeat,
        benchmark=facts.benchmark,
        spec_digest=facts.spec_digest,
        spec_source=facts.spec_source,
        variant=facts.variant,
        impl=facts.impl,
        framework=facts.framework or UNREAD,
        precision=facts.precision or "fp32",
        amp_dtype=facts.amp_dtype,
        device=device,
        replicas=facts.replicas,
        gpus_per_replica=0 if device == "cpu" else processes,
        processes_per_replica=processes,
        batch_size=facts.batch_size or 0,
        preset=facts.preset,
        mode=facts.mode,
        data=facts.data,
        window=facts.window,
        log=facts.log,
        unit=facts.unit,
        options=facts.options,
        image=facts.image,
        image_reason=facts.image_reason,
        pool=facts.pool,
        backend=facts.backend,
        fingerprint=facts.fingerprint,
        sync_bn=facts.sync_bn,
        kind=facts.kind,
        queue=facts.queue,
        pack=facts.is_packed,
        notes=facts.notes,
        observed=facts.job,
    )


def planned_of(plan: RunPlan) -> RunPlan | None:
    """Return the plan if k8sbench made it; None for the one of an imported or observed run."""
    return None if plan.backend in {"imported", "observed"} else plan


def take_facts(document: Any) -> None:
    """Replace a plan that 0.5 wrote for what nobody planned by its facts.

    ``document`` is a new struct with the fields ``planned`` and ``known``.
    """
    if document.planned is not None and planned_of(document.planned) is None:
        msgspec.structs.force_setattr(document, "known", facts_of(document.planned))
        msgspec.structs.force_setattr(document, "planned", None)


def known_facts(planned: RunPlan | None, known: Facts | None) -> Facts:
    """Return the facts of a plan, or those that are known without one."""
    if planned is not None:
        return facts_of(planned)
    assert known is not None, "there is a plan, or there are facts"
    return known


def _device(plan: RunPlan) -> Device | None:
    """Return the device; of an imported log it is what follows from a GPU model or CPUs."""
    is_stated = plan.backend != "imported" or plan.device == "cpu" or plan.pool.gpu_model
    return plan.device if is_stated else None
