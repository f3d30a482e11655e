"""What callers of the life of a run give it and get from it: context, rules, stop, outcomes."""

from __future__ import annotations

import enum
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from k8sbench.lifecycle.lost_runs import Alive
from k8sbench.model.errors import BenchError, StoreError
from k8sbench.model.measurement import Measurement
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import with_identity
from k8sbench.model.run import Location, Owner, Run
from k8sbench.model.sample import LogGap
from k8sbench.ports import Clock, Cluster, JobEvent, Manifest, MetricSource, Store

T = TypeVar("T")
Agree = Callable[[str], bool]
"""Shows a text to the user, and asks for agreement."""


class Reporter(Protocol):
    """Is informed of what happens while it happens. Several runs may go on at once."""

    def plan(self, plan: RunPlan) -> None:
        """A case was planned; nothing is recorded yet."""

    def planned(self, run: Run) -> None:
        """The run is recorded and about to start, or exists and is resumed."""

    def on_event(self, run: Run, event: JobEvent) -> None:
        """The job's state changed, a replica's did, or a line was printed."""

    def ended(self, run: Run) -> None:
        """The run is final, and measured if it succeeded."""

    def note(self, text: str) -> None:
        """Something that concerns no single run's state."""


class SweepReporter(Reporter, Protocol):
    """Is told before the first of several runs what is to come."""

    def expect(self, plans: Sequence[RunPlan], finished: Sequence[Run], parallel: int) -> None:
        """So many runs are to come, a plan for each, beside those that their set has."""


class PlannedCase(msgspec.Struct, frozen=True, kw_only=True):
    """One case to run: its plan and how to render it. Identities are put in run by run."""

    draft: RunPlan
    """The complete plan, with a placeholder for the run id, the set and the repeat."""
    repeats: int = 1
    """How many runs of it are wanted."""
    manifests: Callable[[RunPlan], tuple[Manifest, ...]]
    """The plan of a run → what is asked of the cluster."""
    text: Callable[[Sequence[Manifest]], str]
    """What is asked of the cluster → the YAML that is kept with the run."""
    benchmark_file: str = ""
    """The text of the user's file that describes it; empty of a built-in benchmark."""
    joins: str | None = None
    """Id of a run of it that exists and is taken up, instead of a new one."""

    def plan(self, run_id: str, set_name: str, repeat: int = 1) -> RunPlan:
        """Return the plan of one run of this case."""
        return with_identity(self.draft, run_id=run_id, set_name=set_name, repeat=repeat)


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """What runs need of the outside."""

    store: Store
    cluster: Cluster
    clock: Clock
    owner: Owner | None
    """The process that local runs live and die with; None on a cluster."""
    alive: Alive
    draw_run_id: Callable[[str], str]
    """Benchmark name → a new run id."""
    measure: Callable[[Run, Sequence[LogGap]], Measurement | None]
    """Measure a finished run from its archived logs, of which the gaps are missing; None: it failed
    before its last planned iteration."""
    manifests: Callable[[Run], Sequence[Manifest]]
    """A run that exists → what is asked of the cluster for it, which is kept in its folder; raises
    :class:`~k8sbench.model.errors.BenchError` where it cannot be made here."""
    pool: Threads
    """Makes the requests that may take long."""
    location: Location | None = None
    """Where on a cluster new jobs go."""
    deadline_s: float | None = None
    """How long after its time limit the cluster itself ends a job; None: it does not."""
    collected_elsewhere: Callable[[Run, Path], Run | None] | None = None
    """Run whose job is gone, and its folder → the collector's record of it, with its files in the
    folder; None if the collector has no such run. Raises
    :class:`~k8sbench.model.errors.BenchError` if that cannot be known yet. None: no collector."""
    for_collector: bool = False
    """True if new jobs belong to the namespace's collector."""
    metric_sources: Sequence[MetricSource] = ()
    """Where GPU metrics of the runs come from."""
    accept: Sequence[str] = ()
    """Ids of reasons that do not reject."""


class Until(enum.Enum):
    """How far runs are brought."""

    OVER = "over"
    """Until they are measured, and their jobs deleted."""
    CREATED = "created"
    """Until their jobs exist."""
    LOOKED_AT = "looked at"
    """As ``OVER`` if their jobs are over; neither a job that may still appear nor another attempt
    is waited for."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for all runs of one executor."""

    keep: bool = False
    """Keep jobs and pods on the cluster after their end, or their time limit."""
    wait: bool = False
    """Wait even for jobs that cannot start unless somebody changes something."""
    until: Until = Until.OVER
    parallel: float = math.inf
    """Most concurrent runs."""
    on_failure: Callable[[Run, StoreError], None] | None = None
    """Takes a run whose files cannot be read or written, so that the others go on; None: the error
    is raised."""
    on_refusal: Callable[[Run, BenchError], None] | None = None
    """Takes a run whose cancellation the cluster rejects, and which goes on; None: a note."""


class How(enum.Enum):
    """How this process finished with a run."""

    CLOSED = "closed"
    """Final, measured and deleted; or its logs cannot be read now."""
    CREATED = "created"
    """Its job exists; the run was to be brought no further."""
    LEFT = "left"
    """It goes on, or its end is not known; the run was to be brought no further."""
    REFUSED = "refused"
    """Its job was not created, or not for certain."""
    OVER_BEFORE = "over-before"
    """It was final when it was found."""
    FOLLOWED_ELSEWHERE = "followed-elsewhere"
    """Another process follows it."""


class Outcome(msgspec.Struct, frozen=True):
    """One run, and how this process finished with it."""

    run: Run
    how: How
    error: BaseException | None = None
    """Why its job was refused."""


MANIFEST = "manifest.yaml"
"""Artifact of a run: what is asked of the cluster."""
BENCHMARK = "benchmark.yaml"
"""Artifact of a run: the user's file that describes its benchmark, as it was then."""
INTERRUPTED = "interrupted"
"""Id of the cause of runs that end because the user or the system asked for it."""


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


# -- requests on other threads: an API server may take long, and others are followed --------------


class Threads:
    """Does calls beside the thread that follows runs; how many at a time its callers limit.

    Each on a thread that does not keep the program from ending.
    """

    def __init__(self) -> None:
        self._done = threading.Event()

    def start(self, call: Callable[[], T], name: str) -> Future[T]:
        """Start a thread that makes the call; returns at once."""
        future = in_thread(call, name)
        future.add_done_callback(lambda _: self._done.set())
        return future

    def wait(self, seconds: float) -> None:
        """Wait until a call is done, or so long."""
        self._done.wait(seconds)
        self._done.clear()

    def join(self, calls: Sequence[Future[Any]], seconds: float | None = None) -> None:
        """Wait until all of these calls are done, or so long."""
        wait(calls, seconds)


class Inline(Threads):
    """Makes each call at once: what starts processes must be the thread that they live with."""

    def start(self, call: Callable[[], T], name: str) -> Future[T]:  # noqa: ARG002
        """Make the call."""
        future: Future[T] = Future()
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)
        return future


def in_thread(call: Callable[[], T], name: str) -> Future[T]:
    """Make a call on a thread of its own that does not keep the program from ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
