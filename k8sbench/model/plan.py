"""A run plan: one case of a benchmark made concrete. Values only; planning is its own module."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from k8sbench.model.pool import NodePool
from k8sbench.model.spec import (
    AmpDtype,
    Fingerprint,
    LengthUnit,
    LogFormat,
    Mode,
    Precision,
    Preset,
    SecretKey,
)

Device = Literal["cuda", "cpu"]
Backend = Literal["kubernetes", "local", "imported"]
"""Where a run is, or ``imported``: k8sbench did not run it and has its logs alone."""
SCHEMA = 2
"""Version of what a plan's fields mean; a reader knows this one and those before it."""
TrainersBy = Literal["configmap", "image"]


class PlannedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Which iterations count, and how the program logs them."""

    warmup: int
    """Iterations before the window."""
    iterations: int
    """Iterations inside the window."""
    log_interval: int
    """Iterations per log line."""
    min_steady_seconds: float
    """Steps go on after the window until this many seconds have passed since the warm-up, so that
    GPU metrics have enough samples; throughput is still taken from the window."""
    rule: str
    """The origin of this window."""

    @property
    def total(self) -> int:
        """Warm-up and measured iterations."""
        return self.warmup + self.iterations


class PlannedTraining(msgspec.Struct, frozen=True, kw_only=True):
    """How long a run of ``--mode train`` trains, how often it evaluates, and what it aims at."""

    length: int
    """How long in all, in ``unit``, over all attempts."""
    unit: LengthUnit
    """What ``length`` and ``evaluate_every`` count."""
    evaluate_every: int
    """In ``unit``; evaluated at the end, too."""
    metric: str
    """What an evaluation is judged by, as ``mIoU``."""
    target: float | None
    """In percent of the metric; None: there is none, and no time to train."""
    stop_at_target: bool
    """Whether the run ends at the first evaluation that reaches the target."""
    start: str | None = None
    """The weights that the published program starts from; None: from scratch."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides what runs and how it is judged; carried whole by the job.

    Holds no credential, no clock and no secret: it is written into annotations and files. Plans of
    every released version must be readable: a new field needs a default, and a place in
    :data:`k8sbench.model.identity.CASE_FIELDS`, or in the table of what decides nothing.
    """

    schema: int = SCHEMA
    """Version of the document."""
    run_id: str
    """The run's id."""
    set_name: str
    """The set that the run belongs to."""
    repeat: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    """1-based within (set, case)."""
    benchmark: str
    """Name in the catalog, or in the user's file."""
    spec_digest: str
    """SHA-256 of the catalog file's text."""
    spec_source: str
    """``built-in`` or the user's path; empty for an imported log of no benchmark."""
    variant: str
    """Which of the benchmark's programs."""
    impl: Literal["k8sbench", "upstream", "user", "unknown"]
    """``unknown``: only of an imported log that does not show whose program wrote it."""
    framework: str
    """Decides the kind of job; of an imported log it may be another than our two."""
    precision: Precision
    """As requested."""
    amp_dtype: AmpDtype | None
    """Half type of AMP; None without AMP."""
    device: Device
    """What trains."""
    replicas: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    """Pods, or groups of processes: nodes."""
    gpus_per_replica: int
    """0 on a machine without GPUs."""
    processes_per_replica: int
    """Trainers per replica: one per GPU, or that many on CPUs."""
    batch_size: int
    """Per GPU (per process where there is no GPU)."""
    preset: Preset
    """``smoke`` is the small form: a functional test, not a speed measurement."""
    mode: Mode
    """A window of steps, or training to an accuracy."""
    data: str
    """``synthetic`` (on the device), ``synthetic-host`` (by loader processes), ``image`` (a foreign
    program's own), ``path:DIR`` or ``pvc:NAME[/SUB]``; ``unknown`` of an imported log."""
    window: PlannedWindow
    """Which iterations count."""
    log: str | LogFormat
    """Family of the log, or the format that the user's file declares."""
    unit: str
    """What is counted: ``samples``, ``images``, ``clips``, ``sequences``, ``tokens`` or, of an
    all-reduce, ``GB``, per second."""
    trainer: str | None = None
    """File stem under ``k8sbench/trainers/``; None for a command of upstream's or the user's."""
    command: tuple[str, ...] = ()
    """The container's command, complete; no shell."""
    env: dict[str, str] = {}
    """Its environment variables."""
    secret_env: dict[str, SecretKey] = {}
    """Those that take their values from Secrets of the namespace."""
    workdir: str | None = None
    """Where it starts; None for the image's own choice."""
    options: dict[str, str | int | float | bool] = {}
    """Options of our trainer, such as speed options (``channels-last``, ``workers``, …): part of
    the group key."""
    image: str | None = None
    """The container image; None for a local run."""
    image_reason: str
    """The reason for this image."""
    trainers_by: TrainersBy | None = None
    """How our trainers reach the container; None where none of ours runs."""
    trainers_digest: str | None = None
    """SHA-256 of our trainers' sources; None where none of ours runs."""
    pool: NodePool
    """The nodes that it runs on."""
    backend: Backend
    """Where it runs."""
    timeout_s: float | None = None
    """The run is ended after so many seconds; None for no limit."""
    fingerprint: Fingerprint | None
    """What identifies the model; None where the file does not state it."""
    sync_bn: bool
    """Whether batch norm is synchronised over GPUs."""
    kind: str | None = None
    """Kind of the job; None: the framework's own."""
    queue: str | None = None
    """Kueue queue; None for none."""
    pack: bool = False
    """True if replicas may share a node. False where that cannot be, and in plans of before there
    was a choice, which nothing spread: their logs show whether they shared one."""
    notes: tuple[str, ...] = ()
    """What the user should know: a replaced default, a batch unlike the report's, no figures."""
    node: str | None = None
    """The one node that the run is pinned to; None: any of the pool. ``nodes`` sets it."""
    program_digest: str | None = None
    """SHA-256 of the catalog's text of a command, before its placeholders were filled: equal for
    the cases of one program. None where our trainer runs."""

    training: PlannedTraining | None = None
    """None of a throughput run, and of a plan of before there was ``--mode train``."""
    weights: str | None = None
    """Start weights, ``path:FILE`` or ``pvc:NAME/FILE``; None: from scratch."""
    checkpoints: str | None = None
    """Where checkpoints are kept, ``path:DIR`` or ``pvc:NAME[/SUB]``, each run's in a folder of its
    run id; None: nowhere."""
    max_restarts: int = 0
    """How often the job is created again from its newest checkpoint after it failed."""
    seed: int | None = None
    """Of all random numbers in the first repeat of a training by our trainers; each further repeat
    adds 1. None: the command has it, or the program its own."""

    @property
    def world_size(self) -> int:
        """Number of processes of the job: GPUs, or CPU processes."""
        return self.replicas * self.processes_per_replica

    @property
    def global_batch(self) -> float:
        """Samples per step of the whole job, or another amount of the unit."""
        return per_step(self.unit, self.batch_size, self.world_size)

    @property
    def case(self) -> str:
        """``4x8``; ``2x1-cpu`` where there is no GPU, ``2x1-packed`` where nodes may be shared."""
        name = case_name(self.replicas, self.processes_per_replica, self.device)
        return f"{name}-packed" if self.pack else name

    @property
    def spread(self) -> bool:
        """True if each replica must have a node of its own."""
        return self.backend == "kubernetes" and self.replicas > 1 and not self.pack

    @property
    def job_name(self) -> str:
        """Name of the job and prefix of its pods: the run id itself."""
        return self.run_id


def is_bandwidth(unit: str) -> bool:
    """Return whether a throughput is the bus bandwidth of an all-reduce."""
    return unit.partition("/")[0] == "GB"


def per_step(unit: str, batch: int, ranks: int) -> float:
    """Count what a step of the whole job adds, in the benchmark's unit."""
    if is_bandwidth(unit):
        # As nccl-tests defines it; the batch is the size of the vector in MB.
        return 2 * (ranks - 1) / ranks * batch / 1000
    return batch * ranks


def case_name(replicas: int, processes_per_replica: int, device: Device) -> str:
    """Name a case: replicas × GPUs per replica, marked where the GPUs are none."""
    suffix = "" if device == "cuda" else "-cpu"
    return f"{replicas}x{processes_per_replica}{suffix}"
