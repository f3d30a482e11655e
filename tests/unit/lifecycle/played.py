"""Fake cluster that plays given events, and a matching context."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.catalog.planning import make_plan
from k8sbench.lifecycle import collecting, serving
from k8sbench.lifecycle.collecting import CollectResult
from k8sbench.lifecycle.context import Reporter, RunContext
from k8sbench.lifecycle.gpu_metrics_fetcher import GpuMetricsFetcher
from k8sbench.lifecycle.outcome import Outcome
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.serving import Serving
from k8sbench.lifecycle.stop import Stop
from k8sbench.lifecycle.submitting import SubmittedBenchmark
from k8sbench.model.benchmark_object import Benchmark, ObjectSpec, StatusEvent
from k8sbench.model.errors import BenchError
from k8sbench.model.kube import ATTEMPT_LABEL, JobIdentity, JobOwner, Ownership
from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.model.plan import STORED, Backend, RunPlan
from k8sbench.model.replica_logs import LogLine, LogMark
from k8sbench.model.request import SubmitRequest
from k8sbench.model.run import Location, Run
from k8sbench.ports.cluster import FoundJob, JobEvent, Manifest
from k8sbench.results.groups import grouping
from k8sbench.store.interface import Store
from k8sbench.threads import Inline, Threads
from tests.unit.model.measurements import measurement
from tests.unit.model.specs import LAPTOP, a_request, loaded

LOCATION = Location(server="https://cluster.example:6443", namespace="bench")


def objects(_: Run, identity: JobIdentity) -> tuple[Manifest, ...]:
    """Make the job of a run's attempt."""
    metadata = {"labels": {ATTEMPT_LABEL: str(identity.attempt)}}
    return ({"kind": "Job", "metadata": metadata, "spec": {}},)


class AtOnce(Inline):
    """Runs each call immediately; never waits for events."""

    def wait(self, seconds: float) -> None:
        pass


class FakeCluster:
    """Plays the given script for every job.

    The script has events without a run id, or errors to raise. Each creation raises the next of
    ``refusals``; with None or no more of them the job is created. During a wait for an event,
    ``passes`` seconds pass, and ``meanwhile`` is called.
    """

    answers_late = False
    """True if requests run on threads and may wait for ``meanwhile``."""

    def __init__(
        self,
        *script: JobEvent | BaseException,
        outlives: bool = False,
        refusals: Sequence[BaseException | None] = (),
        now: float = 10.0,
        passes: float = 0.0,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        self.name = "kubernetes" if outlives else "local"
        self.jobs_outlive_us = outlives
        self.owner: JobOwner | None = None
        self.script = script
        self.refusals = list(refusals)
        self.now, self.passes, self.meanwhile = now, passes, meanwhile
        self.is_deaf = False
        """True if jobs ignore cancel requests."""
        self.denies: BaseException | None = None
        """Raised when a job is to be ended or deleted."""
        self.stays: str | None = None
        """Reason why a job is not deleted; None if it is."""
        self.going_on: dict[str, deque[JobEvent | BaseException]] = {}
        self.created: list[str] = []
        self.cancelled: list[tuple[str, str]] = []
        self.resumed: list[str] = []
        self.removed: list[str] = []
        self.released: list[str] = []
        self.found: list[FoundJob] = []

    def create(self, run: Run, manifests: Sequence[Manifest], folder: Path) -> None:
        wrong = self.refusals.pop(0) if self.refusals else None
        if wrong is not None:
            raise wrong
        self.created.append(run.run_id)
        self.going_on[run.run_id] = deque(self.script)

    def clear(self, run: Run) -> None:
        pass

    def resume(self, run: Run, marks: Mapping[str, LogMark]) -> None:
        self.resumed.append(run.run_id)
        self.going_on[run.run_id] = deque(self.script)

    def jobs(self, run_ids: Collection[str] | None = None) -> Sequence[FoundJob]:
        return [job for job in self.found if run_ids is None or job.run_id in run_ids]

    def look(self, run: Run) -> Sequence[JobEvent]:
        return ()

    def printed(self, run: Run) -> Iterator[LogLine]:
        return iter(())

    def wait(self, seconds: float | None) -> Sequence[JobEvent]:
        self.now += self.passes
        self.meanwhile()
        for run_id, events in list(self.going_on.items()):  # another thread may create one
            if events:
                event = events.popleft()
                if isinstance(event, BaseException):
                    raise event
                return [self._told(run_id, event)]
        return []

    def cancel(self, run_id: str, cause: str, cause_id: str, *, keep: bool = False) -> None:
        self.cancelled.append((cause, cause_id))
        if self.denies is not None:
            self.going_on[run_id].append(at(Phase.RUNNING, "It goes on."))
            raise self.denies
        if self.is_deaf:
            return
        self.going_on[run_id] = deque([at(Phase.CANCELLED, cause, cause_id)])

    def release(self, run_id: str) -> None:
        self.released.append(run_id)
        self.going_on.pop(run_id, None)

    def remove(
        self,
        run: Run,
        *,
        uid: str | None = None,
        force: bool = False,
    ) -> str | None:
        self.removed.append(run.run_id)
        if self.denies is not None:
            raise self.denies
        return self.stays

    def take_over(self, run_id: str, known: Ownership) -> bool:
        return True

    def close(self) -> None:
        pass

    def _told(self, run_id: str, event: JobEvent) -> JobEvent:
        if event.transition is not None and event.transition.phase.final:
            del self.going_on[run_id]
        return msgspec.structs.replace(event, run_id=run_id)


class Silent:
    """A reporter that keeps the order of what was reported to it."""

    def __init__(self) -> None:
        self.reported: list[str] = []

    def plan(self, plan: RunPlan) -> None:
        self.reported.append("plan")

    def planned(self, run: Run) -> None:
        self.reported.append("planned")

    def on_event(self, run: Run, event: JobEvent) -> None:
        if event.transition is not None:
            self.reported.append(event.transition.phase)

    def ended(self, run: Run) -> None:
        self.reported.append("ended")

    def note(self, text: str) -> None:
        self.reported.append(text)

    def expect(self, to_come: int, finished: int, parallel: int) -> None:
        pass


def at(phase: Phase, cause: str = "because", cause_id: str | None = None, **more: Any) -> JobEvent:
    transition = Transition(phase=phase, at=20.0, cause=cause, cause_id=cause_id, **more)
    return JobEvent(run_id="", transition=transition)


def line(text: str, replica: str = "master-0") -> JobEvent:
    return JobEvent(run_id="", line=LogLine(replica=replica, at=15.0, text=text))


def ran(image: str, replica: str = "master-0") -> JobEvent:
    state = ReplicaState(replica=replica, phase=Phase.RUNNING, image=image)
    return JobEvent(run_id="", replica=state)


def planned_case(backend: Backend = "local", **asked: Any) -> PlannedCase:
    draft = make_plan(loaded(), a_request(**asked), LAPTOP, trainers_digest="t")
    return PlannedCase(
        draft=msgspec.structs.replace(draft, backend=backend),
        manifests=lambda _: (),
    )


def context(store: Store, cluster: FakeCluster, **changes: Any) -> RunContext:
    here = RunContext(
        store=store,
        cluster=cluster,
        clock=lambda: cluster.now,
        monotonic=lambda: cluster.now,
        process=None,
        alive=lambda _: None,
        measure=lambda run, gaps: measurement(records=len(gaps)),
        groups=grouping.groups,
        objects=objects,
        pool=Threads() if cluster.answers_late else AtOnce(),
        location=LOCATION if cluster.jobs_outlive_us else None,
    )
    return msgspec.structs.replace(here, **changes)


def outcomes(
    store: Store,
    cluster: FakeCluster,
    *,
    planned: Sequence[PlannedCase] = (),
    cases: int = 1,
    stop: Stop | None = None,
    reporter: Silent | None = None,
    changes: Mapping[str, Any] = {},
    **asked: Any,
) -> list[Outcome]:
    """Submit cases, which are planned as it is asked unless they are given.

    ``changes`` are those of the context.
    """
    backend: Backend = "kubernetes" if cluster.jobs_outlive_us else "local"
    planned = planned or [planned_case(backend, **asked)] * cases
    wanted, here = a_request(**{"set_name": "night", **asked}), context(store, cluster, **changes)
    return submitted(planned, here, reporter or Silent(), stop or Stop(), wanted)


def submitted(
    cases: Sequence[PlannedCase],
    here: RunContext,
    reporter: Reporter,
    stop: Stop,
    wanted: SubmitRequest,
    gathering: GpuMetricsFetcher | None = None,
) -> list[Outcome]:
    """Reconcile the Benchmark of a submit."""
    objects = FakeObjects()
    names = ("parallel", "keep", "wait")
    uid = f"{STORED}{len(here.store.ids())}-{here.clock()}"
    objects.create(
        wanted.run_id or "seg",
        uid,
        set=wanted.joined_set,
        **{name: getattr(wanted, name) for name in names},
    )
    benchmark = objects.found[uid]
    before = here.store.ids()
    work = SubmittedBenchmark(
        benchmark, objects, cases, here, reporter, stop, wanted, before, gathering=gathering
    )
    return list(work.outcomes())


def submit(store: Store, cluster: FakeCluster, **asked: Any) -> list[Run]:
    return [one.run for one in outcomes(store, cluster, **asked)]


def detached(store: Store, cases: int = 1, **asked: Any) -> list[Run]:
    """Runs whose jobs go on, and that no process follows."""
    cluster = FakeCluster(outlives=True)
    runs = submit(store, cluster, cases=cases, detach=True, **asked)
    assert cluster.released == [run.run_id for run in runs]
    return runs


def collect(
    store: Store,
    cluster: FakeCluster,
    runs: list[Run] | None = None,
    *,
    follow: bool = False,
    stop: Stop | None = None,
    reporter: Silent | None = None,
    **changes: Any,
) -> CollectResult:
    """Collect these runs, or as ``collect --all`` does all that needs it."""
    here = context(store, cluster, **changes)
    found = collecting.open_runs(here) if runs is None else runs
    args = (found, here, reporter or Silent(), stop or Stop())
    return collecting.collect(*args, follow=follow)


class FakeObjects:
    """The objects of a namespace; statuses are merged as the API server does."""

    problem = ""

    def __init__(self) -> None:
        self.found: dict[str, Benchmark] = {}
        self.unreadable: set[str] = set()
        self.is_known = True
        self.refusal: BenchError | None = None
        """Raised when a status is written."""

    def create(self, name: str, uid: str = "", *, created_at: float = 5.0, **spec: Any) -> str:
        uid = uid or f"uid-{name}"
        wanted = ObjectSpec(benchmark="seg", **spec)
        self.found[uid] = Benchmark(
            name=name, uid=uid, generation=1, created_at=created_at, spec=wanted
        )
        return uid

    def change(self, uid: str, **spec: Any) -> None:
        was = self.found[uid]
        wanted = msgspec.structs.replace(was.spec, **spec)
        self.found[uid] = msgspec.structs.replace(was, spec=wanted, generation=was.generation + 1)

    def hold(self, uid: str) -> None:
        """Delete an object that a finalizer holds."""
        self.change(uid, cancel=True, keep=False)
        self.found[uid] = msgspec.structs.replace(self.found[uid], is_deleted=True)

    def current(self) -> Mapping[str, Benchmark | None] | None:
        found = {uid: None if uid in self.unreadable else one for uid, one in self.found.items()}
        return found if self.is_known else None

    def beside(self, is_live: Callable[[str], bool]) -> Sequence[Benchmark]:
        return ()

    def write(
        self, known: Benchmark, status: Mapping[str, Any], events: Iterable[StatusEvent] = ()
    ) -> None:
        if self.refusal is not None:
            raise self.refusal
        if (was := self.found.get(known.uid)) is not None:
            merged = {**was.status, **status}
            self.found[known.uid] = msgspec.structs.replace(was, status=merged)

    def delete(self, known: Benchmark) -> None:
        self.found.pop(known.uid, None)


def served(store: Store, cluster: FakeCluster, stop: Stop) -> dict[str, Run]:
    """Serve one place without objects until the stop; return each closed run once."""
    closed = dict[str, Run]()
    with Serving(context(store, cluster), Silent(), FakeObjects(), lambda _: ()) as place:
        serving.serve([place], stop, lambda run: closed.update({run.run_id: run}))
    return closed
