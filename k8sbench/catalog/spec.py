"""Benchmarks: the typed form of one catalog file.

Every field of the YAML is here or in the modules of its parts, with its unit; ``k8sbench schema
benchmark`` prints this text. Unknown fields are errors. The rules that one field alone cannot state
are in :mod:`k8sbench.catalog.spec_rules`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from k8sbench.catalog.published import Accuracy, Citation, Published, PublishedDataSet, Reference
from k8sbench.model import log_format
from k8sbench.model.fingerprint import Fingerprint
from k8sbench.model.log_format import LogFormat
from k8sbench.model.pool import EnvName, Word
from k8sbench.model.program import FromSecret, Upstream
from k8sbench.model.spec_values import (
    AmpDtype,
    Cadence,
    CaseName,
    Command,
    Framework,
    Impl,
    LengthUnit,
    Name,
    NonNegativeInt,
    OptionName,
    PositiveFloat,
    PositiveInt,
    Precision,
    Text,
)


class Window(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Measured iterations: ``warmup`` are left out, the next ``iterations`` count."""

    warmup: NonNegativeInt
    """Iterations left out."""
    iterations: PositiveInt
    """Iterations measured."""
    rule: Text
    """In words, with whose rule it is (ours or the report's)."""
    log_interval: Cadence
    """Iterations per log line, on one GPU and on several."""


class Train(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class SmokeTrain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A training that a machine without a GPU finishes within minutes."""

    length: PositiveInt
    """The whole length, in ``unit``."""
    unit: LengthUnit
    """Unit of ``length`` and ``evaluate_every``: iterations or epochs."""
    evaluate_every: PositiveInt
    """Interval between evaluations; the end is always evaluated."""
    args: dict[OptionName, str | int | float | bool] = {}
    """Options of the trainer that make it even smaller; they override those of ``smoke``."""


class Smoke(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class Variant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
        dict[Precision, PositiveInt | None],
        msgspec.Meta(min_length=1, description="the batch per GPU for fp32, amp or both"),
    ]
    """Samples per GPU and step, by precision.

    Null, of a declared log format: the steps differ, as by a budget of tokens. A printed rate is
    then compared with no batch.
    """
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
        return log_format.framework_in_results(self.log, self.framework)


class BenchmarkSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    """Sources of the published figures and references, by a key of your own."""
    references: tuple[Reference, ...] = ()
    """Figures of other programs, settings and GPUs; ``benchmarks NAME`` lists them."""
    notes: tuple[Text, ...] = ()
    """Remarks for all readers of its figures."""

    @property
    def frameworks(self) -> tuple[Framework, ...]:
        """Frameworks of the variants, the default first."""
        offered = {variant.framework for variant in self.variants}
        known: tuple[Framework, ...] = ("pytorch", "paddle")
        others = offered - {self.default_framework}
        return (self.default_framework, *(f for f in known if f in others))

    def variants_of(self, framework: str | None) -> tuple[Variant, ...]:
        """Return the variants of a framework or with logs of it, in the file's order."""
        matching = (v for v in self.variants if framework in (v.framework, v.framework_of_logs))
        return tuple(matching)

    def variant(self, framework: str | None, name: str) -> Variant | None:
        """Return the variant with a name; None without one."""
        return next((v for v in self.variants_of(framework) if v.name == name), None)

    def default_variant(self, framework: Framework) -> Variant | None:
        """Return the variant that ``--framework`` alone selects; None if several could be meant."""
        variants = self.variants_of(framework)
        only = variants[0] if len(variants) == 1 else None
        return next((v for v in variants if v.default), only)
