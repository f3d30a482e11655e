"""Jobs of Benchmark objects that are missing, and places that refuse jobs."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from k8sbench import limits
from k8sbench.adapters.kubernetes.client import faults
from k8sbench.lifecycle import decide
from k8sbench.lifecycle.active_run import ABSENT_SECONDS
from k8sbench.lifecycle.job_requests import DENIALS
from k8sbench.lifecycle.place_gate import LONGEST_PAUSE
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.serving import Serving
from k8sbench.model import creation, errors
from k8sbench.model.benchmark_object import Benchmark
from k8sbench.model.errors import BenchError, NoRoom, Unreachable, UsageError
from k8sbench.model.kube import JobOwner, Ownership
from k8sbench.model.phase import WAIT_TIMEOUT, Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.ports.cluster import FoundJob
from k8sbench.store.interface import RunFilter, Store
from k8sbench.store.run_folder import RunFolder
from tests.unit.lifecycle.benchmark_cases import cases
from tests.unit.lifecycle.played import (
    LOCATION,
    FakeCluster,
    FakeObjects,
    Silent,
    at,
    context,
    planned_case,
)

GONE = at(Phase.LOST, "The cluster has none.", creation.JOB_GONE)


def of_cause(kind: type[BenchError], cause_id: str) -> BenchError:
    error = kind(f"It is refused ({cause_id}).", "Repair it.")
    error.cause_id = cause_id
    return error


DENIED = of_cause(UsageError, "admission-denied")


class Place(FakeCluster):
    """A cluster without the job of a run until it is created."""

    def __init__(self, **given: Any) -> None:
        super().__init__(outlives=True, **given)
        self.asked_at: list[float] = []

    def create(self, run: Run, *given: Any) -> None:
        self.asked_at.append(self.now)
        super().create(run, *given)

    def resume(self, run: Run, *given: Any) -> None:
        super().resume(run, *given)
        if run.run_id not in self.created:
            self.going_on[run.run_id].append(GONE)


def usual(benchmark: Benchmark) -> Sequence[PlannedCase]:
    return [cases(benchmark.spec.repeats or 1)]


class Operator:
    """One process that serves a namespace, until :meth:`kill`."""

    def __init__(
        self,
        store: Store,
        cluster: FakeCluster,
        objects: FakeObjects,
        plan: Callable[[Benchmark], Sequence[PlannedCase]] = usual,
        **changes: Any,
    ) -> None:
        self.store, self.cluster, self.reporter = store, cluster, Silent()
        here = context(store, cluster, **changes)
        self.serving = Serving(here, self.reporter, objects, plan)

    def passes(self, count: int = 4, seconds: float = 1.0) -> None:
        for _ in range(count):
            self.cluster.now += seconds
            self.serving.step(0.0)

    def kill(self) -> None:
        for run in self.store.runs(RunFilter()):
            self.store.claims.release(run.run_id)

    def phases(self) -> dict[str, tuple[str, str | None]]:
        runs = self.store.runs(RunFilter())
        return {run.run_id: (str(run.phase), run.history[-1].cause_id) for run in runs}


@pytest.fixture
def objects() -> FakeObjects:
    return FakeObjects()


def killed_before_its_post(store: Store, objects: FakeObjects) -> None:
    """Kill an operator between the turn of run a-1 and its POST."""
    first = Operator(store, Place(refusals=[SystemExit()]), objects)
    with pytest.raises(SystemExit):
        first.passes()
    first.kill()
    assert first.cluster.created == []


# -- a job that is missing ------------------------------------------------------------------------


def test_a_job_that_a_killed_operator_had_not_created_is_created_when_none_can_come(
    store: Store, objects: FakeObjects
) -> None:
    objects.create("a")
    killed_before_its_post(store, objects)
    operator = Operator(store, Place(now=20.0), objects)
    operator.passes()
    assert operator.phases() == {"a-1": ("Created", "creation-unknown")}
    settle = limits.now.creation_settle
    operator.passes(int(settle / ABSENT_SECONDS) + 3, ABSENT_SECONDS)
    assert operator.cluster.created == ["a-1"]
    assert operator.cluster.asked_at[0] >= 20.0 + settle  # type: ignore[attr-defined]
    operator.cluster.going_on["a-1"].append(at(Phase.SUCCEEDED))
    operator.passes(20)
    assert operator.phases() == {"a-1": ("Succeeded", None)}
    assert objects.found["uid-a"].status["phase"] == "Succeeded"


@pytest.mark.parametrize("set_by", [3600.0, -3600.0])
def test_a_clock_that_is_set_gives_up_no_missing_job_and_waits_no_longer(
    store: Store, objects: FakeObjects, set_by: float
) -> None:
    objects.create("a")
    killed_before_its_post(store, objects)
    cluster = Place(now=20.0)
    operator = Operator(store, cluster, objects, clock=lambda: cluster.now + set_by)
    settle = limits.now.creation_settle
    operator.passes(int(settle / ABSENT_SECONDS) - 2, ABSENT_SECONDS)
    assert operator.cluster.asked_at == []  # type: ignore[attr-defined]
    operator.passes(5, ABSENT_SECONDS)
    assert operator.cluster.created == ["a-1"]


def test_a_missing_job_of_an_object_that_is_cancelled_is_not_created(
    store: Store, objects: FakeObjects
) -> None:
    uid = objects.create("a")
    killed_before_its_post(store, objects)
    objects.change(uid, cancel=True)
    operator = Operator(store, Place(now=20.0), objects)
    operator.passes(40, ABSENT_SECONDS)
    assert operator.phases() == {"a-1": ("Cancelled", "cancelled")}
    assert operator.cluster.created == []


def test_a_missing_job_of_no_object_is_not_created(store: Store, objects: FakeObjects) -> None:
    store.record(
        planned_case("kubernetes").plan("a-1", "night"),
        at=10.0,
        process=None,
        location=context(store, Place()).location,
    )
    operator = Operator(store, Place(now=20.0), objects)
    operator.passes(40, ABSENT_SECONDS)
    assert operator.phases() == {"a-1": ("Failed", "not-created")}


# -- a place that refuses jobs --------------------------------------------------------------------

OF_PLACE = [
    of_cause(Unreachable, "webhook-down"),
    of_cause(Unreachable, "forbidden"),
    of_cause(Unreachable, "api-unreachable"),
    DENIED,
]


@pytest.mark.parametrize("error", OF_PLACE, ids=lambda error: error.cause_id)
def test_a_place_that_refuses_jobs_ends_no_run_and_is_asked_with_growing_pauses(
    store: Store, objects: FakeObjects, error: BenchError
) -> None:
    uid, other = objects.create("a", repeats=3, parallel=1), objects.create("b")
    cluster = Place(refusals=[error] * 9)
    operator = Operator(store, cluster, objects)
    operator.passes(10)
    phases = operator.phases()
    waits = ("Created", "creation-waits")
    assert [phases[name] for name in ("a-1", "a-2", "a-3")] == [
        waits,
        *[("Created", "waits-for-turn")] * 2,
    ]
    assert operator.serving.refusal == str(error)
    for one in (uid, other):
        (complete, _) = objects.found[one].status["conditions"]
        assert (complete["status"], complete["reason"]) == ("False", "JobsRefused")
        assert str(error) in complete["message"]
    operator.passes(400)
    pauses = [after - before for before, after in itertools.pairwise(cluster.asked_at)]
    assert pauses[-1] <= LONGEST_PAUSE + 2
    assert max(pauses) >= LONGEST_PAUSE
    assert operator.reporter.reported.count(f"warning: no job can be created for now: {error}") == 1
    assert sorted(cluster.created) == ["a-1", "b-1"], "the place takes jobs again"
    assert operator.serving.refusal == ""
    assert "refused" not in objects.found[uid].status["conditions"][0]["message"]


def test_a_run_without_a_job_is_cancelled_while_its_place_refuses_jobs(
    store: Store, objects: FakeObjects
) -> None:
    uid = objects.create("a")
    operator = Operator(store, Place(refusals=[DENIED] * 99), objects)
    operator.passes(10)
    objects.change(uid, cancel=True)
    operator.passes(4)
    assert operator.phases() == {"a-1": ("Cancelled", "cancelled")}
    assert objects.found[uid].status["phase"] == "Cancelled"


def test_a_job_that_is_refused_for_itself_ends_its_run_and_holds_up_no_other(
    store: Store, objects: FakeObjects
) -> None:
    objects.create("a", repeats=2)
    invalid = of_cause(UsageError, "refused")
    operator = Operator(store, Place(refusals=[invalid]), objects)
    operator.passes(10)
    assert operator.phases()["a-1"] == ("Failed", "not-created")
    assert operator.cluster.created == ["a-2"]


class Strict(Place):
    """A place that refuses the jobs of some objects, and takes all others."""

    def __init__(self, *errors: BenchError) -> None:
        """The errors come in turn, and the last one again and again."""
        super().__init__()
        self.errors = list(errors) or [DENIED]
        self.denied_at: defaultdict[str, list[float]] = defaultdict(list)

    def create(self, run: Run, *given: Any) -> None:
        self.refusals = []
        if run.run_id.startswith("denied"):
            self.denied_at[run.run_id].append(self.now)
            self.refusals = [self.errors.pop(0) if self.errors[1:] else self.errors[0]]
        super().create(run, *given)


OF_JOB = [
    (DENIED, True),
    (of_cause(Unreachable, "webhook-down"), True),
    (of_cause(Unreachable, "forbidden"), True),
    (of_cause(UsageError, "job-denied"), False),
    (of_cause(Unreachable, "operator-missing"), False),
]
"""Refusals of one job, and True for those of which only other jobs show that."""


@pytest.mark.parametrize(("error", "needs_others"), OF_JOB, ids=lambda one: str(one)[:40])
def test_a_job_that_is_refused_at_a_place_that_takes_others_fails_after_ten_minutes(
    store: Store, objects: FakeObjects, error: BenchError, needs_others: bool
) -> None:
    denied = objects.create("denied", repeats=2, parallel=1)
    cluster = Strict(error)
    operator = Operator(store, cluster, objects)
    number = 0
    while operator.phases().get("denied-1", ("", ""))[0] != "Failed":
        number += 1
        assert number < 100
        if needs_others:
            objects.create(f"good{number}")
        operator.passes(10, 6.0)
        if 1 < number < 9:
            (complete, _) = objects.found[denied].status["conditions"]
            assert complete["reason"] == "ChangeNeeded"
            assert f"denied-1: Its job is not created yet: {error.message}" in complete["message"]
        if number > 1:
            assert operator.serving.refusal == "", "the place is ready"
            assert operator.serving.objects_problem == ""
    tries = cluster.denied_at["denied-1"]
    assert tries[-1] - tries[0] >= 600.0, "something may change meanwhile"
    assert len(tries) in {DENIALS, DENIALS + needs_others}
    run = store.run("denied-1")
    assert run.history[-1].cause_id == "job-denied"
    assert str(error.message) in run.history[-1].cause
    assert operator.phases()["denied-2"][0] == "Created", "the turn is given back"
    assert len(operator.cluster.created) == (number if needs_others else 0)
    while operator.phases()["denied-2"][0] != "Failed":
        number += 1
        assert number < 200
        if needs_others:
            objects.create(f"good{number}")
        operator.passes(10, 6.0)
    operator.passes(4)
    assert objects.found[denied].status["phase"] == "Failed"


def test_a_refusal_of_which_nothing_shows_whose_it_is_waits_for_its_limit(
    store: Store, objects: FakeObjects
) -> None:
    uid = objects.create("denied")
    operator = Operator(store, Strict(), objects)
    operator.passes(400, 6.0)
    assert operator.phases() == {"denied-1": ("Created", "creation-waits")}
    assert "not known" in store.run("denied-1").history[-1].cause
    assert objects.found[uid].status["conditions"][0]["reason"] == "JobsRefused"
    operator.passes(2, decide.WAIT_SECONDS)
    assert operator.phases() == {"denied-1": ("Failed", WAIT_TIMEOUT)}


def test_a_webhook_that_fails_now_and_then_fails_no_job(store: Store, objects: FakeObjects) -> None:
    """Each job meets six refusals in a row, one fewer than end a run."""
    refusals = itertools.cycle([*[of_cause(UsageError, "job-denied")] * (DENIALS - 1), None])
    cluster = Place(refusals=[next(refusals) for _ in range(4 * DENIALS)])
    for number in range(4):
        objects.create(f"a{number}", created_at=float(number))
        operator = Operator(store, cluster, objects)
        operator.passes(120, 6.0)
        operator.kill()
    assert len(cluster.created) == 4
    assert {phase for phase, _ in operator.phases().values()} == {"Created"}


def test_a_quota_is_a_wait(store: Store, objects: FakeObjects) -> None:
    objects.create("a")
    full = NoRoom("The quota has no room.", "Wait.")
    operator = Operator(store, Place(refusals=[full] * 40), objects)
    operator.passes(100, 6.0)
    assert operator.phases() == {"a-1": ("Queued", "quota-full")}
    operator.passes(200, 6.0)
    assert operator.cluster.created == ["a-1"]


PLANNING = {
    "a claim that is missing": of_cause(Unreachable, "job-denied"),
    "its kind is not installed": of_cause(Unreachable, "operator-missing"),
    "what others may do": of_cause(Unreachable, "forbidden"),
}


@pytest.mark.parametrize("name", PLANNING)
def test_an_object_that_cannot_be_planned_while_others_are_holds_up_nothing_and_fails(
    store: Store, objects: FakeObjects, name: str
) -> None:
    def plan(benchmark: Benchmark) -> Sequence[PlannedCase]:
        if benchmark.name == "bad":
            raise PLANNING[name]
        return [cases()]

    bad = objects.create("bad")
    operator = Operator(store, Place(), objects, plan)
    for number in range(20):
        objects.create(f"good{number}")
        operator.passes(10, 6.0)
        assert number < 1 or operator.serving.objects_problem == ""
        assert number > 8 or objects.found[bad].status["phase"] == "Pending"
    assert objects.found[bad].status["phase"] == "Failed"
    assert len(operator.cluster.created) == 20


def test_planning_waits_for_a_place_that_plans_nothing(store: Store, objects: FakeObjects) -> None:
    def plan(_: Benchmark) -> Sequence[PlannedCase]:
        raise of_cause(Unreachable, "api-unreachable")

    uids = [objects.create("a"), objects.create("b")]
    operator = Operator(store, Place(), objects, plan)
    operator.passes(200, 6.0)
    assert "a is not planned yet" in operator.serving.objects_problem
    assert [objects.found[uid].status["phase"] for uid in uids] == ["Pending", "Pending"]


def test_a_job_that_one_place_denies_keeps_no_other_object_from_its_turn(
    store: Store, objects: FakeObjects
) -> None:
    for number in range(6):
        objects.create(f"denied{number}")
    operator = Operator(store, Strict(), objects)
    operator.passes(200)
    objects.create("late")
    operator.passes(70)
    assert operator.cluster.created == ["late-1"]


def test_a_lost_answer_is_looked_for_and_its_job_created_when_none_can_come(
    store: Store, objects: FakeObjects
) -> None:
    uid = objects.create("a")
    lost = creation.creation_unknown_error("a-1", "503.")
    operator = Operator(store, Place(refusals=[lost]), objects)
    operator.passes()
    assert operator.phases() == {"a-1": ("Created", "creation-unknown")}
    assert objects.found[uid].status["conditions"][0]["reason"] == "JobsRefused"
    operator.passes(30, ABSENT_SECONDS)
    first, second = operator.cluster.asked_at  # type: ignore[attr-defined]
    assert second - first >= limits.now.creation_settle
    assert operator.cluster.created == ["a-1"]


@pytest.mark.parametrize(
    ("status", "message", "is_of_place"),
    [
        (None, "connection refused", True),
        (401, "Unauthorized", True),
        (403, 'User "x" cannot create resource "jobs" in the namespace "a"', True),
        (403, "the proxy forbids it", True),
        (403, 'pytorchjobs.kubeflow.org "a" is forbidden: a rule', None),
        (403, 'admission webhook "v.kyverno.svc" denied the request: no', None),
        (422, "ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no", None),
        (404, "the server could not find the requested resource", True),
        (404, 'namespaces "a" not found', True),
        (429, "too many requests", True),
        (500, 'Internal error occurred: failed calling webhook "v": refused', True),
        (500, "etcdserver: leader changed", True),
        (503, "", True),
        (403, 'admission webhook "v.pytorchjob.kubeflow.org" denied the request: spec', False),
        (400, "strict decoding error: unknown field", False),
        (413, "it is too large", False),
        (422, "spec.replicas: Invalid value", False),
    ],
)
def test_answers_that_speak_of_the_place_and_of_the_job(
    status: int | None, message: str, is_of_place: bool | None
) -> None:
    """None: only what else the place takes shows it."""
    error = faults.explained(faults.ApiFault(status, "", message), "job a be created", LOCATION)
    assert errors.is_of_place(error) is bool(is_of_place)
    assert (error.cause_id == "admission-denied") is (is_of_place is None)


# -- what is read of known runs -------------------------------------------------------------------

CHANGES = 4
"""Changes of a run, each of which reads it once."""


def found(plan: RunPlan) -> FoundJob:
    """A job of this store."""
    ours = Ownership(owner=JobOwner(store="this", host="here"))
    return FoundJob(
        run_id=plan.run_id,
        known_plan=plan,
        created_at=10.0,
        phase=Phase.RUNNING,
        ownership=ours,
    )


def test_a_run_that_waits_for_its_turn_is_followed_if_somebody_has_created_its_job(
    store: Store, objects: FakeObjects
) -> None:
    objects.create("a", repeats=2)
    operator = Operator(store, FakeCluster(outlives=True), objects)
    operator.passes()
    assert operator.phases()["a-2"] == ("Created", "waits-for-turn")
    operator.cluster.found = [found(store.run("a-2").plan)]
    operator.passes(seconds=limits.now.list_jobs)
    assert operator.phases()["a-2"] == ("Created", "job-created")
    assert [run.run_id for run in operator.serving.open_runs()] == ["a-1", "a-2"]


def test_a_run_that_was_refused_is_followed_if_its_job_appears(
    store: Store, objects: FakeObjects
) -> None:
    plan = cases().for_object(objects.create("a", repeats=2), "a").plan("a-1", "a", 1)
    store.record(plan, at=5.0, process=None, location=LOCATION)
    store.move("a-1", creation.job_refused("a-1", UsageError("It is refused."), 6.0))
    operator = Operator(store, FakeCluster(outlives=True), objects)
    operator.passes()
    assert operator.phases()["a-1"] == ("Failed", "not-created")
    operator.cluster.found = [found(plan)]
    operator.passes(seconds=limits.now.list_jobs)
    assert operator.phases()["a-1"] == ("Created", "job-created")


def test_looks_and_a_cancellation_read_no_run_whose_record_is_at_hand(
    store: Store, objects: FakeObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading all in each look makes hundreds of runs slow each other down."""
    reads: list[str] = []
    read = RunFolder.run

    def counted(folder: RunFolder) -> Run:
        reads.append(folder.path.name)
        return read(folder)

    monkeypatch.setattr(RunFolder, "run", counted)
    uid = objects.create("large", repeats=20)
    operator = Operator(store, Place(), objects)
    for number in range(10):
        objects.create(f"small-{number}", set="night", created_at=6.0 + number)
        operator.passes()
    assert len(operator.cluster.created) == 11
    assert max(Counter(reads).values()) <= CHANGES, "no other object of its set reads a run"
    plans = {run.run_id: run.plan for run in store.runs(RunFilter())}
    operator.cluster.found = [found(plans[run_id]) for run_id in operator.cluster.created]
    reads.clear()
    operator.passes(20, seconds=limits.now.poll)
    assert reads == []
    objects.change(uid, cancel=True)
    operator.passes()
    assert objects.found[uid].status["phase"] == "Cancelled"
    assert max(Counter(reads).values()) <= CHANGES
    assert {run_id.rpartition("-")[0] for run_id in reads} == {"large"}
