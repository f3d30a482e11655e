"""A run whose attempt ends in a way that may be better next time: its job is created again.

Whatever happens in between, two attempts are never on the cluster at once, and no line of any
attempt is lost or doubled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench.model import attempts
from k8sbench.model.errors import UsageError
from k8sbench.model.kube import attempt_of
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.ports import JobEvent, Manifest, Store
from tests.unit.lifecycle.played import FakeCluster, at, outcomes, planned_case

KILLED = "worker-1 was killed by signal 9 (SIGKILL), exit code 137."
FAILED = at(Phase.FAILED, KILLED, "replica-failed")


class Restarted(FakeCluster):
    """Plays one script for each attempt, and has one job at most."""

    def __init__(self, *scripts: Sequence[JobEvent], outlives: bool = True, **more: Any) -> None:
        super().__init__(outlives=outlives, passes=40.0, **more)
        self.scripts = scripts
        self.there: int | None = None
        """The attempt whose job is on the cluster."""
        self.attempts: list[int] = []

    def create(self, plan: RunPlan, manifests: Sequence[Manifest], folder: Path) -> None:
        attempt = attempt_of(manifests[-1])
        assert self.there in {None, attempt}, "two attempts would run at once"
        self.script = tuple(self.scripts[attempt - 1])
        super().create(plan, manifests, folder)
        self.there = attempt
        self.attempts.append(attempt)

    def clear(self, run: Run) -> None:
        if self.there is not None and self.there < run.attempt:
            self.there = None


def submit(store: Store, cluster: Restarted, max_restarts: int = 3, **changes: Any) -> Run:
    case = planned_case("kubernetes")
    draft = msgspec.structs.replace(case.draft, max_restarts=max_restarts)
    planned = [msgspec.structs.replace(case, draft=draft)]
    outcomes(store, cluster, planned=planned, run_id="mine", changes=changes)
    return store.run("mine")


def test_no_more_attempts_are_made_than_were_asked_for_and_the_end_names_the_last(
    store: Store,
) -> None:
    cluster = Restarted([FAILED], [FAILED], [FAILED], [at(Phase.SUCCEEDED)])
    run = submit(store, cluster, max_restarts=2)
    assert (run.phase, run.restarts, cluster.attempts) == (Phase.FAILED, 2, [1, 2, 3])
    assert run.history[-1].cause == f"Attempt 3 of 3 ended: {KILLED}"
    assert run.history[-1].cause_id == "replica-failed"


# -- what may keep an attempt from being created --------------------------------------------------


@pytest.mark.parametrize("outlives", [True, False])
def test_an_attempt_that_is_refused_ends_the_run_with_the_reason(
    store: Store, outlives: bool
) -> None:
    refused = UsageError("pods are forbidden here.", "Ask who runs it.")
    cluster = Restarted([FAILED], [], outlives=outlives, refusals=[None, refused])
    final = submit(store, cluster).history[-1]
    assert (final.phase, final.cause_id) == (Phase.FAILED, "restart-refused")
    assert final.cause == "Attempt 2 of 4 was not created: pods are forbidden here."
    assert final.action == "Ask who runs it."


def test_nothing_is_deleted_where_the_next_attempt_cannot_be_made_here(store: Store) -> None:
    def unknown(_: Run) -> Sequence[Manifest]:
        raise UsageError("Run mine was planned with other trainers.")

    cluster = Restarted([FAILED])
    final = submit(store, cluster, manifests=unknown).history[-1]
    assert final.cause_id == "replica-failed"
    assert final.cause == (
        f"{KILLED} Attempt 2 of 4 is not created: Run mine was planned with other trainers."
    )
    assert cluster.there == 1


def test_an_internal_error_is_not_taken_for_an_answer(store: Store) -> None:
    class Broken(Restarted):
        def clear(self, run: Run) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        submit(store, Broken([FAILED]))
    assert attempts.is_restarting(store.run("mine"))
