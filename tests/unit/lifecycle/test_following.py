"""Followed jobs: timeouts, hopeless states, logs and cleanup."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from k8sbench.app.run_contexts import measure_run
from k8sbench.lifecycle import collecting
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.errors import BenchError, StoreError, Unreachable, UsageError
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import LOGS_INCOMPLETE, Phase
from k8sbench.model.replica_logs import LogLine, LogMark
from k8sbench.model.run import Run, Wish, left_over
from k8sbench.model.sample import LogGap
from k8sbench.ports.cluster import JobEvent
from k8sbench.store.interface import Store
from tests.unit.lifecycle.played import (
    LOCATION,
    FakeCluster,
    Silent,
    at,
    collect,
    context,
    detached,
    line,
    outcomes,
    ran,
    served,
    submit,
)
from tests.unit.model.measurements import measurement
from tests.unit.presence import present


def test_what_concerns_the_cluster_is_noted_once_for_all_runs(store: Store) -> None:
    class Silenced(FakeCluster):
        def wait(self, seconds: float | None) -> Sequence[JobEvent]:
            if len(self.going_on) == 3 and not noted:
                noted.append("Silent.")
                return [JobEvent(run_id="", note="Silent.")]
            return super().wait(seconds) if noted else []

    noted: list[str] = []
    reporter = Silent()
    cluster = Silenced(at(Phase.SUCCEEDED), outlives=True)
    submit(store, cluster, cases=3, parallel=3, reporter=reporter)
    assert reporter.reported.count("Silent.") == 1


def test_a_job_that_cannot_be_cancelled_is_not_waited_for_without_end(store: Store) -> None:
    cluster = FakeCluster(at(Phase.RUNNING), outlives=True, now=51.0, passes=60.0)
    cluster.is_deaf = True
    (run,) = submit(store, cluster, timeout_s=30.0)
    final = run.history[-1]
    assert (final.phase, final.cause_id) == (Phase.FAILED, "timeout")
    assert final.cause == (
        "The run took longer than its --timeout of 30s. For 10m its job could not be"
        " cancelled; it may go on."
    )
    assert final.action == "End it with: k8sbench delete seg-1"
    assert cluster.released == ["seg-1"]
    assert len(cluster.cancelled) == 1


@pytest.mark.parametrize(("other", "known"), [("sha256:a", "sha256:a"), ("sha256:b", None)])
def test_the_image_that_all_ran_is_on_record(store: Store, other: str, known: str | None) -> None:
    script = (ran("sha256:a"), ran(other, "worker-0"), at(Phase.SUCCEEDED))
    (run,) = submit(store, FakeCluster(*script, outlives=True))
    assert run.image_digest == store.run(run.run_id).image_digest == known


OF_NODES = {
    "gpu-1": {"node_os": "Ubuntu 22.04", "kubelet": "v1.31.2"},
    "gpu-2": {"node_os": "Ubuntu 22.04", "kubelet": "v1.30.1"},
}


@pytest.mark.parametrize("nodes", [OF_NODES, None], ids=["read", "forbidden"])
def test_what_nodes_say_of_themselves_is_in_the_environment(
    store: Store, nodes: dict[str, dict[str, str]] | None
) -> None:
    told = [] if nodes is None else [JobEvent(run_id="", nodes=nodes)]
    cluster = FakeCluster(*told, at(Phase.SUCCEEDED), outlives=True)
    measured = {"measure": functools.partial(measure_run, store, ())}
    (one,) = outcomes(store, cluster, changes=measured)
    environment = {"node_os": "Ubuntu 22.04", "kubelet": "v1.30.1, v1.31.2"} if nodes else {}
    assert present(one.run.measurement).environment == environment
    again = measure_run(store, (), one.run, [])  # as the logs are, it is on record
    assert present(again).environment == environment


@pytest.mark.parametrize("broken", ["move", "save_measurement"])
def test_where_an_end_cannot_be_recorded_it_is_said_that_the_job_is_still_there(
    store: Store, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def full(*_: object, **__: object) -> Run:
        raise StoreError("The disk is full.")

    monkeypatch.setattr(store, broken, full)
    reporter, cluster = Silent(), FakeCluster(at(Phase.SUCCEEDED), outlives=True)
    with pytest.raises(StoreError, match="full"):
        submit(store, cluster, reporter=reporter)
    assert reporter.reported[-1] == (
        "What was created stays on the cluster. Resume it with: k8sbench collect seg-1 --follow"
    )
    assert cluster.removed == []


# -- several at once ------------------------------------------------------------------------------


SECONDS = 10.0
"""After which what another thread is to do is not done any more."""


def test_a_state_is_recorded_while_the_next_job_is_being_created(store: Store) -> None:
    class Slow(FakeCluster):
        answers_late = True

        def create(self, run: Run, *more: Any) -> None:
            if run.run_id == "seg-2":
                assert reported.wait(SECONDS)
            super().create(run, *more)

    def look() -> None:
        if "seg-1" in cluster.created and store.run("seg-1").phase is Phase.RUNNING:
            reported.set()

    reported = threading.Event()
    cluster = Slow(at(Phase.RUNNING), at(Phase.SUCCEEDED), outlives=True, meanwhile=look)
    runs = submit(store, cluster, cases=2, parallel=2)
    assert {run.phase for run in runs} == {Phase.SUCCEEDED}
    assert len(runs) == 2


# -- wishes ---------------------------------------------------------------------------------------


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


def test_what_was_printed_since_the_last_archived_line_is_read_before_the_end(
    store: Store, run: Run
) -> None:
    last = LogLine(replica="master-0", at=25.0, text="last")

    class Printing(FakeCluster):
        def printed(self, run: Run) -> Iterator[LogLine]:
            return iter([last])

    store.archive(run.run_id).write(LogLine(replica="master-0", at=15.0, text="first"))
    cluster = Printing(at(Phase.RUNNING), JobEvent(run_id="", line=last), outlives=True, passes=1.0)
    wished = store.wish(run.run_id, CANCEL)
    collecting.cancel(wished, context(store, cluster), Silent(), Stop())
    (log,) = store.log_files(run.run_id)
    assert [text.split()[-1] for text in log.read_text().splitlines()] == ["first", "last"]


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
    def look() -> None:
        if any("could not be cancelled" in text for text in reporter.reported):
            stop("Interrupted (Ctrl-C)")

    store.wish(run.run_id, CANCEL)
    stop, reporter, cluster = Stop(), Silent(), FakeCluster(outlives=True, meanwhile=look)
    cluster.denies = refusal
    result = collect(store, cluster, stop=stop, reporter=reporter)
    assert [one.run_id for one in result.going_on] == [run.run_id]
    assert f"warning: run {run.run_id} could not be cancelled: {refusal}" in reporter.reported
    assert store.run(run.run_id).wishes == left


# -- what k8sbench decides itself -----------------------------------------------------------------


def test_a_time_limit_is_recorded_before_the_cluster_is_asked(store: Store) -> None:
    cluster = FakeCluster(at(Phase.RUNNING), outlives=True, passes=31.0)
    cluster.denies = SystemExit()
    with pytest.raises(SystemExit):
        submit(store, cluster, timeout_s=30.0)
    gone = at(Phase.LOST, "The cluster has no such job any more.", "job-gone")
    (closed,) = collect(store, FakeCluster(gone, outlives=True), [store.run("seg-1")]).closed
    cause = "The run took longer than its --timeout of 30s."
    assert end(closed) == (Phase.CANCELLED, cause, "timeout")


# -- collected later ------------------------------------------------------------------------------


@pytest.mark.parametrize("follow", [False, True])
def test_a_run_whose_files_cannot_be_read_never_stops_the_others(
    store: Store, monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    first, second = detached(store, cases=2)
    elsewhere = StoreError("Its files lie on another machine.", "Collect it there.")

    def marks(run_id: str) -> dict[str, LogMark]:
        if run_id == first.run_id:
            raise elsewhere
        return {}

    monkeypatch.setattr(store, "log_marks", marks)
    reporter, cluster = Silent(), FakeCluster(at(Phase.SUCCEEDED), outlives=True)
    result = collect(store, cluster, [first, second], follow=follow, reporter=reporter)
    assert [run.run_id for run in result.closed] == [second.run_id]
    assert result.failed == {first.run_id: elsewhere}
    assert f"warning: run {first.run_id} is passed over: {elsewhere}" in reporter.reported
    assert store.claims.claim(first.run_id)


def test_a_run_that_cannot_be_measured_never_stops_the_others(store: Store) -> None:
    runs = detached(store, cases=2)
    cluster = FakeCluster(at(Phase.SUCCEEDED), outlives=True)

    def measure(run: Run, gaps: Sequence[LogGap]) -> Measurement:
        if run.run_id == runs[0].run_id:
            raise StoreError("Its files lie on another machine.")
        return measurement()

    result = collect(store, cluster, runs, follow=True, measure=measure)
    assert [run.run_id for run in result.closed] == [runs[1].run_id]
    assert list(result.failed) == [runs[0].run_id]
    # Its job stays: it has the logs.
    assert cluster.removed == [runs[1].run_id]


def test_of_a_set_the_jobs_are_left_that_a_killed_process_had_measured_and_not_deleted(
    store: Store,
) -> None:
    measured, deleted, going_on, _ = detached(store, cases=4)
    for run in (measured, deleted):
        end = at(Phase.SUCCEEDED).transition
        store.move(run.run_id, present(end), owes=left_over(20.0))
        store.save_measurement(run.run_id, measurement())
    store.remove_wish(deleted.run_id, "delete")
    store.wish(going_on.run_id, CANCEL)
    here = context(store, FakeCluster(outlives=True))
    assert [run.run_id for run in collecting.left_jobs(here, "night")] == [measured.run_id]
    assert collecting.left_jobs(here, "another") == []
    elsewhere = msgspec.structs.replace(LOCATION, namespace="other")
    there = msgspec.structs.replace(here, location=elsewhere)
    assert collecting.left_jobs(there, "night") == []
    cluster = FakeCluster(outlives=True)
    collect(store, cluster, collecting.left_jobs(here, "night"), follow=True)
    assert cluster.removed == [measured.run_id]
    assert store.run(measured.run_id).wishes == ()


def test_one_that_serves_takes_up_again_what_it_had_to_leave(store: Store) -> None:
    def mended() -> None:
        if cluster.now > 1000.0:
            cluster.script = (line("y"), at(Phase.SUCCEEDED))
        if cluster.removed:
            stop("Enough.")

    (run,), stop = detached(store), Stop()
    unread = at(Phase.RUNNING, "Its logs cannot be read.", LOGS_INCOMPLETE, action="Collect it.")
    cluster = FakeCluster(line("x"), unread, outlives=True, passes=60.0, meanwhile=mended)
    assert [*served(store, cluster, stop)] == [run.run_id]
    assert 2 <= len(cluster.resumed) <= 6, "it is tried again, but not all the time"
