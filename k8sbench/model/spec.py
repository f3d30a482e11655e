"""What a benchmark is: the typed form of one catalog file.

Every field of the YAML is here with its unit; ``docs/catalog.md`` is generated from this text.
Unknown fields are errors. The rules that one field alone cannot state are in
:mod:`k8sbench.model.spec_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

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
    """Which iterations count: the first ``warmup`` are left out, the next ``iterations`` count."""

    warmup: NonNegativeInt
    """Iterations left out."""
    iterations: PositiveInt
    """Iterations measured."""
    rule: Text
    """In words, with whose rule it is (ours or the report's)."""
    log_interval: dict[Literal["one_gpu", "many_gpus"], PositiveInt]
    """Iterations per log line, on one GPU and on several."""


Cadence = dict[Literal["one_gpu", "many_gpus"], PositiveInt]
"""A number for one GPU and for several."""


class Train(_Strict, frozen=True, kw_only=True):
    """How the published program trains to an accuracy: ``--mode train``."""

    length: PositiveInt
    """The whole length, in ``unit``."""
    unit: LengthUnit
    """What ``length`` and ``evaluate_every`` count: iterations or epochs."""
    evaluate_every: Cadence
    """Interval between evaluations, on one GPU and on several; the end is always evaluated."""
    metric: Text
    """Metric of the evaluation, as the trainer names it: ``mIoU``."""
    rule: Text
    """Whose values these are, in words."""
    start: Text | None = None
    """The published weights that the report starts from; without it: from scratch."""
    args: dict[OptionName, str | int | float | bool] = {}
    """Options of the trainer in this mode alone; they override the variant's ``args``."""


class SmokeTrain(_Strict, frozen=True, kw_only=True):
    """A training that a machine without a GPU finishes within minutes."""

    length: PositiveInt
    """The whole length, in ``unit``."""
    unit: LengthUnit
    """What ``length`` and ``evaluate_every`` count: iterations or epochs."""
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
    args: dict[OptionName, str | int | float | bool] = {}
    """Options of the trainer that make it small; they override the variant's ``args``."""
    train: SmokeTrain | None = None
    """The same for ``--mode train``."""


class Fingerprint(_Strict, frozen=True, kw_only=True):
    """What identifies the model, whoever wrote it."""

    model: Text
    """Architecture, as its authors name it."""
    parameters: PositiveInt
    """Trainable parameters on all GPUs together, without a classifier that is sharded."""
    gmac: PositiveFloat
    """10⁹ multiply-accumulates of one sample's forward pass at ``input``."""
    first_layer_gmac: PositiveFloat | None = None
    """Those of them in the layer that sees the input, whose input gradient is never computed."""
    head_gmac: PositiveFloat | None = None
    """Those of a sharded classifier, over all GPUs, which ``gmac`` leaves out."""
    input: Text
    """Shape of one sample, as ``3×512×1024``."""
    note: Text | None = None
    """How the figures were obtained, and what they leave out."""


class Citation(_Strict, frozen=True, kw_only=True):
    """Where published figures come from."""

    title: Text
    """Whose report it is, with its month."""
    repository: Text | None = None
    """``owner/name`` on GitHub, or an address."""
    commit: Text | None = None
    """The version that holds the figures."""
    path: Text | None = None
    """The file in the repository."""
    note: Text | None = None
    """What to know of the report as a whole."""


class Accuracy(_Strict, frozen=True, kw_only=True):
    """An accuracy with its metric and unit."""

    metric: Text
    """Such as ``mIoU`` or ``top-1``."""
    value: float
    """In ``unit``."""
    unit: Text = "%"
    """Unit of the value."""
    note: Text | None = None
    """Where the value comes from."""

    @property
    def percent(self) -> float:
        """The value in percent."""
        return self.value if self.unit == "%" else self.value * 100


class Published(_Strict, frozen=True, kw_only=True):
    """One published figure of the upstream program. An absent figure is absent, with a note."""

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
    """How a run's log became its figure."""
    data: Literal["real", "synthetic"] = "real"
    """What it was trained on."""
    aggregate: Literal["single", "median", "mean", "unknown"] = "unknown"
    """How the runs became ``throughput``."""
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
    """True where the figure is odd or wrong by its own report; the note says how."""
    corrected: PositiveFloat | None = None
    """What the report's own logs give in place of ``throughput``; comparisons are with it."""
    note: Text | None = None
    """What its reader must know."""


class Scaled(_Strict, frozen=True, kw_only=True):
    """A number that a command takes and that grows with the job: a factor times a product."""

    factor: PositiveFloat
    """What the product is multiplied by."""
    of: tuple[Literal["batch_size", "gpus_per_replica", "replicas", "world_size"], ...]
    """What is multiplied."""

    def value(self, known: Mapping[str, int | str]) -> str:
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
    """Which of its values."""


class FromSecret(_Strict, frozen=True, kw_only=True, rename={"secret_key_ref": "secretKeyRef"}):
    """The value of a variable that is for few to know: it stands in no file of a benchmark."""

    secret_key_ref: SecretKey
    """Where the pod has it from. This machine has no Secrets: such a run needs a cluster."""


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
    command: dict[Precision, Command]
    """The report's command by precision, for several GPUs on one node or more."""
    command_one_gpu: dict[Precision, Command] = {}
    """The same for one GPU, where the report starts that differently."""
    added: dict[Mode, Command] = {}
    """Words that k8sbench appends by mode, for what the report set by editing files or by
    stopping the run by hand. ``--mode train`` needs its list here, empty where the command is the
    training already."""
    numbers: dict[NumberName, Scaled] = {}
    """Placeholders of this file's own, such as a learning rate that grows with the GPUs."""
    environment: dict[str, str]
    """What the report ran on: versions of framework, CUDA, cuDNN, image. For the reader."""
    env: dict[EnvName, Word] = {}
    """Environment variables of the command; values may hold placeholders too."""
    workdir: AbsolutePath | None = None
    """Folder in the container from which the command starts."""
    data: Literal["real", "synthetic"] = "real"
    """What the program trains on."""
    image: Name | None = None
    """Image of ``images/`` that holds the program, for ``--image-registry``; None: none does."""
    note: Text | None = None
    """What the image must hold, and where our command differs from the report's."""

    def words(self, precision: Precision, *, world_size: int, mode: Mode) -> Command:
        """The command of one case, its placeholders still open; KeyError: no such precision."""
        several = self.command[precision]
        chosen = self.command_one_gpu.get(precision, several) if world_size == 1 else several
        return chosen + self.added.get(mode, ())

    def values(self, known: Mapping[str, int | str]) -> dict[str, int | str]:
        """``known`` placeholders and, computed from them, those of ``numbers``."""
        return {**known, **{name: n.value(known) for name, n in self.numbers.items()}}


SECONDS = {"s", "sec", "second", "seconds"}
STEP_UNITS = {"steps", "step", "iterations", "iteration", "iters", "iter", "it", "batches", "batch"}
"""Units of rates that count the steps of the whole job."""


class LogFormat(_Strict, frozen=True, kw_only=True):
    """A log format declared by regular expressions with named groups or JSON keys.

    ``record`` must match one training line and name ``iteration`` and one of ``rate``
    (samples/s), ``step_seconds``; it may name ``total``, ``epoch``, ``loss``, ``data_seconds``,
    ``stamp``. ``fields`` does the same by keys. ``summary`` matches a line that states the whole
    run's rate alone, as ``rate`` or ``step_seconds``, and may name ``loss``. ``evaluation`` may
    name ``value`` and ``metric``. Each of ``facts`` matches a line in which the program states its
    own run, and names one or more of ``gpus``, ``gpus_per_node``, ``replicas``, ``batch_size``,
    ``precision``, ``gpu_model``. Other names are errors.

    Expressions have the syntax of RE2 (https://github.com/google/re2/wiki/Syntax): that of Python
    without looking ahead or behind, without back references and without the flag ``x``. ``$``
    stands for the end of the line, and ``\\d``, ``\\w``, ``\\s`` and ``\\b`` for ASCII alone.
    """

    name: Name
    """Name of the format in results."""
    framework: Name | None = None
    """What the program is written in, for rows: ``tensorflow``; None: the variant's framework."""
    unit: Text
    """Unit of ``rate``: the benchmark's (``images/s``), or ``steps/s``.

    ``s/step`` for ``step_seconds``. The batch converts steps."""
    per: Literal["job", "card"]
    """Whether ``rate`` is the whole job's or one GPU's."""
    record: Text | None = None
    """Pattern of one training line."""
    fields: dict[str, Text] = {}
    """Replaces ``record`` for lines with a JSON object: group → path in the object, such as
    ``data.rate`` or ``step.1``."""
    summary: Text | None = None
    """Pattern of the line that states the whole run's rate."""
    averaged: Literal["interval", "step", "running", "last"] = "interval"
    """Steps that the printed number is a mean of: the log interval, that one step, all so far, or
    the ``last`` N, however many lie between two lines."""
    last: PositiveInt | None = None
    """Number of steps, with ``averaged: last``."""
    first_iteration: Literal[0, 1] = 1
    """The number that the log gives the first iteration."""
    first_epoch: Literal[0, 1] | None = None
    """Number of the first epoch; default: the first line's, at most 1."""
    numbering: Literal["run", "epoch"] | None = None
    """``epoch`` if iterations restart in each epoch, else ``run``.

    Default: as the first line of a later epoch shows."""
    stamp_format: Text | None = None
    """``strptime`` format of ``stamp``, with seconds; ``fields`` default to Unix seconds."""
    evaluation: Text | None = None
    """Pattern of an evaluation's line; ``value`` is its result."""
    metric: Text | None = None
    """Name of ``value``, if no group ``metric`` has it."""
    metric_unit: Literal["%", "fraction"] | None = None
    """Unit of ``value``; default: percent if it is above 1."""
    checkpoint: Text | None = None
    """Pattern of a checkpoint's line."""
    facts: tuple[Text, ...] = ()
    """Patterns of lines that state the run: ``gpus`` of the whole job, or ``gpus_per_node`` and
    ``replicas`` (nodes), ``batch_size`` per GPU, ``precision`` (``amp``, ``fp16``, ``bf16``,
    ``True``; ``fp32``, ``False``), ``gpu_model``."""

    @property
    def counts_steps(self) -> bool:
        """True if ``rate`` counts steps: the batch makes samples of them."""
        return self.unit.partition("/")[0] in STEP_UNITS

    @property
    def is_time(self) -> bool:
        """True if the unit is that of a time: seconds per step."""
        unit, _, per = self.unit.partition("/")
        return unit in SECONDS and per in STEP_UNITS


def framework_of(log: str | LogFormat, framework: str) -> str:
    """Return the framework that results name of a log, with that of its job's kind."""
    own = log.framework if isinstance(log, LogFormat) else None
    return own or framework


class PublishedDataSet(_Strict, frozen=True, kw_only=True):
    """A data set that the published figures were measured on."""

    name: Text
    """What people call it."""
    file: Text | None = None
    """The archive that was used."""
    md5: Md5 | None = None
    """Of that archive, as the report gives it."""
    samples: PositiveInt | None = None
    """Training samples."""
    note: Text | None = None
    """What to know of it."""


class Variant(_Strict, frozen=True, kw_only=True):
    """One way to run the benchmark: a framework, a model, a program and its log."""

    name: Name
    """Unique within its framework; handed to our trainers as ``--variant``."""
    framework: Framework
    """Decides the kind of job: PyTorchJob or PaddleJob."""
    title: Text
    """One line for people."""
    log: str | LogFormat
    """A family's name, or a format of the user's own."""
    batch_size: dict[Precision, PositiveInt]
    """Samples per GPU and step, by precision."""
    window: Window
    """Which iterations count."""
    cases: tuple[CaseName, ...]
    """What ``--all-cases`` runs: the report's. ``--replicas`` and ``--gpus`` ask for others."""
    default: bool = False
    """Whether this is what ``--framework`` alone means; one per framework."""
    trainer: Name | None = None
    """Our own trainer: the module ``k8sbench.trainers.NAME`` with ``-`` read as ``_``."""
    command: Command = ()
    """The user's own program (``impl: user``), with the placeholders of ``upstream``'s."""
    image: Text | None = None
    """Image of the user's own program; ``--image`` overrides it."""
    env: dict[EnvName, Word | FromSecret] = {}
    """Environment variables of the program. One that is named like a secret (``…_TOKEN``,
    ``…_PASSWORD``, ``…_SECRET``, ``…_KEY``) or holds a password takes its value from a Secret."""
    local: bool = False
    """Whether the local backend may run our trainer. A ``command`` of your own runs there without
    this key, after a question."""
    amp_dtype: AmpDtype = "fp16"
    """Half type of AMP; V100s have no bf16."""
    args: dict[OptionName, str | int | float | bool] = {}
    """Options of the trainer, as ``--name value``; true is a bare flag, false leaves it out
    (``channels-last`` and ``cudnn-benchmark``: says ``--no-name``)."""
    train: Train | None = None
    """How it trains to an accuracy; without it there is no ``--mode train``."""
    smoke: Smoke | None = None
    """Small form for machines without a GPU; without it there is no ``--preset smoke``."""
    repeats: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5
    """Runs of each case with ``--all-cases``; fewer than four can show no change."""
    fingerprint: Fingerprint | None = None
    """What the model is; without it no TFLOP/s and no parity ratio."""
    logged_models: tuple[Text, ...] = ()
    """What its program's logs call the model: parts of names, in lower case. A log of another name
    is rejected; without this list no name is compared."""
    sync_bn: bool = False
    """Whether upstream synchronises batch norm over GPUs (and not on one)."""
    case_notes: dict[CaseName, Text] = {}
    """What differs in one case by the benchmark's own rule: a footnote of its row."""
    data_set: PublishedDataSet | None = None
    """What the published figures were measured on."""
    published: tuple[Published, ...] = ()
    """Figures to be compared with."""
    upstream: Upstream | None = None
    """The published program."""
    note: Text | None = None
    """What to know of the variant."""

    @property
    def impl(self) -> Impl:
        """Whose program runs unless ``--impl`` says otherwise."""
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
    """What is typed: ``k8sbench submit NAME``."""
    title: Text
    """One line for lists."""
    task: Text
    """What is trained, on what."""
    unit: Literal["samples", "clips", "images", "sequences", "tokens", "GB"]
    """What a sample is called; throughput is per second of it, over the whole job. ``GB`` is for an
    all-reduce, whose batch is the size of the vector in MB: throughput is the bus bandwidth."""
    default_framework: Framework
    """What runs without ``--framework``."""
    variants: tuple[Variant, ...]
    """At least one; each framework has one default."""
    target_accuracy: Accuracy | None = None
    """Time to train ends here."""
    sources: dict[Name, Citation] = {}
    """Where the published figures come from, by a key of your own."""
    notes: tuple[Text, ...] = ()
    """What every reader of its figures must know."""

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
"""What ``{…}`` in a command may name, and what it stands for."""
