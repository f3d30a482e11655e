"""What a cluster is to be asked for is recorded before it is asked, and asked for again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from k8sbench.lifecycle import collecting, requests, submitting
from k8sbench.lifecycle.collecting import CollectResult
from k8sbench.lifecycle.context import RunContext, Stop
from k8sbench.model.errors import BenchError, StoreError, Unreachable, UsageError
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run, Wish
from k8sbench.model.sample import LogGap
from k8sbench.ports import FoundJob, JobEvent, RunFilter, Store
from tests.unit.lifecycle.played import (
    FakeCluster,
    Silent,
    at,
    context,
    planned_case,
    runs_of,
    served,
    submit,
)
from tests.unit.model.specs import a_request

AWAY = Unreachable("The API server cannot be reached.")
AWAY.cause_id = "api-unreachable"
CANCEL = Wish(kind="cancel", at=9.0, cause="By hand.", cause_id="cancelled")
GONE = at(Phase.LOST, "The cluster has no such job any more.", "job-gone")


class Killed(BaseException):
    """The process ends here; nothing after it is done."""


@pytest.fixture
def run(store: Store) -> Run:
    """A run whose job goes on, and that no process follows."""
    args = (context(store, FakeCluster(outlives=True)), Silent(), Stop())
    cases = [planned_case("kubernetes")]
    (created,) = runs_of(submitting.create_all(cases, *args, a_request(set_name="night")))
    return created


def collect(
    store: Store,
    cluster: FakeCluster,
    *,
    reporter: Silent | None = None,
    keep: bool = False,
) -> CollectResult:
    """Collect, as ``collect --all`` does, all that needs it."""
    here = context(store, cluster)
    args = (here, reporter or Silent(), Stop())
    return collecting.collect(collecting.open_runs(here), *args, follow=False, keep=keep)


def end(run: Run) -> tuple[Phase, str, str | None]:
    final = run.history[-1]
    return final.phase, final.cause, final.cause_id


class Going(FakeCluster):
    """A cluster on which the jobs of all runs go on until they are cancelled."""

    def __init__(self, *runs: Run, script: Sequence[JobEvent] = ()) -> None:
        super().__init__(*script, outlives=True)
        self.found = [
            FoundJob(run_id=one.run_id, known_plan=one.plan, created_at=5.0, phase=Phase.RUNNING)
            for one in runs
        ]


# -- to cancel ------------------------------------------------------------------------------------


def test_a_wish_that_was_not_asked_for_is_asked_for_by_the_next_collect(
    store: Store, run: Run
) -> None:
    store.wish(run.run_id, CANCEL)
    cluster = Going(run)
    (closed,) = collect(store, cluster).closed
    assert cluster.cancelled == [("By hand.", "cancelled")]
    assert end(closed) == (Phase.CANCELLED, "By hand.", "cancelled")
    assert store.run(run.run_id).wishes == ()


def test_a_job_that_is_gone_and_was_to_be_cancelled_is_cancelled(store: Store, run: Run) -> None:
    store.wish(run.run_id, CANCEL)
    (closed,) = collect(store, FakeCluster(GONE, outlives=True)).closed
    assert end(closed) == (Phase.CANCELLED, "By hand.", "cancelled")


def test_a_job_that_is_gone_and_was_not_to_be_cancelled_is_lost(store: Store, run: Run) -> None:
    (closed,) = collect(store, FakeCluster(GONE, outlives=True)).closed
    assert closed.phase is Phase.LOST
    assert store.run(run.run_id).wishes == ()


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
def test_a_job_that_ended_by_itself_before_it_was_reached_keeps_its_end(
    store: Store, run: Run, phase: Phase
) -> None:
    store.wish(run.run_id, CANCEL)
    cluster = FakeCluster(at(phase, "By itself.", "own-end"), outlives=True)
    cluster.cancel = lambda *_, **__: None  # type: ignore[method-assign]
    (closed,) = collect(store, cluster).closed
    assert end(closed) == (phase, "By itself.", "own-end")
    assert store.run(run.run_id).wishes == (), "the wish is moot"


def test_a_job_that_does_not_end_is_not_waited_for_without_end(store: Store, run: Run) -> None:
    class Deaf(FakeCluster):
        def cancel(self, run_id: str, cause: str, cause_id: str) -> None:
            pass

    wished, cluster = store.wish(run.run_id, CANCEL), Deaf(at(Phase.RUNNING), outlives=True)
    times = itertools.count(10.0, 20.0)
    here = msgspec.structs.replace(context(store, cluster), clock=lambda: next(times))
    with pytest.raises(Unreachable, match="has not ended in 5m"):
        collecting.cancel(wished, here, Silent(), Stop())
    assert store.run(run.run_id).wishes == (CANCEL,)


@pytest.mark.parametrize(
    ("refusal", "left"), [(UsageError("Not on Fridays."), ()), (AWAY, (CANCEL,))]
)
def test_a_refusal_is_reported_and_forgotten_and_silence_is_not(
    store: Store, run: Run, refusal: BenchError, left: tuple[Wish, ...]
) -> None:
    class Refusing(Going):
        def cancel(self, run_id: str, cause: str, cause_id: str) -> None:
            self.going_on[run_id].append(at(Phase.RUNNING, "It goes on."))
            raise refusal

        def wait(self, seconds: float | None) -> Sequence[JobEvent]:
            if any("could not be cancelled" in text for text in reporter.reported):
                stop("Interrupted (Ctrl-C)")
            return super().wait(seconds)

    store.wish(run.run_id, CANCEL)
    stop, reporter, cluster = Stop(), Silent(), Refusing(run)
    here = context(store, cluster)
    args = (here, reporter, stop)
    result = collecting.collect(collecting.open_runs(here), *args, follow=False)
    assert [one.run_id for one in result.going_on] == [run.run_id]
    assert f"warning: run {run.run_id} could not be cancelled: {refusal}" in reporter.reported
    assert store.run(run.run_id).wishes == left


def test_the_process_that_follows_a_run_knows_who_ended_its_job(store: Store, run: Run) -> None:
    class Deleted(FakeCluster):
        def wait(self, seconds: float | None) -> Sequence[JobEvent]:
            events = super().wait(seconds)
            if events:
                store.wish(run.run_id, CANCEL)
            return events

    cluster = Deleted(GONE, outlives=True)
    (closed,) = collecting.collect(
        [run], context(store, cluster), Silent(), Stop(), follow=True
    ).closed
    assert end(closed) == (Phase.CANCELLED, "By hand.", "cancelled")
    assert cluster.cancelled == []


# -- what k8sbench decides itself -----------------------------------------------------------------


class KilledWhenAsked(FakeCluster):
    """A cluster whose client is killed when it asks for a job's end."""

    def cancel(self, run_id: str, cause: str, cause_id: str) -> None:
        raise Killed


def test_a_time_limit_is_recorded_before_the_cluster_is_asked(store: Store) -> None:
    cluster = KilledWhenAsked(at(Phase.RUNNING), outlives=True)
    with pytest.raises(Killed):
        submit(store, cluster, timeout_s=30.0, now=51.0, backend="kubernetes")
    (closed,) = collect_named(store, "seg-1", FakeCluster(GONE, outlives=True)).closed
    cause = "The run took longer than its --timeout of 30s."
    assert end(closed) == (Phase.CANCELLED, cause, "timeout")


def test_what_cannot_start_is_recorded_before_the_cluster_is_asked(store: Store) -> None:
    waiting = at(
        Phase.PENDING, "No node has it.", "no-matching-node", unrecoverable=True, action="Name one."
    )
    with pytest.raises(Killed):
        submit(store, KilledWhenAsked(waiting, outlives=True), backend="kubernetes")
    (closed,) = collect_named(store, "seg-1", FakeCluster(GONE, outlives=True)).closed
    assert end(closed) == (Phase.FAILED, "No node has it.", "no-matching-node")
    assert closed.history[-1].action == "Name one."


def test_a_job_is_ended_also_where_that_cannot_be_recorded(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Run:
        raise StoreError("The disk is full.")

    cluster = FakeCluster(at(Phase.RUNNING), outlives=True)
    monkeypatch.setattr(store, "wish", full)
    (run,) = submit(store, cluster, timeout_s=30.0, now=51.0, backend="kubernetes")
    assert run.history[-1].cause_id == "timeout"
    assert [cause_id for _, cause_id in cluster.cancelled] == ["timeout"]


def collect_named(store: Store, run_id: str, cluster: FakeCluster) -> CollectResult:
    args = (context(store, cluster), Silent(), Stop())
    return collecting.collect([store.run(run_id)], *args, follow=False)


# -- to delete ------------------------------------------------------------------------------------


class KilledWhenDeleting(FakeCluster):
    """A cluster whose client is killed when it deletes a job."""

    def remove(self, run_id: str, *_: Any, **__: Any) -> str | None:
        raise Killed


def test_a_kill_between_the_end_and_its_measuring_leaves_both(store: Store, run: Run) -> None:
    def killed(_: Run, gaps: Sequence[LogGap]) -> Measurement:
        raise Killed

    cluster = FakeCluster(at(Phase.SUCCEEDED), outlives=True)
    here: RunContext = msgspec.structs.replace(context(store, cluster), measure=killed)
    with pytest.raises(Killed):
        collecting.collect([run], here, Silent(), Stop(), follow=False)
    again = FakeCluster(outlives=True)
    (closed,) = collect(store, again).closed
    assert closed.measurement is not None
    assert again.removed == [run.run_id]
    assert closed.wishes == ()


def test_a_job_that_was_never_created_leaves_nothing(store: Store, run: Run) -> None:
    with pytest.raises(Killed):
        collect(store, KilledWhenDeleting(GONE, outlives=True))
    again = FakeCluster(outlives=True)
    collect(store, again)
    assert again.removed == [run.run_id]


def test_a_refused_deletion_stays_owed_and_is_reported(store: Store, run: Run) -> None:
    class Refusing(FakeCluster):
        def remove(self, run_id: str, *_: Any, **__: Any) -> str | None:
            raise UsageError("Not on Fridays.")

    first, again = Silent(), Silent()
    collect(store, Refusing(at(Phase.SUCCEEDED), outlives=True), reporter=first)
    result = collect(store, Refusing(outlives=True), reporter=again)
    assert [one.run_id for one in result.closed] == [run.run_id]
    for reporter in (first, again):
        assert any("stays there: Not on Fridays." in text for text in reporter.reported)
    assert store.run(run.run_id).wish("delete") == requests.left_over(20.0)


def test_a_refused_deletion_is_not_asked_for_all_the_time(store: Store, run: Run) -> None:
    class Refusing(FakeCluster):
        looks = 40

        def remove(self, run_id: str, *_: Any, **__: Any) -> str | None:
            self.removed.append(run_id)
            raise UsageError("Not on Fridays.")

        def wait(self, seconds: float | None) -> Sequence[JobEvent]:
            if self.looks == 0:
                stop("Interrupted (SIGTERM)")
            self.looks -= 1
            return super().wait(seconds)

    stop, cluster = Stop(), Refusing(at(Phase.SUCCEEDED), outlives=True)
    seconds = itertools.count(0.0, 1.0)
    here = msgspec.structs.replace(context(store, cluster), clock=lambda: next(seconds))
    args = (here, Silent(), stop)
    result = served(lambda: collecting.open_runs(here), *args)
    assert [one.run_id for one in result.closed] == [run.run_id], "it has one row"
    assert 2 <= len(cluster.removed) <= 5, "the pauses grow"


def test_with_keep_nothing_is_owed(store: Store, run: Run) -> None:
    cluster = FakeCluster(at(Phase.SUCCEEDED), outlives=True)
    (closed,) = collect(store, cluster, keep=True).closed
    assert (cluster.removed, closed.wishes) == ([], ())
    store.wish(run.run_id, requests.left_over(30.0))
    collect(store, cluster, keep=True)
    assert (cluster.removed, store.run(run.run_id).wishes) == ([], ())


def test_what_a_user_deletes_is_deleted_whoever_uses_it(store: Store, run: Run) -> None:
    class Used(FakeCluster):
        def remove(self, run_id: str, *_: Any, force: bool = False, **__: Any) -> str | None:
            self.removed.append(f"{run_id} {force}")
            return None if force else "k8sbench on lab-7 follows it."

    store.wish(run.run_id, requests.by_name(9.0))
    cluster = Used(at(Phase.SUCCEEDED), outlives=True)
    collect(store, cluster)
    assert cluster.removed == [f"{run.run_id} True"]
    assert store.run(run.run_id).wishes == ()


def test_runs_with_a_wish_are_found(store: Store, run: Run) -> None:
    assert store.runs(RunFilter(wished=True)) == []
    end = at(Phase.FAILED).transition
    assert end is not None
    store.move(run.run_id, end)
    assert store.runs(RunFilter(unfinished=True)) == []
    wished = store.wish(run.run_id, requests.left_over(20.0))
    assert store.runs(RunFilter(wished=True)) == [wished]
    assert store.runs(RunFilter(unfinished=True)) == [wished]
