"""A run plan: one case of a benchmark with all values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from k8sbench.model.fingerprint import Fingerprint
from k8sbench.model.log_format import LogFormat
from k8sbench.model.pool import NodePool
from k8sbench.model.program import SecretKey
from k8sbench.model.spec_values import AmpDtype, LengthUnit, Mode, Precision, Preset

Device = Literal["cuda", "cpu"]
Backend = Literal["kubernetes", "local", "imported", "observed"]
"""Backend of a run; ``imported``: k8sbench has only its logs; ``observed``: somebody else's job."""
ProgramOf = Literal["k8sbench", "upstream", "user", "unknown"]
"""Origin of a program; ``unknown`` where nothing states it."""
SCHEMA = 2
"""Version of the plan's fields; readers know it and the earlier ones."""
TrainersBy = Literal["configmap", "image"]
SEQUENCE_LENGTH = "sequence-length"
"""Option of a trainer that counts tokens."""
SMOKE_MARK = "a functional test, not a speed measurement"
"""Remark on a run with the preset ``smoke``."""


WHOLE_LOG = "all that the log holds after the warm-up"
"""Origin of the window of a log for which no benchmark names one."""
UNREAD_LOG = "as logged"
"""Origin of the window of an observed job whose log is not read."""
GIVEN_WARMUP = "all that the log holds after the given warm-up"
"""Origin of the window of a log whose warm-up an option gives."""


class PlannedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Measured iterations, and the interval of the log."""

    warmup: int
    """Iterations before the window."""
    iterations: int
    """Iterations inside the window."""
    log_interval: int
    """Iterations per log line."""
    min_steady_seconds: float
    """Minimum seconds of steps after the warm-up.

    Steps go on after the window until then, so that GPU metrics have enough samples. Throughput is
    taken from the window alone.
    """
    rule: str
    """The origin of this window."""

    @property
    def total(self) -> int:
        """Warm-up and measured iterations."""
        return self.warmup + self.iterations

    @property
    def is_open(self) -> bool:
        """True if nothing names its iterations: they end where the log does."""
        return self.rule in {WHOLE_LOG, GIVEN_WARMUP, UNREAD_LOG}

    @property
    def text(self) -> str:
        """Warm-up and measured iterations, ``20+80``."""
        return f"{self.warmup}+{self.iterations}"

    @property
    def named(self) -> str | None:
        """The part of the window that a benchmark or an option names; None without one.

        ``20+80``; of a warm-up alone ``20``.
        """
        if not self.is_open:
            return self.text
        return f"{self.warmup}" if self.rule == GIVEN_WARMUP else None


class PlannedTraining(msgspec.Struct, frozen=True, kw_only=True):
    """Length, evaluations and target of a ``--mode train`` run."""

    length: int
    """Length in ``unit``, over all attempts."""
    unit: LengthUnit
    """Unit of ``length`` and ``evaluate_every``."""
    evaluate_every: int
    """In ``unit``; evaluated at the end, too."""
    metric: str
    """Metric of the evaluation, such as ``mIoU``."""
    target: float | None
    """Target in percent of the metric; None: no target, no time to train."""
    stop_at_target: bool
    """True if the run ends at the first evaluation that reaches the target."""
    start: str | None = None
    """Start weights of the published program; None: from scratch."""


class ObservedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that somebody else created, as its run needs it."""

    kind: str
    """Value of ``kind:`` in its manifest."""
    namespace: str
    """The job's namespace."""
    name: str
    """The job's name."""
    replicas: tuple[str, ...]
    """Names of its replicas, rank 0 first."""
    container: str
    """The container whose log is measured."""
    sources: dict[str, str] = {}
    """Fact → where its objects state it, in words; empty in runs of earlier versions."""


STORED = "stored-"
"""First characters of the uid of a Benchmark that lies in a store."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides how a run is executed and judged.

    The job carries it whole. It holds no credential, no clock and no secret, because it is written
    into annotations and files. Plans of every released version must be readable: a new field needs
    a default, and a place in :data:`k8sbench.model.identity.CASE_FIELDS` or in the table of fields
    that decide nothing.
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
    """``built-in`` or the user's path; empty for a log without a benchmark."""
    variant: str
    """Name of the benchmark's program."""
    impl: ProgramOf
    """Implementation; ``unknown`` only for an imported log.

    Such a log does not show which program wrote it.
    """
    framework: str
    """Framework, which decides the job kind.

    An imported log can have another than our two.
    """
    precision: Precision
    """Requested precision."""
    amp_dtype: AmpDtype | None
    """Half type of AMP; None without AMP."""
    device: Device
    """Device that trains."""
    replicas: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    """Pods, or groups of processes: nodes."""
    gpus_per_replica: int
    """0 on a machine without GPUs."""
    processes_per_replica: int
    """Trainers per replica: one per GPU, or as many on CPUs."""
    batch_size: int | float
    """Per GPU (per process where there is no GPU).

    A fraction, of imported logs alone, where several GPUs share a sample.
    """
    preset: Preset
    """``smoke`` is the small form: a functional test."""
    mode: Mode
    """A window of steps, or training to an accuracy."""
    data: str
    """Source of the samples.

    ``synthetic`` (on the device), ``synthetic-host`` (by loader processes), ``image`` (the
    published program's own), ``path:DIR`` or ``pvc:NAME[/SUB]``; ``unknown`` for an imported log.
    """
    window: PlannedWindow
    """Measured iterations."""
    log: str | LogFormat
    """Log family, or the format that the user's file declares."""
    unit: str
    """Counted unit per second.

    ``samples``, ``images``, ``clips``, ``sequences``, ``tokens``; for an all-reduce ``GB``.
    """
    trainer: str | None = None
    """File stem below ``k8sbench/trainers/``; None for another command."""
    command: tuple[str, ...] = ()
    """The container's command, complete; no shell."""
    env: dict[str, str] = {}
    """Its environment variables."""
    secret_env: dict[str, SecretKey] = {}
    """Those that take their values from Secrets of the namespace."""
    workdir: str | None = None
    """Working folder; None: the image's default."""
    options: dict[str, str | int | float | bool] = {}
    """Options of our trainer, such as speed options; in the group key.

    For example ``channels-last`` and ``workers``.
    """
    image: str | None = None
    """The container image; None for a local run."""
    image_reason: str
    """The reason for this image."""
    trainers_by: TrainersBy | None = None
    """Way in which our trainers reach the container; None without them."""
    trainers_digest: str | None = None
    """SHA-256 of our trainers' sources; None without them."""
    pool: NodePool
    """The nodes that it runs on."""
    backend: Backend
    """Backend of the run."""
    timeout_s: float | None = None
    """Seconds after which the run is ended; None: no limit."""
    wait_timeout_s: float | None = None
    """Seconds after which a run that waits for its start is ended; None: the usual limit."""
    fingerprint: Fingerprint | None
    """Identity of the model; None if the file does not state it."""
    sync_bn: bool
    """True if batch norm is synchronised over GPUs."""
    kind: str | None = None
    """Kind of the job; None: the framework's own."""
    queue: str | None = None
    """Kueue queue; None for none."""
    pack: bool = False
    """True if replicas may share a node.

    False if they cannot, and in plans older than the option; the logs of those show if they shared
    one.
    """
    notes: tuple[str, ...] = ()
    """Notes for the user: a replaced default, another batch, no figures."""
    node: str | None = None
    """Node of a pinned run; None: any node of the pool. Set by ``nodes``."""
    program_digest: str | None = None
    """SHA-256 of the catalog's command before its placeholders are filled.

    Equal for the cases of one program. None for our trainers.
    """

    training: PlannedTraining | None = None
    """Training of the run; None for throughput runs."""
    weights: str | None = None
    """Start weights, ``path:FILE`` or ``pvc:NAME/FILE``; None: from scratch."""
    checkpoints: str | None = None
    """Parent of the runs' checkpoint folders, or None.

    ``path:DIR`` or ``pvc:NAME[/SUB]``.
    """
    max_restarts: int = 0
    """Restarts from the newest checkpoint after a failure."""
    requested_by: str | None = None
    """uid of the Benchmark that requested the run; None: none did."""
    object_name: str | None = None
    """Name of that Benchmark; None in plans of 0.4.0, too."""
    namespace: str | None = None
    """Namespace of that Benchmark, if it is one of the API server; None in earlier plans."""
    observed: ObservedJob | None = None
    """The observed job; None: k8sbench created the job, or there is none."""
    seed: int | None = None
    """Seed of the first repeat of a training by our trainers.

    Each further repeat adds 1. None: the command or the program has its own.
    """

    @property
    def is_asked_of_operator(self) -> bool:
        """True if a Benchmark of the API server requested the run, not one of a store."""
        return self.requested_by is not None and not self.requested_by.startswith(STORED)

    @property
    def rate_unit(self) -> str:
        """Unit of its throughput: ``samples/s``."""
        return rate_unit(self.unit)

    @property
    def world_size(self) -> int:
        """Number of processes of the job: GPUs, or CPU processes."""
        return self.replicas * self.processes_per_replica

    @property
    def global_batch(self) -> float:
        """Samples per step of the job, or another amount of the unit."""
        return per_step(self.unit, self.batch_size, self.world_size)

    @property
    def sequence_length(self) -> int:
        """Tokens of a sample; 1 where samples are counted."""
        return sequence_length(self.unit, self.options, self.log)

    @property
    def case(self) -> str:
        """Case name: ``4x8``; ``2x1-cpu`` without GPUs, ``2x1-packed`` on shared nodes."""
        name = case_name(self.replicas, self.processes_per_replica, self.device)
        return f"{name}-packed" if self.pack else name

    @property
    def spread(self) -> bool:
        """True if each replica needs a node of its own."""
        return self.backend == "kubernetes" and self.replicas > 1 and not self.pack

    @property
    def job_name(self) -> str:
        """Name of the job and prefix of its pods: the run id, or the observed job's name."""
        return self.run_id if self.observed is None else self.observed.name


def rate_unit(unit: str) -> str:
    """Return the unit of a throughput: ``samples/s``.

    0.5.0 recorded that of an observed job's log as the counted one.
    """
    return f"{unit.removesuffix('/s')}/s"


def sequence_length(unit: str, options: Mapping[str, Any], log: str | LogFormat) -> int:
    """Return the tokens of a sample; 1 where samples are counted."""
    declared = None if isinstance(log, str) else log.sequence_length
    counts = unit.partition("/")[0] == "tokens"
    return int(options.get(SEQUENCE_LENGTH, declared or 1)) if counts else 1


def is_bandwidth(unit: str) -> bool:
    """Return True if the throughput is an all-reduce's bus bandwidth."""
    return unit.partition("/")[0] == "GB"


def per_step(unit: str, batch: float, ranks: int) -> float:
    """Return the amount of the unit that a step of the job adds."""
    if is_bandwidth(unit):
        # As nccl-tests defines it; the batch is the size of the vector in MB.
        return 2 * (ranks - 1) / ranks * batch / 1000
    return batch * ranks


def case_name(replicas: int, processes_per_replica: int, device: Device) -> str:
    """Return a case's name: replicas × GPUs, with a mark for CPUs."""
    suffix = "" if device == "cuda" else "-cpu"
    return f"{replicas}x{processes_per_replica}{suffix}"
