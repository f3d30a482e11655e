"""Figures of a benchmark file that others have published, with their sources."""

from __future__ import annotations

from typing import Literal

import msgspec

from k8sbench.model.spec_values import (
    CaseName,
    Estimator,
    Md5,
    PositiveFloat,
    PositiveInt,
    Precision,
    Text,
)


class Citation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Source of published figures."""

    title: Text
    """Author of the report, with its month."""
    repository: Text | None = None
    """``owner/name`` on GitHub, or an address."""
    commit: Text | None = None
    """The version that holds the figures."""
    path: Text | None = None
    """The file in the repository."""
    versions: dict[Text, tuple[Text, ...]] = {}
    """Framework → versions of its program, as the source's own logs state them; only theirs."""
    note: Text | None = None
    """Remarks on the report as a whole."""


class Accuracy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class Published(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    note: Text | None = None
    """Remarks for readers of the figure."""


class Reference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A figure of another program, setting or GPU, for orientation.

    It is shown with what differs from the benchmark's cases. No ratio to it is computed.
    """

    case: CaseName
    """Replicas × GPUs per replica."""
    gpu_model: Text
    """As the driver names it: ``NVIDIA H200``."""
    precision: Literal["fp32", "tf32", "fp16", "bf16"] | None = None
    """Arithmetic; None: the source does not say."""
    batch_size: PositiveInt | None = None
    """Samples per GPU and step; None: the source does not say."""
    layout: Literal["NCHW", "NHWC"] | None = None
    """Memory layout of images; None: no images, or the source does not say."""
    data: Literal["real", "synthetic"] | None = None
    """Training data; None: the source does not say."""
    throughput: PositiveFloat
    """Whole job, in the benchmark's unit per second."""
    source: str
    """Key into the file's ``sources``."""
    differs: Text
    """Differences from the benchmark's own case."""
    note: Text | None = None
    """Derivation of the figure from its source."""


class PublishedDataSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
