"""Benchmark objects: which runs are recorded, started and cancelled, and the status."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench.lifecycle import benchmark_reconciler, collecting, status_writer
from k8sbench.lifecycle.benchmark_reconciler import Benchmarks
from k8sbench.lifecycle.context import Rules
from k8sbench.lifecycle.executor import Executor
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.model.benchmark_object import COMPLETE, Benchmark
from k8sbench.model.errors import BenchError, StoreError, Unreachable, UsageError
from k8sbench.model.kube import JobIdentity
from k8sbench.model.phase import Phase
from k8sbench.model.run import GPU_OUT_OF_MEMORY, Run
from k8sbench.ports.cluster import FoundJob, Manifest
from k8sbench.store.interface import RunFilter, Store
from k8sbench.store.open_store import open_store
from k8sbench.threads import Threads
from tests.unit.lifecycle import played
from tests.unit.lifecycle.benchmark_cases import cases
from tests.unit.lifecycle.played import (
    AtOnce,
    FakeCluster,
    FakeObjects,
    Silent,
    at,
    context,
    planned_case,
)
from tests.unit.store.examples import TRAINING

Plan = Callable[[Benchmark], Sequence[PlannedCase]]


class Operator:
    """One process that serves the objects; another one goes on with its store."""

    def __init__(
        self,
        store: Store,
        cluster: FakeCluster,
        objects: FakeObjects,
        plan: Plan | None = None,
        **changes: Any,
    ) -> None:
        self.store, self.cluster, self.objects = store, cluster, objects
        here, self.reporter = context(store, cluster, **changes), Silent()
        self.executor = Executor(here, self.reporter, Rules(passes_over=True, serves=True))
        plan = plan or (lambda benchmark: [cases(benchmark.spec.repeats or 1)])
        self.benchmarks = Benchmarks(objects, here, self.executor, self.reporter, plan)

    def passes(self, count: int = 4) -> None:
        for _ in range(count):
            self.cluster.now += benchmark_reconciler.PASS_SECONDS
            self.benchmarks.step()
            for outcome in self.executor.step(0.0):
                self.benchmarks.take([outcome.run])

    def phases(self) -> dict[str, str]:
        return {run.run_id: str(run.phase) for run in self.store.runs(RunFilter())}

    def active(self) -> list[str]:
        return [run.run_id for run in self.executor.runs()]

    def end(self, *run_ids: str) -> None:
        for run_id in run_ids:
            self.cluster.going_on[run_id].append(at(Phase.SUCCEEDED))
        self.passes()

    def status(self, uid: str) -> Mapping[str, Any]:
        return self.objects.found[uid].status


@pytest.fixture
def objects() -> FakeObjects:
    return FakeObjects()


@pytest.fixture
def operator(store: Store, objects: FakeObjects) -> Operator:
    return Operator(store, FakeCluster(outlives=True), objects)


def test_all_runs_are_on_record_before_the_first_job(
    operator: Operator, objects: FakeObjects
) -> None:
    uid = objects.create("a", repeats=3, parallel=2)
    operator.passes()
    assert operator.cluster.created == ["a-1", "a-2"]
    runs = operator.store.runs(RunFilter(set_name="a"))
    assert [(run.run_id, run.plan.repeat) for run in runs] == [("a-1", 1), ("a-2", 2), ("a-3", 3)]
    assert {run.plan.requested_by for run in runs} == {uid}
    assert operator.status(uid)["summary"]["runs"] == "0/3"
    operator.end("a-1", "a-2")
    operator.end("a-3")
    assert operator.status(uid)["phase"] == "Succeeded"
    assert operator.active() == []


class Held(Threads):
    """Plans that end when the test says so; other calls are made at once."""

    def __init__(self) -> None:
        super().__init__()
        self.plans: list[tuple[Callable[[], Any], Future[Any]]] = []

    def start(self, call: Callable[[], Any], name: str) -> Future[Any]:
        if name != "plan-benchmark":
            return AtOnce().start(call, name)
        self.plans.append((call, Future()))
        return self.plans[-1][1]

    def end(self) -> None:
        """End the plans that have begun, the last one first."""
        while self.plans:
            call, answer = self.plans.pop()
            answer.set_result(call())


def test_some_objects_are_planned_at_a_time_and_recorded_as_their_plans_come(
    store: Store, objects: FakeObjects
) -> None:
    pool = Held()
    operator = Operator(store, FakeCluster(outlives=True), objects, pool=pool)
    for number in range(6):
        objects.create(f"o{number}", created_at=float(number))
    operator.benchmarks.step()
    assert len(pool.plans) == benchmark_reconciler.PLANS
    assert operator.benchmarks.is_busy
    call, first = pool.plans.pop(1)
    first.set_result(call())
    operator.benchmarks.step()  # at once: there is a plan
    assert list(operator.phases()) == ["o1-1"]
    assert len(pool.plans) == benchmark_reconciler.PLANS
    for _ in range(2):
        pool.end()
        operator.passes(2)
    assert sorted(operator.cluster.created) == [f"o{number}-1" for number in range(6)]
    assert not operator.benchmarks.is_busy


def test_the_runs_of_a_large_object_are_recorded_between_other_work(
    store: Store, objects: FakeObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(outlives=True)

    def render(*_: object) -> tuple[Manifest, ...]:
        cluster.now += 0.05  # half a slice
        return ()

    monkeypatch.setattr(played, "objects", render)
    operator = Operator(store, cluster, objects)
    objects.create("large", repeats=20, parallel=3)
    objects.create("small", created_at=6.0)
    recorded = [0]
    while len(operator.phases()) < 21:
        operator.benchmarks.step()
        operator.executor.step(0.0)
        recorded.append(len(operator.phases()))
        assert recorded[-2] < recorded[-1] <= recorded[-2] + 2, "lines wait for a slice"
        assert "small-1" in cluster.created, "what lacks few runs comes first"
        is_whole = recorded[-1] == 21
        assert is_whole or cluster.created == ["small-1"]
    operator.passes(3)
    assert sorted(cluster.created) == ["large-1", "large-2", "large-3", "small-1"]
    assert operator.status("uid-large")["summary"]["runs"] == "0/20"


@pytest.fixture
def slow_cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Give a cluster for whose runs it takes a slice of time to record each."""
    cluster = FakeCluster(outlives=True)

    def render(*_: object) -> tuple[Manifest, ...]:
        cluster.now += benchmark_reconciler.SLICE_SECONDS
        return ()

    monkeypatch.setattr(played, "objects", render)
    return cluster


def test_a_job_that_is_found_while_runs_are_recorded_counts(
    store: Store, objects: FakeObjects, slow_cluster: FakeCluster
) -> None:
    operator = Operator(store, slow_cluster, objects)
    uid = objects.create("a", repeats=4)
    operator.benchmarks.step()
    assert list(operator.phases()) == ["a-1"]
    plan = cases().for_object(uid, "a").plan("a-2", "a", 2)
    store.record(plan, at=5.0, process=None, location=played.LOCATION, has_job=True)
    operator.benchmarks.count_anew()
    operator.passes(6)
    assert sorted(operator.phases()) == ["a-1", "a-2", "a-3", "a-4"]


@pytest.mark.parametrize("retry", [0, 1])
def test_a_retry_that_comes_while_runs_are_recorded_is_answered_after_their_ends(
    store: Store, objects: FakeObjects, slow_cluster: FakeCluster, retry: int
) -> None:
    operator = Operator(store, slow_cluster, objects)
    uid = objects.create("a", repeats=2, retry=retry)
    operator.benchmarks.step()
    assert list(operator.phases()) == ["a-1"]
    objects.change(uid, retry=retry + 1)
    operator.passes(4)
    assert operator.status(uid)["observedRetry"] == retry
    operator.end("a-1")
    operator.end("a-2")
    operator.passes(4)
    assert operator.status(uid)["observedRetry"] == retry + 1


def test_a_run_that_waits_for_its_turn_has_its_objects_on_record(
    store: Store, objects: FakeObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator of another version, which creates the job, mounts the trainers they name."""
    rendered: set[str] = set()

    def render(run: Run, _: JobIdentity) -> tuple[Manifest, ...]:
        rendered.add(run.run_id)
        return ()

    monkeypatch.setattr(played, "objects", render)
    operator = Operator(store, FakeCluster(outlives=True), objects)
    objects.create("a", repeats=2)
    operator.passes()
    assert operator.cluster.created == ["a-1"]
    assert rendered == {"a-1", "a-2"}


def test_the_smallest_limit_of_a_set_counts_over_all_its_objects(
    operator: Operator, objects: FakeObjects
) -> None:
    first = objects.create("a", set="night", repeats=3, parallel=3)
    objects.create("b", set="night", parallel=2, created_at=6.0)
    objects.create("c", parallel=1)
    operator.passes()
    assert sorted(operator.active()) == ["a-1", "a-2", "c-1"]
    objects.change(first, parallel=1)
    operator.end("a-1")
    assert sorted(operator.active()) == ["a-2", "c-1"]
    operator.end("a-2")
    operator.end("a-3")
    assert sorted(operator.active()) == ["b-1", "c-1"]


def test_an_object_that_gives_no_limit_runs_one_at_a_time_and_limits_no_other(
    operator: Operator, objects: FakeObjects
) -> None:
    objects.create("a", set="night", repeats=3)
    objects.create("b", set="night", repeats=2, created_at=6.0)
    operator.passes()
    assert sorted(operator.active()) == ["a-1", "b-1"]
    objects.create("c", set="night", repeats=2, parallel=3, created_at=7.0)
    operator.passes()
    assert sorted(operator.active()) == ["a-1", "b-1", "c-1"]
    operator.end("b-1")
    assert sorted(operator.active()) == ["a-1", "b-2", "c-1"]


def queued(operator: Operator, run_id: str, cause_id: str) -> None:
    """Have the cluster report a job that waits in its queue."""
    cause = "LocalQueue nosuch doesn't exist."
    operator.cluster.going_on[run_id].append(at(Phase.QUEUED, cause, cause_id))
    operator.passes()


def test_a_run_whose_queue_takes_nothing_gives_its_turn_to_another_queue_or_size(
    store: Store, objects: FakeObjects
) -> None:
    asked: dict[str, dict[str, Any]] = {
        "a": {"queue": "nosuch"},
        "b": {"queue": "nosuch", "replicas": 2},
        "c": {},
    }

    def plan(benchmark: Benchmark) -> Sequence[PlannedCase]:
        case = planned_case("kubernetes", **asked[benchmark.name])
        return [msgspec.structs.replace(case, repeats=2)]

    operator = Operator(store, FakeCluster(outlives=True), objects, plan)
    uids = [
        objects.create(name, set="night", parallel=1, created_at=number)
        for number, name in enumerate(asked, start=5)
    ]
    operator.passes(8)
    assert operator.cluster.created == ["a-1"]
    queued(operator, "a-1", "queued")
    assert operator.cluster.created == ["a-1"], "under a full quota it keeps its turn"
    assert "a-1" in operator.status(uids[2])["runs"][0]["cause"]
    queued(operator, "a-1", "queue-unusable")
    assert operator.cluster.created == ["a-1", "b-1"], "a-2 would wait in the same way"
    queued(operator, "b-1", "queue-unusable")
    assert operator.cluster.created == ["a-1", "b-1", "c-1"]
    (complete, _) = operator.status(uids[0])["conditions"]
    assert complete["reason"] == "ChangeNeeded"
    assert "a-1: LocalQueue nosuch doesn't exist." in complete["message"]
    operator.end("c-1")
    assert operator.active() == ["a-1", "b-1", "c-2"]
    queued(operator, "a-1", "queued")
    operator.end("c-2")
    assert operator.active() == ["a-1", "b-1"], "a-1 has its turn again"


def test_a_process_that_goes_on_records_and_creates_only_what_is_missing(
    operator: Operator, objects: FakeObjects
) -> None:
    uid = objects.create("a", repeats=4, parallel=1)
    operator.passes()
    # Killed after the second of four records, and before its answer.
    for run_id in ("a-3", "a-4"):
        operator.store.move(run_id, at(Phase.CANCELLED).transition)  # type: ignore[arg-type]
    before = operator.phases()
    another = Operator(operator.store, operator.cluster, objects)
    another.executor.take(operator.store.run("a-1"))
    another.passes()
    assert another.phases() == before
    assert another.cluster.created == ["a-1"]
    another.end("a-1")
    assert another.cluster.created == ["a-1", "a-2"]
    another.end("a-2")
    assert another.status(uid)["phase"] == "Cancelled"


def test_runs_that_wait_are_planned_anew_with_the_trainers_of_a_new_version(
    operator: Operator, objects: FakeObjects
) -> None:
    objects.create("a", repeats=2)
    operator.passes()
    old = {run.run_id: run.plan for run in operator.store.runs(RunFilter())}
    draft = msgspec.structs.replace(cases().draft, trainers_digest="new")
    newer = msgspec.structs.replace(cases(2), draft=draft)
    another = Operator(operator.store, operator.cluster, objects, lambda _: [newer])
    another.executor.take(operator.store.run("a-1"))
    another.passes()
    another.end("a-1")
    assert another.cluster.created == ["a-1", "a-2"]
    plans = {run.run_id: run.plan for run in operator.store.runs(RunFilter())}
    assert plans["a-1"] == old["a-1"]
    assert plans["a-2"] == msgspec.structs.replace(old["a-2"], trainers_digest="new")


def test_runs_of_an_object_that_was_deleted_meanwhile_are_cancelled(
    operator: Operator, objects: FakeObjects
) -> None:
    objects.create("a", "uid-1", repeats=2)
    operator.passes()
    del objects.found["uid-1"]
    objects.is_known = False
    another = Operator(operator.store, operator.cluster, objects)
    another.executor.take(operator.store.run("a-1"))
    another.passes()
    assert another.active() == ["a-1"], "nothing is concluded from a list that is not complete"
    objects.is_known = True
    another.passes()
    assert another.phases() == {"a-1": "Cancelled", "a-2": "Cancelled"}


def test_cancelling_ends_active_runs_and_starts_no_others(
    operator: Operator, objects: FakeObjects
) -> None:
    uid = objects.create("a", repeats=4, parallel=2)
    operator.passes()
    objects.change(uid, cancel_runs=("a-2", "a-3"))
    operator.passes()
    assert operator.active() == ["a-1", "a-4"]
    objects.change(uid, cancel=True)
    operator.passes()
    assert set(operator.phases().values()) == {"Cancelled"}
    assert operator.status(uid)["phase"] == "Cancelled"
    assert operator.status(uid)["observedGeneration"] == 3


class Queued(Threads):
    """Measurements that end one after another, when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()

    def start(self, call: Callable[[], Any], name: str) -> Future[Any]:
        self.calls.append((call, Future()))
        return self.calls[-1][1]

    def end(self) -> None:
        call, answer = self.calls.popleft()
        answer.set_result(call())


def test_the_runs_of_a_cancelled_object_are_measured_before_others(
    store: Store, objects: FakeObjects
) -> None:
    """Measuring takes long where much has ended at once."""
    measures = Queued()
    operator = Operator(store, FakeCluster(outlives=True), objects, measures=measures)
    objects.create("early", repeats=5, parallel=5)
    uid = objects.create("large", repeats=4, parallel=2, created_at=6.0)
    operator.passes()
    for run_id in ("early-1", "early-2", "early-3", "early-4", "early-5", "large-1"):
        operator.end(run_id)
    objects.change(uid, cancel=True)
    operator.passes()
    measures.end()  # that had begun before
    operator.passes()
    measures.end()
    operator.passes()
    assert operator.cluster.removed == ["large-2", "early-1", "large-1"]
    assert operator.status(uid)["phase"] == "Cancelled"
    assert len(operator.executor.over()) == 4


def test_of_many_statuses_that_of_a_cancelled_object_is_written_first(
    operator: Operator, objects: FakeObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    uids = [objects.create(f"o{number}") for number in range(2 * status_writer.WRITES)]
    operator.passes(10)
    for uid in uids:
        objects.change(uid, parallel=2)
    objects.change(uids[-1], cancel=True)
    written: list[str] = []
    monkeypatch.setattr(objects, "write", lambda known, *_: written.append(known.uid))
    operator.passes(1)
    assert written[0] == uids[-1]
    assert len(written) == status_writer.WRITES


def test_a_cancellation_that_is_refused_is_tried_again(
    operator: Operator, objects: FakeObjects
) -> None:
    uid = objects.create("a")
    operator.passes()
    operator.cluster.denies = UsageError("A webhook refuses it.")
    objects.change(uid, cancel=True)
    operator.passes()
    assert operator.active() == ["a-1"]
    operator.cluster.denies = None
    operator.passes()
    assert operator.phases() == {"a-1": "Cancelled"}


def test_objects_that_cannot_be_listed_are_a_problem(
    operator: Operator, objects: FakeObjects
) -> None:
    objects.is_known = False
    operator.passes(1)
    assert operator.benchmarks.problem == "the Benchmark objects were not listed yet."
    objects.problem = "User x may not list benchmarks.k8sbench.io."
    operator.passes(1)
    assert operator.benchmarks.problem == objects.problem
    objects.is_known, objects.problem = True, ""
    operator.passes(1)
    assert operator.benchmarks.problem == ""


@pytest.mark.parametrize(
    ("error", "phase", "said"),
    [
        (UsageError("There is no benchmark seg.", "Name another."), "Failed", "Name another."),
        (Unreachable("The API server is away."), "Pending", "The API server is away."),
    ],
)
def test_an_object_that_cannot_be_planned_says_why_unless_it_may_be_later(
    store: Store, objects: FakeObjects, error: BenchError, phase: str, said: str
) -> None:
    def plan(_: Benchmark) -> Sequence[PlannedCase]:
        raise error

    uid = objects.create("a")
    operator = Operator(store, FakeCluster(outlives=True), objects, plan)
    operator.passes()
    found = operator.status(uid)
    assert found["phase"] == phase
    assert said in found["conditions"][0]["message"]
    assert operator.phases() == {}
    # It is not ready while what it waits for may pass.
    assert (said in operator.benchmarks.problem) is isinstance(error, Unreachable)
    objects.change(uid, cancel=True)
    operator.passes()
    assert operator.benchmarks.problem == ""


def test_a_finished_object_is_deleted_when_its_time_is_up(
    operator: Operator, objects: FakeObjects
) -> None:
    uid = objects.create("a", ttl_seconds_after_finished=60)
    operator.passes()
    operator.end("a-1")
    operator.passes(50)
    assert uid in objects.found
    operator.passes(20)
    assert objects.found == {}
    assert operator.phases() == {"a-1": "Succeeded"}


def test_a_run_that_is_recorded_in_part_is_completed_and_not_repeated(
    operator: Operator, objects: FakeObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("The disk is full.")

    uid = objects.create("a", repeats=2)
    with monkeypatch.context() as broken:
        broken.setattr(operator.store, "move", full)
        operator.passes()
    assert operator.phases() == {"a-1": "Created"}
    assert operator.active() == []
    # Another process finds it, too, and does not look for a job that nobody has asked for.
    here = context(operator.store, operator.cluster)
    assert collecting.open_runs(here) == []
    operator.passes(20)
    assert operator.phases() == {"a-1": "Created", "a-2": "Created"}
    operator.end("a-1")
    operator.end("a-2")
    assert operator.status(uid)["phase"] == "Succeeded"
    assert operator.cluster.created == ["a-1", "a-2"]


def test_a_run_that_is_recorded_in_part_is_cancelled_with_its_object(
    operator: Operator, objects: FakeObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("The disk is full.")

    uid = objects.create("a", repeats=2)
    with monkeypatch.context() as broken:
        broken.setattr(operator.store, "move", full)
        operator.passes()
    objects.change(uid, cancel=True)
    operator.passes()
    assert operator.phases() == {"a-1": "Cancelled"}
    assert operator.status(uid)["phase"] == "Cancelled"


def test_a_status_that_cannot_be_written_is_written_later(
    operator: Operator, objects: FakeObjects
) -> None:
    objects.refusal = Unreachable("The API server is away.")
    uid = objects.create("a")
    operator.passes(4)
    assert operator.reporter.reported.count("warning: The API server is away.") == 1
    objects.refusal = None
    operator.passes(20)
    assert operator.status(uid)["phase"] == "Running"


def test_a_retry_runs_what_is_missing_or_failed_once_more(
    store: Store, objects: FakeObjects
) -> None:
    uid = objects.create("a", repeats=2)
    cluster = FakeCluster(outlives=True, refusals=[UsageError("No."), None])
    operator = Operator(store, cluster, objects)
    operator.passes()
    operator.end("a-2")
    assert operator.status(uid)["phase"] == "Failed"
    objects.change(uid, retry=1)
    operator.passes(1)
    assert operator.status(uid)["conditions"][0]["status"] == "False"
    operator.passes()
    assert operator.active() == ["a-3"]
    # Another process does not repeat it, whatever of it the status says.
    another = Operator(store, cluster, objects)
    another.executor.take(store.run("a-3"))
    another.passes()
    assert another.phases() == {"a-1": "Failed", "a-2": "Succeeded", "a-3": "Created"}
    another.end("a-3")
    assert another.status(uid)["observedRetry"] == 1
    assert another.status(uid)["summary"]["runs"] == "3/3"


def test_a_batch_size_out_of_memory_is_a_result_that_no_retry_repeats(
    store: Store, objects: FakeObjects
) -> None:
    def plan(benchmark: Benchmark) -> Sequence[PlannedCase]:
        sizes, case = benchmark.spec.batch_sizes, cases()
        drafts = (msgspec.structs.replace(case.draft, batch_size=size) for size in sizes)
        return [msgspec.structs.replace(case, draft=draft) for draft in drafts]

    uid = objects.create("a", batch_sizes=(64, 128), parallel=2)
    operator = Operator(store, FakeCluster(outlives=True), objects, plan)
    operator.passes()
    too_large = at(Phase.FAILED, cause_id=GPU_OUT_OF_MEMORY)
    operator.cluster.going_on["a-2"].append(too_large)
    operator.end("a-1")
    assert operator.phases() == {"a-1": "Succeeded", "a-2": "Failed"}
    assert operator.status(uid)["phase"] == "Succeeded"
    verdicts = {row["batchSize"]: row["verdict"] for row in operator.status(uid)["rows"]}
    assert verdicts == {64: "valid", 128: "out-of-memory"}
    objects.change(uid, retry=1)
    operator.passes()
    assert operator.cluster.created == ["a-1", "a-2"]
    assert operator.status(uid)["observedRetry"] == 1


def test_an_object_that_a_finalizer_holds_ends_its_runs_and_is_deleted_once(
    operator: Operator, objects: FakeObjects
) -> None:
    uid = objects.create("a", repeats=3, ttl_seconds_after_finished=60)
    operator.passes()
    objects.hold(uid)
    operator.passes()
    assert set(operator.phases().values()) == {"Cancelled"}
    assert operator.store.run("a-3").history[-1].cause == benchmark_reconciler.DELETED
    assert (operator.status(uid)["phase"], operator.cluster.created) == ("Cancelled", ["a-1"])
    operator.passes(70)
    assert uid in objects.found, "its deletion was asked for"


def by_hand(objects: FakeObjects, uid: str) -> None:
    """Write into the status of an object that it has succeeded."""
    was = objects.found[uid]
    complete = {"type": COMPLETE, "status": "True", "lastTransitionTime": "1970-01-01T00:00:05Z"}
    status = {**was.status, "phase": "Succeeded", "conditions": [complete]}
    objects.found[uid] = msgspec.structs.replace(was, status=status)


@pytest.mark.parametrize("known", ["failed", "recorded in part", "nothing"])
def test_of_a_status_that_changed_while_no_operator_was_there_the_store_decides(
    store: Store, objects: FakeObjects, known: str
) -> None:
    uid = objects.create("a", repeats=2, parallel=2, ttl_seconds_after_finished=60)
    if known != "nothing":
        cluster = FakeCluster(outlives=True, refusals=[UsageError("No.")] * 2)
        first = Operator(
            store, cluster, objects, plan=lambda _: [cases(2 if known == "failed" else 1)]
        )
        first.passes()
    by_hand(objects, uid)
    another = Operator(store, FakeCluster(outlives=True, now=20.0), objects)
    another.passes()
    counted = {"failed": "2/2", "recorded in part": "1/2", "nothing": None}[known]
    assert another.status(uid).get("summary", {}).get("runs") == counted
    expected = {"failed": "Failed", "recorded in part": "Running", "nothing": "Succeeded"}[known]
    assert another.status(uid)["phase"] == expected
    assert another.active() == (["a-2"] if known == "recorded in part" else [])


def test_an_older_store_changes_no_status_of_which_it_lacks_runs(
    store: Store, objects: FakeObjects, tmp_path: Path
) -> None:
    uid = objects.create("a", repeats=2, parallel=2)
    first = Operator(store, FakeCluster(outlives=True), objects)
    first.passes()
    first.end("a-1", "a-2")
    before = dict(first.status(uid))
    with open_store(str(tmp_path / "older")) as older:
        run = store.run("a-1")
        older.record(run.plan, at=1.0, process=None, location=run.location)
        older.move("a-1", at(Phase.CANCELLED).transition)  # type: ignore[arg-type]
        another = Operator(older, FakeCluster(outlives=True), objects)
        another.passes()
        assert another.status(uid) == before
        assert another.active() == []


@pytest.mark.parametrize("set_by", [3600.0, -3600.0])
def test_a_clock_that_is_set_changes_no_time_at_which_an_object_is_deleted(
    store: Store, objects: FakeObjects, set_by: float
) -> None:
    cluster, ahead = FakeCluster(outlives=True), 0.0
    operator = Operator(store, cluster, objects, clock=lambda: cluster.now + ahead)
    uid = objects.create("a", ttl_seconds_after_finished=60)
    operator.passes()
    operator.end("a-1")
    ahead = set_by
    operator.passes(50)
    assert uid in objects.found
    operator.passes(20)
    assert objects.found == {}


def test_where_the_clock_was_set_back_a_finished_object_stays_no_longer_than_its_time(
    operator: Operator, objects: FakeObjects
) -> None:
    objects.create("a", ttl_seconds_after_finished=60)
    operator.passes()
    operator.end("a-1")
    cluster = operator.cluster
    Operator(operator.store, cluster, objects, clock=lambda: cluster.now - 3600.0).passes(80)
    assert objects.found == {}


@pytest.mark.parametrize("retry", [0, 1])
def test_kept_jobs_are_deleted_when_the_object_keeps_them_no_longer_or_is_gone(
    operator: Operator, objects: FakeObjects, retry: int
) -> None:
    kept, gone = objects.create("kept", keep=True), objects.create("gone", keep=True)
    operator.passes()
    operator.end("kept-1", "gone-1")
    assert operator.cluster.removed == []
    objects.change(kept, keep=False, retry=retry)
    objects.delete(objects.found[gone])
    operator.passes()
    left = collecting.open_runs(operator.executor.context)
    assert [run.run_id for run in left] == ["gone-1", "kept-1"]


def test_the_kept_job_of_a_training_goes_with_the_retry_that_is_cancelled_in_its_wait(
    store: Store, objects: FakeObjects
) -> None:
    draft = msgspec.structs.replace(
        cases().draft, mode="train", training=TRAINING, checkpoints="pvc:kept"
    )
    case = msgspec.structs.replace(cases(), draft=draft)
    operator = Operator(store, FakeCluster(outlives=True), objects, lambda _: [case])
    kept = objects.create("kept", set="night", keep=True)
    operator.passes()
    operator.cluster.going_on["kept-1"].append(at(Phase.FAILED))
    operator.passes()
    objects.create("other", set="night", parallel=1)
    operator.passes()
    objects.change(kept, retry=1)
    operator.passes()
    assert (operator.active(), store.run("kept-1").attempt) == (["other-1"], 2)
    objects.change(kept, keep=False, cancel=True)
    operator.passes()
    left = collecting.open_runs(operator.executor.context)
    assert [run.run_id for run in left] == ["kept-1", "other-1"]


@pytest.mark.parametrize(("attempt", "left"), [(1, ["a-1"]), (2, [])])
def test_the_job_of_an_attempt_that_a_restored_store_lacks_is_not_deleted(
    operator: Operator, objects: FakeObjects, attempt: int, left: list[str]
) -> None:
    objects.create("a")
    operator.passes()
    operator.end("a-1")
    operator.cluster.removed.clear()
    plan = operator.store.run("a-1").plan
    job = FoundJob(
        run_id="a-1", known_plan=plan, created_at=5.0, phase=Phase.SUCCEEDED, attempt=attempt
    )
    operator.cluster.found = [job]
    Operator(operator.store, operator.cluster, objects).passes()
    assert [run.run_id for run in collecting.open_runs(operator.executor.context)] == left


def test_a_retry_while_runs_are_ending_counts_when_they_have_ended(
    operator: Operator, objects: FakeObjects
) -> None:
    uid = objects.create("a", repeats=2, parallel=2)
    operator.passes()
    objects.change(uid, retry=1)
    operator.passes()
    assert operator.status(uid)["observedRetry"] == 0
    assert operator.status(uid)["summary"]["runs"] == "0/2"
    # Another process finds the same.
    another = Operator(operator.store, operator.cluster, objects)
    for run_id in ("a-1", "a-2"):
        another.executor.take(operator.store.run(run_id))
    another.passes()
    for run_id in ("a-1", "a-2"):
        another.cluster.going_on[run_id].append(at(Phase.LOST, "It is gone."))
    another.passes(8)
    assert another.active() == ["a-3", "a-4"]
    another.end("a-3", "a-4")
    assert another.status(uid)["observedRetry"] == 1
    assert another.status(uid)["summary"]["runs"] == "4/4"
    another.passes(20)
    assert len(another.phases()) == 4


def replace_status(objects: FakeObjects, uid: str, phase: str) -> None:
    """Write the end of an object into its status, as a user may."""
    was = objects.found[uid]
    condition = {
        "type": "Complete",
        "status": "True",
        "reason": "ByHand",
        "message": "It is enough.",
        "lastTransitionTime": "2026-11-27T00:00:00Z",
    }
    status = {**was.status, "phase": phase, "conditions": [condition]}
    objects.found[uid] = msgspec.structs.replace(was, status=status)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_status_that_says_the_end_of_runs_that_go_on_is_not_believed(
    operator: Operator, objects: FakeObjects, is_restarted: bool
) -> None:
    uid = objects.create("a", repeats=2, ttl_seconds_after_finished=1)
    operator.passes()
    replace_status(objects, uid, "Succeeded")
    if is_restarted:
        cluster = operator.cluster
        operator = Operator(operator.store, cluster, objects)
        operator.executor.take(operator.store.run("a-1"))
    operator.passes(20)
    assert operator.status(uid)["phase"] == "Running"
    objects.change(uid, ttl_seconds_after_finished=None)
    operator.end("a-1")
    operator.end("a-2")
    assert operator.status(uid)["phase"] == "Succeeded"
    assert operator.status(uid)["summary"]["runs"] == "2/2"


def test_a_status_that_changes_the_end_of_an_object_is_replaced_by_the_stores(
    operator: Operator, objects: FakeObjects
) -> None:
    uid = objects.create("a")
    operator.passes()
    operator.cluster.going_on["a-1"].append(at(Phase.FAILED))
    operator.passes()
    replace_status(objects, uid, "Succeeded")
    operator.passes()
    assert operator.status(uid)["phase"] == "Failed"
    written = operator.status(uid)
    operator.passes(40)
    assert operator.status(uid) == written
    assert operator.cluster.created == ["a-1"]


def test_an_object_that_is_complete_and_on_no_record_is_not_run_again(
    operator: Operator, objects: FakeObjects
) -> None:
    uid = objects.create("a")
    replace_status(objects, uid, "Succeeded")
    operator.passes()
    replace_status(objects, uid, "Failed")
    operator.passes()
    assert operator.phases() == {}
    assert operator.status(uid)["phase"] == "Failed"
