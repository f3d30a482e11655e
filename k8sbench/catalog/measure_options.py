"""Options of ``measure``, ``import`` and ``observe``: facts about logs that do not state them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from k8sbench.catalog import plan_choices
from k8sbench.catalog.imported_logs import Shape
from k8sbench.model.errors import UsageError, did_you_mean
from k8sbench.model.log_format import FAMILY_NAMES
from k8sbench.model.request import ACCEPT_FLAG, LONGEST, Flag
from k8sbench.model.spec_values import Framework

AUTO = "auto"
"""The log family that is recognised by the log's lines."""
HALF_TYPES = ("fp16", "bf16")


class MeasureOptions(msgspec.Struct, frozen=True, kw_only=True):
    """User-given facts about logs that lack them; None is "not known".

    Facts that contradict each other are a :class:`UsageError`.
    """

    benchmark: str | None = None
    """Benchmark of the logs, a name or file.

    None without a family: the catalog benchmark that each log states.
    """
    family: str | None = None
    """Log family, if no benchmark is given; :data:`AUTO` detects it."""
    gpus: int | None = None
    """GPUs of the whole job."""
    case: str | None = None
    """Nodes and GPUs of each: ``4x8``."""
    batch_size: int | None = None
    """Samples per GPU and step."""
    precision: Literal["fp32", "amp", "fp16", "bf16"] | None = None
    """The half types count as AMP."""
    gpu_model: str | None = None
    """GPU of logs that do not state it."""
    framework: Framework | None = None
    variant: str | None = None
    warmup: int | None = None
    """Iterations left out."""
    one_run: bool = False
    """All logs are one run's: its ranks or its pieces."""
    accept: tuple[str, ...] = ()
    """Ids of reasons that do not reject."""

    def __post_init__(self) -> None:
        if self.benchmark is not None and self.family is not None:
            raise UsageError(
                "--benchmark and --format cannot be combined.",
                "Give --benchmark NAME, or --format FAMILY for logs without a benchmark, or"
                " neither: each log's family and benchmark are then recognised.",
            )
        if self.family not in {None, AUTO, *FAMILY_NAMES}:
            hint = (
                did_you_mean(str(self.family), FAMILY_NAMES)
                + f"Families: {', '.join(FAMILY_NAMES)}."
            )
            raise UsageError(f"There is no log family {self.family!r}.", hint)
        if self.variant is not None and self.benchmark is None:
            raise UsageError("--variant is one of a benchmark.", "Give --benchmark as well.")
        _ = self.values  # raises where the case and the GPUs differ

    @property
    def shape(self) -> Shape | None:
        """The case as nodes and GPUs of each; raises :class:`UsageError`."""
        return None if self.case is None else plan_choices.parse_case(self.case)

    @property
    def sources(self) -> dict[str, str]:
        """Return in words where the facts come from that options state."""
        names = ("gpus", "case", "batch_size", "precision", "gpu_model", "framework", "warmup")
        given = [name for name in names if getattr(self, name) is not None]
        return {name: f"option --{name.replace('_', '-')}" for name in given}

    @property
    def values(self) -> dict[str, Any]:
        """Return what is known as fields of :class:`.expectation.Expectation`."""
        gpus, shape = self.gpus, self.shape
        if shape is not None:
            gpus = shape[0] * shape[1]
            if self.gpus not in {None, gpus}:
                raise UsageError(
                    f"--case {self.case} and --gpus {self.gpus} differ.", "Give one of them."
                )
        requested, amp_dtype = split_precision(self.precision)
        return {
            "gpus": gpus,
            "batch_size": self.batch_size,
            "precision": requested,
            "amp_dtype": amp_dtype,
            "gpu_model": self.gpu_model,
        }


LOG_FLAGS: Mapping[str, Flag] = {
    "benchmark": Flag(
        "Benchmark to which the logs belong. Default: the built-in one whose model a log names, if"
        " its rules accept the log.",
        "NAME|FILE",
    ),
    "family": Flag(
        "Log family, without a benchmark and so without a plan to compare with:"
        f" {', '.join(FAMILY_NAMES)}, or {AUTO}: recognised in each log.",
        "FAMILY",
        names=("--format",),
    ),
    "gpus": Flag("GPUs of the whole job, for logs that do not state them.", "N", (1, 999_999)),
    "case": Flag("Nodes and GPUs per node, as 4x8, if nothing else states them.", "RxG"),
    "batch_size": Flag("Samples per GPU and step.", "B", (1, 1_000_000)),
    "precision": Flag("Precision that was requested."),
    "gpu_model": Flag("GPU model, for logs that do not state it.", "NAME"),
    "framework": Flag("Framework."),
    "variant": Flag("Variant of the benchmark.", "NAME"),
    "warmup": Flag(
        "Iterations left out; default: the log's for our own trainers, else the benchmark's, else"
        " the format's.",
        "ITERATIONS",
        (0, LONGEST),
    ),
    "one_run": Flag("All logs belong to one run: its ranks or its parts."),
    "accept": ACCEPT_FLAG,
}
"""Options of ``measure`` and ``import``, in the order of the help."""


def split_precision(precision: str | None) -> tuple[str | None, str | None]:
    """Return precision and half type: ``bf16`` is AMP in bf16."""
    return ("amp", precision) if precision in HALF_TYPES else (precision, None)
