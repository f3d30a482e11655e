"""Life of runs under faults, in hundreds of seeded schedules.

``python -m tests.simulation SEED`` plays one schedule and prints its events.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import Counter
from concurrent.futures import Future
from typing import Any

import msgspec
import pytest

from k8sbench.adapters.kubernetes.watching import job_reader
from k8sbench.lifecycle import active_run, requests, submitting
from k8sbench.lifecycle.active_run import ActiveRun
from k8sbench.lifecycle.context import How, Outcome, RunContext
from k8sbench.lifecycle.decide import JobView, State
from k8sbench.lifecycle.requests import JobRequests
from k8sbench.model import creation
from k8sbench.model.phase import LOGS_BEING_READ, LOGS_INCOMPLETE, Phase, Transition
from tests.simulation.play import play
from tests.simulation.store import SimulatedClaims, SimulatedStore
from tests.simulation.world import Faults, Violation

SCHEDULES = 600
"""``make soak`` plays many more."""
STEPS = 150
"""The median of the schedules has at least so many."""
TIMES = 10
"""Every fault happens at least so often."""
MOST = 3_000
"""Schedules within which a fault of the program must be found.

Without one none of them fails.
"""


def test_whatever_goes_wrong_the_invariants_hold() -> None:
    met, steps, cells = Counter[str](), list[int](), set[tuple[str, str]]()
    states = set[str]()
    for seed in range(SCHEDULES):
        schedule = play(seed)
        met += schedule.world.met
        steps.append(schedule.world.steps)
        states |= {state for state, _, _ in schedule.reached}
        cells |= {(job, wanted) for _, job, wanted in schedule.reached}
    assert states == {state.value for state in State}
    jobs = {job.value for job in JobView}
    assert cells == {(job, wanted) for job in jobs for wanted in ("run", "end")}
    assert statistics.median(steps) >= STEPS
    rare = {fault: met[fault] for fault in Faults.__struct_fields__ if met[fault] < TIMES}
    assert rare == {}


def test_a_seed_replays() -> None:
    first, second = play(7), play(7)
    assert first.world.trace == second.world.trace
    assert first.world.trace != play(8).world.trace


# -- faults of the program are found --------------------------------------------------------------

_take_end, _delete, _record = ActiveRun._take_end, requests.delete, SimulatedStore.record


def end_with_unread_logs(self: ActiveRun, end: Transition) -> Outcome | None:
    if end.cause_id == LOGS_INCOMPLETE:
        end = msgspec.structs.replace(end, phase=Phase.FAILED, cause_id=None)
    return _take_end(self, end)


def end_before_the_last_line(self: ActiveRun, end: Transition) -> Outcome | None:
    if end.cause_id == LOGS_BEING_READ:
        end = Transition(phase=Phase.SUCCEEDED, at=end.at, cause="It is done.")
    return _take_end(self, end)


def is_final(transition: Transition) -> bool:
    return transition.phase.final or transition.cause_id in {LOGS_INCOMPLETE, LOGS_BEING_READ}


def record_later(self: SimulatedStore, plan: Any, **more: Any) -> Any:
    run = _record(self, plan, **more)
    self.disk.world.spawn(lambda: self.disk.rows.setdefault(plan.run_id, run), 2.0)
    return self.disk.rows.pop(plan.run_id)


def forget_what_is_left(_: JobRequests, active: ActiveRun, __: Future[Any]) -> Outcome:
    active.see(deletes=False)
    return active.outcome(How.CLOSED)


def delete_by_name_alone(context: RunContext, run_id: str) -> Any:
    run, why = _delete(context, run_id)
    context.cluster.remove(run_id)
    return run, why


BREAKS: dict[str, list[tuple[Any, str, Any]]] = {
    "a job with unread logs is deleted": [(ActiveRun, "_take_end", end_with_unread_logs)],
    "a lost answer is called failed": [
        (creation, "refusal", lambda run_id, error, at, **_: creation.refused(run_id, error, at))
    ],
    "logs are read from the beginning": [(SimulatedStore, "log_marks", lambda *_: {})],
    "what another process follows is followed": [(SimulatedClaims, "claim", lambda *_: True)],
    "a wish is forgotten in an outage": [(requests, "is_refused", lambda _: True)],
    "a run is closed before its last line": [
        (active_run, "is_final", is_final),
        (ActiveRun, "_take_end", end_before_the_last_line),
    ],
    "a run ends before its pods are listed": [(job_reader, "must_list_pods", lambda *_: False)],
    "a job is created before its run is recorded": [(SimulatedStore, "record", record_later)],
    "what is left of a job is forgotten": [
        (JobRequests, "_take_deleted", forget_what_is_left),
        (requests, "delete", lambda context, run_id: context.store.fulfilled(run_id, "delete")),
    ],
    "what is being submitted is resumed": [
        (submitting, "held_set", lambda *_, **__: contextlib.nullcontext())
    ],
    "a copy is taken over": [(requests, "delete", delete_by_name_alone)],
    "what another store owns is acted on": [(ActiveRun, "take_ownership", lambda *_: False)],
    "a job that waits for its turn is not started": [(owners, "admit", lambda *_: None)],
}


@pytest.mark.parametrize("broken", BREAKS.values(), ids=BREAKS)
def test_a_fault_of_the_program_is_found(
    broken: list[tuple[Any, str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for target, name, wrong in broken:
        monkeypatch.setattr(target, name, wrong)
    assert any(_fails(seed) for seed in range(MOST))


def _fails(seed: int) -> bool:
    try:
        play(seed)
    except (Violation, KeyError):  # a row that is looked for is not there
        return True
    return False
