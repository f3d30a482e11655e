"""Benchmarks: the typed form of one catalog file.

Every field of the YAML is here with its unit; ``k8sbench schema benchmark`` prints this text.
Unknown fields are errors. The rules that one field alone cannot state are in
:mod:`k8sbench.model.spec_rules`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from k8sbench.model import notation
from k8sbench.model.pool import EnvName, Word, form

Framework = Literal["pytorch", "paddle"]
Precision = Literal["fp32", "amp"]
AmpDtype = Literal["fp16", "bf16"]
Impl = Literal["k8sbench", "upstream", "user"]
Preset = Literal["full", "smoke"]
Mode = Literal["throughput", "train"]
LengthUnit = Literal["iterations", "epochs"]
Estimator = Literal[
    "time_weighted",
    "time_weighted_steady",
    "median",
    "arithmetic",
    "timestamps",
    "printed_steps",
    "unknown",
]
LARGEST_INT = 2**53
"""Every JSON reader holds whole numbers up to here exactly."""
PositiveInt = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_INT)]
Command = tuple[Word, ...]
"""A program and its arguments, one word each; no shell."""
NonNegativeInt = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_INT)]
PositiveFloat = Annotated[float, msgspec.Meta(gt=0, le=1e300)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Cadence = Annotated[
    dict[Literal["one_gpu", "many_gpus"], PositiveInt],
    msgspec.Meta(min_length=2, description="both one_gpu and many_gpus"),
]
"""A number for one GPU, and one for several."""
AbsolutePath = Annotated[str, form(r"^/[^\0]*\Z", "an absolute path of the container")]
Name = Annotated[
    str,
    form(
        r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?\Z",
        "a name of at most 40 lower-case letters, digits and '-', a letter first",
    ),
]
CaseName = Annotated[
    str, form(r"^[1-9][0-9]{0,3}x[1-9][0-9]{0,2}\Z", "a case: replicas x GPUs per replica, as 4x8")
]
OptionName = Annotated[
    str, form(r"^[a-z][a-z0-9-]*\Z", "the name of a long option without its dashes")
]
NumberName = Annotated[
    str, form(r"^[a-z][a-z0-9_]*\Z", "a placeholder's name: lower-case letters, digits and '_'")
]
Md5 = Annotated[str, form(r"^[0-9a-f]{32}\Z", "an MD5 sum: 32 hexadecimal digits")]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that refuses keys it does not know."""


class Window(_Strict, frozen=True, kw_only=True):
    """Measured iterations: ``warmup`` are left out, the next ``iterations`` count."""

    warmup: NonNegativeInt
    """Iterations left out."""
    iterations: PositiveInt
    """Iterations measured."""
    rule: Text
    """In words, with whose rule it is (ours or the report's)."""
    log_interval: Cadence
    """Iterations per log line, on one GPU and on several."""


class Train(_Strict, frozen=True, kw_only=True):
    """Training of the published program to an accuracy: ``--mode train``."""

    length: PositiveInt
    """The whole length, in ``unit``."""
    unit: LengthUnit
    """Unit of ``length`` and ``evaluate_every``: iterations or epochs."""
    evaluate_every: Cadence
    """Interval between evaluations, on one GPU and on several; the end is always evaluated."""
    metric: Text
    """Metric of the evaluation, as the trainer names it: ``mIoU``."""
    rule: Text
    """Source of these values, in words."""
    start: Text | None = None
    """The published weights that the report starts from; without it: from scratch."""
    args: dict[OptionName, str | int | float | bool] = {}
    """Options of the trainer in this mode alone; they override the variant's ``args``."""


class SmokeTrain(_Strict, frozen=True, kw_only=True):
    """A training that a machine without a GPU finishes within minutes."""

    length: PositiveInt
    """The whole length, in ``unit``."""
    unit: LengthUnit
    """Unit of ``length`` and ``evaluate_every``: iterations or epochs."""
    evaluate_every: PositiveInt
    """Interval between evaluations; the end is always evaluated."""
    args: dict[OptionName, str | int | float | bool] = {}
    """Options of the trainer that make it even smaller; they override those of ``smoke``."""


class Smoke(_Strict, frozen=True, kw_only=True):
    """The form for machines without a GPU: a functional test, not a speed measurement."""

    batch_size: PositiveInt
    """Samples per process and step."""
    warmup: NonNegativeInt
    """Iterations left out."""
    iterations: PositiveInt
    """Iterations measured."""
    log_interval: PositiveInt = 1
    """Iterations per log line."""
    memory_gib: PositiveFloat | None = None
    """Memory that each process needs with its launcher, GiB, as measured on a CPU.

    Without it each process needs a core of its own.
    """
    args: dict[OptionName, str | int | float | bool] = {}
    """Options of the trainer that make it small; they override the variant's ``args``."""
    train: SmokeTrain | None = None
    """The same for ``--mode train``."""


class Fingerprint(_Strict, frozen=True, kw_only=True):
    """Identity of the model, whatever program trains it."""

    model: Text
    """Architecture, as its authors name it."""
    parameters: PositiveInt
    """Trainable parameters on all GPUs together, without a classifier that is sharded."""
    gmac: PositiveFloat
    """10⁹ multiply-accumulates of one sample's forward pass at ``input``; of tokens of one token's.
    """
    position_gmac: PositiveFloat | None = None
    """Addition to a token's ``gmac`` by each position of a sequence, for attention."""
    first_layer_gmac: PositiveFloat | None = None
    """Part of ``gmac`` in the input layer.

    Its input gradient is never computed.
    """
    head_gmac: PositiveFloat | None = None
    """Those of a sharded classifier, over all GPUs, which ``gmac`` leaves out."""
    input: Text
    """Shape of one sample, as ``3×512×1024``."""
    note: Text | None = None
    """Method of obtaining the figures, and omissions."""

    def at(self, length: int) -> Fingerprint:
        """The fingerprint at a sequence length, with all of it in ``gmac``."""
        gmac = self.gmac + (self.position_gmac or 0.0) * length
        return msgspec.structs.replace(self, gmac=gmac, position_gmac=None)


class Citation(_Strict, frozen=True, kw_only=True):
    """Source of published figures."""

    title: Text
    """Author of the report, with its month."""
    repository: Text | None = None
    """``owner/name`` on GitHub, or an address."""
    commit: Text | None = None
    """The version that holds the figures."""
    path: Text | None = None
    """The file in the repository."""
    note: Text | None = None
    """Remarks on the report as a whole."""


class Accuracy(_Strict, frozen=True, kw_only=True):
    """An accuracy with its metric and unit."""

    metric: Text
    """Such as ``mIoU`` or ``top-1``."""
    value: float
    """In ``unit``."""
    unit: Text = "%"
    """Unit of the value."""
    note: Text | None = None
    """Source of the value."""

    @property
    def percent(self) -> float:
        """The value in percent."""
        return self.value if self.unit == "%" else self.value * 100


class Published(_Strict, frozen=True, kw_only=True):
    """One published figure of the upstream program.

    An absent figure is absent, with a note.
    """

    case: CaseName
    """Replicas × GPUs per replica that it was measured on."""
    precision: Precision
    """``fp32`` or ``amp``."""
    batch_size: PositiveInt
    """Samples per GPU and step."""
    gpu_model: Text
    """As the driver names it: ``Tesla V100-SXM2-32GB``."""
    source: str
    """Key into the file's ``sources``."""
    throughput: PositiveFloat | None = None
    """Whole job, in the benchmark's unit per second, as published."""
    estimator: Estimator = "unknown"
    """Method that makes a run's figure from its log."""
    data: Literal["real", "synthetic"] = "real"
    """Training data."""
    aggregate: Literal["single", "median", "mean", "unknown"] = "unknown"
    """Aggregation of the runs to ``throughput``."""
    runs: tuple[PositiveFloat, ...] = ()
    """The report's single runs, in the order in which it counts them; same unit."""
    mean: PositiveFloat | None = None
    """Mean of the runs as published; same unit."""
    speedup: PositiveFloat | None = None
    """Over the report's own 1x1, as published."""
    time_to_train_s: PositiveFloat | None = None
    """Seconds to the target accuracy."""
    accuracy: Accuracy | None = None
    """Reached accuracy."""
    anomalous: bool = False
    """True if the figure is odd or wrong by its own report.

    The note says how.
    """
    corrected: PositiveFloat | None = None
    """Figure by the report's own logs, in place of ``throughput``.

    Comparisons use it.
    """
    differs: Text | None = None
    """What the program does otherwise than the variant; it forbids a ratio."""
    note: Text | None = None
    """Remarks for readers of the figure."""


class Scaled(_Strict, frozen=True, kw_only=True):
    """A command's number that grows with the job: factor × product."""

    factor: PositiveFloat
    """Factor of the product."""
    of: tuple[Literal["batch_size", "gpus_per_replica", "replicas", "world_size"], ...]
    """Factors that depend on the job."""

    def value(self, known: Mapping[str, int | float | str]) -> str:
        """The number as a command's word: ``0.02``, never ``2e-02``."""
        number = self.factor
        for name in self.of:
            number *= int(known[name])
        return f"{number:.12f}".rstrip("0").rstrip(".")


class SecretKey(_Strict, frozen=True, kw_only=True):
    """One value of a Secret in the namespace of the job."""

    name: Annotated[str, form(r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z", "the name of a Secret")]
    """The Secret, which whoever runs the benchmark has made."""
    key: Annotated[str, form(r"^[A-Za-z0-9._-]{1,253}\Z", "a key of a Secret")]
    """Key of the value in the Secret."""


class FromSecret(_Strict, frozen=True, kw_only=True, rename={"secret_key_ref": "secretKeyRef"}):
    """Confidential value of a variable, kept out of benchmark files."""

    secret_key_ref: SecretKey
    """Secret in the cluster. This machine has none: such a run needs a cluster."""


class Upstream(_Strict, frozen=True, kw_only=True):
    """The published program itself, for ``--impl upstream --image X``.

    Words of a command may hold ``{placeholders}`` (the list below) and the keys of ``numbers``;
    nothing else is interpolated and no shell ever sees it. ``$(NAME)`` is Kubernetes' own: the
    kubelet puts in the variables that the training operator injects, such as ``$(RANK)``.
    """

    repository: Text
    """``owner/name`` on GitHub, or an address."""
    commit: Text
    """The version that the report ran."""
    command: Annotated[
        dict[Precision, Command],
        msgspec.Meta(min_length=1, description="the report's command for fp32, amp or both"),
    ]
    """The report's command by precision, for several GPUs on one node or more."""
    command_one_gpu: dict[Precision, Command] = {}
    """The same for one GPU, where the report starts that differently."""
    added: dict[Mode, Command] = {}
    """Words that k8sbench appends by mode.

    They replace edits of files, or stopping the run by hand, in the report. ``--mode train`` needs
    its list here, empty if the command is already the training.
    """
    numbers: dict[NumberName, Scaled] = {}
    """Placeholders of this file, such as a learning rate by GPUs."""
    environment: dict[str, str]
    """Environment of the report: framework, CUDA, cuDNN, image. For readers."""
    env: dict[EnvName, Word] = {}
    """Environment variables of the command; values may hold placeholders too."""
    workdir: AbsolutePath | None = None
    """Folder in the container from which the command starts."""
    data: Literal["real", "synthetic"] = "real"
    """Training data of the program."""
    image: Name | None = None
    """Image of ``images/`` that holds the program, for ``--image-registry``; None: none does."""
    note: Text | None = None
    """Requirements for the image, and differences from the report's command."""

    def words(self, precision: Precision, *, world_size: int, mode: Mode) -> Command:
        """The command of one case, its placeholders still open; KeyError: no such precision."""
        several = self.command[precision]
        chosen = self.command_one_gpu.get(precision, several) if world_size == 1 else several
        return chosen + self.added.get(mode, ())

    def values(self, known: Mapping[str, int | float | str]) -> dict[str, int | float | str]:
        """``known`` placeholders and, computed from them, those of ``numbers``."""
        return {**known, **{name: n.value(known) for name, n in self.numbers.items()}}


class LogFormat(_Strict, frozen=True, kw_only=True):
    """A log format declared by regular expressions with named groups or JSON keys.

    ``record`` must match one training line and name ``iteration`` and one of ``rate``
    (samples/s), ``step_seconds``, ``elapsed`` (time since the program began); it may name
    ``total``, ``epoch``, ``loss``, ``data_seconds``, ``stamp``, ``step_samples`` (of a step of the
    whole job) or ``all_samples`` (of the job so far), ``added_seconds`` (a second time of the step,
    added to ``step_seconds``), ``steps`` (steps that the printed time is of). ``fields`` does the
    same by keys. ``summary`` matches a line that states the whole
    run's rate alone, as ``rate`` or ``step_seconds``, and may name ``loss``. ``evaluation`` may
    name ``value`` and ``metric``. Each of ``facts`` matches a line in which the program states its
    own run, and names one or more of ``gpus``, ``gpus_per_node``, ``replicas``, ``batch_size``,
    ``global_batch``, ``tokens_per_step``, ``sequence_length``, ``precision``, ``gpu_model``. Other
    names are errors.

    Expressions have the syntax of RE2 (https://github.com/google/re2/wiki/Syntax): that of Python
    without looking ahead or behind, without back references and without the flag ``x``. ``$``
    stands for the end of the line, and ``\\d``, ``\\w``, ``\\s`` and ``\\b`` for ASCII alone.
    """

    name: Name
    """Name of the format in results."""
    confirmed: bool = True
    """False in a draft that ``measure LOG --declare`` wrote: no figure counts until it is true."""
    framework: Name | None = None
    """Framework in rows, such as ``tensorflow``; None: the variant's."""
    unit: Text
    """Unit of ``rate``: the benchmark's (``images/s``, ``Ktokens/s``), or ``steps/s``.

    ``s/step``, ``ms/step`` or ``us/step`` for ``step_seconds``. The batch converts steps. A number
    beside which another unit stands is an error; a group may include its unit: ``122.0K``, ``8ms``.
    """
    thousands: Literal[",", "'", "_", " "] | None = None
    """Separator of thousands: ``,`` for 1,356.8."""
    sequence_length: PositiveInt | None = None
    """Tokens of a sequence, if the benchmark counts tokens and ``batch_size`` sequences."""
    per: Literal["job", "card"]
    """Scope of ``rate``: the whole job, or one GPU."""
    record: Text | None = None
    """Pattern of one training line."""
    fields: dict[str, Text] = {}
    """Paths in a JSON object, in place of ``record``: group → path.

    Examples: ``data.rate``, ``step.1``.
    """
    summary: Text | None = None
    """Pattern of the line that states the whole run's rate."""
    averaged: Literal["interval", "step", "running", "last"] = "interval"
    """Steps that the printed number averages.

    The log interval, that one step, all so far, or the ``last`` N, however many lie between two
    lines.
    """
    last: PositiveInt | None = None
    """Number of steps, with ``averaged: last``."""
    first_iteration: Literal[0, 1] = 1
    """The number that the log gives the first iteration."""
    iteration_counts: Literal["steps", "samples"] = "steps"
    """Count of ``iteration`` and ``total``: steps, or samples of the whole job, as MLPerf's."""
    first_epoch: Literal[0, 1] | None = None
    """Number of the first epoch; default: the first line's, at most 1."""
    numbering: Literal["run", "epoch"] | None = None
    """``epoch`` if iterations restart in each epoch, else ``run``.

    Default: as the first line of a later epoch shows."""
    stamp_format: Text | None = None
    """``strptime`` format of ``stamp``, with seconds; for Unix times their unit: ``s``, ``ms``.

    ``fields`` default to ``s``."""
    evaluation: Text | None = None
    """Pattern of an evaluation's line; ``value`` is its result."""
    metric: Text | None = None
    """Name of ``value``, if no group ``metric`` has it."""
    metric_unit: Literal["%", "fraction"] | None = None
    """Unit of ``value``; default: percent if it is above 1."""
    checkpoint: Text | None = None
    """Pattern of a checkpoint's line."""
    includes_events: bool = False
    """True if evaluations and checkpoints before a training line are in its time."""
    facts: tuple[Text, ...] = ()
    """Patterns of lines that state facts of the run.

    Groups: ``gpus`` of the whole job, or ``gpus_per_node`` and ``replicas`` (nodes), ``batch_size``
    per GPU, or ``global_batch`` or ``tokens_per_step`` of the job, ``sequence_length``,
    ``precision`` (``amp``, ``fp16``, ``bf16``, ``True``; ``fp32``, ``False``), ``gpu_model``.
    """

    @property
    def read_unit(self) -> notation.Unit:
        """The unit, taken apart."""
        return notation.declared(self.unit) or notation.Unit(1.0, "")

    @property
    def counts_steps(self) -> bool:
        """True if ``rate`` counts steps: the batch makes samples of them."""
        return self.read_unit.noun == "steps" and not self.is_time

    @property
    def is_time(self) -> bool:
        """True if the unit is that of a time: seconds per step."""
        return self.read_unit.is_time

    def plain(self, text: str) -> str:
        """Return a number without its separators of thousands."""
        mark = self.thousands
        grouped = mark and re.fullmatch(rf"[-+]?\d{{1,3}}(?:{mark}\d{{3}})+(?!\d).*", text)
        return text.replace(mark or "", "") if grouped else text


def framework_of(log: str | LogFormat, framework: str) -> str:
    """Return a log's framework in results, else that of its job."""
    own = log.framework if isinstance(log, LogFormat) else None
    return own or framework


class PublishedDataSet(_Strict, frozen=True, kw_only=True):
    """A data set that the published figures were measured on."""

    name: Text
    """Usual name."""
    file: Text | None = None
    """The archive that was used."""
    md5: Md5 | None = None
    """MD5 of that archive, as the report gives it."""
    samples: PositiveInt | None = None
    """Training samples."""
    note: Text | None = None
    """Remarks on the data set."""


class Variant(_Strict, frozen=True, kw_only=True):
    """One way to run the benchmark: framework, model, program and log."""

    name: Name
    """Unique within its framework; handed to our trainers as ``--variant``."""
    framework: Framework
    """Decides the kind of job: PyTorchJob or PaddleJob."""
    title: Text
    """One line for people."""
    log: str | LogFormat
    """A family's name, or a format of the user's own."""
    batch_size: Annotated[
        dict[Precision, PositiveInt],
        msgspec.Meta(min_length=1, description="the batch per GPU for fp32, amp or both"),
    ]
    """Samples per GPU and step, by precision."""
    window: Window
    """Measured iterations."""
    cases: Annotated[
        tuple[CaseName, ...],
        msgspec.Meta(min_length=1, description="at least one case such as 1x8"),
    ]
    """Cases of ``--all-cases``: the report's.

    ``--replicas`` and ``--gpus`` ask for others.
    """
    default: bool = False
    """True if ``--framework`` alone selects this; one per framework."""
    trainer: Name | None = None
    """Our own trainer: the module ``k8sbench.trainers.NAME`` with ``-`` read as ``_``."""
    command: Command = ()
    """The user's own program (``impl: user``), with the placeholders of ``upstream``'s."""
    image: Text | None = None
    """Image of the user's own program; ``--image`` overrides it."""
    env: dict[EnvName, Word | FromSecret] = {}
    """Environment variables of the program.

    One that is named like a secret (``…_TOKEN``, ``…_PASSWORD``, ``…_SECRET``, ``…_KEY``) or holds
    a password takes its value from a Secret.
    """
    local: bool = False
    """True if the local backend may run our trainer.

    A ``command`` of your own runs there without this key, after a question.
    """
    amp_dtype: AmpDtype = "fp16"
    """Half type of AMP; V100s have no bf16."""
    args: dict[OptionName, str | int | float | bool] = {}
    """Options of the trainer, as ``--name value``.

    True is a bare flag, false leaves it out (``channels-last`` and ``cudnn-benchmark``: says
    ``--no-name``).
    """
    train: Train | None = None
    """Training to an accuracy; without it there is no ``--mode train``."""
    smoke: Smoke | None = None
    """Small form for machines without a GPU; without it there is no ``--preset smoke``."""
    repeats: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5
    """Runs of each case with ``--all-cases``; fewer than four can show no change."""
    fingerprint: Fingerprint | None = None
    """Identity of the model; without it no TFLOP/s and no parity ratio."""
    logged_models: tuple[Text, ...] = ()
    """Substrings of the model's name in logs, in lower case.

    A log of another name is rejected; without this list no name is compared.
    """
    sync_bn: bool = False
    """True if upstream synchronises batch norm over several GPUs."""
    case_notes: dict[CaseName, Text] = {}
    """Footnotes of cases that differ by the benchmark's own rule."""
    data_set: PublishedDataSet | None = None
    """Data set of the published figures."""
    published: tuple[Published, ...] = ()
    """Figures to be compared with."""
    upstream: Upstream | None = None
    """The published program."""
    note: Text | None = None
    """Remarks on the variant."""

    @property
    def impl(self) -> Impl:
        """Default of ``--impl``."""
        return "k8sbench" if self.trainer is not None else "user" if self.command else "upstream"

    @property
    def trainer_module(self) -> str | None:
        """File stem of the trainer under ``k8sbench/trainers/``."""
        return None if self.trainer is None else self.trainer.replace("-", "_")

    @property
    def framework_of_logs(self) -> str:
        """The framework that results name: a declared format may have one of its own."""
        return framework_of(self.log, self.framework)


class BenchmarkSpec(_Strict, frozen=True, kw_only=True):
    """One benchmark: its variants, and the figures that were published for them."""

    name: Name
    """Name on the command line: ``k8sbench submit NAME``."""
    title: Text
    """One line for lists."""
    task: Text
    """Task and data, in words."""
    unit: Literal["samples", "clips", "images", "sequences", "tokens", "GB"]
    """Name of a sample; throughput is per second, over the whole job.

    ``GB`` is for an all-reduce, whose batch is the size of the vector in MB: throughput is the bus
    bandwidth.
    """
    default_framework: Framework
    """Framework without ``--framework``."""
    variants: Annotated[
        tuple[Variant, ...], msgspec.Meta(min_length=1, description="at least one variant")
    ]
    """At least one; each framework has one default."""
    target_accuracy: Accuracy | None = None
    """Time to train ends here."""
    sources: dict[Name, Citation] = {}
    """Sources of the published figures, by a key of your own."""
    notes: tuple[Text, ...] = ()
    """Remarks for all readers of its figures."""

    @property
    def frameworks(self) -> tuple[Framework, ...]:
        """The frameworks that it has variants for, the default first."""
        offered = {variant.framework for variant in self.variants}
        rest: tuple[Framework, ...] = ("pytorch", "paddle")
        return (
            self.default_framework,
            *(f for f in rest if f in offered - {self.default_framework}),
        )

    def variants_of(self, framework: str) -> tuple[Variant, ...]:
        """All variants of ``framework``, or whose logs are, in the file's order."""
        named = (v for v in self.variants if framework in (v.framework, v.framework_of_logs))
        return tuple(named)

    def variant(self, framework: str, name: str) -> Variant | None:
        """The variant of a name; None where there is none."""
        return next((v for v in self.variants_of(framework) if v.name == name), None)

    def default_variant(self, framework: Framework) -> Variant | None:
        """The variant that ``framework`` alone means; None where there is none."""
        mine = self.variants_of(framework)
        return next((v for v in mine if v.default), mine[0] if len(mine) == 1 else None)


PLACEHOLDERS: dict[str, str] = {
    "precision": "fp32 or amp",
    "batch_size": "samples per GPU and step",
    "global_batch": "samples per step of the whole job",
    "replicas": "nodes",
    "gpus_per_replica": "GPUs, or processes, per node",
    "world_size": "GPUs, or processes, of the whole job",
    "warmup": "iterations left out",
    "iterations": "iterations measured",
    "total_iterations": "both",
    "stop_iteration": "the one after them, of a program that stops before it prints that one",
    "log_interval": "iterations per log line",
    "gpu_ids": "a node's GPUs, as 0,1,2,3",
    "hosts": "host names of all replicas, the first first, separated by commas",
    "host": "this replica's own host name, one of those",
    "data": "where the data volume lies in the container",
}
"""Placeholder in a command → its meaning."""
