"""Log formats that a benchmark file declares."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from k8sbench.model import notation
from k8sbench.model.sample import Place
from k8sbench.model.spec_values import Name, PositiveInt, Text


class LogFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A log format declared by regular expressions with named groups or JSON keys.

    ``record`` must match one training line and name ``iteration`` and one of ``rate``
    (samples/s), ``step_seconds``, ``elapsed`` (time since the program began); it may name
    ``total``, ``epoch``, ``loss``, ``data_seconds``, ``stamp``, ``step_samples`` (of a step of the
    whole job) or ``all_samples`` (of the job so far), ``added_seconds`` (a second time of the step,
    added to ``step_seconds``), ``steps`` (steps that the printed time is of). ``fields`` names the
    groups of ``record`` by their numbers, or without ``record`` the keys of a JSON object.
    ``summary`` matches a line that states the whole run's rate alone, as ``rate`` or
    ``step_seconds``, and may name ``loss``. ``evaluation`` may name ``value`` and ``metric``. Each
    of ``facts`` matches a line in which the program states its own run, and names one or more of
    ``gpus``, ``gpus_per_node``, ``replicas``, ``batch_size``, ``global_batch``,
    ``tokens_per_step``, ``sequence_length``, ``precision``, ``gpu_model``. Other names are errors.

    Expressions have the syntax of RE2 (https://github.com/google/re2/wiki/Syntax): that of Python
    without looking ahead or behind, without back references and without the flag ``x``. ``$``
    stands for the end of the line, and ``\\d``, ``\\w``, ``\\s`` and ``\\b`` for ASCII alone.
    """

    name: Name
    """Name of the format in results."""
    confirmed: bool = True
    """False in a template of ``measure LOG --declare``: no figure counts until it is true."""
    framework: Name | None = None
    """Framework in rows, such as ``tensorflow``; None: the variant's."""
    unit: Text
    """Unit of ``rate``: the benchmark's (``images/s``, ``Ktokens/s``), or ``steps/s``.

    ``s/step``, ``ms/step`` or ``us/step`` for ``step_seconds``; the batch converts steps.
    ``s/sample`` or ``ms/sample`` for the time of one sample in ``step_seconds``, also of images,
    clips, sequences or tokens; no batch counts. ``s`` or ``ms`` for ``elapsed``. A number beside
    which another unit stands is an error; a group may include its unit: ``122.0K``, ``8ms``.
    """
    thousands: Literal[",", "'", "_", " "] | None = None
    """Separator of thousands: ``,`` for 1,356.8."""
    sequence_length: PositiveInt | None = None
    """Tokens of a sequence, if the benchmark counts tokens and ``batch_size`` sequences."""
    per: Literal["job", "card"]
    """Scope of ``rate``, or of the time of a sample: the whole job, or one GPU."""
    record: Text | None = None
    """Pattern of one training line."""
    fields: dict[str, Text | PositiveInt] = {}
    """Names of the values, in place of named groups: name → place.

    Without ``record`` a place is a path in a JSON object: ``data.rate``, ``step.1``. With it, the
    number of a group of ``record``.
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
        return notation.parse_unit(self.unit) or notation.Unit(1.0, "")

    @property
    def counts_steps(self) -> bool:
        """True if ``rate`` counts steps: the batch makes samples of them."""
        return self.read_unit.noun == "steps" and not self.is_time

    @property
    def is_time(self) -> bool:
        """True if the unit is that of a time: seconds per step or sample."""
        return self.read_unit.is_time

    @property
    def times_samples(self) -> bool:
        """True if ``step_seconds`` is the time of one sample: no batch counts."""
        return self.is_time and self.read_unit.noun != "steps"

    def plain(self, text: str) -> str:
        """Return a number without its separators of thousands."""
        mark = self.thousands
        grouped = mark and re.fullmatch(rf"[-+]?\d{{1,3}}(?:{mark}\d{{3}})+(?!\d).*", text)
        return text.replace(mark or "", "") if grouped else text


class ExpressionMatches(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a log that one expression of a declared format matches."""

    variant: str
    """``framework/name`` of the variants that declare it."""
    name: str
    """``record``, ``summary`` or ``facts[0]``."""
    pattern: str
    """The expression."""
    matched: int
    """Number of lines."""
    lines: tuple[tuple[Place, dict[str, str]], ...]
    """The first few of the lines, and what their named groups match."""


def framework_in_results(log: str | LogFormat, framework: str) -> str:
    """Return a log's framework in results, else that of its job."""
    own = log.framework if isinstance(log, LogFormat) else None
    return own or framework


OWN_FORMAT = "k8sbench"
"""Name of the format of our own trainers' logs."""
FAMILY_NAMES = (
    OWN_FORMAT,
    "mmseg",
    "mmengine",
    "paddleseg",
    "paddleclas",
    "paddlevideo",
    "dle-resnet50",
    "tsm",
    "plsc",
    "arcface-torch",
    "timm",
    "hf-trainer",
    "megatron",
    "nemo",
    "torchtitan",
    "nanogpt",
    "nanochat",
    "llm.c",
    "modded-nanogpt",
    "torchtune",
    "automodel",
    "verl",
    "olmo",
    "maxtext",
    "llama-factory",
    "paddlenlp",
    "deepspeed",
    "mlperf",
    "torchvision",
    "detectron2",
    "lerobot",
    "hugectr",
    "litgpt",
    "open-clip",
    "fairseq",
)
"""Names of the built-in log formats.

In detection order; our own first, whose start line decides.
"""
