"""Concurrent requests of an executor, and events after a release."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from k8sbench.lifecycle.active_run import ActiveRun
from k8sbench.lifecycle.context import Rules
from k8sbench.lifecycle.decide import JobView, View
from k8sbench.lifecycle.executor import Executor
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.errors import StoreError
from k8sbench.model.phase import Phase
from k8sbench.model.run import TAKEN_OVER
from k8sbench.ports.cluster import JobEvent
from k8sbench.store.interface import Store
from k8sbench.threads import Threads
from tests.unit.lifecycle.played import (
    FakeCluster,
    Silent,
    at,
    context,
    line,
    planned_case,
)


class NeverAnswered(Threads):
    """Keeps what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    def start(self, call: Callable[[], Any], name: str) -> Future[Any]:
        self.sent.append(name)
        return Future()


class Started(Threads):
    """Keeps the calls that it was asked to start, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Callable[[], Any], Future[Any]]] = []

    def start(self, call: Callable[[], Any], name: str) -> Future[Any]:
        self.calls.append((call, Future()))
        return self.calls[-1][1]

    def finish(self) -> None:
        call, future = self.calls.pop(0)
        try:
            future.set_result(call())
        except StoreError as error:
            future.set_exception(error)


def printed(store: Store, run_id: str) -> list[str]:
    return [text for file in store.log_files(run_id) for text in file.read_text().splitlines()]


def begin(store: Store, runs: int) -> tuple[Executor, NeverAnswered]:
    pool, cluster = NeverAnswered(), FakeCluster(outlives=True)
    here = context(store, cluster, pool=pool)
    executor = Executor(here, Silent())
    for number in range(runs):
        plan = planned_case("kubernetes").plan(f"seg-{number}", "night", number + 1)
        executor.create(store.record(plan, at=10.0, process=None))
    return executor, pool


def test_four_creations_are_pending_at_a_time(store: Store) -> None:
    executor, pool = begin(store, 6)
    assert pool.sent == ["create"] * 4
    assert len(executor.runs()) == 6
    assert not executor.has_room


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (JobView.WATCHED, JobView.REPORTED),
        # The cluster was told to follow it no longer when the event was on its way.
        (JobView.UNWATCHED, JobView.UNWATCHED),
    ],
)
def test_a_state_is_a_report_only_of_a_job_that_is_followed(
    store: Store, before: JobView, after: JobView
) -> None:
    run = store.record(planned_case("kubernetes").plan("seg-1", "night"), at=10.0, process=None)
    here = context(store, FakeCluster(outlives=True)), Silent(), Rules()
    active = ActiveRun(run, View(job=before), here)
    active.take_event(at(Phase.RUNNING))
    assert active.view.job is after


def test_a_run_whose_job_another_store_takes_over_ends_and_its_job_stays(store: Store) -> None:
    cluster = FakeCluster(JobEvent(run_id="", taken_by="k8sbench on lab-8"), outlives=True)
    here, case = context(store, cluster), planned_case("kubernetes")
    executor = Executor(here, Silent())
    executor.create(store.record(case.plan("seg-1", "night"), at=10.0, process=None))
    (outcome,) = executor.to_the_end(Stop())
    end = outcome.run.history[-1]
    assert (end.phase, end.cause_id) == (Phase.LOST, TAKEN_OVER)
    assert (cluster.removed, cluster.released) == ([], ["seg-1"])


def test_nothing_waits_for_a_measurement(store: Store) -> None:
    """One run is measured, two wait, the fourth prints, the fifth ends."""
    cluster, measures = FakeCluster(outlives=True), Started()
    executor = Executor(context(store, cluster, measures=measures), Silent())
    cluster.script = (at(Phase.SUCCEEDED),)
    for number in range(5):
        if number == 3:
            cluster.script = (line("a"), line("b"))
        plan = planned_case("kubernetes").plan(f"seg-{number}", "night", number + 1)
        executor.create(store.record(plan, at=10.0, process=None))

    def steps(count: int) -> list[str]:
        return [one.run.run_id for _ in range(count) for one in executor.step(0.0)]

    assert steps(5) == []
    assert len(measures.calls) == 1
    cluster.cancel("seg-4", "By hand.", "cancelled")
    assert steps(5) == ["seg-4"], "what needs no measurement does not wait for one"
    assert cluster.going_on.keys() == {"seg-3"}
    assert [text.split()[-1] for text in printed(store, "seg-3")] == ["a", "b"]
    for run_id in ("seg-0", "seg-1", "seg-2"):
        assert len(measures.calls) == 1
        measures.finish()
        assert steps(3) == [run_id]
        assert store.run(run_id).measurement is not None
    assert measures.calls == []
