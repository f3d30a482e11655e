"""Surroundings of the followed runs: their context, the reporter and the rules.

Events of the cluster go to the store first and to the user second.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from k8sbench.lifecycle.decide import Now
from k8sbench.model.group import Group
from k8sbench.model.kube import JobIdentity
from k8sbench.model.measurement import Measurement
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Process, Run
from k8sbench.model.sample import LogGap
from k8sbench.model.times import Clock
from k8sbench.ports.cluster import Cluster, JobEvent, Manifest
from k8sbench.ports.metrics import MetricSource
from k8sbench.store.interface import Store
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

    def expect(self, to_come: int, finished: int, parallel: int) -> None:
        """Announce the number of runs to come, and of finished ones."""


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything outside the life of a run: store, cluster, clock and callbacks."""

    store: Store
    cluster: Cluster
    clock: Clock
    process: Process | None
    """The process that local runs live and die with; None on a cluster."""
    alive: Alive
    measure: Callable[[Run, Sequence[LogGap]], Measurement | None]
    """Measures a finished run from its archived logs, given their gaps.

    Returns None if the run failed before its last planned iteration.
    """
    groups: Callable[[Sequence[Run]], Sequence[Group]]
    """Groups the repeats of each case, for the status of their Benchmark."""
    objects: Callable[[Run, JobIdentity], Sequence[Manifest]]
    """Renders the objects of a run's attempt, and keeps them with its record.

    Raises :class:`~k8sbench.model.errors.BenchError` if they cannot be rendered or kept here.
    """
    pool: Threads
    """Makes the requests that may take long."""
    monotonic: Callable[[], float] = time.monotonic
    """Seconds of a clock that nobody sets, for waits of this process."""
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

    def now(self) -> Now:
        """Return the time by both clocks."""
        return Now(self.clock(), self.monotonic())


class Until(enum.Enum):
    """Point up to which runs are followed."""

    OVER = "over"
    """Until they are measured, and their jobs deleted."""
    CREATED = "created"
    """Until their jobs exist."""
    LOOKED_AT = "looked at"
    """As ``OVER``, without waiting for further attempts."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for all runs of one executor."""

    keep: bool = False
    """Keep jobs and pods on the cluster after their end, or their time limit."""
    wait: bool = False
    """Wait even for jobs that cannot start unless somebody changes something."""
    until: Until = Until.OVER
    passes_over: bool = False
    """True if other runs go on when one's files fail.

    False: the error is raised.
    """
    serves: bool = False
    """True for an operator, which goes on for ever and records all runs of a Benchmark at once.

    It creates the jobs that are missing, and waits while it cannot plan, or the place of the jobs
    refuses them. False for a command: it records a run when its turn has come, and ends with the
    error.
    """
    only_cancels: bool = False
    """True if a cancellation that the cluster rejects is an error, not a note."""


RunScope = tuple[RunContext, Reporter, Rules]
"""The context, reporter and rules of an executor."""
