"""Figures of one run or log over a stated window, and their verdict.

``k8sbench measure -o json`` prints this as JSON, and the store keeps it. ``k8sbench schema``
describes it, held equal by a test. A missing figure is None, never 0, and ``missing`` holds the
reason under the figure's path.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from k8sbench import messages
from k8sbench.messages import Note, quoted
from k8sbench.model.errors import Finding
from k8sbench.model.gpu_metrics import Gpu
from k8sbench.model.missing import written
from k8sbench.model.sample import Place

SCHEMA = 2
"""Version of every JSON document that k8sbench prints or keeps."""

Verdict = Literal["valid", "rejected"]


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Samples per second of the job over the window, by each estimator.

    ``time_weighted`` is the headline: samples in the window ÷ time in the window.
    ``time_weighted_steady`` leaves out records that hold an evaluation, a checkpoint or a restart.
    ``median`` and ``arithmetic`` are over the records' rates. ``timestamps`` divides the samples
    between the first and last stamped record by the log's own clock. If a program prints single
    steps, or means of fewer steps than lie between two lines, ``printed_steps`` is the rate of
    these steps alone; ``time_weighted`` is the rate of all steps if the log's totals or stamps give
    their time, else of the same steps.
    """

    time_weighted: float | None
    """Samples in the window ÷ time in the window, the headline.

    None if the log's records do not give it.
    """
    time_weighted_steady: float | None = None
    """As ``time_weighted``, without records that hold an evaluation, a checkpoint or a restart.

    None if the log's records do not give it.
    """
    median: float | None = None
    """Median of the records' rates; None as above."""
    arithmetic: float | None = None
    """Mean of the records' rates; None as above."""
    timestamps: float | None = None
    """Samples between the first and last stamp ÷ time between them.

    None without stamps, or if their resolution is not small against that time.
    """
    printed_steps: float | None = None
    """Samples in the printed steps ÷ their time.

    None if the log's lines cover all steps.
    """
    unit: str
    """``samples/s``, ``images/s``, ``clips/s``, ``sequences/s``, ``tokens/s`` or ``GB/s``."""


SAME_TIME_SECONDS = 2.0
"""Most seconds between the begins of the windows of two ranks of a job."""
TIMES_AND_LOSSES = "times-and-losses:"
"""Begin of a digest of records that chance cannot explain."""
ESTIMATORS = tuple(name for name in Throughput.__struct_fields__ if name != "unit")
"""Names of a measurement's throughputs, the usual headline first."""


OWN_TIME_TO_TRAIN = "time_to_train_by_program"
"""Fact of an environment: seconds to a target, as the log itself states them."""
PROFILE = "profile"
"""Path of the profile among the missing figures."""
LENGTHS = ("epochs", "iterations")
"""Units of the length of a training, as logs state it."""


class MeasuredWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The measured iterations."""

    first_iteration: int
    """First iteration that counts."""
    last_iteration: int
    """Last iteration that counts."""
    seconds: float | None
    """Time of the window by its records, s; None if they state none."""
    started_at: float | None = None
    """Unix seconds of the window's start by the log's stamps, in UTC if it names no zone.

    None without stamps.
    """
    ended_at: float | None = None
    """Unix seconds of the window's end by the log's stamps; None without stamps."""
    left_out: tuple[Place, ...] = ()
    """Records that ``time_weighted_steady`` leaves out (the first 20)."""
    left_out_count: int = 0
    """Number of these records."""


class AccuracyResult(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a run's evaluations."""

    metric: str
    """``mIoU``, ``top1``, …."""
    best: float
    """Best of all evaluations, in ``unit``."""
    final: float
    """Last evaluation, in ``unit``."""
    unit: str
    """Usually ``%``."""
    evaluations: int
    """Number of evaluations; one repeated after a restart counts once."""
    at_target: float | None = None
    """First evaluation at the target, in ``unit``; None without one or without a target."""


class DataSet(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a run of our trainers read."""

    name: str
    """Name of its form: ``cityscapes``, ``imagenet``, ``kinetics``, ``faces``, ``tokens``."""
    digest: str | None
    """SHA-256 of the list of files; None if the log does not state it."""
    train: int | None
    """Samples to train on; None as above."""
    val: int | None
    """Samples of an evaluation; None as above."""


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """File of start weights of our trainers."""

    file: str
    """Name of the file."""
    digest: str | None
    """SHA-256 of the file; None if the log does not state it."""


class RankTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Step times of one rank over the window, s; shows slow ranks and nodes."""

    rank: int
    """Number of the trainer."""
    host: str | None
    """Its machine; None if the log does not state it."""
    mean: float
    """Mean of the step times, s."""
    median: float
    """Median of the step times, s."""
    p95: float
    """95th percentile of the step times, s."""
    max: float
    """Slowest step, s."""


class Arithmetic(msgspec.Struct, frozen=True, kw_only=True):
    """Types in which a program computes its operations.

    Mixed-precision runs with different types do not compute the same.
    """

    types: dict[str, str]
    """Kind of operation → type (``float16``), or counts (``2 float16 + 2 float32``)."""
    digest: str
    """Digest of the types, by :func:`arithmetic_digest`."""
    by: Literal["seen", "derived"]
    """Source of the types: the framework's lists, or a step of the run.

    Earlier trainers wrote ``seen``.
    """


def arithmetic_digest(types: Mapping[str, str]) -> str:
    """Return the first half of the SHA-256 of the types' JSON, keys in order."""
    text = json.dumps(types, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class SteadyPart(msgspec.Struct, frozen=True, kw_only=True):
    """Time from the end of warm-up to the last step, for GPU metrics.

    It includes steps after the window.
    """

    started_at: float
    """Unix seconds by the clock of the program or of the log's receiver."""
    ended_at: float
    """Unix seconds by the same clock."""
    gpu_uuids: tuple[str, ...] = ()
    """The GPUs that the ranks name."""


class GpuFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU metric of a run, over the steady part and the job's GPUs."""

    value: float
    """Value, in ``unit``; for ``xid`` the number of ``codes``."""
    unit: str
    """Unit; empty for codes.

    ``ratio`` (0–1), ``MiB``, ``W``, ``J``, ``MHz``, ``°C``, ``bytes/s``.
    """
    source: str
    """Source with the best coverage: ``prometheus`` or ``trainer``.

    ``dcgm`` or ``nvml`` in runs of earlier releases.
    """
    coverage: float
    """Share of the steady part and the GPUs with samples, 0–1."""
    samples: int
    """Samples of all GPUs; a value scraped twice counts once."""
    codes: tuple[int, ...] = ()
    """XID errors, or NVML's throttle reasons as bits; else empty."""


class GpuOfRun(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU of the job, with its figures by metric."""

    gpu: Gpu
    """Identity of the GPU."""
    figures: dict[str, float]
    """Its own figures by metric, over time, in the units of the job's figures."""


class GpuMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """GPU metrics over a run's steady part."""

    figures: dict[str, GpuFigure]
    """Figures by metric; ``missing`` has reasons under ``gpu_metrics.METRIC``."""
    gpus: tuple[GpuOfRun, ...]
    """The figures of each GPU."""
    energy_per_1000_samples: float | None = None
    """Energy of all GPUs for 1,000 samples, J; None without throughput, or power and energy."""
    judgement: str | None = None
    """Limit of the throughput, with the figures that show it; None if unclear."""
    judgement_note: Note | None = None
    """The same as a message; None in stores of 0.5."""

    @property
    def said(self) -> Note | None:
        """The limit as a message; None if it is unclear."""
        if self.judgement is None:
            return None
        return messages.stored(self.judgement_note, quoted(self.judgement))


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a run at the points of a fixed grid of iterations.

    The points are each iteration up to 16, then eight to each doubling: 18, 20, …, 32, 36, …, 64,
    72, …; and the end of the run. They count from the run's own first iteration, warm-up included,
    so that profiles of runs of any length have their points in common. All sums are of the
    iterations that training lines cover, and grow evenly between two lines; where more than two
    points lie between two lines, the second line is a point in place of them. Iterations that ran
    twice count once.
    """

    points: tuple[int, ...]
    """Points in iterations since the run's own first one; other columns have an item for each."""
    iterations: tuple[float, ...]
    """Iterations up to each point that training lines cover; a fraction between two lines."""
    seconds: tuple[float, ...]
    """Time of these iterations, s."""
    samples: tuple[float, ...] | None = None
    """Samples of the job in these iterations; None if the samples of a step are not known."""
    tokens: tuple[float, ...] | None = None
    """Tokens of the job in these iterations; None if the tokens of a step are not known."""
    losses: tuple[float | None, ...] | None = None
    """Last loss up to each point, None where it is not a number; None if no line prints one."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one run, with everything needed to judge them."""

    schema: int = SCHEMA
    """Version of the document."""
    measured_by: str | None = None
    """Program that made this measurement; None: k8sbench itself."""
    files: tuple[str, ...]
    """Names of the logs that the figures come from."""
    format: str
    """Name of the log's family or declared format."""
    impl: str
    """``k8sbench``, ``upstream``, ``user`` or ``unknown``: whose program wrote the log."""
    framework: str | None
    """``pytorch`` or ``paddle``; None if neither log nor option states it."""
    gpus: int | None
    """GPUs of the job (processes on CPUs); None if not stated."""
    precision: str | None
    """Requested precision; None if neither plan nor log states it."""
    precision_effective: str | None = None
    """Effective precision: ``fp32`` if AMP had no effect; None if not stated."""
    amp_dtype: str | None = None
    """Half type of AMP; None without AMP or if not in the log."""
    arithmetic: Arithmetic | None = None
    """Types of the operations; None if the log does not state them.

    The logs of our trainers do.
    """
    batch_size_per_gpu: int | float | None
    """Samples per step and GPU; None if neither log nor option states it.

    A fraction where several GPUs share a sample, as with tensor or pipeline parallelism.
    """
    warmup_iterations: int
    """Iterations left out at the start."""
    iterations: int
    """Iterations inside the window that were measured."""
    records: int
    """Records inside the window."""
    throughput: Throughput | None = None
    """None if ``rejected``; the figures are then in ``unverified``."""
    tokens_per_second: float | None = None
    """The headline in tokens of the whole job per second; None if the log states no tokens.

    Also of a rejected log.
    """
    unverified: Throughput | None = None
    """Figures of a rejected log; None if ``valid`` or without any figure."""
    estimator: str = "time_weighted"
    """Estimator of the headline."""
    final_loss: float | None = None
    """Loss of the last record; None if missing or not a number."""
    accuracy: AccuracyResult | None = None
    """Results of the evaluations; None without evaluation."""
    time_to_train_s: float | None = None
    """Seconds from AI-Rank's ``test_begin`` to the target; None otherwise."""
    train_wall_s: float | None = None
    """Seconds from first to last training stamp; None without stamps."""
    mode: str | None = None
    """``throughput`` or ``train``; None of other programs."""
    target: float | None = None
    """Accuracy up to which ``time_to_train_s`` counts, percent; None without one."""
    ended_by: str | None = None
    """Reason for a training's end, ``target`` or ``length``; None if not stated.

    Of other programs ``target`` if nothing follows the evaluation that reached it.
    """
    restarts: int = 0
    """Number of restarts of the program."""
    begun_at: float | None = None
    """Unix seconds of the run's start by a line that is no training line.

    In UTC if it names no zone; None if no such line has a date.
    """
    data_set: DataSet | None = None
    """Data set that one of our trainers read; None if it read none."""
    weights: Weights | None = None
    """Start weights; None: from scratch, or not stated."""
    broken_samples: int | None = None
    """Samples that could not be read; None if the log does not count them."""
    data: str | None = None
    """Training data; None if the log does not state it."""
    device: str | None = None
    """``cuda`` or ``cpu``; None if the log does not state it."""
    gpu_model: str | None = None
    """GPU model by the driver; None without GPU, or if not stated."""
    parameters: int | None = None
    """Parameters of the model; None if the log does not state them."""
    memory_mib: float | None = None
    """Peak device memory that the program reports, MiB; None if it reports none.

    Our PyTorch trainers leave the warm-up out.
    """
    data_fraction: float | None = None
    """Share of the window's time spent waiting for data, 0–1.

    Without records that hold an evaluation, a checkpoint or a restart; None if the log does not
    state it.
    """
    window: MeasuredWindow | None = None
    """Measured part of the log; None if nothing could be measured."""
    profile: Profile | None = None
    """Progress of the run, also of a rejected one; None if its lines do not give it.

    Also None if a version before 0.6.0 measured it.
    """
    lines: dict[str, Place] = {}
    """Lines that the figures came from.

    ``first`` and ``last`` of the window; for a training also ``began``, ``reached`` (the target)
    and ``best`` (the best evaluation).
    """
    training_lines: int | None = None
    """Training lines of the counted rank, inside and outside the window.

    None if an earlier version measured it.
    """
    steady: SteadyPart | None = None
    """None where no line's time is known."""
    gpu_metrics: GpuMetrics | None = None
    """GPU metrics over the steady part (gpu-metrics.md); None without samples."""
    ranks: tuple[RankTimes, ...] = ()
    """Step times of each rank with lines in the logs."""
    environment: dict[str, str | int | float | bool | None]
    """Versions and machines from the log, by name; a value may be None."""
    log_digest: str | None = None
    """SHA-256 of the log's records, to find logs counted twice; None without records.

    After ``times-and-losses:`` it is of as many of the first records as no other run prints.
    """
    losses_digest: str | None = None
    """The same of the losses alone, to find logs of one job; None where they hardly differ."""
    missing: dict[str, str] = {}
    """Path of each figure that is None → why, in English: the texts of ``missing_notes``."""
    missing_notes: dict[str, Note] = {}
    """The same reasons as messages; one of a store of 0.5, or of another program, has none."""
    verdict: Verdict
    """``rejected`` if a reason of severity ``reject`` was not accepted."""
    reasons: tuple[Finding, ...]
    """Reasons against the figures, and warnings."""

    def __post_init__(self) -> None:
        # Stores are read without writing a message: a text that is there stays.
        if not self.missing_notes.keys() <= self.missing.keys():
            texts = written(self.missing_notes) | self.missing
            msgspec.structs.force_setattr(self, "missing", texts)

    def why(self, path: str) -> Note | None:
        """Return why a figure is missing; None if nothing says so."""
        if path not in self.missing:
            return None
        return messages.stored(self.missing_notes.get(path), quoted(self.missing[path]))

    def without(self, reasons: Mapping[str, Note], instead_of: Collection[str] = ()) -> Measurement:
        """Return this measurement with reasons for missing figures, by their paths.

        They replace former ones of the same paths, and those of ``instead_of``.
        """
        gone = {*reasons, *instead_of}
        texts = {path: why for path, why in self.missing.items() if path not in gone}
        notes = {path: why for path, why in self.missing_notes.items() if path not in gone}
        return msgspec.structs.replace(self, missing=texts, missing_notes={**notes, **reasons})

    @property
    def data_digest(self) -> str | None:
        """Digest of the files that the run read; None if not stated."""
        return None if self.data_set is None else self.data_set.digest

    @property
    def weights_digest(self) -> str | None:
        """Digest of the start weights."""
        return None if self.weights is None else self.weights.digest

    @property
    def training(self) -> str | None:
        """Length of another program's training, ``90 epochs``.

        None without evaluations, or if the log does not state it.
        """
        return None if self.accuracy is None or self.mode is not None else self.planned_length

    @property
    def planned_length(self) -> str | None:
        """Planned length as the log states it, ``90 epochs``; None if not stated."""
        stated = ((unit, self.environment.get(f"planned_{unit}")) for unit in LENGTHS)
        return next((f"{length} {unit}" for unit, length in stated if length is not None), None)

    @property
    def is_at_target(self) -> bool:
        """True if the run reached its target, at a known time or not.

        Other programs' own evaluations are at the target, too; only AI-Rank's lines have a time.
        """
        found = self.accuracy
        if self.time_to_train_s is not None or (found and found.at_target is not None):
            return True
        if found is None or self.target is None or self.format == "k8sbench":
            return False
        return found.best * (100 if found.unit == "fraction" else 1) >= self.target

    @property
    def rate(self) -> float | None:
        """Headline throughput, samples/s of the job; None unless valid."""
        return getattr(self.throughput, self.estimator, None)

    @property
    def has_profile_or_reason(self) -> bool:
        """True if the logs were asked for a profile; earlier versions did not."""
        return self.profile is not None or PROFILE in self.missing

    def with_profile_of(self, other: Measurement) -> Measurement:
        """Return this measurement with the profile of another one, or its reason for none."""
        why = other.why(PROFILE)
        found = self.without({} if why is None else {PROFILE: why}, instead_of=[PROFILE])
        return msgspec.structs.replace(found, profile=other.profile)

    def is_same_log(self, other: Measurement) -> bool:
        """Return True if two logs have the same records and times.

        Times of receipt count if both have them, unless chance cannot explain equal records. Runs
        whose steps take the same time to the last printed digit print the same records.
        """
        if self.log_digest is None or self.log_digest != other.log_digest:
            return False
        if self.log_digest.startswith(TIMES_AND_LOSSES):
            return True
        steady = [log.steady for log in (self, other) if log.steady]
        times = {(part.started_at, part.ended_at) for part in steady}
        return len(times) < 2

    def is_of_same_job(self, other: Measurement) -> bool:
        """Return True if two logs have the same losses at the same time, as those of two ranks."""
        windows = [log.window for log in (self, other)]
        began = [window.started_at for window in windows if window]
        known = [at for at in began if at is not None]
        return (
            self.losses_digest is not None
            and self.losses_digest == other.losses_digest
            and len(known) == 2
            and max(known) - min(known) <= SAME_TIME_SECONDS
        )
