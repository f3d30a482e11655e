"""Context, rules, stop requests and outcomes of runs; local runs whose process is gone."""

from __future__ import annotations

import contextlib
import enum
import math
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from k8sbench.model.errors import StoreError
from k8sbench.model.kube import JobIdentity
from k8sbench.model.measurement import Measurement
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import with_identity
from k8sbench.model.run import Location, Process, Run
from k8sbench.model.sample import LogGap
from k8sbench.ports import Clock, Cluster, JobEvent, Manifest, MetricSource, RunFilter, Store
from k8sbench.threads import Inline, Threads

Note = Callable[[str], None]
"""Takes what the user should know and is not the data."""
Alive = Callable[[Process], bool | None]
"""Checks if a process still runs; returns None if unknown here."""
Agree = Callable[[str], bool]
"""Shows a text to the user, and asks for agreement."""


class Reporter(Protocol):
    """Receives events of runs as they happen, of several runs at once."""

    def plan(self, plan: RunPlan) -> None:
        """Report a planned case; nothing is recorded yet."""

    def planned(self, run: Run) -> None:
        """Report a run that is recorded and about to start, or resumed."""

    def on_event(self, run: Run, event: JobEvent) -> None:
        """Report a state of the job or a replica, or a line."""

    def ended(self, run: Run) -> None:
        """Report a final run, measured if it succeeded."""

    def note(self, text: str) -> None:
        """Show a message that concerns no single run's state."""


class SweepReporter(Reporter, Protocol):
    """A reporter that also receives the extent of a sweep."""

    def expect(self, plans: Sequence[RunPlan], finished: Sequence[Run], parallel: int) -> None:
        """Announce the planned and the finished runs of a sweep.

        ``plans`` has one plan for each run to come; ``finished`` are the runs that the set has
        already.
        """


class PlannedCase(msgspec.Struct, frozen=True, kw_only=True):
    """One case to run: its plan and how to render it.

    Each run replaces the placeholders for its identity.
    """

    draft: RunPlan
    """Complete plan, with placeholders for run id, set and repeat."""
    repeats: int = 1
    """Number of runs of the case."""
    manifests: Callable[[RunPlan], tuple[Manifest, ...]]
    """Renders a plan, to be shown or checked."""
    benchmark_file: str = ""
    """Text of the user's benchmark file; empty for a built-in benchmark."""
    joins: str | None = None
    """Id of an existing run to join; None: a new run."""

    def plan(self, run_id: str, set_name: str, repeat: int = 1) -> RunPlan:
        """Return the plan of one run of this case."""
        return with_identity(self.draft, run_id=run_id, set_name=set_name, repeat=repeat)

    def on_node(self, node: str) -> PlannedCase:
        """Return the same case, pinned to a node."""
        return msgspec.structs.replace(self, draft=msgspec.structs.replace(self.draft, node=node))

    def for_object(self, uid: str) -> PlannedCase:
        """Return the same case, as a Benchmark object's."""
        draft = msgspec.structs.replace(self.draft, requested_by=uid)
        return msgspec.structs.replace(self, draft=draft)

    def like(self, existing: RunPlan) -> RunPlan:
        """Return the plan of this case with the identity of an existing run."""
        return self.plan(existing.run_id, existing.set_name, existing.repeat)


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything outside the life of a run: store, cluster, clock and callbacks."""

    store: Store
    cluster: Cluster
    clock: Clock
    process: Process | None
    """The process that local runs live and die with; None on a cluster."""
    alive: Alive
    draw_run_id: Callable[[str], str]
    """Benchmark name → a new run id."""
    measure: Callable[[Run, Sequence[LogGap]], Measurement | None]
    """Measures a finished run from its archived logs, given their gaps.

    Returns None if the run failed before its last planned iteration.
    """
    objects: Callable[[Run, JobIdentity], Sequence[Manifest]]
    """Renders the objects of a run's attempt, and keeps them with its record.

    Raises :class:`~k8sbench.model.errors.BenchError` if they cannot be rendered or kept here.
    """
    pool: Threads
    """Makes the requests that may take long."""
    measures: Threads = msgspec.field(default_factory=Inline)
    """Makes the calls of ``measure``."""
    location: Location | None = None
    """Cluster and namespace of new jobs; None for local runs."""
    deadline_s: float | None = None
    """Seconds from a job's time limit to the cluster's own.

    None: the cluster has no limit of its own.
    """
    metric_sources: Sequence[MetricSource] = ()
    """Sources of the runs' GPU metrics."""
    accept: Sequence[str] = ()
    """Ids of reasons that do not reject."""


class Until(enum.Enum):
    """Point up to which runs are followed."""

    OVER = "over"
    """Until they are measured, and their jobs deleted."""
    CREATED = "created"
    """Until their jobs exist."""
    LOOKED_AT = "looked at"
    """As ``OVER``, without waiting for missing jobs or further attempts."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for all runs of one executor."""

    keep: bool = False
    """Keep jobs and pods on the cluster after their end, or their time limit."""
    wait: bool = False
    """Wait even for jobs that cannot start unless somebody changes something."""
    until: Until = Until.OVER
    parallel: float = math.inf
    """Most concurrent runs."""
    passes_over: bool = False
    """True if other runs go on when one's files fail.

    False: the error is raised.
    """
    only_cancels: bool = False
    """True if a cancellation that the cluster rejects is an error, not a note."""


class How(enum.Enum):
    """Way in which this process finished with a run."""

    CLOSED = "closed"
    """Final, measured and deleted; or its logs cannot be read now."""
    CREATED = "created"
    """The job exists; the run is not followed further."""
    LEFT = "left"
    """The run continues, or its end is unknown; it is not followed."""
    REFUSED = "refused"
    """Its job was not created, or not for certain."""
    OVER_BEFORE = "over-before"
    """It was final when it was found."""
    FOLLOWED_ELSEWHERE = "followed-elsewhere"
    """Another process follows it."""
    PASSED_OVER = "passed-over"
    """Its files cannot be read or written."""


class Outcome(msgspec.Struct, frozen=True):
    """One run, and how this process finished with it."""

    run: Run
    how: How
    error: BaseException | None = None
    """Reason why the job was refused, or the run passed over; else None."""


MANIFEST = "manifest.yaml"
"""Artifact of a run: the objects of its latest attempt, as they were created."""
BENCHMARK = "benchmark.yaml"
"""Artifact of a run: the user's benchmark file at submit."""
INTERRUPTED = "interrupted"
"""Cause id of runs that a user or the system interrupted."""


class Stop:
    """A request to stop, from the user or the system.

    Active inside its ``with`` block. A subclass connects it to a source of requests, such as
    signals.
    """

    def __init__(self) -> None:
        self.cause: str | None = None

    def __call__(self, cause: str) -> None:
        """Ask for the end; returns at once, and again does nothing."""
        self.cause = self.cause or cause

    def __enter__(self) -> Stop:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def mark_lost_runs(store: Store, *, alive: Alive, now: float) -> dict[str, Run]:
    """Mark local runs as lost if their process is gone.

    A process that is killed cannot record its own end, so whoever reads the store checks first.
    Returns the changed runs by id. Runs on a cluster go on without their process, and processes of
    other machines cannot be checked from here, so neither is changed. In a read-only store nothing
    is recorded; the returned runs have the state that would be recorded.
    """
    changed: dict[str, Run] = {}
    for run in store.runs(RunFilter(unfinished=True)):
        process = run.process if run.plan.backend == "local" else None
        if process is not None and alive(process) is False:
            changed[run.run_id] = _lost(store, run, now=now)
    return changed


def _lost(store: Store, run: Run, *, now: float) -> Run:
    with contextlib.suppress(StoreError):
        # Only now that the process is gone is its folder final: it may have ended in good order
        # since the row was read, or been killed with its last word in the folder alone.
        run = store.run(run.run_id)
    if run.phase.final:
        return run
    end = run.lost(store.last_written_at(run.run_id), now=now)
    try:
        return store.move(run.run_id, end)
    except StoreError:
        return msgspec.structs.replace(run, history=(*run.history, end))
