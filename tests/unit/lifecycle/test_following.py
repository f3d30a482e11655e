"""What becomes of jobs that are followed: their time, their hopes, their logs and what is left."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from k8sbench.adapters.store import run_logs
from k8sbench.lifecycle.job_events import kept_gaps
from k8sbench.model.errors import StoreError
from k8sbench.model.ownership import Collected
from k8sbench.model.phase import LOGS_BEING_READ, Phase
from k8sbench.model.run import Run
from k8sbench.ports import JobEvent, Store
from tests.unit.lifecycle.played import FakeCluster, Silent, at, line, ran, submit
from tests.unit.presence import present
from tests.unit.store.examples import measurement


def test_what_a_run_waited_for_is_reported_when_its_time_is_up(store: Store) -> None:
    waiting = at(Phase.PULLING, "The image cannot be pulled.", "image-not-found")
    (run,) = submit(store, FakeCluster(waiting, outlives=True, now=51.0), timeout_s=30.0)
    assert run.history[-1].cause == (
        "The run took longer than its --timeout of 30s, Pulling (image-not-found): The image"
        " cannot be pulled."
    )


def test_what_concerns_the_cluster_is_noted_once_however_many_runs_are_followed(
    store: Store,
) -> None:
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


def test_the_time_in_which_the_logs_of_a_job_that_is_over_are_read_does_not_count(
    store: Store,
) -> None:
    over = at(Phase.RUNNING, "The job has succeeded.", LOGS_BEING_READ)
    script = (at(Phase.RUNNING), over, *[line("x")] * 5, at(Phase.SUCCEEDED))
    cluster = FakeCluster(*script, outlives=True, now=20.0, passes=10.0)
    (run,) = submit(store, cluster, timeout_s=30.0)
    assert run.phase is Phase.SUCCEEDED
    assert cluster.cancelled == []


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


def test_what_is_left_out_of_a_log_that_grows_without_end_is_one_gap(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("MOST", 2_000), ("FIRST", 1_000), ("LAST", 500)):
        monkeypatch.setattr(run_logs, f"{name}_BYTES", size)
    printed = [line(f"step {number:6}") for number in range(1_000)]
    reporter = Silent()
    cluster = FakeCluster(*printed, at(Phase.SUCCEEDED), outlives=True)
    (run,) = submit(store, cluster, reporter=reporter)
    (gap,) = kept_gaps(store, run.run_id)
    assert gap.why == run_logs.LEFT_OUT
    assert present(run.measurement).records == 1  # the fake measures nothing but gaps
    assert cluster.removed == []
    (log,) = store.log_files(run.run_id)
    assert log.stat().st_size <= 2_000
    assert log.read_text().splitlines()[-1].endswith("step    999")


@pytest.mark.parametrize(("other", "known"), [("sha256:a", "sha256:a"), ("sha256:b", None)])
def test_the_image_that_all_replicas_ran_is_on_record(
    store: Store, other: str, known: str | None
) -> None:
    script = (ran("sha256:a"), ran(other, "worker-0"), at(Phase.SUCCEEDED))
    (run,) = submit(store, FakeCluster(*script, outlives=True))
    assert run.image_digest == store.run(run.run_id).image_digest == known


def test_other_stores_read_what_was_archived_and_measured(store: Store) -> None:
    class Shared(FakeCluster):
        reported: Collected | None = None

        def remove(
            self, run_id: str, collected: Callable[[], Collected] | None = None, **_: Any
        ) -> None:
            self.reported = present(collected)()

    lines = (line("one"), line("two", "worker-0"))
    cluster = Shared(*lines, at(Phase.SUCCEEDED), outlives=True)
    submit(store, cluster)
    logs = b"".join(path.read_bytes() for path in store.log_files("seg-1"))
    assert [part.split()[-1] for part in logs.splitlines()] == [b"one", b"two"]
    assert cluster.reported == Collected(
        digest=hashlib.sha256(logs).hexdigest(),
        throughput=measurement().rate,
        unit="images/s",
        verdict="valid",
    )


def test_a_job_that_somebody_else_needs_stays_and_how_to_delete_it_is_said(store: Store) -> None:
    class Used(FakeCluster):
        def remove(self, run_id: str, *_: Any, **__: Any) -> str:
            return "k8sbench on lab-7 follows it, too. End it there."

    reporter = Silent()
    (run,) = submit(store, Used(at(Phase.SUCCEEDED), outlives=True), reporter=reporter)
    assert run.measurement is not None
    assert reporter.reported[-1] == (
        "seg-1 stays on the cluster: k8sbench on lab-7 follows it, too. End it there."
    )


@pytest.mark.parametrize("broken", ["move", "measured"])
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
