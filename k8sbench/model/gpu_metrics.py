"""GPU metrics: the table of metrics, and series of samples.

A source (:class:`~k8sbench.ports.metrics.MetricSource`) returns series in the units of this table,
so that several sources can be compared. A metric that a GPU or a source lacks has no series but a
reason, never zeros.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from k8sbench.messages import Note, note

OverTime = Literal["mean", "peak", "increase", "count", "share", "new"]
"""Aggregation over time.

``increase``: of a counter. ``count``: of a counter of events, which are not extrapolated.
``share``: of the time in which any of :data:`THROTTLED` was set.
``new``: codes that appear within the window.
"""
OverGpus = Literal["mean", "peak", "sum", "union"]
SourceName = Literal["prometheus", "dcgm", "trainer", "nvml"]
"""``dcgm`` and ``nvml`` are of runs of earlier releases."""
EXPORTER_SECONDS = 30.0
"""Default sampling interval of a DCGM exporter."""
NO_FIGURE = 1e14
"""Limit of plausible values; DCGM writes larger ones for "no value"."""
PLAUSIBLE = {
    "ratio": (0.0, 1.05),
    "MiB": (0.0, 4.0 * (1 << 20)),
    "W": (0.0, 1e4),
    "J": (0.0, NO_FIGURE),
    "MHz": (0.0, 1e4),
    "°C": (-50.0, 200.0),
    "bytes/s": (0.0, 1e13),
    "": (0.0, 1e6),
}
"""Lowest and highest value of a metric by its unit.

Others are of another unit, or codes of 32 bits for "no value"; profiling rounds ratios up.
"""
NO_BITS = (float(0x7FFF_FFF0), float(0x7FFF_FFFF))
"""First and last code of DCGM for bits that it does not have."""
PLAUSIBLE_WATTS = (3.0, 1e4)
"""The same of a GPU's power by its counter of energy: an idle GPU draws more than 3 W."""
HELD_DOWN = {
    0x20: note("held-down-by-driver"),
    0x40: note("held-down-by-hardware"),
    0x80: note("held-down-by-power-brake"),
}
"""NVML's clock event reasons that a healthy node does not show.

The power limit (0x4) is not among them, because many GPUs reach it as designed, nor the hardware's
slowdown for any reason (0x8), which a change of clocks may show, too.
"""
THROTTLED = sum(HELD_DOWN)


class Field(msgspec.Struct, frozen=True):
    """DCGM field of a metric, and the factor to our unit."""

    name: str
    factor: float = 1.0

    def value(self, raw: float) -> float | None:
        """Convert to our unit; None for DCGM's codes of missing values."""
        return None if not abs(raw) < NO_FIGURE else raw * self.factor


class GpuMetric(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU metric: sources, aggregation and display."""

    id: str
    title: str
    """For tables and plots."""
    unit: str
    """Unit; empty for codes.

    ``ratio`` (0–1), ``MiB``, ``W``, ``J``, ``MHz``, ``°C``, ``bytes/s``.
    """
    dcgm: tuple[Field, ...] = ()
    """DCGM fields, newer names first; the first that an exporter has counts."""
    nvml: bool = False
    """True if our trainers read it from NVML."""
    over_time: OverTime = "mean"
    over_gpus: OverGpus = "mean"
    """Aggregation over GPUs; rows then take the median of runs, or the peak."""
    of_whole_gpu: bool = False
    """True if an exporter repeats the whole GPU's value for MIG instances."""
    column: str | None = None
    """Heading in tables of results; None: no column."""
    row_figure: str | None = None
    """Id of the column's figure; None: the metric's own."""
    is_wanted: bool = False
    """True if ``doctor`` warns of its absence.

    Judgements need it, and the exporters' default counters lack it.
    """
    meaning: str
    """Meaning for the user, one sentence."""

    @property
    def is_of_events(self) -> bool:
        """True if one more sample on both sides of a window says what is new in it."""
        return self.over_time in {"count", "new"}

    def is_plausible(self, value: float) -> bool:
        """Return True if a sample can have this value."""
        if self.over_time == "share":  # of bits, to which a driver may add
            return value >= 0.0 and not NO_BITS[0] <= value <= NO_BITS[1]
        least, most = PLAUSIBLE[self.unit]
        return least <= value <= most

    def text(self, value: float) -> str:
        """Write a value with its unit."""
        if self.unit == "ratio":
            return f"{100 * value:.0f} %"
        if self.unit == "MiB":
            return f"{value / 1024:.1f} GiB"
        return f"{value:.0f} {self.unit}".rstrip()


METRICS: tuple[GpuMetric, ...] = (
    GpuMetric(
        id="gpu_utilization",
        title="GPU utilization",
        unit="ratio",
        dcgm=(Field("DCGM_FI_DEV_GPU_UTIL", 0.01),),
        nvml=True,
        column="GPU busy",
        meaning="The share of time in which any kernel ran, however little of the GPU it used.",
    ),
    GpuMetric(
        id="gr_engine_active",
        title="GR engine active",
        unit="ratio",
        dcgm=(Field("DCGM_FI_PROF_GR_ENGINE_ACTIVE"),),
        meaning="The share of time in which the graphics or compute engine had work. It is not the"
        " share of multiprocessors at work.",
    ),
    GpuMetric(
        id="sm_active",
        title="SM active",
        unit="ratio",
        dcgm=(Field("DCGM_FI_PROF_SM_ACTIVE"),),
        is_wanted=True,
        meaning="The share of time in which a multiprocessor had a warp, as the mean over all.",
    ),
    GpuMetric(
        id="tensor_active",
        title="Tensor active",
        unit="ratio",
        dcgm=(Field("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),),
        column="tensor active",
        meaning="The share of cycles in which the tensor cores worked: what mixed precision is"
        " for.",
    ),
    GpuMetric(
        id="dram_active",
        title="DRAM active",
        unit="ratio",
        dcgm=(Field("DCGM_FI_PROF_DRAM_ACTIVE"),),
        meaning="The share of cycles in which data moved to or from device memory; above about 0.8"
        " the step is bound by memory bandwidth.",
    ),
    GpuMetric(
        id="memory_used",
        title="Memory used",
        unit="MiB",
        dcgm=(Field("DCGM_FI_DEV_FB_USED"),),
        nvml=True,
        over_time="peak",
        over_gpus="peak",
        column="peak memory",
        meaning="The most device memory in use on any GPU, by all of its processes.",
    ),
    GpuMetric(
        id="power",
        title="Power",
        unit="W",
        dcgm=(Field("DCGM_FI_DEV_POWER_USAGE"),),
        nvml=True,
        of_whole_gpu=True,
        column="power",
        meaning="The power that one GPU draws; well below its limit it waits for something.",
    ),
    GpuMetric(
        id="energy",
        title="Energy",
        unit="J",
        dcgm=(Field("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1e-3),),
        nvml=True,
        over_time="increase",
        over_gpus="sum",
        of_whole_gpu=True,
        column="energy per 1,000",
        row_figure="energy_per_1000_samples",
        meaning="What all GPUs of the job took from the mains during the window.",
    ),
    GpuMetric(
        id="temperature",
        title="Temperature",
        unit="°C",
        dcgm=(Field("DCGM_FI_DEV_GPU_TEMP"),),
        nvml=True,
        over_time="peak",
        over_gpus="peak",
        meaning="The highest of any GPU; near its limit the driver lowers the clocks.",
    ),
    GpuMetric(
        id="sm_clock",
        title="SM clock",
        unit="MHz",
        dcgm=(Field("DCGM_FI_DEV_SM_CLOCK"),),
        nvml=True,
        meaning="The clock of the multiprocessors; throughput follows it.",
    ),
    GpuMetric(
        id="throttled",
        title="Throttled",
        unit="ratio",
        dcgm=(
            Field("DCGM_FI_DEV_CLOCKS_EVENT_REASONS"),
            Field("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"),
        ),
        nvml=True,
        over_time="share",
        column="throttled",
        is_wanted=True,
        meaning="The share of time in which heat or a power brake held the clocks down. Its series"
        " holds NVML's bits of the clocks' event reasons.",
    ),
    GpuMetric(
        id="xid",
        title="XID errors",
        unit="",
        dcgm=(Field("DCGM_FI_DEV_XID_ERRORS"),),
        over_time="new",
        over_gpus="union",
        meaning="The driver's error codes that appeared during the window.",
    ),
    GpuMetric(
        id="ecc_errors",
        title="ECC errors",
        unit="",
        dcgm=(Field("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),),
        over_time="count",
        over_gpus="sum",
        meaning="The errors of memory during the window that ECC found and could not correct.",
    ),
    GpuMetric(
        id="processes",
        title="Processes",
        unit="",
        nvml=True,
        over_time="peak",
        over_gpus="peak",
        meaning="The most processes that computed on any GPU; a rank has its GPU for itself.",
    ),
    GpuMetric(
        id="nvlink_transmitted",
        title="NVLink transmitted",
        unit="bytes/s",
        dcgm=(Field("DCGM_FI_PROF_NVLINK_TX_BYTES"),),
        meaning="What one GPU sends to others over NVLink.",
    ),
    GpuMetric(
        id="nvlink_received",
        title="NVLink received",
        unit="bytes/s",
        dcgm=(Field("DCGM_FI_PROF_NVLINK_RX_BYTES"),),
        meaning="What one GPU receives from others over NVLink.",
    ),
    GpuMetric(
        id="pcie_transmitted",
        title="PCIe transmitted",
        unit="bytes/s",
        dcgm=(Field("DCGM_FI_PROF_PCIE_TX_BYTES"),),
        meaning="What one GPU sends to the host and, without NVLink, to others.",
    ),
    GpuMetric(
        id="pcie_received",
        title="PCIe received",
        unit="bytes/s",
        dcgm=(Field("DCGM_FI_PROF_PCIE_RX_BYTES"),),
        meaning="What one GPU receives from the host, such as its samples.",
    ),
)
BY_ID = {metric.id: metric for metric in METRICS}
ROW_FIGURES = {metric.row_figure or metric.id: metric for metric in METRICS if metric.column}
"""Id of a figure in rows of results → its metric."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU or MIG instance, as far as a source knows it."""

    node: str | None = None
    """Its node; None if the source does not report it."""
    index: str | None = None
    """The driver's index on its node; None as above."""
    uuid: str | None = None
    """By the driver; None as above."""
    model: str | None = None
    """Model by the driver; None if unknown."""
    mig: str | None = None
    """MIG instance and profile, ``2 (1g.5gb)``; None for a whole GPU."""
    pod: str | None = None
    """Pod, or replica of a local run, that uses it; None if unknown."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """The samples of one metric of one GPU, oldest first."""

    metric: str
    """An id of :data:`METRICS`."""
    gpu: Gpu
    source: SourceName
    at: tuple[float, ...]
    """Times of the values, Unix seconds by the source's clock."""
    values: tuple[float, ...]
    """Values in the metric's unit; counters with their resets."""
    every: float | None = None
    """Sampling interval, s; None: derived from ``at``."""


class SeriesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Query for the series of a run's GPUs over a window."""

    run_id: str
    namespace: str | None
    """None for a local run."""
    nodes: dict[str, str | None]
    """Pod → its node; for a local run by replica."""
    uuids: tuple[str, ...] = ()
    """UUIDs of the GPUs that the run's program printed; else empty."""
    start: float
    """Unix seconds by the cluster's clock."""
    end: float


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """Another user of one of the run's GPUs during the window."""

    gpu: Gpu
    other: str
    """``namespace/pod``, or what is known of the process."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of a source."""

    source: SourceName
    series: tuple[Series, ...] = ()
    missing: dict[str, Note] = {}
    """Metric → reason for its absence; key ``*`` for all metrics."""
    shared: tuple[Shared, ...] = ()
    warnings: tuple[str, ...] = ()
    """Warnings of the source itself."""
