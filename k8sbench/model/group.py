"""Repeats of one case in one set, and their figures.

A :class:`Group` holds the figures of its own runs. Figures that need a second group, a published
figure or the GPU's data sheet (speedup, deviation, share of peak, parity) stand beside it in a
:class:`Result` and a :class:`Parity`. Each figure is a value or None with its reason.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from k8sbench.messages import Note, note
from k8sbench.model.errors import Finding
from k8sbench.model.facts import Facts, known_facts, take_facts
from k8sbench.model.identity import GroupKey
from k8sbench.model.measurement import AccuracyResult, Arithmetic, GpuFigure, Measurement
from k8sbench.model.plan import RunPlan
from k8sbench.model.profile import IterationRange, Progress
from k8sbench.model.series import AcceptedLevel, Alternation, Kind, Line

SCRATCH = "from scratch"
"""Name shown for training without start weights."""
MOST_NODES = 8
"""Maximum number of nodes that a group names."""
OUT_OF_MEMORY = "run-out-of-memory"
"""Id of the reason why a run without enough GPU memory has no figure."""
UNSTEADY = "unsteady-runs"
"""Id of the reason why a group with a figure is not valid."""


def gpu_figure(measured: Measurement, name: str) -> float | None:
    """Return one of :data:`.ROW_FIGURES` of a run; None if unknown."""
    metrics = measured.gpu_metrics
    if metrics is None:
        return None
    if name == "energy_per_1000_samples":
        return metrics.energy_per_1000_samples
    return metrics.figures[name].value if name in metrics.figures else None


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput of a group's valid runs, samples/s of the job."""

    median: float
    """The headline, as in the reports that we reproduce."""
    mean: float
    minimum: float
    maximum: float
    cv: float | None
    """Coefficient of variation (standard deviation ÷ mean); None for one run."""
    low: float | None
    high: float | None
    """Ends of the 95 % interval; None for one or unsteady runs."""
    interval_reason: Note | None = None
    """Reason why there is no interval."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One run's part in its group."""

    run_id: str
    """The run."""
    object_name: str | None = None
    """Name of the Benchmark that requested it; None without one."""
    repeat: int
    """Its number in the set, from 1."""
    created_at: float
    """Unix seconds."""
    queued_s: float | None = None
    """Seconds in queues, preemptions included; None if it never waited."""
    rate: float | None
    """samples/s by the group's estimator; None if the run does not count."""
    phase: str
    """The present state, one of the phases."""
    verdict: str | None
    """The run's verdict within the group; None if not measured."""
    reasons: tuple[Finding, ...]
    """Reasons against it, and warnings."""
    unverified: float | None = None
    """Rate of a run that does not count, else None. Part of no figure."""
    gpu: dict[str, GpuFigure] = {}
    """GPU metrics by id, each with source, coverage and samples."""
    progress: Progress | None = None
    """Figures over ranges of iterations.

    None if the run does not count, or if a benchmark names its window.
    """
    source: str = "here"
    """Store of the run: ``here``, ``operator`` or ``imported``.

    An imported run is here, too, but k8sbench did not run it.
    """


NOTHING_STATES_GPUS = note("nothing-states-gpus")
"""Reason why a row has no number of GPUs and nothing that follows from it."""
IMPORTED = note("imported-logs")
"""Reason why a row of imported logs lacks what only k8sbench's own runs have."""


class Hardware(NamedTuple):
    """Hardware that the runs of a row ran on."""

    machines: int | None
    """Number of machines; None where replicas may share nodes."""
    gpus: int | None
    """GPUs of the job; None if it used none, or nothing states them."""
    gpus_per_machine: int | None
    """None without GPUs, or if :attr:`machines` is not known."""
    cpu_processes: int | None
    """Processes of a job without GPUs, else None."""


class TrainingOfGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Common values of the counted runs that train to an accuracy."""

    target: float | None
    """Percent; None without a target, or if the runs' targets differ."""
    restarts: int
    """Restarts of all counted runs together."""
    data_set: str | None
    weights: str | None
    """File of start weights, or ``from scratch``; None if not stated."""


class GroupRow(NamedTuple):
    """The part of a group that a series of sets needs; tens of thousands are read at once."""

    set_name: str
    group_id: str
    """Id of the group's key."""
    series: str
    """Digest of what stays the same over the sets of a case."""
    benchmark: str
    framework: str
    precision: str
    case: str
    gpus: int | None
    gpu_model: str
    """As the runs report it; ``unknown`` where none does."""
    estimator: str
    began: float
    """Start of the first run, Unix seconds; of imported runs by their stamps, else the import."""
    ended: float
    """Start of the newest run, Unix seconds."""
    latest: float
    """Creation of the newest run, Unix seconds."""
    counted: int
    """Number of runs behind the median."""
    median: float | None
    """Median throughput of the job; None if no run counts."""
    deviation: float | None
    """Coefficient of variation of the runs; None for fewer than two."""
    state: str
    """State of the group, see :attr:`Group.state`."""
    in_progress: int
    """Number of runs that have not ended."""
    measures: str
    """``speed``, ``smoke`` (a functional test) or ``cpu`` (its processes share a machine)."""
    rejects: str = ""
    """Ids of the reasons against the group and its runs, sorted, with commas between."""

    former_id: str = ""
    """Ids by the release before with commas between; empty if the same, and in rows of its own."""
    former_series: str = ""
    """Digests by the release before with commas between; empty if the same."""
    warmup: int | None = None
    """Largest warm-up of the runs that count; None if a benchmark names their window."""
    reaches: int | None = None
    """Iterations that the middle one of these runs covers, warm-up included; else None."""
    range: str = ""
    """Range of iterations of its series, see :attr:`.IterationRange.text`; empty without one."""
    in_range: float | None = None
    """Median over the range; None without one, and if no run covers half of it."""

    @property
    def figure(self) -> float | None:
        """Throughput that the series of its case takes; None if the set is not judged."""
        return self.in_range if self.range else self.median

    @property
    def line(self) -> Line:
        """Values that a set shares with the sets that it is held against."""
        return self.series, self.gpu_model, self.estimator

    @property
    def former_lines(self) -> list[Line]:
        """These values by the release before, which wrote accepted levels with them."""
        former = self.former_series.split(",")
        return [(series, self.gpu_model, self.estimator) for series in former]


def rows_named(rows: Iterable[GroupRow], beginning: str) -> list[GroupRow]:
    """Return the rows whose group's id begins so, else those whose former id does."""
    rows = list(rows)
    named = [row for row in rows if row.group_id.startswith(beginning)]
    return named or [
        row for row in rows if any(name.startswith(beginning) for name in row.former_id.split(","))
    ]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The repeats of one case in one set."""

    key: GroupKey
    planned: RunPlan | None = msgspec.field(default=None, name="plan")
    """Plan of the first counted member; None if nobody planned it."""
    known: Facts | None = msgspec.field(default=None, name="facts")
    """Facts about the case of the first counted member; None if it was planned."""
    unit: str
    estimator: str
    members: tuple[Member, ...]
    began: tuple[float, float]
    """Start of the first and the newest run, Unix seconds.

    Orders groups. Of imported runs by their stamps, else the import.
    """
    dates: tuple[float, float] | None = None
    """First and newest known start; None if the logs have no dates."""
    spread: Spread | None
    """Spread of the throughput; None if no run counts."""
    reasons: tuple[Finding, ...]
    """Reasons that concern the whole group; runs have their own."""
    windows: tuple[str, ...] = ()
    """Windows of runs that no benchmark names, each once; the release before divided groups by it.
    """
    range: IterationRange | None = None
    """Range of its series; None if it has none as yet, or if a benchmark names the window."""
    iterations: tuple[int, int] | None = None
    """Fewest and most measured iterations of the counted runs, else of all; None without any."""
    parameters: int | None = None
    """Parameters of the model as the runs report them, else the catalog's."""
    gmac: float | None = None
    """10⁹ multiply-accumulates of a sample's forward pass, by the catalog.

    None if the runs report another number of parameters than the catalog.
    """
    precision_effective: str | None = None
    driver: str | None = None
    """Version of the GPU driver; None if the runs do not report it."""
    nodes: tuple[str, ...] = ()
    """Names of the nodes of the counted runs; empty if unknown, or more than :data:`MOST_NODES`."""
    arithmetic: Arithmetic | None = None
    """Types in which operations are computed; None unless all runs agree."""
    device: str | None = None
    by_rule: dict[str, str] = {}
    """Choices of the benchmark's own rule: its loss ``head``, its ``norm`` layer."""
    data_md5: str | None = None
    """MD5 of the data's archive, as the logs state it; None unless all runs agree."""
    data_name: str | None = None
    """Name of the data set in the logs; None unless all runs agree."""
    program_version: str | None = None
    """Version of another program, as the logs state it; None unless all runs agree."""
    layout: str | None = None
    """Memory layout, ``NHWC`` or ``NCHW``; None unless all runs agree."""
    tokens_per_sample: int | None = None
    """Tokens of one unit of the throughput, 1 of a rate in tokens.

    None unless all counted runs state the same.
    """
    by_estimator: dict[str, float] = {}
    """Median of the counted runs by each estimator that all of them have."""
    accuracy: AccuracyResult | None = None
    """Result of the counted run with the middle best evaluation."""
    time_to_train_s: float | None = None
    """Median seconds to the target; None unless a majority reached it."""
    runs_at_target: int | None = None
    """Counted runs that reached the target; None without evaluations."""
    ended_by: str | None = None
    """``target`` or ``length``; both, where the counted runs differ. None if not stated."""
    training: TrainingOfGroup | None = None
    """None unless the counted runs train to an accuracy."""
    gpu_hours: float | None = None
    """GPU hours of all ended runs, counted or not."""
    queued_s: float | None = None
    """Median seconds in queues of the runs that waited; part of no other figure."""
    data_fraction: float | None = None
    """Median share of step time spent waiting for data, of the counted runs."""
    gpu: dict[str, float] = {}
    """Median of each of :data:`.ROW_FIGURES` over the counted runs.

    Of the used memory, the maximum.
    """
    judgements: tuple[Note, ...] = ()
    """Limits that the GPU metrics of the counted runs show, without repeats."""
    missing: dict[str, Note] = {}
    """Name of each figure above that is None → why."""

    def __post_init__(self) -> None:
        """Take the facts of a plan that 0.5 wrote for runs which nobody planned."""
        take_facts(self)

    @property
    def facts(self) -> Facts:
        """Known facts about its case."""
        return known_facts(self.planned, self.known)

    @property
    def row(self) -> GroupRow:
        """The part of the group that a series of sets needs."""
        key = self.key
        formers = [key.former(window) for window in self.windows or (key.window,)]
        formers = [former for former in formers if former != key]
        progress = [member.progress for member in self.members if member.progress is not None]
        own = self.spread
        own_deviation = None if own is None else own.cv
        in_range = [] if self.range is None else self.rates_over(self.range)
        return GroupRow(
            set_name=key.set_name,
            group_id=key.id,
            series=key.series,
            benchmark=key.benchmark,
            framework=key.framework,
            precision=key.precision,
            case=key.case,
            gpus=self.facts.world_size,
            gpu_model=key.gpu_model,
            estimator=self.estimator,
            began=self.began[0],
            ended=self.began[1],
            latest=self.latest,
            counted=self.counted,
            median=None if own is None else own.median,
            deviation=_deviation(in_range) if in_range else own_deviation,
            state=self.state,
            in_progress=self.in_progress,
            measures="smoke" if self.smoke else "cpu" if self.on_cpu else "speed",
            rejects=",".join(self.ids("reject")),
            former_id=",".join(former.id for former in formers),
            former_series=",".join(former.series for former in formers),
            warmup=max((one.warmup for one in progress), default=None),
            reaches=statistics.median_low(one.end for one in progress) if progress else None,
            range="" if self.range is None else self.range.text,
            in_range=statistics.median(in_range) if in_range else None,
        )

    def rates_over(self, over: IterationRange) -> list[float]:
        """Return the rates of the counted runs over a range; without runs that are not judged."""
        rates = (
            member.progress.rate_over(over, member.rate)
            for member in self.members
            if member.progress is not None and member.rate is not None
        )
        return [rate for rate in rates if rate is not None]

    @property
    def window(self) -> str | None:
        """Warm-up and measured iterations, ``20+80`` or ``20+80–700``.

        As planned for runs of k8sbench; nobody planned imported ones. None if none counts.
        """
        if self.planned is not None:
            return self.key.window
        if self.iterations is None:
            return None
        return f"{self.facts.warmup}+{'–'.join(map(str, dict.fromkeys(self.iterations)))}"

    @property
    def program(self) -> str | None:
        """Digest of the trainers' sources or of the command; None for imported runs."""
        return None if self.planned is None else self.key.program

    @property
    def counted(self) -> int:
        """Number of runs behind the figures."""
        return sum(member.rate is not None for member in self.members)

    @property
    def latest(self) -> float:
        """Creation of the newest run, Unix seconds."""
        return max(member.created_at for member in self.members)

    @property
    def state(self) -> str:
        """State of the group.

        ``valid``, ``unsteady-runs`` (the runs are far apart, and it is unclear which are right),
        ``running``, ``rejected`` (measured, but nothing counts), ``cancelled`` (all runs were),
        ``out-of-memory`` (all runs lacked GPU memory) or ``failed``.
        """
        if self.spread is not None:
            is_unsteady = any(reason.id == UNSTEADY for reason in self.reasons)
            return UNSTEADY if is_unsteady else "valid"
        if self.in_progress:
            return "running"
        if any(member.verdict is not None for member in self.members):
            return "rejected"
        endings = {"run-cancelled": "cancelled", OUT_OF_MEMORY: "out-of-memory"}
        alike = (
            state
            for reason, state in endings.items()
            if self._runs_with(reason) == len(self.members)
        )
        return next(alike, "failed")

    @property
    def in_progress(self) -> int:
        """Number of runs that have not ended."""
        return self._runs_with("run-in-progress")

    def _runs_with(self, reason: str) -> int:
        return sum(any(finding.id == reason for finding in run.reasons) for run in self.members)

    @property
    def smoke(self) -> bool:
        """True if this was a functional test, not a speed measurement."""
        return self.facts.preset == "smoke"

    @property
    def on_cpu(self) -> bool:
        """True if no GPU was measured."""
        return "cpu" in (self.facts.device, self.device)

    @property
    def hardware(self) -> Hardware:
        """Hardware that the runs ran on: of local replicas one machine."""
        facts = self.facts
        machines = None if facts.is_packed else facts.replicas
        machines = 1 if facts.backend == "local" else machines
        processes = facts.world_size
        if self.on_cpu:
            return Hardware(machines, None, None, processes)
        each = machines and processes and processes // machines
        return Hardware(machines, processes, each, None)

    def ids(self, kind: str) -> tuple[str, ...]:
        """Return the sorted ids of one kind, of the group and its members.

        The kinds are the severities, and ``accepted`` for those that ``--accept`` overruled.
        """
        every = [*self.reasons, *(r for member in self.members for r in member.reasons)]
        return tuple(sorted({reason.id for reason in every if reason.kind == kind}))


def _deviation(rates: Sequence[float]) -> float | None:
    """Return the coefficient of variation; None for one rate."""
    return statistics.stdev(rates) / statistics.fmean(rates) if len(rates) > 1 else None


class GroupList(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of all groups of an operator's store, and the names of its runs."""

    columns: tuple[str, ...] = GroupRow._fields
    """Names of a row's values."""
    rows: Sequence[GroupRow]
    created: Mapping[str, Mapping[str, float]]
    """Set → run id → creation of the run, Unix seconds."""
    accepted: Sequence[AcceptedLevel] = ()
    """Accepted levels of cases."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A derived figure, or the reason why it is missing, and notes."""

    value: float | None
    reason: Note | None = None
    """Reason for a missing value, else None."""
    notes: tuple[Note, ...] = ()


class Deviation(msgspec.Struct, frozen=True, kw_only=True):
    """One published figure beside ours."""

    source: str
    """Key of the source in the catalog."""
    title: str
    """Title of the source."""
    quantity: Literal["throughput", "time_to_train", "accuracy"] = "throughput"
    """Kind of figure: samples/s, seconds to the target, or percent."""
    case: str
    """Case of the published figure."""
    precision: str
    """Precision of the published figure."""
    batch_size: int
    """Batch per GPU of the published figure."""
    gpu_model: str
    """GPU model of the published figure."""
    published: float
    """The published figure."""
    same_version: bool = False
    """True if the runs' logs state the version of the program that the source's own logs state."""
    estimator: str
    """Estimator of the published figure; a ratio needs ours to be equal.

    For a time to train ``Time2Train``, for an accuracy its metric.
    """
    ours: float | None
    """By that estimator; None where we have none."""
    corrected: float | None = None
    """Figure by the report's own logs, if the published one contradicts them."""
    ratio: float | None
    """ours ÷ published (or ÷ corrected) − 1; None unless everything matches."""
    ratios: tuple[float, float] | None = None
    """Range of the ratio over all averaging rules.

    Present if the published rule is unknown and nothing else differs.
    """
    not_comparable: tuple[str, ...] = ()
    """Ids of the differences that forbid a ratio."""
    notes: tuple[Note, ...] = ()
    """Allowed differences: ``impl k8sbench``, ``data synthetic``."""
    remark: str | None = None
    """The catalog's note on the published figure; None without one."""

    @property
    def theirs(self) -> float:
        """The corrected figure, or the published one."""
        return self.corrected or self.published


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a case over its sets: one that is open, else one that the set itself shows.

    Or ``back``: the set before differed once.
    """

    kind: Kind
    since: str
    """Name of the set that it begins with; of ``back``, the set before."""
    ratio: float
    """Level from there on ÷ that before − 1."""
    of_set: float | None = None
    """Change upwards that the set itself shows within an open one; None without it."""
    until: str | None = None
    """Name of the last set of a drift; None of other kinds, and of one that an older set showed."""
    together: int = 0
    """Number of cases that share it; 0 if the case alone shows it, or an older set showed it."""


class Newer(msgspec.Struct, frozen=True, kw_only=True):
    """A newer set than the row's, without a figure."""

    set_name: str
    state: str
    """State, see :attr:`Group.state`."""


class MissingIn(msgspec.Struct, frozen=True, kw_only=True):
    """Newer sets that lack the case of a row, see :mod:`k8sbench.results.groups.missing`."""

    since: str
    """The oldest of them."""
    set_name: str
    """The newest of them."""
    sets: int
    """Number of them."""
    behind_s: float
    """Seconds between the row's set and the newest of them."""
    gone: bool = False
    """True if the case is not measured any more."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A group and its figures against others: one row of the tables."""

    group: Group
    speedup: Figure
    efficiency: Figure
    published_speedups: dict[str, dict[int, float]] = {}
    """Source → GPUs → published speedup of this program, precision and batch."""
    baseline: str | None
    """Id of the 1x1 group that the speedup refers to."""
    fastest_batch_size: int | float | None = None
    """Batch size of its sweep's fastest row; None without one."""
    tflops_per_gpu: Figure
    peak_share: Figure
    """tflops_per_gpu ÷ the GPU's peak in the effective precision."""
    changed: Changed | None = None
    """Change that is open with this set, or that it shows; None without one."""
    alternating: Alternation | None = None
    """Two levels between which its case alternates; None if it does not."""
    missing_in: MissingIn | None = None
    """Newer sets that lack its case; None if none does."""
    behind_s: float | None = None
    """Seconds by which its set is older than the newest one shown; None if of the same night."""
    newer: Newer | None = None
    """Newest set of the case if newer than the row's, else None."""
    deviations: tuple[Deviation, ...] | None = None
    """Published figures with deviations; None if not requested."""
    deviations_reason: Note | None = None
    """Reason why no published figure can be compared."""


class Parity(msgspec.Struct, frozen=True, kw_only=True):
    """Paddle and PyTorch on one case of one benchmark."""

    paddle: Group
    pytorch: Group
    ratio: float | None
    """Paddle ÷ PyTorch, by the median of the common estimator."""
    not_comparable: tuple[str, ...] = ()
    """Ids of the differences that forbid a ratio."""
    notes: tuple[Note, ...] = ()
