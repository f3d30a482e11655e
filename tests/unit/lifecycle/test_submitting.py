"""Runs from plan to record: what is kept whatever happens on the way."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from k8sbench.cli import exit_codes
from k8sbench.lifecycle import job_requests, submitting
from k8sbench.lifecycle.context import Stop
from k8sbench.model import creation
from k8sbench.model.errors import Interrupted, StoreError, Unreachable, UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.ports import FoundJob, Manifest, RunFilter, Store
from tests.unit.lifecycle.played import (
    LOCATION,
    FakeCluster,
    Silent,
    at,
    context,
    detached,
    outcomes,
    planned_case,
    submit,
)
from tests.unit.store.examples import OWNER

CTRL_C = "Interrupted (Ctrl-C)"


def test_repeats_are_numbered_within_set_and_case(store: Store) -> None:
    first, second = submit(store, FakeCluster(at(Phase.SUCCEEDED)), cases=2)
    (other,) = submit(store, FakeCluster(at(Phase.SUCCEEDED)), run_id="other", replicas=2)
    assert [r.plan.repeat for r in (first, second, other)] == [1, 2, 1]
    assert first.case_key == second.case_key != other.case_key


def test_a_repeat_number_that_another_process_takes_first_is_drawn_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_the_next_run_starts_when_the_one_before_is_measured(store: Store) -> None:
    class Asking(FakeCluster):
        def create(self, plan: RunPlan, *more: Any) -> None:
            assert all(store.run(run_id).measurement for run_id in self.created)
            super().create(plan, *more)

    assert len(submit(store, Asking(at(Phase.SUCCEEDED)), cases=3)) == 3


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
    with pytest.raises(Interrupted, match=r"seg-1 were ended; it is Cancelled\. 2 more") as raised:
        submit(store, cluster, stop=stop, cases=3)
    assert "--resume night" in raised.value.action
    assert store.run("seg-1").phase is Phase.CANCELLED
    assert cluster.cancelled == [(CTRL_C, "interrupted")]
    assert cluster.created == ["seg-1"]


@pytest.mark.parametrize("outlives", [False, True])
def test_a_stop_just_after_the_last_run_is_over_leaves_its_row(
    store: Store, outlives: bool
) -> None:
    class Stopped(FakeCluster):
        def wait(self, seconds: float | None) -> Any:
            found = super().wait(seconds)
            if self.created and not self.going_on:
                stop(CTRL_C)
            return found

    stop = Stop()
    (run,) = submit(store, Stopped(at(Phase.SUCCEEDED), outlives=outlives), stop=stop)
    assert run.phase is Phase.SUCCEEDED
    assert run.measurement is not None
    assert store.run("seg-1") == run


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


def test_a_stop_before_anything_was_started_says_so(store: Store) -> None:
    stop = Stop()
    stop(CTRL_C)
    with pytest.raises(Interrupted, match=r"\(Ctrl-C\): nothing was started\.") as raised:
        submit(store, FakeCluster(at(Phase.SUCCEEDED)), stop=stop)
    assert "--resume" not in raised.value.action


def test_a_stop_before_the_last_job_is_created_says_how_many_are_and_the_way_on(
    store: Store,
) -> None:
    class Stopped(FakeCluster):
        def release(self, run_id: str) -> None:
            super().release(run_id)
            stop(CTRL_C)

    stop = Stop()
    cluster = Stopped(outlives=True)
    with pytest.raises(Interrupted, match=r"detached from seg-1; .* 2 more were not") as raised:
        submit(store, cluster, stop=stop, cases=3, detach=True)
    assert "--resume night" in raised.value.action
    assert cluster.created == ["seg-1"]


# -- runs that there are --------------------------------------------------------------------------


def test_a_run_id_of_another_case_on_the_cluster_leaves_no_trace(store: Store) -> None:
    cluster = FakeCluster(outlives=True)
    plan = planned_case("kubernetes", replicas=2).plan("mine", "elsewhere", 1)
    cluster.found = [
        FoundJob(run_id=plan.run_id, known_plan=plan, created_at=5.0, phase=Phase.RUNNING)
    ]
    with pytest.raises(UsageError, match=r"another case: .*\(other: .*replicas"):
        submit(store, cluster, run_id="mine")
    assert store.ids() == []


@pytest.mark.parametrize(("name", "value"), [("replicas", 2), ("seed", 7)])
def test_a_run_id_of_other_options_is_refused(store: Store, name: str, value: int) -> None:
    plan = planned_case().plan("mine", "night", 1)
    store.record(msgspec.structs.replace(plan, **{name: value}), at=9.0, owner=None)
    what = {"replicas": "is another case", "seed": "cannot be taken up"}[name]
    with pytest.raises(UsageError, match=rf"Run mine exists and {what}.*{name}"):
        submit(store, FakeCluster(), run_id="mine")


def test_a_run_of_another_place_is_not_joined_where_it_is_not(store: Store) -> None:
    (run,) = detached(store, run_id="mine")
    there = {"location": msgspec.structs.replace(LOCATION, namespace="other")}
    with pytest.raises(UsageError, match=r"submitted to namespace bench .* in namespace other of"):
        submit(store, FakeCluster(outlives=True), run_id="mine", changes=there)
    assert store.run("mine") == run


def test_what_a_set_already_has_need_not_be_repeated(store: Store) -> None:
    (run,) = submit(store, FakeCluster(at(Phase.SUCCEEDED)))
    submit(store, FakeCluster(at(Phase.FAILED)), run_id="failed")
    here = context(store, FakeCluster())
    assert submitting.repeats(here, "night") == {
        case_key(run.plan): submitting.Repeats(finished=[run])
    }
    assert submitting.repeats(here, "day") == {}


def test_what_goes_on_of_a_set_is_taken_up_and_not_started_a_second_time(store: Store) -> None:
    """One run's job goes on; another was recorded, and killed before its job was created."""
    detached(store)
    case = planned_case("kubernetes")
    store.record(case.plan("recorded", "night", 2), at=11.0, owner=None, location=LOCATION)
    cluster = FakeCluster(at(Phase.SUCCEEDED), outlives=True)
    (found,) = submitting.repeats(context(store, cluster), "night").values()
    assert [run.run_id for run in found.open] == ["seg-1", "recorded"]
    again = [msgspec.structs.replace(case, joins=run.run_id) for run in found.open]
    done = {run.run_id: run.phase for run in submit(store, cluster, planned=again)}
    assert done == {"seg-1": Phase.SUCCEEDED, "recorded": Phase.SUCCEEDED}
    assert cluster.created == ["recorded"]


def test_what_a_kill_ended_on_this_machine_is_missing_of_its_set(store: Store) -> None:
    case = planned_case("local")
    store.record(case.plan("killed", "night", 1), at=11.0, owner=OWNER)
    going = context(store, FakeCluster())
    (found,) = submitting.repeats(going, "night").values()
    assert [run.run_id for run in found.open] == ["killed"]
    dead = msgspec.structs.replace(going, alive=lambda _: False)
    assert submitting.repeats(dead, "night") == {case_key(case.draft): submitting.Repeats()}
    assert store.run("killed").phase is Phase.LOST


def test_joining_a_run_that_another_process_follows_is_an_outcome_and_no_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (created,) = detached(store, run_id="mine")
    monkeypatch.setattr(store.claims, "claim", lambda run_id: False)
    for detach in (False, True):
        cluster = FakeCluster(outlives=True)
        (joined,) = outcomes(store, cluster, run_id="mine", detach=detach)
        assert (joined.run, joined.state) == (created, "followed-elsewhere")
        assert cluster.created == []


def test_hosts_in_an_upstream_command_are_those_of_each_run(store: Store) -> None:
    case = planned_case()
    draft = case.draft
    words = (*draft.command, f"{draft.run_id}-master-0:29500")
    hosts = {"HOST": f"{draft.run_id}-worker-1"}
    case = msgspec.structs.replace(
        case, draft=msgspec.structs.replace(draft, command=words, env=hosts)
    )
    one, two = case.plan("one", "night", 1), case.plan("two", "night", 2)
    assert (one.command[-1], two.command[-1]) == ("one-master-0:29500", "two-master-0:29500")
    assert (one.env, two.env) == ({"HOST": "one-worker-1"}, {"HOST": "two-worker-1"})
    assert case_key(one) == case_key(two) == case_key(case.draft)


def test_a_run_whose_end_nobody_knows_is_reported_and_is_no_success(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a namespace that is deleted: its job is gone, and its collector does not answer."""

    def unknown(*_: object) -> None:
        raise Unreachable("namespaces 'team' not found")

    monkeypatch.setattr(job_requests, "OWNER_SECONDS", 0.0)
    gone = at(Phase.LOST, "It is gone.", creation.JOB_GONE)
    cluster, reporter = FakeCluster(at(Phase.RUNNING), gone, outlives=True), Silent()
    (run,) = submit(store, cluster, reporter=reporter, changes={"collected_elsewhere": unknown})
    assert not run.phase.final
    assert f"k8sbench watch {run.run_id}" in " ".join(reporter.reported)
    assert exit_codes.of_runs([run]) == Unreachable.exit_code
