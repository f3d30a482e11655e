"""The figures of one run (or one log) over one stated window, and the verdict on them.

This is also the JSON that ``k8sbench measure -o json`` prints and that the store keeps; the page
``docs/schema.md`` describes it and a test holds the two together. A figure that is not there is
None, and ``missing`` holds the reason under the figure's path. Never 0 for "not measured".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Literal

import msgspec

from k8sbench.model.gpu_metrics import Gpu
from k8sbench.model.sample import Place

SCHEMA = 2
"""Version of every JSON document that k8sbench prints or keeps."""

Severity = Literal["reject", "warn"]
Verdict = Literal["valid", "rejected"]


SURROUNDINGS = "surroundings.json"
"""Artifact of a local run: what else used its machine, as reasons of its measurement."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a measurement is rejected, or what its reader should know."""

    id: str
    """Stable: ``too-few-records``, ``gpu-count``, … (the table in ``docs/integrity.md``)."""
    severity: Severity
    message: str
    evidence: tuple[Place, ...] = ()
    accepted: bool = False
    """True where ``--accept ID`` overruled it; the tables mark it."""


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Samples per second of the whole job over the window, by each estimator.

    ``time_weighted`` is the headline: samples in the window ÷ time in the window.
    ``time_weighted_steady`` leaves out records that hold an evaluation, a checkpoint or a
    restart. ``median`` and ``arithmetic`` are over the records' rates; ``timestamps`` divides the
    samples between the first and last stamped record by the log's own clock. Where a program prints
    single steps, ``printed_steps`` is of these alone; ``time_weighted`` is of all steps of the
    epochs whose totals the log states, or else the same.
    """

    time_weighted: float | None
    time_weighted_steady: float | None
    median: float | None
    arithmetic: float | None
    timestamps: float | None
    printed_steps: float | None = None
    unit: str
    """``samples/s``, ``images/s``, ``clips/s``, ``sequences/s`` or ``tokens/s``."""


ESTIMATORS = tuple(name for name in Throughput.__struct_fields__ if name != "unit")
"""Names of a measurement's throughputs, the usual headline first."""


class MeasuredWindow(msgspec.Struct, frozen=True, kw_only=True):
    """What the figures were taken from."""

    first_iteration: int
    last_iteration: int
    seconds: float | None
    """Time that the window's records cover, by their own figures."""
    started_at: float | None = None
    ended_at: float | None = None
    """Unix seconds by the log's stamps, read as UTC where the log names no zone."""
    left_out: tuple[Place, ...] = ()
    """Records that ``time_weighted_steady`` leaves out (the first 20)."""
    left_out_count: int = 0


class AccuracyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the evaluations of the run reached."""

    metric: str
    best: float
    final: float
    unit: str
    evaluations: int
    at_target: float | None = None
    """The first that reaches the target; None where none does, or no target is known."""


class DataSet(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a run of our trainers read."""

    name: str
    digest: str | None
    """Of the list of files, as the trainer makes it."""
    train: int | None
    """Samples to train on."""
    val: int | None
    """Samples of an evaluation."""


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """The file of start weights of a run of our trainers."""

    file: str
    digest: str | None
    """SHA-256 of the file."""


class RankTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Step time of one rank over the window, seconds; shows the slowest rank and node."""

    rank: int
    host: str | None
    mean: float
    median: float
    p95: float
    max: float


class Arithmetic(msgspec.Struct, frozen=True, kw_only=True):
    """Which kinds of operations computed in which type: the arithmetic, as the program states it.

    Runs in mixed precision that differ in it do not compute the same.
    """

    types: dict[str, str]
    """Kind → type (``float16``), or how many operations had each (``2 float16 + 2 float32``)."""
    digest: str
    """Of the types; :func:`arithmetic_digest`."""
    by: Literal["seen", "derived"]
    """``seen`` in a step of the run, or ``derived`` by the framework's rules for a device that it
    did not have."""


def arithmetic_digest(types: Mapping[str, str]) -> str:
    """The digest of an arithmetic: the first half of the SHA-256 of its JSON, keys in order."""
    text = json.dumps(types, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class SteadyPart(msgspec.Struct, frozen=True, kw_only=True):
    """From the end of the warm-up to the last step, also after the window: of GPU metrics."""

    started_at: float
    """Unix seconds by the clock of the program, or of who received its lines."""
    ended_at: float
    gpu_uuids: tuple[str, ...] = ()
    """The GPUs that the ranks name."""


class GpuFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU metric of a run: over the steady part, then over the job's GPUs."""

    value: float
    """Of ``xid`` the number of ``codes``."""
    unit: str
    source: str
    """``prometheus``, ``dcgm``, ``trainer`` or ``nvml``: that of the best coverage."""
    coverage: float
    """Share of the steady part and of the job's GPUs that samples cover, 0–1."""
    samples: int
    """Of all GPUs; a value that was only scraped again counts once."""
    codes: tuple[int, ...] = ()


class GpuOfRun(msgspec.Struct, frozen=True, kw_only=True):
    """One of the job's GPUs, and its own figures by metric."""

    gpu: Gpu
    figures: dict[str, float]


class GpuMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """What the GPUs did while the throughput was made."""

    figures: dict[str, GpuFigure]
    """By metric; ``missing`` says under ``gpu_metrics.METRIC`` why one is not there."""
    gpus: tuple[GpuOfRun, ...]
    energy_per_1000_samples: float | None = None
    """Joules of all GPUs."""
    judgement: str | None = None
    """What held the throughput back, with the figures that show it; None where nothing clearly
    did."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One run's figures, with everything a reader needs to judge them."""

    schema: int = SCHEMA
    files: tuple[str, ...]
    format: str
    impl: str
    """``k8sbench``, ``upstream``, ``user`` or ``unknown``: whose program wrote the log."""
    framework: str | None
    gpus: int | None
    """GPUs of the job (CPU processes where there is no GPU)."""
    precision: str | None
    """As requested or as the log states it."""
    precision_effective: str | None = None
    """What really ran: ``fp32`` where AMP had no effect."""
    amp_dtype: str | None = None
    arithmetic: Arithmetic | None = None
    batch_size_per_gpu: int | None
    warmup_iterations: int
    iterations: int
    """Iterations inside the window that were measured."""
    records: int
    """Records inside the window."""
    throughput: Throughput | None
    """None where the verdict is ``rejected``; the figures are then under ``unverified``."""
    unverified: Throughput | None = None
    estimator: str = "time_weighted"
    """Which of the throughputs is the headline."""
    final_loss: float | None
    accuracy: AccuracyResult | None
    time_to_train_s: float | None
    """AI-Rank's Time2Train: from ``test_begin`` to the first evaluation that reaches the target."""
    train_wall_s: float | None
    """From the first to the last stamp of training, seconds."""
    mode: str | None = None
    """``throughput`` or ``train``; None of other programs."""
    target: float | None = None
    """Accuracy up to which ``time_to_train_s`` counts, percent."""
    ended_by: str | None = None
    """``target`` or ``length``: why a training ended; None where the log does not say."""
    restarts: int = 0
    """How often the program was started again."""
    data_set: DataSet | None = None
    weights: Weights | None = None
    """Start weights; None: from scratch, or not stated."""
    broken_samples: int = 0
    """Different samples that could not be read."""
    data: str | None = None
    device: str | None = None
    gpu_model: str | None = None
    parameters: int | None = None
    memory_mib: float | None = None
    """Peak device memory that the program reports, MiB."""
    data_fraction: float | None = None
    """Share of the window's time spent waiting for data, 0–1, without evaluations and the like."""
    window: MeasuredWindow | None = None
    steady: SteadyPart | None = None
    """None where no line's time is known."""
    gpu_metrics: GpuMetrics | None = None
    ranks: tuple[RankTimes, ...] = ()
    environment: dict[str, str | int | float | bool | None]
    log_digest: str | None = None
    """SHA-256 over the log's records; equal for the same log counted twice."""
    missing: dict[str, str] = {}
    """Path of each figure that is None → why."""
    verdict: Verdict
    reasons: tuple[Reason, ...]

    @property
    def data_digest(self) -> str | None:
        """Of the files that it read; None where none are stated."""
        return None if self.data_set is None else self.data_set.digest

    @property
    def weights_digest(self) -> str | None:
        """Of its start weights."""
        return None if self.weights is None else self.weights.digest

    @property
    def rate(self) -> float | None:
        """The headline throughput, samples/s of the whole job; None unless valid."""
        return getattr(self.throughput, self.estimator, None)
