"""Recorded runs as commands show them: find one, list some, describe one."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from k8sbench.lifecycle.lost_runs import Alive
from k8sbench.model.errors import NotFound, StoreError, UsageError, did_you_mean, few
from k8sbench.model.measurement import SCHEMA, Measurement
from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Owner, Run, Wish
from k8sbench.ports import JobEvent, Store

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
    """Origin of the record: ``here``, ``collector`` or ``imported``.

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
    owner: Owner | None
    """The process that owns a local run; None for a run on a cluster."""
    owner_alive: bool | None
    """True if the owner process is alive.

    It is None if there is no owner, or if this machine cannot tell.
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


def check_set(name: str, sets: Sequence[str]) -> None:
    """Reject a set that is not among those that there are, the latest first."""
    sets = list(dict.fromkeys(sets))
    if name not in sets:
        near = did_you_mean(name, sets) + f"Latest sets: {few(sets)}."
        raise NotFound(f"There is no set {name!r}.", near if sets else "The store is empty.")


def resolve(
    ids: Sequence[str], text: str, *, other_ids: Sequence[str] = (), where: str = "in the store"
) -> str:
    """The id that ``text`` is, or the only one that begins with it.

    ``other_ids`` and ``where`` are for the error: ids that were searched before, and the places.
    """
    if text in ids:
        return text
    fitting = [run_id for run_id in ids if text and run_id.startswith(text)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        shown = few(fitting[::-1])
        raise UsageError(
            f"{len(fitting)} runs begin with {text!r}: {shown}.", "Type more of the id."
        )
    known = [*other_ids, *ids]
    near = difflib.get_close_matches(text, known, n=3)
    way = "k8sbench list shows the runs." if known else "There are no runs; see: k8sbench submit -h"
    raise NotFound(
        f"There is no run {text!r} {where}.", f"Nearest: {', '.join(near)}." if near else way
    )


def listed(run: Run, **given: Any) -> ListedRun:
    """Make the entry of a list from a run.

    ``given`` are fields that the run does not tell.
    """
    measured = run.measurement
    figure = None if measured is None else measured.throughput
    return _built(
        ListedRun,
        *(run, run.plan),
        verdict=None if measured is None else measured.verdict,
        reasons=() if measured is None else tuple(reason.id for reason in measured.reasons),
        throughput=None if measured is None else measured.rate,
        unit=None if figure is None else figure.unit,
        **given,
    )


def on_cluster(events: Sequence[JobEvent], now: float) -> ClusterState | None:
    """Make a job's present state of the events of :meth:`~k8sbench.ports.Cluster.look`."""
    replicas = tuple(event.replica for event in events if event.replica is not None)
    for event in events:
        if event.transition is not None:
            about = msgspec.structs.asdict(event.transition) | {"at": now}
            return ClusterState(**about, replicas=replicas)
    return None


def status(
    store: Store | None,
    run: Run,
    *,
    alive: Alive = lambda _: None,
    on_cluster: ClusterState | None = None,
    recorded: bool = True,
) -> RunStatus:
    """Build the status of a run, with its job's queried state.

    ``store`` is None for a run of another store.
    """
    log_files: tuple[str, ...] = ()
    if store is not None and recorded:
        # They may be on another machine.
        with contextlib.suppress(StoreError):
            log_files = tuple(str(path) for path in store.log_files(run.run_id))
    return _built(
        RunStatus,
        run,
        owner_alive=None if run.owner is None else alive(run.owner),
        log_files=log_files,
        on_cluster=on_cluster,
        recorded=recorded,
    )


def _built(kind: type[T], run: Run, *sources: object, **given: Any) -> T:
    """Build a view from given values, else from attributes of the same names."""
    values: dict[str, Any] = {
        "schema": SCHEMA,
        "started_at": started_at(run),
        "group": run.group_key.id,
        "source": run.shown_source,
        **given,
    }
    for name in kind.__struct_fields__:
        for source in (run, *sources, run.history[-1]):
            if name not in values and hasattr(source, name):
                values[name] = getattr(source, name)
    return kind(**values)


def started_at(run: Run) -> float | None:
    """Return when the run was first Running, Unix seconds."""
    return next((step.at for step in run.history if step.phase is Phase.RUNNING), None)
