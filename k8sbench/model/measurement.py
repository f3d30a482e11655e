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

from k8sbench.model.finding import Finding
from k8sbench.model.gpu_metrics import Gpu
from k8sbench.model.sample import Place

SCHEMA = 2
"""Version of every JSON document that k8sbench prints or keeps."""

Verdict = Literal["valid", "rejected"]


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Samples per second of the whole job over the window, by each estimator.

    ``time_weighted`` is the headline: samples in the window ÷ time in the window.
    ``time_weighted_steady`` leaves out records that hold an evaluation, a checkpoint or a
    restart. ``median`` and ``arithmetic`` are over the records' rates; ``timestamps`` divides the
    samples between the first and last stamped record by the log's own clock. Where a program prints
    single steps, or means of fewer than lie between two lines, ``printed_steps`` is of these alone;
    ``time_weighted`` is of all steps of which the log's totals or stamps give the time, or else the
    same.
    """

    time_weighted: float | None
    """Samples in the window ÷ time in the window, the headline; None if the log's records do not
    give it."""
    time_weighted_steady: float | None = None
    """The same without records that hold an evaluation, a checkpoint or a restart; None as
    above."""
    median: float | None = None
    """Median of the records' rates; None as above."""
    arithmetic: float | None = None
    """Mean of the records' rates; None as above."""
    timestamps: float | None = None
    """Samples between the first and the last stamped record ÷ the time between their stamps; None
    without stamps."""
    printed_steps: float | None = None
    """Samples in the printed steps ÷ their time; None where the log's lines cover all steps."""
    unit: str
    """``samples/s``, ``images/s``, ``clips/s``, ``sequences/s``, ``tokens/s`` or ``GB/s``."""


ESTIMATORS = tuple(name for name in Throughput.__struct_fields__ if name != "unit")
"""Names of a measurement's throughputs, the usual headline first."""


class MeasuredWindow(msgspec.Struct, frozen=True, kw_only=True):
    """What the figures were taken from."""

    first_iteration: int
    """First iteration that counts."""
    last_iteration: int
    """Last iteration that counts."""
    seconds: float | None
    """Time that the window's records cover, as they state it; None if they state none."""
    started_at: float | None = None
    """The log's stamp where the window begins, read as UTC where the log names no zone; None
    without stamps."""
    ended_at: float | None = None
    """The log's stamp where the window ends; None without stamps."""
    left_out: tuple[Place, ...] = ()
    """Records that ``time_weighted_steady`` leaves out (the first 20)."""
    left_out_count: int = 0
    """Number of these records."""


class AccuracyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the evaluations of the run reached."""

    metric: str
    """``mIoU``, ``top1``, …."""
    best: float
    """The best of all evaluations."""
    final: float
    """The last one's."""
    unit: str
    """Usually ``%``."""
    evaluations: int
    """Number of evaluations; one that is repeated after a restart counts once."""
    at_target: float | None = None
    """The first that reaches the target; None where none does, or no target is known."""


class DataSet(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a run of our trainers read."""

    name: str
    """Name of its form: ``cityscapes``, ``imagenet``, ``kinetics``, ``faces``."""
    digest: str | None
    """Of the list of files; None if the log does not state it."""
    train: int | None
    """Samples to train on; None as above."""
    val: int | None
    """Samples of an evaluation; None as above."""


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """The file of start weights of a run of our trainers."""

    file: str
    """Name of the file."""
    digest: str | None
    """SHA-256 of the file; None if the log does not state it."""


class RankTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Step time of one rank over the window, seconds; shows the slowest rank and node."""

    rank: int
    """Number of the trainer."""
    host: str | None
    """Its machine; None if the log does not state it."""
    mean: float
    """Seconds per step."""
    median: float
    """Seconds per step."""
    p95: float
    """The 95th percentile: 95 of 100 steps took at most this long."""
    max: float
    """The slowest step."""


class Arithmetic(msgspec.Struct, frozen=True, kw_only=True):
    """Which kinds of operations computed in which type: the arithmetic, as the program states it.

    Runs in mixed precision that differ in it do not compute the same.
    """

    types: dict[str, str]
    """Kind → type (``float16``), or how many operations had each (``2 float16 + 2 float32``)."""
    digest: str
    """Of the types; :func:`arithmetic_digest`."""
    by: Literal["seen", "derived"]
    """``derived`` from the framework's lists of operations, or ``seen`` in a step of the run, as
    earlier trainers did."""


def arithmetic_digest(types: Mapping[str, str]) -> str:
    """The digest of an arithmetic: the first half of the SHA-256 of its JSON, keys in order."""
    text = json.dumps(types, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class SteadyPart(msgspec.Struct, frozen=True, kw_only=True):
    """From the end of the warm-up to the last step, also after the window: of GPU metrics."""

    started_at: float
    """Unix seconds by the clock of the program, or of who received its lines."""
    ended_at: float
    """By the same clock."""
    gpu_uuids: tuple[str, ...] = ()
    """The GPUs that the ranks name."""


class GpuFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU metric of a run: over the steady part, then over the job's GPUs."""

    value: float
    """Of ``xid`` the number of ``codes``."""
    unit: str
    """``ratio`` (0–1), ``MiB``, ``W``, ``J``, ``MHz``, ``°C``, ``bytes/s``; empty for codes."""
    source: str
    """``prometheus`` or ``trainer``, that of the best coverage; ``dcgm`` or ``nvml`` in runs of
    earlier releases."""
    coverage: float
    """Share of the steady part and of the job's GPUs that samples cover, 0–1."""
    samples: int
    """Of all GPUs; a value that was only scraped again counts once."""
    codes: tuple[int, ...] = ()
    """XID errors, or NVML's throttle reasons as bits; empty for other metrics."""


class GpuOfRun(msgspec.Struct, frozen=True, kw_only=True):
    """One of the job's GPUs, and its own figures by metric."""

    gpu: Gpu
    """Which one."""
    figures: dict[str, float]
    """Its own figures by metric, over time."""


class GpuMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """What the GPUs did while the throughput was made."""

    figures: dict[str, GpuFigure]
    """By metric; ``missing`` says under ``gpu_metrics.METRIC`` why one is not there."""
    gpus: tuple[GpuOfRun, ...]
    """The figures of each GPU."""
    energy_per_1000_samples: float | None = None
    """Joules of all GPUs; None without a throughput, or without power and energy."""
    judgement: str | None = None
    """What held the throughput back, with the figures that show it; None where nothing clearly
    did."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One run's figures, with everything a reader needs to judge them."""

    schema: int = SCHEMA
    """Version of the document."""
    files: tuple[str, ...]
    """The logs that it was taken from."""
    format: str
    """Family of the log."""
    impl: str
    """``k8sbench``, ``upstream``, ``user`` or ``unknown``: whose program wrote the log."""
    framework: str | None
    """``pytorch`` or ``paddle``; None if neither the log nor an option states it."""
    gpus: int | None
    """GPUs of the job (processes where there is no GPU); None if neither the log nor an option
    states it."""
    precision: str | None
    """As requested, or as the log says; None if neither states it."""
    precision_effective: str | None = None
    """The precision that had effect: ``fp32`` if AMP had no effect; None if the log does not state
    it."""
    amp_dtype: str | None = None
    """Half type of AMP; None without AMP, or if the log does not state it."""
    arithmetic: Arithmetic | None = None
    """Which kinds of operations ran in which type; None if the log does not state it, as our
    trainers' do."""
    batch_size_per_gpu: int | None
    """Samples per step and GPU; None if neither the log nor an option states it."""
    warmup_iterations: int
    """Iterations left out at the start."""
    iterations: int
    """Iterations inside the window that were measured."""
    records: int
    """Records inside the window."""
    throughput: Throughput | None = None
    """None where the verdict is ``rejected``; the figures are then under ``unverified``."""
    unverified: Throughput | None = None
    """The figures of a rejected log; None where the verdict is ``valid``, or there is no figure at
    all."""
    estimator: str = "time_weighted"
    """Which of the throughputs is the headline."""
    final_loss: float | None = None
    """Loss of the last record; None if the log has none, or it is no number."""
    accuracy: AccuracyResult | None = None
    """What the evaluations reached; None without evaluation."""
    time_to_train_s: float | None = None
    """Seconds from AI-Rank's ``test_begin`` to the first evaluation that reaches the target; None
    otherwise."""
    train_wall_s: float | None = None
    """Seconds from the first to the last stamp of training; None if the log has no stamps."""
    mode: str | None = None
    """``throughput`` or ``train``; None of other programs."""
    target: float | None = None
    """Accuracy up to which ``time_to_train_s`` counts, percent; None without one."""
    ended_by: str | None = None
    """``target`` or ``length``: why a training ended; None where the log does not say."""
    restarts: int = 0
    """How often the program was started again."""
    data_set: DataSet | None = None
    """The data set that one of our trainers read; None if it read none."""
    weights: Weights | None = None
    """Start weights; None: from scratch, or not stated."""
    broken_samples: int | None = None
    """Different samples that could not be read; None if the log does not count them."""
    data: str | None = None
    """What it trained on; None if the log does not state it."""
    device: str | None = None
    """``cuda`` or ``cpu``; None if the log does not state it."""
    gpu_model: str | None = None
    """As the driver names it; None without GPU, or if the log does not state it."""
    parameters: int | None = None
    """Of the model; None if the log does not state it."""
    memory_mib: float | None = None
    """Peak device memory that the program reports, MiB; None if it reports none. Our PyTorch
    trainers leave the warm-up out."""
    data_fraction: float | None = None
    """Share of the window's time that was spent waiting for data, 0–1, without records that hold an
    evaluation, a checkpoint or a restart; None if the log does not state it."""
    window: MeasuredWindow | None = None
    """The part of the log that the figures are computed from; None if nothing could be measured."""
    lines: dict[str, Place] = {}
    """The lines that the figures came from: ``first`` and ``last`` of the window; of a training
    ``began``, ``reached`` (the target) and ``best`` (the best evaluation)."""
    training_lines: int | None = None
    """Training lines of the rank that counts, also those outside the window; None if an earlier
    version measured it."""
    steady: SteadyPart | None = None
    """None where no line's time is known."""
    gpu_metrics: GpuMetrics | None = None
    """GPU metrics over the steady part (gpu-metrics.md); None if no source had samples."""
    ranks: tuple[RankTimes, ...] = ()
    """Step times of each rank that has lines in the logs."""
    environment: dict[str, str | int | float | bool | None]
    """Versions and machines from the log, by name; a value may be None."""
    log_digest: str | None = None
    """SHA-256 of the log's records: equal if the same log is counted twice; None without
    records."""
    missing: dict[str, str] = {}
    """Path of each figure that is None → why."""
    verdict: Verdict
    """``rejected`` if a reason of severity ``reject`` was not accepted."""
    reasons: tuple[Finding, ...]
    """Reasons against the figures, and warnings."""

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
