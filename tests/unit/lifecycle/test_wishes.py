"""What a cluster is to be asked for is recorded before it is asked, and asked for again."""

from __future__ import annotations

from typing import Any

import pytest

from k8sbench.lifecycle import collecting
from k8sbench.lifecycle.context import Stop
from k8sbench.model.errors import BenchError, Unreachable, UsageError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run, Wish
from k8sbench.ports import Store
from tests.unit.lifecycle.played import (
    FakeCluster,
    Silent,
    at,
    collect,
    context,
    detached,
    served,
    submit,
)

AWAY = Unreachable("The API server cannot be reached.")
AWAY.cause_id = "api-unreachable"
CANCEL = Wish(kind="cancel", at=9.0, cause="By hand.", cause_id="cancelled")


@pytest.fixture
def run(store: Store) -> Run:
    (created,) = detached(store)
    return created


def end(run: Run) -> tuple[Phase, str, str | None]:
    final = run.history[-1]
    return final.phase, final.cause, final.cause_id


# -- to cancel ------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
def test_a_job_that_ended_by_itself_before_it_was_reached_keeps_its_end(
    store: Store, run: Run, phase: Phase
) -> None:
    store.wish(run.run_id, CANCEL)
    cluster = FakeCluster(at(phase, "By itself.", "own-end"), outlives=True)
    cluster.is_deaf = True
    (closed,) = collect(store, cluster).closed
    assert end(closed) == (phase, "By itself.", "own-end")
    assert store.run(run.run_id).wishes == (), "the wish is moot"


def test_a_job_that_does_not_end_is_not_waited_for_without_end(store: Store, run: Run) -> None:
    wished = store.wish(run.run_id, CANCEL)
    cluster = FakeCluster(at(Phase.RUNNING), outlives=True, passes=20.0)
    cluster.is_deaf = True
    with pytest.raises(Unreachable, match="has not ended in 5m"):
        collecting.cancel(wished, context(store, cluster), Silent(), Stop())
    assert store.run(run.run_id).wishes == (CANCEL,)


@pytest.mark.parametrize(
    ("refusal", "left"), [(UsageError("Not on Fridays."), ()), (AWAY, (CANCEL,))]
)
def test_a_refusal_is_reported_and_forgotten_and_silence_is_not(
    store: Store, run: Run, refusal: BenchError, left: tuple[Wish, ...]
) -> None:
    class Refusing(FakeCluster):
        def cancel(self, run_id: str, cause: str, cause_id: str) -> None:
            self.going_on[run_id].append(at(Phase.RUNNING, "It goes on."))
            raise refusal

    def look() -> None:
        if any("could not be cancelled" in text for text in reporter.reported):
            stop("Interrupted (Ctrl-C)")

    store.wish(run.run_id, CANCEL)
    stop, reporter, cluster = Stop(), Silent(), Refusing(outlives=True, meanwhile=look)
    result = collect(store, cluster, stop=stop, reporter=reporter)
    assert [one.run_id for one in result.going_on] == [run.run_id]
    assert f"warning: run {run.run_id} could not be cancelled: {refusal}" in reporter.reported
    assert store.run(run.run_id).wishes == left


# -- what k8sbench decides itself -----------------------------------------------------------------


def test_a_time_limit_is_recorded_before_the_cluster_is_asked(store: Store) -> None:
    class Killed(FakeCluster):
        def cancel(self, run_id: str, cause: str, cause_id: str) -> None:
            raise SystemExit

    cluster = Killed(at(Phase.RUNNING), outlives=True, now=51.0)
    with pytest.raises(SystemExit):
        submit(store, cluster, timeout_s=30.0)
    gone = at(Phase.LOST, "The cluster has no such job any more.", "job-gone")
    (closed,) = collect(store, FakeCluster(gone, outlives=True), [store.run("seg-1")]).closed
    cause = "The run took longer than its --timeout of 30s."
    assert end(closed) == (Phase.CANCELLED, cause, "timeout")


# -- to delete ------------------------------------------------------------------------------------


def test_a_refused_deletion_is_not_asked_for_all_the_time(store: Store, run: Run) -> None:
    class Refusing(FakeCluster):
        def remove(self, run_id: str, *_: Any, **__: Any) -> str | None:
            self.removed.append(run_id)
            raise UsageError("Not on Fridays.")

    def look() -> None:
        if cluster.now > 250.0:
            stop("Interrupted (SIGTERM)")

    stop = Stop()
    cluster = Refusing(at(Phase.SUCCEEDED), outlives=True, passes=4.0, meanwhile=look)
    result = served(store, cluster, stop)
    assert [one.run_id for one in result.closed] == [run.run_id], "it has one row"
    assert 2 <= len(cluster.removed) <= 6, "the pauses grow"
