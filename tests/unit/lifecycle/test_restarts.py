"""A run whose attempt ends in a way that may be better next time: its job is created again.

Whatever happens in between, two attempts are never on the cluster at once, and no line of any
attempt is lost or doubled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from k8sbench.diagnose.job.causes import CAUSES
from k8sbench.lifecycle import submitting, views
from k8sbench.lifecycle.context import PlannedCase, RunContext, Stop
from k8sbench.model import attempts
from k8sbench.model.errors import (
    BenchError,
    UsageError,
)
from k8sbench.model.kube import attempt_of
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.ports import JobEvent, Manifest, Store
from tests.unit.lifecycle.played import (
    FakeCluster,
    Silent,
    at,
    context,
    planned_case,
)
from tests.unit.model.specs import a_request

KILLED = "worker-1 was killed by signal 9 (SIGKILL), exit code 137."
FAILED = at(Phase.FAILED, KILLED, "replica-failed")
ENDED = at(Phase.SUCCEEDED)


class Restarted(FakeCluster):
    """Plays one script for each attempt, and has one job at most.

    ``faults`` are raised by name of the call, one each: before it does anything (``clear``,
    ``create``), or when it has (``cleared``, ``created``).
    """

    def __init__(
        self,
        *scripts: Sequence[JobEvent | BaseException],
        outlives: bool = True,
        faults: Mapping[str, Sequence[BaseException | None]] = {},
    ) -> None:
        super().__init__(outlives=outlives)
        self.scripts = scripts
        self.there: int | None = None
        """The attempt whose job is on the cluster."""
        self.attempts: list[int] = []
        """Those that were created, once for each job."""
        self.faults = {name: list(wrong) for name, wrong in faults.items()}
        self.now = 20.0

    def _meet(self, call: str) -> None:
        left = self.faults.get(call) or [None]
        if (wrong := left.pop(0)) is not None:
            raise wrong

    def create(self, plan: RunPlan, manifests: Sequence[Manifest], folder: Path) -> None:
        attempt = attempt_of(manifests[-1])
        self._meet("create")
        assert self.there in {None, attempt}, "two attempts would run at once"
        if self.there is None:
            self.there = attempt
            self.attempts.append(attempt)
        self._meet("created")
        self.script = tuple(self.scripts[attempt - 1])
        super().create(plan, manifests, folder)

    def clear(self, run: Run) -> None:
        self._meet("clear")
        if self.there is not None and self.there < run.attempt:
            self.there = None
        self._meet("cleared")

    def wait(self, seconds: float | None) -> Sequence[JobEvent]:
        self.now += 40.0
        return super().wait(seconds)


def case(max_restarts: int = 3, **asked: object) -> PlannedCase:
    planned = planned_case("kubernetes", **asked)
    draft = msgspec.structs.replace(planned.draft, max_restarts=max_restarts)
    return msgspec.structs.replace(planned, draft=draft)


def here(store: Store, cluster: Restarted) -> RunContext:
    return msgspec.structs.replace(context(store, cluster), clock=lambda: cluster.now)


def submit(
    store: Store,
    cluster: Restarted,
    *,
    max_restarts: int = 3,
    keep: bool = False,
    reporter: Silent | None = None,
    **asked: object,
) -> Run:
    wanted = a_request(set_name="night", run_id="mine", keep=keep)
    planned = case(max_restarts, **asked)
    there = here(store, cluster)
    list(submitting.submit([planned], there, reporter or Silent(), Stop(), wanted))
    return store.run("mine")


def causes(run: Run) -> list[str | None]:
    return [step.cause_id for step in run.history]


def test_no_more_attempts_are_made_than_were_asked_for_and_the_end_names_the_last(
    store: Store,
) -> None:
    cluster = Restarted([FAILED], [FAILED], [FAILED], [ENDED])
    run = submit(store, cluster, max_restarts=2)
    assert (run.phase, run.restarts, cluster.attempts) == (Phase.FAILED, 2, [1, 2, 3])
    assert run.history[-1].cause == f"Attempt 3 of 3 ended: {KILLED}"
    assert run.history[-1].cause_id == "replica-failed"


# -- which ends are restarted -------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [
        *(at(Phase.FAILED, "It ended.", one) for one in CAUSES if not CAUSES[one].again),
        at(Phase.CANCELLED, "Cancelled elsewhere.", "cancelled"),
        at(Phase.LOST, "Deleted by someone.", "job-deleted"),
        at(Phase.LOST, "Gone.", "replica-failed"),
    ],
)
def test_any_other_end_is_the_run_s(store: Store, end: JobEvent) -> None:
    run = submit(store, Restarted([end]))
    assert run.history[-1] == end.transition
    assert run.restarts == 0


# -- what may keep an attempt from being created --------------------------------------------------


def test_an_attempt_that_is_refused_ends_the_run_with_the_reason(store: Store) -> None:
    refused = UsageError("pods are forbidden here.", "Ask who runs it.")
    run = submit(store, Restarted([FAILED], faults={"create": [None, refused]}))
    final = run.history[-1]
    assert (final.phase, final.cause_id) == (Phase.FAILED, "restart-refused")
    assert final.cause == "Attempt 2 of 4 was not created: pods are forbidden here."
    assert final.action == "Ask who runs it."


def test_nothing_is_deleted_where_the_next_attempt_cannot_be_made_here(store: Store) -> None:
    def unknown(_: Run) -> Sequence[Manifest]:
        raise UsageError("Run mine was planned with other trainers.")

    cluster = Restarted([FAILED])
    there = msgspec.structs.replace(here(store, cluster), manifests=unknown)
    options = a_request(set_name="night", run_id="mine")
    list(submitting.submit([case()], there, Silent(), Stop(), options))
    final = store.run("mine").history[-1]
    assert final.cause_id == "replica-failed"
    assert final.cause == (
        f"{KILLED} Attempt 2 of 4 is not created: Run mine was planned with other trainers."
    )
    assert cluster.there == 1


def test_an_internal_error_is_not_taken_for_an_answer(store: Store) -> None:
    with pytest.raises(ZeroDivisionError):
        submit(store, Restarted([FAILED], faults={"clear": [ZeroDivisionError()]}))
    assert attempts.is_restarting(store.run("mine"))


# -- other stores, and this machine ---------------------------------------------------------------


def test_a_local_run_whose_next_attempt_cannot_be_started_fails(store: Store) -> None:
    wrong = BenchError("There are no free ports.")
    cluster = Restarted([FAILED], outlives=False, faults={"create": [None, wrong]})
    run = submit(store, cluster)
    assert (run.phase, run.history[-1].cause_id) == (Phase.FAILED, "restart-refused")


def test_the_time_of_a_continued_training_counts_from_its_next_attempt() -> None:
    running = Transition(phase=Phase.RUNNING, at=10.0, cause="It runs.")
    end = Transition(phase=Phase.FAILED, at=90.0, cause="It took too long.", cause_id="timeout")
    plan = msgspec.structs.replace(case().plan("mine", "tests"), timeout_s=50.0)
    again = attempts.continued(plan, 1, 500.0)
    history = (running, end, again)
    run = Run(plan=plan, created_at=0.0, owner=None, history=history, artifacts=None)
    assert views.time_is_up_at(run) is None
    later = msgspec.structs.replace(running, at=600.0)
    run = msgspec.structs.replace(run, history=(*history, later))
    assert views.time_is_up_at(run) == 650.0
