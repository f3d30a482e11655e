"""What a run needs of the outside, who is told of it, and how it is asked to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from k8sbench.model.measurement import Measurement
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Owner, Run
from k8sbench.model.sample import LogGap
from k8sbench.ports import Clock, Cluster, JobEvent, Manifest, Store
from k8sbench.runs.records import Alive


class Reporter(Protocol):
    """Who is told what happens while it happens. Several runs may go on at once."""

    def planned(self, run: Run) -> None:
        """The run is recorded and about to start, or was found and is taken up."""

    def happened(self, run: Run, event: JobEvent) -> None:
        """The job's state changed, a replica's did, or a line was printed."""

    def ended(self, run: Run) -> None:
        """The run is final, and measured if it succeeded."""

    def note(self, text: str) -> None:
        """Something about the whole."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One case to run, still without an identity."""

    plan: Callable[[str, str, int], RunPlan]
    """(run id, set name, repeat) → plan."""
    manifests: Callable[[RunPlan], tuple[Manifest, ...]]
    text: Callable[[Sequence[Manifest]], str]
    """Manifests → the YAML that is kept with the run."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What a run needs of the outside."""

    store: Store
    cluster: Cluster
    clock: Clock
    owner: Owner | None
    """The process that local runs live and die with; None on a cluster."""
    alive: Alive
    draw_run_id: Callable[[str], str]
    """Benchmark name → a new run id."""
    measure: Callable[[Run, Sequence[LogGap]], Measurement]
    """Measure a finished run from its archived logs."""
    location: Location | None = None
    """Where on a cluster new jobs go."""


class Stop:
    """The user's or the system's wish that everything end; may be set from a signal handler."""

    def __init__(self) -> None:
        self.cause: str | None = None

    def __call__(self, cause: str) -> None:
        """Ask for the end; returns at once, and again does nothing."""
        self.cause = self.cause or cause
