"""Benchmark objects: which runs are recorded, started and cancelled, and the status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import msgspec
import pytest

from k8sbench.lifecycle import benchmarks, collecting, owners
from k8sbench.lifecycle.benchmarks import Benchmarks
from k8sbench.lifecycle.context import PlannedCase
from k8sbench.lifecycle.executor import Executor
from k8sbench.lifecycle.serving import Serving
from k8sbench.model.benchmark_object import Benchmark, StatusEvent, Wanted
from k8sbench.model.errors import BenchError, StoreError, Unreachable, UsageError
from k8sbench.model.ownership import JobOwner, Ownership
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.ports import FoundJob, RunFilter, Store
from k8sbench.report import benchmark_status
from tests.unit.lifecycle.played import AtOnce, FakeCluster, Silent, at, context, planned_case
from tests.unit.store.examples import TRAINING

Plan = Callable[[Benchmark], Sequence[PlannedCase]]


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
        wanted = Wanted(benchmark="seg", **spec)
        self.found[uid] = Benchmark(
            name=name, uid=uid, generation=1, created_at=created_at, wanted=wanted
        )
        return uid

    def change(self, uid: str, **spec: Any) -> None:
        was = self.found[uid]
        wanted = msgspec.structs.replace(was.wanted, **spec)
        self.found[uid] = msgspec.structs.replace(was, wanted=wanted, generation=was.generation + 1)

    def current(self) -> Mapping[str, Benchmark | None] | None:
        found = {uid: None if uid in self.unreadable else one for uid, one in self.found.items()}
        return found if self.is_known else None

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
        self.executor = Executor(here, self.reporter)
        plan = plan or (lambda benchmark: [cases(benchmark.wanted.repeats or 1)])
        self.benchmarks = Benchmarks(objects, here, self.executor, self.reporter, plan)

    def passes(self, count: int = 4) -> None:
        for _ in range(count):
            self.cluster.now += benchmarks.PASS_SECONDS
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


def job_of(run: Run) -> FoundJob:
    return FoundJob(
        run_id=run.run_id,
        known_plan=run.plan,
        created_at=1.0,
        phase=run.phase,
        uid=run.job_uid,
        ownership=Ownership(owner=JobOwner(store="operator", host="here")),
    )


def trainings(repeats: int = 1) -> PlannedCase:
    draft = msgspec.structs.replace(
        cases().draft, mode="train", training=TRAINING, checkpoints="pvc:kept"
    )
    return msgspec.structs.replace(cases(repeats), draft=draft)


def cases(repeats: int = 1) -> PlannedCase:
    return msgspec.structs.replace(planned_case("kubernetes"), repeats=repeats)


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


def test_an_object_that_is_created_again_continues_the_numbers(
    operator: Operator, objects: FakeObjects
) -> None:
    objects.create("a", "uid-1")
    operator.passes()
    del objects.found["uid-1"]
    operator.passes()
    objects.create("a", "uid-2", repeats=2)
    operator.passes()
    assert operator.phases() == {"a-1": "Cancelled", "a-2": "Created", "a-3": "Created"}


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


@pytest.mark.parametrize(
    ("error", "phase", "said"),
    [
        (UsageError("There is no benchmark seg.", "Name another."), "Failed", "Name another."),
        (Unreachable("The API server is away."), "Pending", "0 of the runs ended"),
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


def test_a_refused_job_is_a_failed_run_of_its_object(store: Store, objects: FakeObjects) -> None:
    uid = objects.create("a", repeats=2)
    cluster = FakeCluster(outlives=True, refusals=[UsageError("No."), None])
    operator = Operator(store, cluster, objects)
    operator.passes()
    assert operator.phases() == {"a-1": "Failed", "a-2": "Created"}
    operator.end("a-2")
    assert operator.status(uid)["phase"] == "Failed"
    assert "No." in operator.status(uid)["runs"][0]["cause"]


@pytest.mark.parametrize("write", ["keep", "move"])
def test_a_run_that_is_recorded_in_part_is_completed_and_not_repeated(
    operator: Operator, objects: FakeObjects, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    def full(*_: object) -> None:
        raise StoreError("The disk is full.")

    uid = objects.create("a", repeats=2)
    with monkeypatch.context() as broken:
        broken.setattr(operator.store, write, full)
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
        broken.setattr(operator.store, "keep", full)
        operator.passes(2)
    objects.change(uid, cancel=True)
    operator.passes()
    assert operator.phases() == {"a-1": "Cancelled"}
    assert operator.status(uid)["summary"]["runs"].startswith("1/")


def test_of_an_object_that_cannot_be_read_nothing_is_concluded(
    operator: Operator, objects: FakeObjects
) -> None:
    uid = objects.create("a", repeats=2)
    operator.passes()
    objects.unreadable.add(uid)
    another = Operator(operator.store, operator.cluster, objects)
    another.executor.take(operator.store.run("a-1"))
    another.passes()
    assert another.phases() == {"a-1": "Created", "a-2": "Created"}
    assert another.active() == ["a-1"]


def test_the_runs_of_an_object_that_cannot_be_read_are_cancelled_when_it_is_gone(
    operator: Operator, objects: FakeObjects
) -> None:
    uid = objects.create("a", repeats=2)
    operator.passes()
    objects.unreadable.add(uid)
    another = Operator(operator.store, operator.cluster, objects)
    another.executor.take(operator.store.run("a-1"))
    another.passes()
    del objects.found[uid]
    another.passes()
    assert another.phases() == {"a-1": "Cancelled", "a-2": "Cancelled"}


def test_a_run_that_nobody_follows_for_now_counts_though_its_object_is_gone(
    operator: Operator, objects: FakeObjects
) -> None:
    objects.create("a", "uid-1", set="night")
    operator.passes()
    del objects.found["uid-1"]
    objects.create("b", set="night")
    # It begins, and the jobs cannot be listed yet.
    another = Operator(operator.store, operator.cluster, objects)
    another.passes()
    assert another.active() == []
    another.executor.take(operator.store.run("a-1"))
    another.passes()
    assert another.phases() == {"a-1": "Cancelled", "b-1": "Created"}
    assert another.active() == ["b-1"]


def test_an_object_that_is_cancelled_while_it_is_planned_does_not_hold_up_others(
    store: Store, objects: FakeObjects
) -> None:
    class Pool(AtOnce):
        def start(self, call: Callable[[], Any], name: str) -> Future[Any]:
            is_held = name == "plan-benchmark" and len(objects.found) == 1
            return Future() if is_held else super().start(call, name)

    uid = objects.create("a")
    operator = Operator(store, FakeCluster(outlives=True), objects, pool=Pool())
    operator.passes()
    objects.create("b")
    objects.change(uid, cancel=True)
    operator.passes()
    assert operator.active() == ["b-1"]


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


def test_a_status_that_a_late_write_replaced_is_written_again(
    operator: Operator, objects: FakeObjects
) -> None:
    uid = objects.create("a")
    operator.passes()
    known = objects.found[uid]
    objects.write(known, {**known.status, "phase": "Pending"})
    operator.passes(20)
    assert operator.status(uid)["phase"] == "Running"


def test_a_status_is_not_made_in_each_pass(
    operator: Operator, objects: FakeObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    status_of = benchmark_status.status_of

    def counted(benchmark: Benchmark, *given: Any, **more: Any) -> dict[str, Any]:
        made.append(benchmark.name)
        return status_of(benchmark, *given, **more)

    monkeypatch.setattr(benchmark_status, "status_of", counted)
    objects.create("a")
    operator.passes()
    made.clear()
    operator.passes(10)
    assert len(made) <= 1


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


def test_a_retry_plans_again_what_could_not_be_planned(store: Store, objects: FakeObjects) -> None:
    errors: list[BenchError] = [UsageError("There is no pool p.")]

    def plan(_: Benchmark) -> Sequence[PlannedCase]:
        if errors:
            raise errors.pop()
        return [cases()]

    uid = objects.create("a")
    operator = Operator(store, FakeCluster(outlives=True), objects, plan)
    operator.passes()
    assert operator.status(uid)["phase"] == "Failed"
    objects.change(uid, retry=1)
    operator.passes()
    operator.end("a-1")
    assert operator.status(uid)["phase"] == "Succeeded"


def test_a_cancelled_object_stays_so_in_a_retry(operator: Operator, objects: FakeObjects) -> None:
    uid = objects.create("a")
    operator.passes()
    objects.change(uid, cancel=True, retry=1)
    operator.passes()
    assert operator.phases() == {"a-1": "Cancelled"}
    assert operator.objects.found[uid].is_over


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


def test_a_run_is_not_continued_before_its_job_is_deleted(
    store: Store, objects: FakeObjects
) -> None:
    held: list[tuple[Future[Any], Callable[[], Any]]] = []

    class Pool(AtOnce):
        def start(self, call: Callable[[], Any], name: str) -> Future[Any]:
            if name != "delete":
                return super().start(call, name)
            held.append((Future(), call))
            return held[-1][0]

    uid = objects.create("a")
    cluster = FakeCluster(outlives=True)
    operator = Operator(store, cluster, objects, lambda _: [trainings()], pool=Pool())
    operator.passes()
    cluster.going_on["a-1"].append(at(Phase.FAILED))
    operator.passes()
    objects.change(uid, retry=1)
    operator.passes()
    assert operator.phases() == {"a-1": "Failed"}
    for answer, call in held:
        answer.set_result(call())
    operator.passes()
    assert operator.active() == ["a-1"]
    assert store.run("a-1").attempt == 2


def test_without_a_retry_no_run_is_continued(store: Store, objects: FakeObjects) -> None:
    objects.create("a", repeats=2)
    cluster, records = FakeCluster(outlives=True), iter([store.record])

    def plan(_: Benchmark) -> Sequence[PlannedCase]:
        return [trainings(2)]

    operator = Operator(store, cluster, objects, plan)
    with pytest.MonkeyPatch.context() as broken:

        def record(*given: Any, **more: Any) -> Run:
            try:
                return next(records)(*given, **more)
            except StopIteration:
                raise StoreError("The disk is full.") from None

        broken.setattr(store, "record", record)
        operator.passes()
        cluster.going_on["a-1"].append(at(Phase.FAILED))
        operator.passes()
    operator.passes(20)
    assert operator.phases() == {"a-1": "Failed", "a-2": "Created"}


def test_a_run_whose_job_is_found_does_not_wait_for_its_turn(
    operator: Operator, objects: FakeObjects
) -> None:
    objects.create("a", repeats=2)
    operator.passes()
    here = operator.executor.context
    owners.record_ours([job_of(operator.store.run("a-2"))], here, lambda _: None)
    assert [run.run_id for run in collecting.open_runs(here)] == ["a-1", "a-2"]


@pytest.mark.parametrize("problem", ["", "The CRD is not installed."])
def test_runs_are_followed_when_it_is_known_whether_they_are_cancelled(
    operator: Operator, objects: FakeObjects, problem: str
) -> None:
    uid = objects.create("a")
    operator.passes()
    objects.change(uid, cancel=True)
    objects.is_known, objects.problem = False, problem
    here = operator.executor.context
    find = partial(collecting.open_runs, here)
    with Serving(find, here, Silent(), patient=True, objects=objects) as place:
        for _ in range(3):
            place.step(0.0)
        # If the objects cannot be known its log is not to be lost.
        assert [run.run_id for run in place.open_runs()] == (["a-1"] if problem else [])
        objects.is_known = True
        for _ in range(5):
            operator.cluster.now += benchmarks.PASS_SECONDS
            place.step(0.0)
    assert operator.phases() == {"a-1": "Cancelled"}


def test_an_object_that_turns_out_to_be_over_does_not_hold_up_others(
    store: Store, objects: FakeObjects
) -> None:
    class Pool(AtOnce):
        def start(self, call: Callable[[], Any], name: str) -> Future[Any]:
            is_held = name == "plan-benchmark" and len(objects.found) == 1
            return Future() if is_held else super().start(call, name)

    uid = objects.create("a")
    operator = Operator(store, FakeCluster(outlives=True), objects, pool=Pool())
    operator.passes()
    # A write of the process before comes late.
    objects.write(objects.found[uid], {"phase": "Succeeded"})
    objects.create("b")
    operator.passes()
    assert operator.active() == ["b-1"]


def test_a_job_that_was_kept_is_deleted_though_nobody_looked_when_that_ended(
    operator: Operator, objects: FakeObjects
) -> None:
    kept, still = objects.create("kept", keep=True), objects.create("still", keep=True)
    operator.passes()
    operator.end("kept-1", "still-1")
    objects.change(kept, keep=False)
    operator.cluster.found = [
        job_of(operator.store.run(run_id)) for run_id in ("kept-1", "still-1")
    ]
    another = Operator(operator.store, operator.cluster, objects)
    another.passes()
    left = collecting.open_runs(another.executor.context)
    assert [run.run_id for run in left] == ["kept-1"]
    assert objects.found[still].wanted.keep


def test_a_running_job_is_not_kept_when_its_object_is_gone(
    operator: Operator, objects: FakeObjects
) -> None:
    uid = objects.create("a", keep=True)
    operator.passes()
    del objects.found[uid]
    operator.passes()
    assert operator.phases() == {"a-1": "Cancelled"}
    assert operator.cluster.removed == ["a-1"]


def test_keep_counts_for_runs_that_go_on(operator: Operator, objects: FakeObjects) -> None:
    uid = objects.create("a")
    operator.passes()
    objects.change(uid, keep=True)
    operator.end("a-1")
    assert operator.phases() == {"a-1": "Succeeded"}
    assert operator.cluster.removed == []


def test_jobs_are_kept_no_longer_although_the_object_could_not_be_read_before(
    operator: Operator, objects: FakeObjects
) -> None:
    uid = objects.create("a", keep=True)
    operator.passes()
    operator.end("a-1")
    objects.unreadable.add(uid)
    operator.cluster.found = [job_of(operator.store.run("a-1"))]
    another = Operator(operator.store, operator.cluster, objects)
    another.passes()
    assert operator.store.run("a-1").wishes == ()
    objects.change(uid, keep=False)
    objects.unreadable.clear()
    another.passes()
    assert [wish.kind for wish in operator.store.run("a-1").wishes] == ["delete"]
