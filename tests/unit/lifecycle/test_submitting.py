"""Runs from plan to record: what is kept whatever happens on the way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from k8sbench import limits
from k8sbench.adapters import processes, templates
from k8sbench.app.run_contexts import run_context
from k8sbench.app.submit import resumed
from k8sbench.lifecycle import set_runs
from k8sbench.lifecycle.context import RunContext
from k8sbench.lifecycle.outcome import OutcomeKind
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.run_artifacts import MANIFEST
from k8sbench.lifecycle.stop import Stop
from k8sbench.lifecycle.submitting import SubmittedBenchmark
from k8sbench.model import creation
from k8sbench.model.benchmark_object import API_VERSION, KIND, Benchmark, claim_name
from k8sbench.model.errors import (
    BenchError,
    Interrupted,
    NoRoom,
    StoreError,
    Unreachable,
    UsageError,
)
from k8sbench.model.kube import JobIdentity, JobOwner, annotations_of, attempt_of
from k8sbench.model.names import NONCE_ANNOTATION, OWNER_ANNOTATION, WAITS_ANNOTATION
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.model.stored_object import ObjectPlace
from k8sbench.ports.cluster import JobEvent, Manifest
from k8sbench.render.trainer_sources import TrainerSources, mounted_by
from k8sbench.store.benchmark_objects import StoredObjects
from k8sbench.store.interface import RunFilter, Store
from k8sbench.store.open_store import open_store
from k8sbench.store.sql_store import SqlStore
from tests.unit.lifecycle.played import (
    LOCATION,
    FakeCluster,
    Silent,
    at,
    context,
    detached,
    objects,
    outcomes,
    planned_case,
    submit,
)
from tests.unit.model.specs import a_request
from tests.unit.presence import present
from tests.unit.render import plans
from tests.unit.store.examples import TRAINING

CTRL_C = "Interrupted (Ctrl-C)"


def test_a_taken_repeat_is_drawn_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(store, FakeCluster(at(Phase.SUCCEEDED)))
    drawn = iter((1, 2))
    monkeypatch.setattr(store, "next_repeat", lambda *_: next(drawn))
    (run,) = submit(store, FakeCluster(at(Phase.SUCCEEDED)), run_id="second")
    assert run.plan.repeat == 2


def test_when_k8sbench_itself_breaks_the_run_says_so(store: Store) -> None:
    with pytest.raises(StoreError, match="No space left"):
        submit(store, FakeCluster(at(Phase.RUNNING), StoreError("No space left on the disk.")))
    run = store.run("seg-1")
    assert run.phase is Phase.FAILED
    assert "No space left" in run.history[-1].cause


def test_what_cannot_be_rendered_leaves_no_run(store: Store) -> None:
    def refuse(_: RunPlan) -> tuple[Manifest, ...]:
        raise UsageError("shm is above the memory limit.")

    broken = msgspec.structs.replace(planned_case(), manifests=refuse)
    with pytest.raises(UsageError, match="shm"):
        outcomes(store, FakeCluster(), planned=[broken])
    assert store.runs(RunFilter()) == []


# -- stopped --------------------------------------------------------------------------------------


def test_a_stop_of_local_runs_ends_them_and_says_what_is_missing(store: Store) -> None:
    stop = Stop()
    script = (at(Phase.RUNNING), at(Phase.RUNNING, "more"), at(Phase.SUCCEEDED))
    cluster = FakeCluster(*script, meanwhile=lambda: stop(CTRL_C))
    with pytest.raises(Interrupted, match=r"seg-1 were ended; it is Cancelled\.") as raised:
        submit(store, cluster, stop=stop, cases=3)
    assert names_in(raised.value) == ["seg-1", "seg-2", "seg-3"]
    assert raised.value.action == "Resume: k8sbench submit seg --resume night"
    assert store.run("seg-1").phase is Phase.CANCELLED
    assert cluster.cancelled == [(CTRL_C, "interrupted")]
    assert cluster.created == ["seg-1"]


def test_a_second_interruption_is_no_failure_of_the_run(store: Store) -> None:
    def again() -> None:
        stop(CTRL_C)
        raise KeyboardInterrupt

    stop = Stop()
    with pytest.raises(KeyboardInterrupt):
        submit(store, FakeCluster(meanwhile=again), stop=stop)
    last = store.run("seg-1").history[-1]
    assert (last.phase, last.cause_id) == (Phase.CANCELLED, "interrupted")
    assert last.cause.startswith(CTRL_C)


class Ending(FakeCluster):
    """A cluster whose jobs succeed; something happens when the first has ended, or is left."""

    def __init__(self, first: str, happens: Callable[[], object], *, outlives: bool) -> None:
        super().__init__(at(Phase.SUCCEEDED), outlives=outlives)
        self.first, self.happens = first, happens

    def _told(self, run_id: str, event: JobEvent) -> JobEvent:
        if run_id == self.first:
            self.happens()
        return super()._told(run_id, event)

    def release(self, run_id: str) -> None:
        super().release(run_id)
        if run_id == self.first:
            self.happens()


def names_in(error: BenchError) -> list[str]:
    """Return the ids of runs that an error names."""
    return re.findall(r"\b(?:seg|night)-\d\b", error.message)


@pytest.mark.parametrize("outlives", [True, False])
def test_a_stop_between_two_runs_names_those_that_were_not_started(
    store: Store, outlives: bool
) -> None:
    stop = Stop()
    cluster = Ending("seg-1", lambda: stop(CTRL_C), outlives=outlives)
    with pytest.raises(Interrupted) as raised:
        submit(store, cluster, stop=stop, cases=3)
    assert names_in(raised.value) == ["seg-2", "seg-3"]
    assert raised.value.action == "Resume: k8sbench submit seg --resume night"
    assert {run.run_id: run.phase for run in store.runs(RunFilter())} == {"seg-1": Phase.SUCCEEDED}


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("how", ["cancelled", "removed"])
def test_a_benchmark_that_ends_between_two_runs_is_an_error_that_names_what_did_not_start(
    tmp_path: Path, how: str, detach: bool
) -> None:
    folder = tmp_path / "store"
    objects = StoredObjects(folder, lambda: 5.0)

    def end() -> None:
        if how == "cancelled":
            objects.change(benchmark, lambda _: {"cancel": True})
        else:
            objects.delete(benchmark)

    with open_store(str(folder)) as store:
        benchmark = stored_object(folder, "night", repeats=3)
        here = context(store, Ending("night-1", end, outlives=True))
        work = work_on(benchmark, folder, [planned_case("kubernetes")] * 3, here, detach=detach)
        assert [one.run.run_id for one in work.outcomes()] == ["night-1"]
        failure = present(work.failure)
    assert failure.exit_code == 1
    assert names_in(failure) == ["night-2", "night-3", "night-1"]


def test_a_stop_between_creations_says_what_is_left(store: Store) -> None:
    class Stopped(FakeCluster):
        def release(self, run_id: str) -> None:
            super().release(run_id)
            stop(CTRL_C)

    stop = Stop()
    cluster = Stopped(outlives=True)
    with pytest.raises(Interrupted, match=r"detached from seg-1; .* seg-2 was not") as raised:
        submit(store, cluster, stop=stop, cases=2, detach=True)
    assert "--resume night" in raised.value.action
    assert cluster.created == ["seg-1"]


# -- runs that there are --------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "value"), [("replicas", 2), ("seed", 7)])
def test_a_run_id_of_other_options_is_refused(store: Store, name: str, value: int) -> None:
    plan = planned_case().plan("mine", "night", 1)
    store.record(msgspec.structs.replace(plan, **{name: value}), at=9.0, process=None)
    what = {"replicas": "is another case", "seed": "cannot be taken up"}[name]
    with pytest.raises(UsageError, match=rf"Run mine exists and {what}.*{name}"):
        submit(store, FakeCluster(), run_id="mine")


def test_a_run_of_another_place_is_not_joined_where_it_is_not(store: Store) -> None:
    (run,) = detached(store, run_id="mine")
    there = {"location": msgspec.structs.replace(LOCATION, namespace="other")}
    with pytest.raises(UsageError, match=r"submitted to namespace bench .* in namespace other of"):
        submit(store, FakeCluster(outlives=True), run_id="mine", changes=there)
    assert store.run("mine") == run


def test_what_goes_on_of_a_set_is_taken_up_and_not_started_a_second_time(store: Store) -> None:
    """One run is active; another was killed before job creation."""
    detached(store)
    case = planned_case("kubernetes")
    store.record(case.plan("recorded", "night", 2), at=11.0, process=None, location=LOCATION)
    cluster = FakeCluster(at(Phase.SUCCEEDED), outlives=True)
    (found,) = set_runs.repeats(store.runs(RunFilter(set_name="night"))).values()
    assert [run.run_id for run in found.open] == ["seg-1", "recorded"]
    again = [msgspec.structs.replace(case, run_id=run.run_id) for run in found.open]
    done = {run.run_id: run.phase for run in submit(store, cluster, planned=again)}
    assert done == {"seg-1": Phase.SUCCEEDED, "recorded": Phase.SUCCEEDED}
    assert cluster.created == ["recorded"]


def test_runs_of_an_operator_that_this_store_has_count_in_a_resumed_set(store: Store) -> None:
    case = planned_case("kubernetes")
    of_operator = msgspec.structs.replace(case.plan("theirs", "night", 1), requested_by="0b5f6c1e")
    run = store.record(of_operator, at=11.0, process=None, location=LOCATION)
    assert present(run.planned).namespace == LOCATION.namespace
    here = context(store, FakeCluster())
    finished, to_do = resumed([case], here, "night", Silent())
    assert (finished, [each.run_id for each in to_do]) == ([], ["theirs"])
    creation.check_same_case(case.like(run.plan), run.plan)


def test_joining_a_run_that_another_process_follows_is_an_outcome_and_no_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (created,) = detached(store, run_id="mine")
    monkeypatch.setattr(store.claims, "claim", lambda what: what != "mine")
    for detach in (False, True):
        cluster = FakeCluster(outlives=True)
        (joined,) = outcomes(store, cluster, run_id="mine", detach=detach)
        assert (joined.run, joined.how) == (created, OutcomeKind.FOLLOWED_ELSEWHERE)
        assert cluster.created == []


def test_a_run_that_another_process_ended_before_it_was_claimed_is_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    detached(store, run_id="mine")

    def claim(what: str) -> bool:
        if what == "mine":
            store.move("mine", present(at(Phase.FAILED).transition))
        return True

    monkeypatch.setattr(store.claims, "claim", claim)
    (joined,) = outcomes(store, FakeCluster(outlives=True), run_id="mine", detach=True)
    assert (joined.run.phase, joined.how) == (Phase.FAILED, OutcomeKind.OVER_BEFORE)


def test_a_run_that_has_its_outcome_may_be_followed_by_another_process(tmp_path: Path) -> None:
    folder = str(tmp_path / "store")
    with open_store(folder) as first, open_store(folder) as second:
        (run,) = submit(first, cluster_of())
        assert second.claims.claim(run.run_id)


# -- what is known of a job's creation ------------------------------------------------------------


ENDED = at(Phase.SUCCEEDED)
DOWN = Unreachable("The training operator does not run.", "Have it started.")


def cluster_of(*refusals: BaseException | None, **more: Any) -> FakeCluster:
    """A cluster whose jobs succeed, and that refuses the first creations with these errors."""
    return FakeCluster(ENDED, outlives=True, refusals=refusals, **more)


def reported(run: Run) -> list[tuple[str, str | None]]:
    return [(str(step.phase), step.cause_id) for step in run.history]


# -- what is recorded -------------------------------------------------------------------------


def test_an_error_of_ours_does_not_say_that_there_is_no_job(store: Store) -> None:
    with pytest.raises(ZeroDivisionError):
        outcomes(store, cluster_of(ZeroDivisionError()), run_id="mine")
    assert reported(store.run("mine"))[-1] == ("Created", "creation-unknown")


# -- submitted again --------------------------------------------------------------------------


def test_a_run_that_was_refused_is_submitted_again_with_what_is_asked_for_now(store: Store) -> None:
    (refused,) = outcomes(store, cluster_of(DOWN), run_id="mine", timeout_s=60.0)
    assert refused.run.history[-1].cause == (
        "Its job was not created: The training operator does not run."
    )
    (one,) = outcomes(store, cluster_of(), run_id="mine", timeout_s=90.0)
    assert store.run("mine").plan.timeout_s == 90.0
    assert reported(one.run) == [
        ("Created", None), ("Failed", "not-created"), ("Created", None), ("Created", "job-created"),
        ("Succeeded", None),
    ]  # fmt: skip


# -- several ----------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [1, 3])
def test_one_refusal_does_not_keep_the_others_from_their_ends(store: Store, parallel: int) -> None:
    reporter = Silent()
    cluster = cluster_of(None, UsageError("The webhook refused it.", "Mend it."))
    ends = outcomes(store, cluster, cases=5, parallel=parallel, reporter=reporter)
    assert sorted(one.how.value for one in ends) == ["closed"] * 4 + ["refused"]
    (refused,) = (one for one in ends if one.error is not None)
    assert reported(refused.run)[-1] == ("Failed", "not-created")
    assert refused.run.history[-1].action == "Mend it."
    assert reporter.reported.count("Failed") == 1
    assert store.claims.claim(refused.run.run_id)


@pytest.mark.parametrize(("parallel", "waits"), [(None, False), (1, True), (2, False)])
def test_a_limit_that_is_given_counts_what_other_submits_of_the_set_follow(
    tmp_path: Path, parallel: int | None, waits: bool
) -> None:
    def other_ends() -> None:
        if cluster.now > 100.0:
            first.claims.release("other")

    folder = str(tmp_path / "store")
    with open_store(folder) as first, open_store(folder) as second:
        case = planned_case("kubernetes").for_object("stored-other", "other")
        first.record(case.plan("other", "night"), at=9.0, process=None, location=LOCATION)
        assert first.claims.claim("other")
        assert second.claims.is_taken("other")
        assert not first.claims.is_taken("other")
        cluster = cluster_of(passes=20.0, meanwhile=other_ends)
        (one,) = outcomes(second, cluster, parallel=parallel)
    assert (one.run.created_at > 100.0) is waits


def stored_object(root: Path, name: str, **spec: Any) -> Benchmark:
    """Store an object of the set ``night``."""
    place = ObjectPlace(backend="kubernetes", process=processes.this_process())
    asked = {"metadata": {"name": name}, "spec": {"benchmark": "seg", "set": "night", **spec}}
    head = {"apiVersion": API_VERSION, "kind": KIND}
    return StoredObjects(root, lambda: 5.0).create({**head, **asked}, place)


def work_on(
    benchmark: Benchmark,
    root: Path,
    cases: Sequence[PlannedCase],
    here: RunContext,
    **asked: Any,
) -> SubmittedBenchmark:
    """Have a process reconcile a stored object."""
    kept = StoredObjects(root, lambda: 5.0, names={benchmark.name})
    request = a_request(set_name="night", **asked)
    return SubmittedBenchmark(
        benchmark, kept, cases, here, Silent(), Stop(), request, here.store.ids()
    )


def test_a_run_that_a_resumption_takes_up_counts_once_in_the_status(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    case = planned_case("kubernetes")
    with open_store(str(folder)) as store:
        benchmark = stored_object(folder, "one", repeats=2)
        here = context(store, cluster_of())
        first = work_on(benchmark, folder, [case], here, detach=True)
        (left,) = first.outcomes()
        objects = StoredObjects(folder, lambda: 5.0)
        objects.change(benchmark, lambda _: {"retry": 1})
        same = msgspec.structs.replace(case, run_id=left.run.run_id)
        again = work_on(benchmark, folder, [same, case], here)
        list(again.outcomes())
        again.end()
        (found,) = objects.list_all()
    assert (found.status["phase"], found.status["summary"]["runs"]) == ("Succeeded", "2/2")


@pytest.mark.parametrize(("parallel", "after"), [(3, 3), (None, 1)])
def test_a_limit_counts_over_the_set_while_the_process_of_its_object_lives(
    tmp_path: Path, parallel: int | None, after: int
) -> None:
    folder = tmp_path / "store"
    active: dict[str, set[int]] = {"before": set(), "beside": set(), "after": set()}

    def look() -> None:
        """Let the only run of the other submit end, and then its process."""
        stage = "before" if cluster.now < 100.0 else "beside" if cluster.now < 200.0 else "after"
        active[stage].add(len(cluster.going_on))
        if stage != "before":
            first.claims.release("one-1")
        if stage == "after":
            first.claims.release(claim_name("one"))

    with open_store(str(folder)) as first, open_store(str(folder)) as second:
        one = stored_object(folder, "one", parallel=1)
        limit = {} if parallel is None else {"parallel": parallel}
        other = stored_object(folder, "other", **limit)
        case = planned_case("kubernetes")
        plan = case.for_object(one.uid, "one").plan("one-1", "night")
        first.record(plan, at=9.0, process=None, location=LOCATION)
        assert first.claims.claim("one-1")
        assert first.claims.claim(claim_name("one"))
        going_on = [at(Phase.RUNNING, str(number)) for number in range(5)]
        cluster = FakeCluster(*going_on, ENDED, outlives=True, passes=2.0, meanwhile=look)
        work = work_on(other, folder, [case] * 12, context(second, cluster), parallel=parallel)
        assert len(list(work.outcomes())) == 12
    most = {stage: max(seen, default=None) for stage, seen in active.items()}
    assert most == {"before": 0, "beside": 1, "after": after}


# -- quotas -----------------------------------------------------------------------------------

FULL = NoRoom("Job x is not created: quota few allows 2, of which 2 used, and 1 more asked for.")


def test_a_run_whose_quota_is_full_can_be_submitted_again_after_a_stop(store: Store) -> None:
    stop = Stop()

    def interrupt() -> None:
        if store.run("mine").phase is Phase.QUEUED:
            stop("Interrupted (Ctrl-C)")

    cluster = cluster_of(*[FULL] * 99, passes=40.0, meanwhile=interrupt)
    with pytest.raises(Interrupted, match="Its job was not created: ") as raised:
        outcomes(store, cluster, run_id="mine", stop=stop)
    assert raised.value.action == "Submit it again, under its name with --run-id mine."
    assert reported(store.run("mine"))[-1] == ("Failed", "not-created")
    (one,) = outcomes(store, cluster_of(), run_id="mine")
    assert one.run.phase is Phase.SUCCEEDED


# -- attempts -------------------------------------------------------------------------------------


KILLED = "worker-1 was killed by signal 9 (SIGKILL), exit code 137."
FAILED = at(Phase.FAILED, KILLED, "replica-failed")


class Restarted(FakeCluster):
    """Plays one script for each attempt, and has one job at most."""

    def __init__(self, *scripts: Sequence[JobEvent], outlives: bool = True, **more: Any) -> None:
        super().__init__(outlives=outlives, passes=40.0, **more)
        self.scripts = scripts
        self.there: int | None = None
        """The attempt whose job is on the cluster."""
        self.attempts: list[int] = []

    def create(self, run: Run, manifests: Sequence[Manifest], folder: Path) -> None:
        attempt = attempt_of(manifests[-1])
        assert self.there in {None, attempt}, "two attempts would run at once"
        self.script = tuple(self.scripts[attempt - 1])
        super().create(run, manifests, folder)
        self.there = attempt
        self.attempts.append(attempt)

    def clear(self, run: Run) -> None:
        if self.there is not None and self.there < run.attempt:
            self.there = None


def attempted(store: Store, cluster: Restarted, max_restarts: int = 3, **changes: Any) -> Run:
    case = planned_case("kubernetes")
    draft = msgspec.structs.replace(case.draft, max_restarts=max_restarts)
    planned = [msgspec.structs.replace(case, draft=draft)]
    outcomes(store, cluster, planned=planned, run_id="mine", changes=changes)
    return store.run("mine")


def test_no_more_attempts_are_made_than_were_asked_for(store: Store) -> None:
    cluster = Restarted([FAILED], [FAILED], [FAILED], [at(Phase.SUCCEEDED)])
    run = attempted(store, cluster, max_restarts=2)
    assert (run.phase, run.restarts, cluster.attempts) == (Phase.FAILED, 2, [1, 2, 3])
    assert run.history[-1].cause == f"Attempt 3 of 3 ended: {KILLED}"
    assert run.history[-1].cause_id == "replica-failed"


def test_restarts_before_a_training_is_continued_do_not_count(store: Store) -> None:
    case = planned_case("kubernetes")
    changes = {"mode": "train", "training": TRAINING, "checkpoints": "pvc:kept", "max_restarts": 2}
    plan = msgspec.structs.replace(case.plan("mine", "night"), **changes)
    here = context(store, FakeCluster(outlives=True))
    store.record(plan, at=9.0, process=None, location=LOCATION, has_job=True)
    failed = store.move("mine", present(FAILED.transition))
    assert set_runs.reopened(failed, plan, here).plan.max_restarts == 3


# -- what may keep an attempt from being created --------------------------------------------------


@pytest.mark.parametrize("outlives", [True, False])
def test_an_attempt_that_is_refused_ends_the_run(store: Store, outlives: bool) -> None:
    refused = UsageError("pods are forbidden here.", "Ask who runs it.")
    cluster = Restarted([FAILED], [], outlives=outlives, refusals=[None, refused])
    final = attempted(store, cluster).history[-1]
    assert (final.phase, final.cause_id) == (Phase.FAILED, "restart-refused")
    assert final.cause == "Attempt 2 of 4 was not created: pods are forbidden here."
    assert final.action == "Ask who runs it."


def test_an_attempt_whose_request_is_lost_is_not_given_up_while_its_job_may_come(
    store: Store,
) -> None:
    lost, refused = (
        creation.creation_unknown_error("mine", "503."),
        UsageError("pods are forbidden here."),
    )
    cluster = Restarted([FAILED], [], refusals=[None, lost, *[refused] * 99])
    cluster.passes = 2.0
    asked_at = list[float]()

    def render(run: Run, identity: JobIdentity) -> Sequence[Manifest]:
        asked_at.append(cluster.now)
        return objects(run, identity)

    final = attempted(store, cluster, objects=render).history[-1]
    assert final.cause_id == creation.RESTART_REFUSED
    _, first, *_, last = asked_at
    assert last - first >= limits.now.creation_settle


def test_nothing_is_deleted_where_the_next_attempt_cannot_be_made_here(store: Store) -> None:
    def made(run: Run, identity: JobIdentity) -> Sequence[Manifest]:
        if run.restarts:
            raise UsageError("Run mine was planned with other trainers.")
        return objects(run, identity)

    cluster = Restarted([FAILED])
    final = attempted(store, cluster, objects=made).history[-1]
    assert final.cause_id == "restart-refused"
    assert final.cause == (
        "Attempt 2 of 4 was not created: Run mine was planned with other trainers."
    )
    assert cluster.there == 1


def test_a_full_disk_ends_no_run_whose_next_attempt_it_keeps_from_being_made(store: Store) -> None:
    def made(run: Run, identity: JobIdentity) -> Sequence[Manifest]:
        if run.restarts:
            raise StoreError("No space left on the disk.")
        return objects(run, identity)

    with pytest.raises(StoreError, match="No space left"):
        attempted(store, Restarted([FAILED]), objects=made)
    assert store.run("mine").history[-1].cause_id == "restarting"


# -- the objects of an attempt --------------------------------------------------------------------


HERE = templates.trainer_sources()
OWNER = JobOwner(store="0123456789", host="lab-7")


@pytest.fixture
def kept_run(tmp_path: Path) -> Iterator[tuple[SqlStore, Run]]:
    wanted = plans.plan("2x1", trainers_digest=HERE.digest)
    with open_store(str(tmp_path / "store")) as store:
        yield store, store.record(wanted, at=0.0, process=None)


def made(store: SqlStore, of_run: Run, **identity: Any) -> Sequence[Any]:
    context = run_context(store, FakeCluster(outlives=True))
    return context.objects(of_run, JobIdentity(nonce=of_run.nonce, owner=OWNER, **identity))


def restarted(store: SqlStore, of_run: Run) -> Run:
    return store.move(of_run.run_id, creation.attempt_restarts(of_run.plan, 1, "It failed.", 1.0))


def test_what_is_kept_is_what_is_created_and_the_trainers_come_along(
    kept_run: tuple[SqlStore, Run],
) -> None:
    config, job = made(*kept_run)
    kept = kept_run[0].read_artifact(kept_run[1].run_id, MANIFEST)
    assert kept is not None
    assert list(yaml.safe_load_all(kept)) == [job]
    assert annotations_of(job)[NONCE_ANNOTATION] == kept_run[1].nonce
    assert json.loads(annotations_of(job)[OWNER_ANNOTATION])["host"] == "lab-7"
    assert config["metadata"]["name"] == mounted_by(job) == HERE.config_map_name


@pytest.mark.parametrize("attempt", [1, 2])
def test_after_an_upgrade_a_run_mounts_the_trainers_that_it_was_planned_with(
    kept_run: tuple[SqlStore, Run], monkeypatch: pytest.MonkeyPatch, attempt: int
) -> None:
    """Also one that has waited for its turn meanwhile."""
    *_, before = made(*kept_run)
    other = TrainerSources.from_files({"k8sbench/trainers/other.py": "1"})
    monkeypatch.setattr(templates, "trainer_sources", lambda: other)
    store, run = kept_run
    if attempt > 1:
        run = restarted(store, run)
    for _ in range(2):  # a creation that failed is tried again
        (job,) = made(store, run, attempt=attempt)
        assert mounted_by(job) == HERE.config_map_name
        assert [one["spec"] for one in pods(job)] == [one["spec"] for one in pods(before)]


def test_an_attempt_waits_as_the_one_before_did(kept_run: tuple[SqlStore, Run]) -> None:
    store, run = kept_run
    made(store, run, waits=True)
    *_, job = made(store, restarted(store, run), attempt=2)
    assert annotations_of(job)[WAITS_ANNOTATION] == "true"


def pods(job: Any) -> list[Any]:
    return [one["template"] for one in plans.replicas(job).values()]
