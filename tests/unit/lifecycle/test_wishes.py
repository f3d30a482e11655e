"""What a cluster is to be asked for is recorded before it is asked, and asked for again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from k8sbench.lifecycle import collecting
from k8sbench.lifecycle.context import Stop
from k8sbench.model.errors import BenchError, Unreachable, UsageError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run, Wish
from k8sbench.ports import FoundJob, JobEvent, Store
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
GONE = at(Phase.LOST, "The cluster has no such job any more.", "job-gone")


class Killed(BaseException):
    """The process ends here; nothing after it is done."""


@pytest.fixture
def run(store: Store) -> Run:
    (created,) = detached(store)
    return created


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


# -- what k8sbench decides itself -----------------------------------------------------------------


class KilledWhenAsked(FakeCluster):
    """A cluster whose client is killed when it asks for a job's end."""

    def cancel(self, run_id: str, cause: str, cause_id: str) -> None:
        raise Killed


def test_a_time_limit_is_recorded_before_the_cluster_is_asked(store: Store) -> None:
    cluster = KilledWhenAsked(at(Phase.RUNNING), outlives=True)
    with pytest.raises(Killed):
        submit(store, cluster, timeout_s=30.0, now=51.0, backend="kubernetes")
    (closed,) = collect(store, FakeCluster(GONE, outlives=True), [store.run("seg-1")]).closed
    cause = "The run took longer than its --timeout of 30s."
    assert end(closed) == (Phase.CANCELLED, cause, "timeout")


# -- to delete ------------------------------------------------------------------------------------


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
