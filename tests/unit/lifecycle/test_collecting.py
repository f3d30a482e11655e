"""Taking up what a cluster went on with: after a detach, a crash, from another machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pytest

from k8sbench.lifecycle import collecting
from k8sbench.lifecycle.context import Stop
from k8sbench.lifecycle.job_events import GAPS, kept_gaps
from k8sbench.model.errors import StoreError, Unreachable
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import LOGS_INCOMPLETE, Phase, Transition
from k8sbench.model.run import Run, Wish
from k8sbench.model.sample import LogGap
from k8sbench.ports import FoundJob, JobEvent, LogLine, LogMark, Store
from tests.unit.lifecycle.played import (
    LOCATION,
    FakeCluster,
    Silent,
    at,
    collect,
    context,
    detached,
    line,
    ran,
    served,
)
from tests.unit.presence import present
from tests.unit.store.examples import measurement


def test_a_job_that_another_process_records_at_the_same_moment_is_one_run(store: Store) -> None:
    (run,) = detached(store)
    found = FoundJob(run_id=run.run_id, known_plan=run.plan, created_at=5.0, phase=Phase.RUNNING)
    assert collecting.recorded(found, context(store, FakeCluster(outlives=True))) == run


def test_runs_of_another_place_are_not_owed_here(store: Store) -> None:
    detached(store)
    there = msgspec.structs.replace(LOCATION, namespace="other")
    elsewhere = context(store, FakeCluster(outlives=True), location=there)
    assert collecting.open_runs(elsewhere) == []


def test_a_place_has_more_than_one_url(store: Store) -> None:
    class There(FakeCluster):
        def look(self, run: Run) -> Sequence[JobEvent]:
            return [at(Phase.RUNNING)]

    (run,) = detached(store)
    inside = msgspec.structs.replace(LOCATION, server="https://10.96.0.1")
    collecting.check_place(run, There(outlives=True), inside)


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


def test_a_run_is_cancelled_also_where_what_it_printed_cannot_be_read(store: Store) -> None:
    class Unread(FakeCluster):
        def printed(self, run: Run) -> Iterator[LogLine]:
            raise Unreachable("The kubelet does not answer.")

    (run,) = detached(store)
    cluster, reporter = Unread(at(Phase.RUNNING), outlives=True), Silent()
    wish = Wish(kind="cancel", at=9.0, cause="By hand.", cause_id="cancelled")
    wished = store.wish(run.run_id, wish)
    closed = present(collecting.cancel(wished, context(store, cluster), reporter, Stop()))
    assert closed.phase is Phase.CANCELLED
    assert any("kubelet does not answer" in text for text in reporter.reported)


def test_one_that_serves_takes_up_again_what_it_had_to_leave(store: Store) -> None:
    def mended() -> None:
        if cluster.now > 1000.0:
            cluster.script = (line("y"), at(Phase.SUCCEEDED))
        if cluster.removed:
            stop("Enough.")

    (run,), stop = detached(store), Stop()
    unread = at(Phase.RUNNING, "Its logs cannot be read.", LOGS_INCOMPLETE, action="Collect it.")
    cluster = FakeCluster(line("x"), unread, outlives=True, passes=60.0, meanwhile=mended)
    result = served(store, cluster, stop)
    assert [one.run_id for one in result.closed] == [run.run_id]
    assert result.failed == {}
    assert 2 <= len(cluster.resumed) <= 5, "it is tried again, but not all the time"


@pytest.mark.parametrize("ends", [True, False])
def test_the_time_of_a_job_that_is_resumed_counts_once_its_state_is_known(
    store: Store, ends: bool
) -> None:
    """It may have ended in time, and only be collected late."""

    class Slow(FakeCluster):
        def wait(self, seconds: float | None) -> Sequence[JobEvent]:
            events = super().wait(seconds) if self.now >= 1050.0 else []
            self.now += 10.0
            return events

    (run,) = detached(store, timeout_s=30.0)
    run = store.move(run.run_id, Transition(phase=Phase.RUNNING, at=20.0, cause=""))
    more = [at(Phase.SUCCEEDED)] if ends else []
    cluster = Slow(ran("sha256:a"), *more, outlives=True, now=1000.0)
    (closed,) = collect(store, cluster, [run], follow=True).closed
    assert closed.phase is (Phase.SUCCEEDED if ends else Phase.CANCELLED)
    assert [cause_id for _, cause_id in cluster.cancelled] == ([] if ends else ["timeout"])


def test_gaps_that_an_earlier_process_recorded_are_not_forgotten(store: Store) -> None:
    (run,) = detached(store)
    gap = LogGap(replica="master-0", after=1.0, before=2.0, why="The file was rotated.")
    store.keep(run.run_id, GAPS, msgspec.json.encode([gap]).decode())
    again = JobEvent(run_id="", gap=gap)
    cluster = FakeCluster(line("x"), again, at(Phase.SUCCEEDED), outlives=True)
    (closed,) = collect(store, cluster, [run]).closed
    assert kept_gaps(store, run.run_id) == [gap, gap]
    assert present(closed.measurement).records == 2  # the fake measures nothing but gaps
