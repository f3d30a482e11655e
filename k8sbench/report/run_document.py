"""Runs and baselines as data: list entries, and the status."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from k8sbench.model.measurement import SCHEMA, Measurement
from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Baseline, Location, Process, Run, Wish

T = TypeVar("T", bound="RunView")


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that commands print of any run."""

    schema: int = SCHEMA
    """Version of the document."""
    run_id: str
    """Id of the run, also the job's name.

    ``status``, ``logs`` and ``--run-id`` take it.
    """
    phase: Phase
    """The present state, one of the phases."""
    cause: str
    """Reason for the state, one sentence."""
    cause_id: str | None
    """Stable id of the cause, such as ``owner-killed`` or ``timeout``.

    It is None if the state needs no diagnosis.
    """
    created_at: float
    """Time of recording, Unix seconds."""
    started_at: float | None
    """First time in state Running, Unix seconds; None if never."""
    ended_at: float | None
    """Time of the final state, Unix seconds; None before that."""
    restarts: int = 0
    """Number of times the job was re-created, including a pending one."""
    group: str
    """Id of the group that the run belongs to, as in ``results -o json``."""
    artifacts: str | None
    """Absolute path of the run's folder; None if not on this machine."""
    artifacts_missing: str | None
    """Reason for a missing folder; None if it is here.

    Includes where the folder was last written, if known.
    """
    recorded: bool = True
    """False: the store has no record of it, the cluster alone knows it."""
    source: str = "here"
    """Origin of the record: ``here``, ``operator`` or ``imported``.

    An ``imported`` run is in this store, and was never run by it.
    """


class ListedRun(RunView, frozen=True, kw_only=True):
    """One run in ``list -o json``."""

    set_name: str
    """The set that the run belongs to."""
    repeat: int
    """From 1, within (set, case)."""
    benchmark: str
    """Name in the catalog, or in the user's file."""
    variant: str
    """Name of the benchmark's variant, one of its programs."""
    framework: str
    """``pytorch`` or ``paddle``."""
    impl: str
    """Origin of the program: ``k8sbench``, ``upstream``, ``user`` or ``unknown``.

    ``unknown`` occurs only for imported logs.
    """
    case: str
    """Replicas × GPUs per replica, ``4x8``; ``2x1-cpu`` without GPUs."""
    precision: str
    """As requested: ``fp32`` or ``amp``."""
    preset: str
    """``full``; ``smoke`` is a functional test, not a speed measurement."""
    backend: str
    """``local`` or ``kubernetes``; ``imported``: k8sbench did not run it."""
    verdict: str | None
    """``valid`` or ``rejected``, as in its group; None if it is not measured."""
    reasons: tuple[str, ...]
    """Ids of the verdict's reasons."""
    throughput: float | None = None
    """The run's figure, by its benchmark's estimator; None unless the verdict is ``valid``."""
    unit: str | None = None
    """Unit of ``throughput``, such as ``images/s``; None without a throughput."""
    on_cluster: Phase | None = None
    """Phase of the job on its cluster; None if not queried.

    Queried only for runs that no k8sbench process follows.
    """


class ClusterState(Transition, frozen=True, kw_only=True):
    """State of a run's job on the cluster at time ``at``."""

    replicas: tuple[ReplicaState, ...]
    """Rank 0's replica first."""


class RunStatus(RunView, frozen=True, kw_only=True):
    """One run in ``status -o json``."""

    action: str | None
    """Suggested action; None if there is nothing to do."""
    unrecoverable: bool
    """The run cannot start unless someone changes the cluster or the job."""
    process: Process | None = msgspec.field(name="owner")
    """Process that follows a local run; None for a run on a cluster."""
    process_alive: bool | None = msgspec.field(name="owner_alive")
    """True if that process is alive.

    It is None if there is no process, or if this machine cannot tell.
    """
    history: tuple[Transition, ...]
    """Every change of state, oldest first; the first is Created."""
    case_key: str
    """Key of the case within its set.

    Repeats of one case share it, other runs differ; see the list of fields.
    """
    plan: RunPlan
    """The case with all its parameters, fixed before it started."""
    measurement: Measurement | None
    """Its figures and verdict; None if it is not measured."""
    log_files: tuple[str, ...]
    """Paths of the logs, rank 0's replica first.

    Empty if there are none, or they are on another machine.
    """
    location: Location | None
    """Location of the job on a cluster; None for a local run."""
    image_digest: str | None
    """Digest of the image that its replicas ran; None where that is not known."""
    wishes: tuple[Wish, ...]
    """Pending requests to its cluster."""
    on_cluster: ClusterState | None
    """Current state of the job on its cluster.

    It is None for a finished or local run, and if the cluster did not answer.
    """


class BaselineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One baseline in ``baseline list -o json``."""

    schema: int = SCHEMA
    """Version of the document."""
    name: str
    """Name of the baseline, as ``compare`` takes it."""
    saved_at: float
    """Unix seconds."""
    of: tuple[str, ...]
    """Names of the runs, groups and sets given to ``baseline save``."""
    benchmarks: tuple[str, ...]
    """The benchmarks of its runs."""
    sets: tuple[str, ...]
    """The sets of its runs."""
    runs: int
    """Number of runs in the baseline."""
    source: str = "here"
    """Store of the baseline: ``here`` or ``operator``."""


def listed(run: Run, **given: Any) -> ListedRun:
    """Make the entry of a list from a run.

    ``given`` are fields that the run does not tell.
    """
    measured = run.measurement
    figure = None if measured is None else measured.throughput
    measurement = {
        "verdict": None if measured is None else measured.verdict,
        "reasons": () if measured is None else tuple(reason.id for reason in measured.reasons),
        "throughput": None if measured is None else measured.rate,
        "unit": None if figure is None else figure.unit,
    }
    return _built(ListedRun, run, **measurement, **given)


def status(
    run: Run,
    *,
    log_files: Iterable[str] = (),
    process_alive: bool | None = None,
    on_cluster: ClusterState | None = None,
    recorded: bool = True,
) -> RunStatus:
    """Build the status of a run, with its job's queried state."""
    return _built(
        RunStatus,
        run,
        log_files=tuple(log_files),
        process_alive=process_alive,
        on_cluster=on_cluster,
        recorded=recorded,
    )


def on_cluster(
    steps: Iterable[Transition], replicas: Iterable[ReplicaState], now: float
) -> ClusterState | None:
    """Make a job's present state of its reported steps."""
    for step in steps:
        about = msgspec.structs.asdict(step) | {"at": now}
        return ClusterState(**about, replicas=tuple(replicas))
    return None


def _built(kind: type[T], run: Run, **given: Any) -> T:
    """Build a view of given values and those on record."""
    values = {
        name: getattr(source, name)
        for source in (run.history[-1], run.plan, run)
        for name in kind.__struct_fields__
        if hasattr(source, name)
    }
    of_run = {"schema": SCHEMA, "group": run.group_key.id, "source": run.shown_source}
    return kind(**values | of_run | given)


def baseline_info(baseline: Baseline, source: str) -> BaselineInfo:
    """Describe a baseline by its runs."""
    plans = [run.plan for run in baseline.runs]
    return BaselineInfo(
        name=baseline.name,
        saved_at=baseline.saved_at,
        of=baseline.of,
        benchmarks=tuple(sorted({plan.benchmark for plan in plans})),
        sets=tuple(dict.fromkeys(plan.set_name for plan in plans)),
        runs=len(plans),
        source=source,
    )
