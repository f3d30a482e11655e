"""Several jobs at once: the cluster is asked by other threads, and nobody who is followed waits."""

from __future__ import annotations

import threading
from typing import Any

from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.ports import Store
from tests.unit.lifecycle.played import FakeCluster, at, submit

SECONDS = 10.0
"""After which what another thread is to do is not done any more."""


def test_a_state_is_recorded_while_the_next_job_is_being_created(store: Store) -> None:
    class Slow(FakeCluster):
        answers_late = True

        def create(self, plan: RunPlan, *more: Any) -> None:
            if plan.run_id == "seg-2":
                assert reported.wait(SECONDS)
            super().create(plan, *more)

    def look() -> None:
        if "seg-1" in cluster.created and store.run("seg-1").phase is Phase.RUNNING:
            reported.set()

    reported = threading.Event()
    cluster = Slow(at(Phase.RUNNING), at(Phase.SUCCEEDED), outlives=True, meanwhile=look)
    runs = submit(store, cluster, cases=2, parallel=2)
    assert {run.phase for run in runs} == {Phase.SUCCEEDED}
    assert len(runs) == 2
