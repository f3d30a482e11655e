"""What is recorded of runs, as people ask for it: find one, list some, say what became of it.

A process that is killed cannot record its own end. Whoever reads the store therefore asks first,
for every local run that is not finished, whether the process that answers for it still runs: a
run whose process is gone is Lost, and says so (:func:`reconcile`). Clocks and processes come in as
arguments.
"""

from __future__ import annotations

import contextlib
import datetime
import difflib
from collections.abc import Callable, Mapping, Sequence

import msgspec

from k8sbench.model.errors import NotFound, StoreError, UsageError
from k8sbench.model.measurement import SCHEMA, Measurement, Reason
from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Owner, Run
from k8sbench.ports import JobEvent, RunFilter, Store

Alive = Callable[[Owner], bool | None]
"""Whether a process still runs; None where that cannot be known from here."""
OWNER_KILLED = "owner-killed"
FEW = 5
"""Names that an error lists before it says how many more there are."""


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run in ``list -o json``."""

    schema: int = SCHEMA
    run_id: str
    set_name: str
    repeat: int
    benchmark: str
    variant: str
    framework: str
    impl: str
    case: str
    precision: str
    preset: str
    backend: str
    phase: Phase
    cause: str
    """Of the present phase, one sentence."""
    cause_id: str | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    verdict: str | None
    reasons: tuple[str, ...]
    """Ids of the verdict's reasons."""
    group: str
    artifacts: str | None
    """Absolute path of the run's folder; null where its files are not here."""
    artifacts_missing: str | None
    """Why there is no folder here; null where there is one."""
    on_cluster: Phase | None = None
    """What the cluster says now of a job that nobody follows; null where that was not asked."""
    recorded: bool = True
    """False: the store has no record of it, the cluster alone knows it."""


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """How a run's job is on the cluster at this moment, whether anybody follows it or not."""

    at: float
    phase: Phase
    cause: str
    cause_id: str | None
    action: str | None
    hopeless: bool
    replicas: tuple[ReplicaState, ...]


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One run in ``status -o json``."""

    schema: int = SCHEMA
    run_id: str
    phase: Phase
    cause: str
    cause_id: str | None
    action: str | None
    hopeless: bool
    created_at: float
    started_at: float | None
    ended_at: float | None
    owner: Owner | None
    owner_alive: bool | None
    history: tuple[Transition, ...]
    group: str
    case_key: str
    plan: RunPlan
    measurement: Measurement | None
    artifacts: str | None
    """Absolute path of the run's folder; null where its files are not here."""
    artifacts_missing: str | None
    """Why there is no folder here; null where there is one."""
    log_files: tuple[str, ...]
    location: Location | None
    image_digest: str | None
    on_cluster: ClusterState | None
    recorded: bool = True
    """False: the store has no record of it, the cluster alone knows it."""


def reconcile(store: Store, *, alive: Alive, now: float) -> dict[str, Run]:
    """Bring runs up to date whose process is gone; returns those that changed, by id.

    Runs of a cluster go on without us, and processes of other machines cannot be seen from here:
    both are left alone. A store that can only be read stays as it is; what is returned says what
    would stand in it.
    """
    changed: dict[str, Run] = {}
    for run in store.runs(RunFilter(unfinished=True)):
        owner = run.owner if run.plan.backend == "local" else None
        if owner is not None and alive(owner) is False:
            changed[run.run_id] = _closed(store, run, now=now)
    return changed


def _closed(store: Store, run: Run, *, now: float) -> Run:
    try:
        # Only now that the process is gone is its folder final: it may have ended in good order
        # since the row was read, or been killed with its last word in the folder alone.
        run = store.caught_up(run.run_id)
        if run.phase.final:
            return run
        return store.move(run.run_id, lost(run, store.last_sign(run.run_id), now=now))
    except StoreError:
        if run.phase.final:
            return run
        transition = lost(run, store.last_sign(run.run_id), now=now)
        return msgspec.structs.replace(run, history=(*run.history, transition))


def lost(run: Run, last_sign: float | None, *, now: float) -> Transition:
    """Say what became of a run whose process is gone, and since when."""
    owner = run.owner
    assert owner is not None
    latest = run.history[-1]
    # Its end left no trace of its own: it came after the last thing that was written.
    at = min(max(latest.at, last_sign or latest.at), max(now, latest.at))
    rest = (
        "nothing of the run had reported yet."
        if latest.phase is Phase.CREATED
        else "its processes were ended with it; what it printed until then is kept, see:"
        f" k8sbench logs {run.run_id}"
    )
    cause = (
        f"k8sbench (pid {owner.pid} on {owner.host}) ended at {_clock(at)} or soon after, while the"
        f" run was {latest.phase}, without a last word (killed, the machine went down, or the disk"
        f" was full); {rest}"
    )
    return Transition(phase=Phase.LOST, at=at, cause=cause, cause_id=OWNER_KILLED)


def listing(store: Store, wanted: RunFilter, *, alive: Alive, now: float) -> list[Run]:
    """The runs that match, oldest first, as they are now."""
    changed = reconcile(store, alive=alive, now=now)
    return [changed.get(run.run_id, run) for run in store.runs(wanted)]


def find(store: Store, text: str, *, alive: Alive, now: float) -> Run:
    """The run of an id or of a unique beginning of one, as it is now."""
    run_id = resolve(store.ids(), text)
    changed = reconcile(store, alive=alive, now=now)
    return changed.get(run_id) or store.run(run_id)


def resolve(ids: Sequence[str], text: str) -> str:
    """The id that ``text`` is, or the only one that begins with it."""
    if text in ids:
        return text
    fitting = [run_id for run_id in ids if text and run_id.startswith(text)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        shown = ", ".join(fitting[-FEW:])
        more = f" and {len(fitting) - FEW} more" if len(fitting) > FEW else ""
        raise UsageError(f"{len(fitting)} runs begin with {text!r}: {shown}{more}.", "Give more.")
    if not ids:
        raise NotFound(f"There is no run {text!r}: the store is empty.", "See: k8sbench submit -h")
    near = difflib.get_close_matches(text, ids, n=3, cutoff=0.5) or list(ids[-3:])
    raise NotFound(f"There is no run {text!r}.", f"Nearest: {', '.join(near)}.")


def listed(run: Run) -> ListedRun:
    """Take from a run what a list shows."""
    plan, latest, measured = run.plan, run.history[-1], run.measurement
    return ListedRun(
        run_id=run.run_id,
        set_name=plan.set_name,
        repeat=plan.repeat,
        benchmark=plan.benchmark,
        variant=plan.variant,
        framework=plan.framework,
        impl=plan.impl,
        case=plan.case,
        precision=plan.precision,
        preset=plan.preset,
        backend=plan.backend,
        phase=run.phase,
        cause=latest.cause,
        cause_id=latest.cause_id,
        created_at=run.created_at,
        started_at=started_at(run),
        ended_at=run.ended_at,
        verdict=None if measured is None else measured.verdict,
        reasons=() if measured is None else tuple(reason.id for reason in measured.reasons),
        group=run.group_key.id,
        artifacts=run.artifacts,
        artifacts_missing=run.artifacts_missing,
    )


def on_cluster(events: Sequence[JobEvent], now: float) -> ClusterState | None:
    """Make a job's present state of what :meth:`~k8sbench.ports.Cluster.look` said of it."""
    for event in events:
        if (step := event.transition) is not None:
            return ClusterState(
                at=now,
                phase=step.phase,
                cause=step.cause,
                cause_id=step.cause_id,
                action=step.action,
                hopeless=step.hopeless,
                replicas=tuple(one.replica for one in events if one.replica is not None),
            )
    return None


def status(
    store: Store,
    run: Run,
    *,
    alive: Alive,
    on_cluster: ClusterState | None = None,
    recorded: bool = True,
) -> RunStatus:
    """Say everything that is known of a run, and how its job is now if that was asked."""
    latest = run.history[-1]
    log_files: tuple[str, ...] = ()
    if recorded:
        # They may lie on another machine.
        with contextlib.suppress(StoreError):
            log_files = tuple(str(path) for path in store.log_files(run.run_id))
    return RunStatus(
        run_id=run.run_id,
        phase=run.phase,
        cause=latest.cause,
        cause_id=latest.cause_id,
        action=latest.action,
        hopeless=latest.hopeless,
        created_at=run.created_at,
        started_at=started_at(run),
        ended_at=run.ended_at,
        owner=run.owner,
        owner_alive=None if run.owner is None else alive(run.owner),
        history=run.history,
        group=run.group_key.id,
        case_key=run.case_key,
        plan=run.plan,
        measurement=run.measurement,
        artifacts=run.artifacts,
        artifacts_missing=run.artifacts_missing,
        log_files=log_files,
        location=run.location,
        image_digest=run.image_digest,
        on_cluster=on_cluster,
        recorded=recorded,
    )


def is_unmeasured(run: Run) -> bool:
    """Whether a run has succeeded and still owes its measurement."""
    return run.phase is Phase.SUCCEEDED and run.measurement is None


def started_at(run: Run) -> float | None:
    """When the run was first Running, Unix seconds."""
    return next((step.at for step in run.history if step.phase is Phase.RUNNING), None)


def counted(reasons: Sequence[Reason]) -> Mapping[str, int]:
    """Count the reasons of a verdict by severity, those that were accepted apart."""
    counts: dict[str, int] = {}
    for reason in reasons:
        kind = "accepted" if reason.accepted else reason.severity
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def _clock(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
