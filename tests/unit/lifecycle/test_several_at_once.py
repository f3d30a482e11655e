"""Several jobs at once: the cluster is asked by other threads, and nobody who is followed waits."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from k8sbench.model.errors import Unreachable
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.ports import JobEvent, Manifest, Store
from tests.unit.lifecycle.played import FakeCluster, Silent, at, submit

SECONDS = 10.0
"""After which what another thread is to do is not done any more."""


def test_a_state_is_recorded_while_the_next_job_is_being_created(store: Store) -> None:
    class Slow(FakeCluster):
        answers_late = True

        def create(
            self, plan: RunPlan, manifests: Sequence[Manifest], folder: pathlib.Path
        ) -> None:
            if plan.run_id == "seg-2":
                assert reported.wait(SECONDS)
            super().create(plan, manifests, folder)

        def wait(self, seconds: float | None) -> Sequence[JobEvent]:
            if "seg-1" in self.created and store.run("seg-1").phase is Phase.RUNNING:
                reported.set()
            return super().wait(seconds)

    reported = threading.Event()
    cluster = Slow(at(Phase.RUNNING), at(Phase.SUCCEEDED), outlives=True)
    runs = submit(store, cluster, cases=2, parallel=2)
    assert {run.phase for run in runs} == {Phase.SUCCEEDED}
    assert len(runs) == 2


def test_what_is_left_of_a_job_is_deleted_when_no_pods_of_another_are_being_created(
    store: Store,
) -> None:
    class Starting(FakeCluster):
        """The second job is pending until the first run is measured, and for some looks more."""

        looks = 20

        def wait(self, seconds: float | None) -> Sequence[JobEvent]:
            second = self.going_on.get("seg-2", ())
            if len(second) == len(self.script) - 1 and self.looks:
                if "seg-1" in self.going_on:
                    event = self.going_on["seg-1"].popleft()
                    assert isinstance(event, JobEvent)
                    return [self._told("seg-1", event)]
                self.looks -= store.run("seg-1").measurement is not None
                removed_meanwhile.extend(self.removed)
                return []
            return super().wait(seconds)

    removed_meanwhile: list[str] = []
    cluster = Starting(at(Phase.PENDING), at(Phase.RUNNING), at(Phase.SUCCEEDED), outlives=True)
    submit(store, cluster, cases=2, parallel=2)
    assert (cluster.looks, removed_meanwhile) == (0, [])
    assert sorted(cluster.removed) == ["seg-1", "seg-2"]


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_job_that_cannot_be_deleted_is_reported_and_its_run_is_measured(
    store: Store, parallel: int
) -> None:
    class Keeping(FakeCluster):
        def remove(self, run_id: str, *_: Any, **__: Any) -> None:
            raise Unreachable(f"{run_id} could not be deleted.", "Ask for the right to.")

    reporter = Silent()
    cluster = Keeping(at(Phase.SUCCEEDED), outlives=True)
    runs = submit(store, cluster, cases=2, parallel=parallel, reporter=reporter)
    assert all(run.measurement is not None for run in runs)
    notes = [text for text in reporter.reported if text.startswith("warning: ")]
    assert len(notes) == 2
    assert all("could not be deleted. Ask for the right to." in text for text in notes)
