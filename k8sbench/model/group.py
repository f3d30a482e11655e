"""The repeats of one case in one set, taken together, and the figures that follow.

A :class:`Group` holds the figures of its own runs. Figures that need a second group, a published
figure or the GPU's data sheet (speedup, deviation, share of peak, parity) stand beside it in a
:class:`Result` and a :class:`Parity`. Each figure is a value or None with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from k8sbench.model.errors import NotFound, did_you_mean
from k8sbench.model.finding import Finding
from k8sbench.model.identity import GroupKey
from k8sbench.model.measurement import AccuracyResult, Arithmetic, GpuFigure, Measurement
from k8sbench.model.plan import RunPlan

SCRATCH = "from scratch"
"""In place of the file of start weights, where there is none."""
UNSTEADY = "unsteady-runs"
"""Id of the reason for which a group with a figure is not valid."""


def gpu_figure(measured: Measurement, name: str) -> float | None:
    """Return one of :data:`.ROW_FIGURES` of a run; None where it is not known."""
    metrics = measured.gpu_metrics
    if metrics is None:
        return None
    if name == "energy_per_1000_samples":
        return metrics.energy_per_1000_samples
    return metrics.figures[name].value if name in metrics.figures else None


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput of a group's valid runs, samples/s of the whole job."""

    median: float
    """The headline, as in the reports that we reproduce."""
    mean: float
    minimum: float
    maximum: float
    cv: float | None
    """Coefficient of variation (sample standard deviation ÷ mean); None for one run."""
    low: float | None
    high: float | None
    """Interval for the median; None for one run, for unsteady runs, or if outliers leave none."""
    coverage: float | None
    """Coverage of [low, high]: 1 − 2^(1−n) for min–max; a lower bound where there were outliers."""
    interval_reason: str | None = None
    """Why there is no interval."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One run's part in its group."""

    run_id: str
    """The run."""
    repeat: int
    """Its number in the set, from 1."""
    created_at: float
    """Unix seconds."""
    queued_s: float | None = None
    """Seconds that it waited in queues, also after a preemption; None where it never did."""
    rate: float | None
    """samples/s by the group's estimator; None where the run does not count."""
    phase: str
    """The present state, one of the phases."""
    verdict: str | None
    """As the group sees it; None where nothing was measured, see the reasons."""
    reasons: tuple[Finding, ...]
    """Reasons against it, and warnings."""
    unverified: float | None = None
    """Rate of a run that does not count, for the reader, never part of a figure; None for one that
    does."""
    gpu: dict[str, GpuFigure] = {}
    """Its GPU metrics by their ids, each with its source, coverage and samples."""
    source: str = "here"
    """Which store has it: ``here``, or ``collector``; ``imported``: here, and never run by it."""


class TrainingOfGroup(msgspec.Struct, frozen=True, kw_only=True):
    """What the counted runs that train to an accuracy have in common."""

    target: float | None
    """Percent; None: there is none, or they have different ones."""
    ended_by: str | None
    """``target`` or ``length``; both, where the runs differ."""
    restarts: int
    """Of all of them together."""
    data_set: str | None
    weights: str | None
    """File of start weights, or ``from scratch``; None where the program does not say."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The repeats of one case in one set."""

    key: GroupKey
    plan: RunPlan
    """Of the first member that counts: what they all have in common."""
    unit: str
    estimator: str
    members: tuple[Member, ...]
    began: tuple[float, float]
    """When its first and its newest run began, Unix seconds; imported ones by their stamps."""
    spread: Spread | None
    """None where no run counts; see the reasons of the group and of its members."""
    reasons: tuple[Finding, ...]
    """What concerns the group as a whole; each run's own reasons stand with the run."""
    parameters: int | None = None
    """Of the model, as the runs report it, else as the catalog has it."""
    gmac: float | None = None
    """10⁹ multiply-accumulates of one sample's forward pass, of the model as the catalog has it;
    None where the runs report another number of parameters than the catalog."""
    precision_effective: str | None = None
    arithmetic: Arithmetic | None = None
    """Which kinds of operations computed in which type; None unless all runs state the same."""
    device: str | None = None
    by_rule: dict[str, str] = {}
    """What the program chose by the benchmark's own rule: its loss ``head``, its ``norm`` layer."""
    layout: str | None = None
    """``NHWC`` or ``NCHW``, as images lay in memory; None unless all runs report the same."""
    by_estimator: dict[str, float] = {}
    """Median over the counted runs by each estimator that all of them have a figure for."""
    accuracy: AccuracyResult | None = None
    """Of the counted runs the middle one by its best evaluation."""
    time_to_train_s: float | None = None
    """Median over the counted runs, of which a majority reached the target accuracy."""
    runs_at_target: int | None = None
    """Number of counted runs that reached the target accuracy; None where no run evaluated."""
    training: TrainingOfGroup | None = None
    """None unless the counted runs train to an accuracy."""
    gpu_hours: float | None = None
    """GPUs × hours that all ended runs held them, whether they count or not."""
    queued_s: float | None = None
    """Median seconds in queues of the runs that waited there; no part of another figure."""
    data_fraction: float | None = None
    """Median over the counted runs of the share of their steps that they wait for data."""
    gpu: dict[str, float] = {}
    """Median over the counted runs of each of :data:`.ROW_FIGURES` that they have; of the memory
    used the most."""
    judgements: tuple[str, ...] = ()
    """What held the counted runs back, by their GPU metrics; equal sentences once."""
    missing: dict[str, str] = {}
    """Name of each figure above that is None → why."""

    @property
    def counted(self) -> int:
        """Number of runs behind the figures."""
        return sum(member.rate is not None for member in self.members)

    @property
    def latest(self) -> float:
        """When the newest run was created, Unix seconds."""
        return max(member.created_at for member in self.members)

    @property
    def state(self) -> str:
        """``valid``, ``unsteady`` (the runs are far apart, and it is unclear which are right),
        ``running``, ``rejected`` (measured, but nothing counts), ``cancelled`` (all runs were) or
        ``failed``.
        """
        if self.spread is not None:
            is_unsteady = any(reason.id == UNSTEADY for reason in self.reasons)
            return "unsteady" if is_unsteady else "valid"
        if self.in_progress:
            return "running"
        if any(member.verdict is not None for member in self.members):
            return "rejected"
        is_cancelled = self._runs_with("run-cancelled") == len(self.members)
        return "cancelled" if is_cancelled else "failed"

    @property
    def in_progress(self) -> int:
        """Number of runs that have not ended."""
        return self._runs_with("run-in-progress")

    def _runs_with(self, reason: str) -> int:
        return sum(any(finding.id == reason for finding in run.reasons) for run in self.members)

    @property
    def smoke(self) -> bool:
        """Whether this checked the path and not the speed."""
        return self.plan.preset == "smoke"

    @property
    def on_cpu(self) -> bool:
        """Whether no GPU was measured."""
        return "cpu" in (self.plan.device, self.device)

    def ids(self, severity: str) -> tuple[str, ...]:
        """Sorted ids of the reasons of one severity, of the group and its members."""
        every = [*self.reasons, *(r for member in self.members for r in member.reasons)]
        return tuple(sorted({r.id for r in every if r.severity == severity and not r.accepted}))

    @property
    def accepted_ids(self) -> tuple[str, ...]:
        """Ids of the reasons that ``--accept`` overruled."""
        every = [*self.reasons, *(r for member in self.members for r in member.reasons)]
        return tuple(sorted({reason.id for reason in every if reason.accepted}))


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that follows from others: its value, or why there is none; and what to know."""

    value: float | None
    reason: str | None = None
    """Why there is no value; None where there is one."""
    notes: tuple[str, ...] = ()


class Deviation(msgspec.Struct, frozen=True, kw_only=True):
    """One published figure beside ours."""

    source: str
    """Key of the source in the catalog."""
    title: str
    """Title of the source."""
    quantity: Literal["throughput", "time_to_train", "accuracy"] = "throughput"
    """What the figures are: samples/s, seconds to the target, or percent."""
    case: str
    """Of the published figure."""
    precision: str
    """Of the published figure."""
    batch_size: int
    """Of the published figure, per GPU."""
    gpu_model: str
    """Of the published figure."""
    published: float
    """The published figure."""
    estimator: str
    """The published figure's; ours is by the same one, or there is no ratio. Of a time to train
    ``Time2Train``, of an accuracy its metric."""
    ours: float | None
    """By that estimator; None where we have none."""
    corrected: float | None = None
    """What the report's own logs give, where the published figure is wrong by them."""
    ratio: float | None
    """ours ÷ published, or ÷ corrected, − 1; None unless all that must match does."""
    ratios: tuple[float, float] | None = None
    """The least and the most of it over all averaging rules, where the published one is not known
    and nothing else differs."""
    not_comparable: tuple[str, ...] = ()
    """Ids of what does not match."""
    notes: tuple[str, ...] = ()
    """What differs and is allowed to: ``impl k8sbench``, ``data synthetic``."""
    remark: str | None = None
    """The catalog's note on the published figure; None without one."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """The last change of a case over its sets, as ``history`` marks it."""

    since: str
    """Name of the set that it begins with."""
    ratio: float
    """Median from there on ÷ that before − 1."""


class Newer(msgspec.Struct, frozen=True, kw_only=True):
    """A set that is newer than the row's, without a figure."""

    set_name: str
    state: str
    """As :attr:`Group.state`."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One group and its figures against other groups and sources: a row of the tables."""

    group: Group
    speedup: Figure
    efficiency: Figure
    published_speedups: dict[str, dict[int, float]] = {}
    """Source → GPUs → speedup, of the published cases of this program, precision and batch."""
    baseline: str | None
    """Id of the 1x1 group that the speedup refers to."""
    tflops_per_gpu: Figure
    peak_share: Figure
    """tflops_per_gpu ÷ the GPU's peak in the precision that had effect."""
    medians: tuple[float, ...] = ()
    """Of the sets of its case up to its own that have a figure, oldest first."""
    changed: Changed | None = None
    """None where the history of the case up to this set shows no change."""
    newer: Newer | None = None
    """The newest set of the case; None where that is the row's, or older."""
    deviations: tuple[Deviation, ...] | None = None
    """None where published figures were not asked for."""
    deviations_reason: str | None = None
    """Why there is nothing published to compare with."""


class Parity(msgspec.Struct, frozen=True, kw_only=True):
    """Paddle beside PyTorch: one case of one benchmark on both."""

    paddle: Group
    pytorch: Group
    ratio: float | None
    """Paddle ÷ PyTorch, by the median and estimator that both share."""
    not_comparable: tuple[str, ...] = ()
    """Ids of what is unequal."""
    notes: tuple[str, ...] = ()


# -- which groups a command is asked for ----------------------------------------------------------


class GroupFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Values that a group's key must have; None: any."""

    benchmark: str | None = None
    framework: str | None = None
    precision: str | None = None
    case: str | None = None

    def fits(self, group: Group) -> bool:
        """Whether a group has every value."""
        return all(getattr(group.key, name) == value for name, value in self._given())

    def chosen(self, groups: Iterable[Group]) -> list[Group]:
        """Return the groups that fit; raises :class:`NotFound` where none of several does.

        The error names the values that there are, the nearest first.
        """
        groups = list(groups)
        fitting = [group for group in groups if self.fits(group)]
        if groups and not fitting:
            raise self._no_match(groups)
        return fitting

    def _given(self) -> list[tuple[str, str]]:
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return [(name, value) for name, value in values if value is not None]

    def _no_match(self, groups: Sequence[Group]) -> NotFound:
        for name, value in self._given():
            known = sorted({getattr(group.key, name) for group in groups})
            if value not in known:
                return no_run_of(name, value, known)
        words = " and ".join(f"{name} {value}" for name, value in self._given())
        return NotFound(f"There is no run of {words} together.", "Leave one of them out.")


def no_run_of(name: str, value: str, known: Sequence[str]) -> NotFound:
    """Return the error for a value that no run has; ``known`` are those that there are."""
    near = did_you_mean(value, known)
    return NotFound(f"There is no run of {name} {value}.", f"{near}There are: {', '.join(known)}.")


def no_run_together(since: float | None, newest: float) -> NotFound:
    """Return the error for filters that fit runs one by one; ``newest``: of the newest of all."""
    if since is not None and newest < since:
        at = f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d %H:%M} UTC"
        return NotFound("No run is as new as --since.", f"The newest is of {at}.")
    return NotFound("No run fits all of the filters together.", "Leave one of them out.")


EVERY = GroupFilter()
"""Any group."""
