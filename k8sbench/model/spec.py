"""What a benchmark is: the typed form of one catalog file.

Every field of the YAML is here with its unit. Unknown fields are errors. The rules that one
field alone cannot state (a case that no batch belongs to, two defaults for one framework) are in
:func:`problems`, which names the path of the offending key so that the reader of the file can
give its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

Framework = Literal["pytorch", "paddle"]
Precision = Literal["fp32", "amp"]
AmpDtype = Literal["fp16", "bf16"]
Impl = Literal["k8sbench", "upstream", "user"]
Preset = Literal["full", "smoke"]
Mode = Literal["throughput", "train"]
Estimator = Literal[
    "time_weighted", "time_weighted_steady", "median", "arithmetic", "timestamps", "unknown"
]
PositiveInt = Annotated[int, msgspec.Meta(ge=1)]
NonNegativeInt = Annotated[int, msgspec.Meta(ge=0)]
PositiveFloat = Annotated[float, msgspec.Meta(gt=0)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
CaseName = Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,3}x[1-9][0-9]{0,2}$")]
"""Replicas × GPUs per replica, as ``4x8``."""


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that refuses keys it does not know."""


class Window(_Strict, frozen=True):
    """Which iterations count: the first ``warmup`` are left out, the next ``iterations`` count."""

    warmup: NonNegativeInt
    iterations: PositiveInt
    rule: str
    """In words, with whose rule it is (ours or the report's)."""
    log_interval: dict[Literal["one_gpu", "many_gpus"], PositiveInt]
    """Iterations per log line, on one GPU and on several."""


class Smoke(_Strict, frozen=True):
    """The small form that a machine without a GPU runs: checks the path, not the speed."""

    batch_size: PositiveInt
    warmup: NonNegativeInt
    iterations: PositiveInt
    log_interval: PositiveInt = 1
    args: dict[str, str | int | float | bool] = {}


class Fingerprint(_Strict, frozen=True):
    """What identifies the model, whoever wrote it."""

    model: str
    parameters: PositiveInt
    gmac: PositiveFloat
    """10⁹ multiply-accumulates of one sample's forward pass at ``input``."""
    input: str
    """Shape of one sample, as ``3×512×1024``."""
    note: str | None = None


class Source(_Strict, frozen=True):
    """Where published figures come from."""

    title: str
    repository: str | None = None
    commit: str | None = None
    note: str | None = None


class Accuracy(_Strict, frozen=True):
    """An accuracy with its metric and unit."""

    metric: str
    value: float
    unit: str = "%"
    note: str | None = None


class Published(_Strict, frozen=True):
    """One published figure of the upstream program. An absent figure is absent, with a note."""

    case: CaseName
    precision: Precision
    batch_size: PositiveInt
    """Per GPU."""
    gpu_model: str
    source: str
    """Key into the file's ``sources``."""
    throughput: PositiveFloat | None = None
    """Whole job, in the benchmark's unit per second."""
    estimator: Estimator = "unknown"
    data: Literal["real", "synthetic"] = "real"
    runs: tuple[PositiveFloat, ...] = ()
    """The report's single runs, in the order in which it lists them."""
    mean: PositiveFloat | None = None
    speedup: PositiveFloat | None = None
    time_to_train_s: PositiveFloat | None = None
    accuracy: Accuracy | None = None
    anomalous: bool = False
    """True where the figure is odd or wrong by its own report; the note says how."""
    note: str | None = None


class Upstream(_Strict, frozen=True):
    """The published program itself, for ``--impl upstream --image X``.

    ``command`` may hold ``{batch_size}``, ``{global_batch}``, ``{replicas}``,
    ``{gpus_per_replica}``, ``{world_size}``, ``{iterations}``, ``{total_iterations}`` and
    ``{data}``; nothing else is interpolated and no shell ever sees it.
    """

    repository: str
    commit: str
    command: dict[Precision, tuple[str, ...]]
    environment: dict[str, str]
    """What the report ran on: versions of framework, CUDA, cuDNN, image. For the reader."""
    env: dict[str, str] = {}
    """Environment variables of the command."""
    workdir: str | None = None
    data: Literal["real", "synthetic"] = "real"
    note: str | None = None


class LogFormat(_Strict, frozen=True):
    """A log format declared by regular expressions with named groups.

    ``record`` must match one training line and name ``iteration`` and one of ``rate``
    (samples/s), ``step_seconds``; it may name ``total``, ``epoch``, ``loss``, ``data_seconds``,
    ``stamp``. ``summary`` matches a line that states the whole run's rate alone.
    """

    name: Name
    unit: str
    per: Literal["job", "card"]
    record: str | None = None
    summary: str | None = None
    averaged: Literal["interval", "step", "running"] = "interval"
    """What the printed number is a mean of: the log interval, that one step, or all so far."""
    first_iteration: Literal[0, 1] = 1
    stamp_format: str | None = None
    """``strptime`` format of the group ``stamp``."""


class DataSet(_Strict, frozen=True):
    """A data set that the published figures were measured on."""

    name: str
    file: str | None = None
    md5: str | None = None
    samples: PositiveInt | None = None
    note: str | None = None


class Variant(_Strict, frozen=True):
    """One way to run the benchmark: a framework, a model, a program and its log."""

    name: Name
    framework: Framework
    title: str
    log: str | LogFormat
    """A family's name, or a format of the user's own."""
    batch_size: dict[Precision, PositiveInt]
    """Per GPU."""
    window: Window
    cases: tuple[CaseName, ...]
    default: bool = False
    """Whether this is what ``--framework`` alone means; one per framework."""
    trainer: Name | None = None
    """Our own trainer: the module ``k8sbench.trainers.NAME`` with ``-`` read as ``_``."""
    command: tuple[str, ...] = ()
    """The user's own program (``impl: user``), as in :class:`Upstream`."""
    image: str | None = None
    """Image of the user's own program; ``--image`` overrules it."""
    env: dict[str, str] = {}
    local: bool = False
    """Whether the local backend may run it: only ever our own trainers."""
    amp_dtype: AmpDtype = "fp16"
    args: dict[str, str | int | float | bool] = {}
    """Options of the trainer, as ``--name value``; true is a bare flag, false leaves it out."""
    smoke: Smoke | None = None
    repeats: PositiveInt = 1
    """Repeats of each case in the report, taken by ``--all-cases``."""
    fingerprint: Fingerprint | None = None
    sync_bn: bool = False
    """Whether upstream synchronises batch norm over GPUs (and not on one)."""
    case_notes: dict[CaseName, str] = {}
    data_set: DataSet | None = None
    published: tuple[Published, ...] = ()
    upstream: Upstream | None = None
    note: str | None = None

    @property
    def impl(self) -> Impl:
        """Whose program runs unless ``--impl`` says otherwise."""
        return "k8sbench" if self.trainer is not None else "user" if self.command else "upstream"

    @property
    def trainer_module(self) -> str | None:
        """File stem of the trainer under ``k8sbench/trainers/``."""
        return None if self.trainer is None else self.trainer.replace("-", "_")


class BenchmarkSpec(_Strict, frozen=True):
    """One benchmark: its variants, and the figures that were published for them."""

    name: Name
    title: str
    task: str
    unit: Literal["samples", "clips", "images", "sequences", "tokens"]
    """What a sample is called; throughput is per second of it, over the whole job."""
    default_framework: Framework
    variants: tuple[Variant, ...]
    target_accuracy: Accuracy | None = None
    sources: dict[str, Source] = {}
    notes: tuple[str, ...] = ()

    @property
    def frameworks(self) -> tuple[Framework, ...]:
        """The frameworks that it has variants for, the default first."""
        found = {variant.framework for variant in self.variants}
        rest: tuple[Framework, ...] = ("pytorch", "paddle")
        return (self.default_framework, *(f for f in rest if f in found - {self.default_framework}))

    def variants_of(self, framework: Framework) -> tuple[Variant, ...]:
        """All variants of ``framework``, in the file's order."""
        return tuple(v for v in self.variants if v.framework == framework)

    def default_variant(self, framework: Framework) -> Variant | None:
        """The variant that ``framework`` alone means; None where there is none."""
        mine = self.variants_of(framework)
        return next((v for v in mine if v.default), mine[0] if len(mine) == 1 else None)


FAMILIES = (
    "k8sbench",
    "mmseg",
    "paddleseg",
    "paddleclas",
    "paddlevideo",
    "dle-resnet50",
    "tsm",
    "plsc",
)
"""Log families that :mod:`k8sbench.parse` knows."""

PLACEHOLDERS = frozenset(
    {
        "batch_size",
        "global_batch",
        "replicas",
        "gpus_per_replica",
        "world_size",
        "iterations",
        "total_iterations",
        "data",
    }
)
"""What ``{…}`` in a command may name."""

Problem = tuple[tuple[str | int, ...], str]
"""Path of the offending key, and one sentence."""


def problems(spec: BenchmarkSpec) -> Iterator[Problem]:
    """Yield what is wrong with ``spec`` as a whole; nothing for a sound one."""
    if not spec.variants:
        yield ("variants",), "has no variant; a benchmark needs at least one"
        return
    if spec.default_framework not in {v.framework for v in spec.variants}:
        yield ("default_framework",), f"is {spec.default_framework}, but no variant runs on it"
    seen: set[tuple[str, str]] = set()
    for index, variant in enumerate(spec.variants):
        at = ("variants", index)
        if (variant.framework, variant.name) in seen:
            yield (*at, "name"), f"says {variant.name} a second time for {variant.framework}"
        seen.add((variant.framework, variant.name))
        yield from ((at + path, text) for path, text in _variant_problems(spec, variant))
    for framework in spec.frameworks:
        if spec.variants_of(framework) and spec.default_variant(framework) is None:
            yield (
                ("variants",),
                f"has no single default for {framework}; set default: true on exactly one",
            )
        if sum(v.default for v in spec.variants_of(framework)) > 1:
            yield ("variants",), f"has several defaults for {framework}; keep one"


def _variant_problems(spec: BenchmarkSpec, variant: Variant) -> Iterator[Problem]:
    if not variant.batch_size:
        yield ("batch_size",), "is empty; give the batch per GPU for fp32, amp or both"
    if not variant.cases:
        yield ("cases",), "is empty; give at least one case such as 1x8"
    if variant.trainer and variant.command:
        yield ("command",), "stands beside trainer; a variant runs one program"
    if variant.trainer is None and not variant.command and variant.upstream is None:
        yield (), "has no program: give trainer, command or upstream"
    if variant.local and variant.trainer is None:
        yield (
            ("local",),
            "is true for a command of your own; the local backend runs only k8sbench's trainers",
        )
    if set(variant.window.log_interval) != {"one_gpu", "many_gpus"}:
        yield ("window", "log_interval"), "needs both one_gpu and many_gpus"
    if isinstance(variant.log, str) and variant.log not in FAMILIES:
        yield ("log",), f"is {variant.log!r}; known families: {', '.join(FAMILIES)}"
    if isinstance(variant.log, LogFormat):
        yield from ((("log", *path), text) for path, text in _format_problems(variant.log))
    for index, figure in enumerate(variant.published):
        if figure.source not in spec.sources:
            yield ("published", index, "source"), f"names {figure.source!r}, not among sources"
    commands: dict[tuple[str, ...], tuple[str, ...]] = {("command",): variant.command}
    if variant.upstream is not None:
        for precision, words in variant.upstream.command.items():
            commands[("upstream", "command", precision)] = words
    for path, words in commands.items():
        for word in words:
            for name in re.findall(r"\{(\w*)\}", word):
                if name not in PLACEHOLDERS:
                    yield path, f"holds {{{name}}}; known: {', '.join(sorted(PLACEHOLDERS))}"


def _format_problems(log: LogFormat) -> Iterator[Problem]:
    if log.record is None and log.summary is None:
        yield (), "needs record, summary or both"
    for field, pattern in (("record", log.record), ("summary", log.summary)):
        if pattern is None:
            continue
        try:
            groups = set(re.compile(pattern).groupindex)
        except re.error as wrong:
            yield (field,), f"is not a regular expression: {wrong}"
            continue
        if field == "record" and "iteration" not in groups:
            yield (field,), "has no group named iteration: (?P<iteration>\\d+)"
        if not groups & {"rate", "step_seconds"}:
            yield (field,), "has no group named rate or step_seconds"
