"""The life of runs under faults: hundreds of schedules, each of them drawn from its seed.

``python -m tests.simulation SEED`` plays one and prints what happened in it.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import msgspec
import pytest

from k8sbench.adapters.kubernetes.watching import job_reader
from k8sbench.lifecycle import job_events, job_requests, requests, submitting
from k8sbench.lifecycle.active_runs import ActiveRuns
from k8sbench.lifecycle.context import RunContext
from k8sbench.lifecycle.followed import FollowedRun
from k8sbench.lifecycle.views import JobView, State
from k8sbench.model import creation
from k8sbench.model.errors import BenchError
from k8sbench.model.ownership import Collected
from k8sbench.model.phase import LOGS_BEING_READ, LOGS_INCOMPLETE, Phase, Transition
from k8sbench.model.run import Run
from tests.simulation.schedules import play
from tests.simulation.store import SimulatedClaims, SimulatedStore
from tests.simulation.world import Faults, Violation

SCHEDULES = 600
"""``make soak`` plays many more."""
STEPS = 150
"""The median of the schedules has at least so many."""
TIMES = 10
"""Every fault happens at least so often."""
NOTHING = Collected(digest=None, throughput=None, unit=None, verdict=None)
MOST = 3_000
"""Schedules within which a fault of the program must be found. Seed 3189 fails without one."""


def test_whatever_goes_wrong_the_invariants_hold() -> None:
    met, steps, cells = Counter[str](), list[int](), set[tuple[str, str]]()
    states = set[str]()
    for seed in range(SCHEDULES):
        schedule = play(seed)
        met += schedule.world.met
        steps.append(schedule.world.steps)
        states |= {state for state, _, _ in schedule.reached}
        cells |= {(job, wanted) for _, job, wanted in schedule.reached}
    assert states == {kind.__name__ for kind in State.__subclasses__()}
    jobs = {kind.__name__ for kind in JobView.__subclasses__()}
    assert cells == {(job, wanted) for job in jobs for wanted in ("run", "end")}
    assert statistics.median(steps) >= STEPS
    rare = {fault: met[fault] for fault in Faults.__struct_fields__ if met[fault] < TIMES}
    assert rare == {}


def test_a_seed_replays() -> None:
    first, second = play(7), play(7)
    assert first.world.trace == second.world.trace
    assert first.world.trace != play(8).world.trace


# -- faults of the program are found --------------------------------------------------------------

Breaks = Callable[[pytest.MonkeyPatch], None]


def delete_with_unread_logs(patch: pytest.MonkeyPatch) -> None:
    take = job_events._take_end

    def broken(active: ActiveRuns, followed: FollowedRun, end: Transition) -> None:
        if end.cause_id == LOGS_INCOMPLETE:
            end = msgspec.structs.replace(end, phase=Phase.FAILED, cause_id=None)
        take(active, followed, end)

    patch.setattr(job_events, "_take_end", broken)


def call_a_lost_answer_failed(patch: pytest.MonkeyPatch) -> None:
    def broken(run_id: str, error: BaseException, at: float, *, survives: bool) -> Transition:
        assert isinstance(error, BenchError)
        return creation.refused(run_id, error, at)

    patch.setattr(requests, "refusal", broken)


def read_from_the_beginning(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedStore, "log_marks", lambda *_: {})


def follow_what_another_process_follows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedClaims, "claim", lambda *_: True)


def forget_a_wish_in_an_outage(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_requests, "is_refused", lambda _: True)


def close_before_the_last_line(patch: pytest.MonkeyPatch) -> None:
    def broken(transition: Transition) -> bool:
        return transition.phase.final or transition.cause_id in {LOGS_INCOMPLETE, LOGS_BEING_READ}

    patch.setattr(job_events, "is_final", broken)
    take = job_events._take_end

    def over(active: ActiveRuns, followed: FollowedRun, end: Transition) -> None:
        if end.cause_id == LOGS_BEING_READ:
            end = Transition(phase=Phase.SUCCEEDED, at=end.at, cause="It is done.")
        take(active, followed, end)

    patch.setattr(job_events, "_take_end", over)


def end_before_the_pods_are_listed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_reader, "must_list_pods", lambda *_: False)


def create_before_it_is_recorded(patch: pytest.MonkeyPatch) -> None:
    record = SimulatedStore.record

    def broken(self: SimulatedStore, plan: Any, **more: Any) -> Any:
        run = record(self, plan, **more)
        self.disk.world.spawn(lambda: self.disk.rows.setdefault(plan.run_id, run), 2.0)
        return self.disk.rows.pop(plan.run_id)

    patch.setattr(SimulatedStore, "record", broken)


def resume_what_is_being_submitted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(submitting, "held_set", lambda *_, **__: contextlib.nullcontext())


def forget_what_is_left(patch: pytest.MonkeyPatch) -> None:
    def broken(active: ActiveRuns, followed: FollowedRun, _: Future[Any]) -> None:
        followed.see(deletes=False)
        active.finish(followed)

    def forgets(context: RunContext, run_id: str) -> Run:
        return context.store.fulfilled(run_id, "delete")

    patch.setattr(job_requests, "_take_deleted", broken)
    patch.setattr(requests, "delete", forgets)


def take_over_a_copy(patch: pytest.MonkeyPatch) -> None:
    delete = requests.delete

    def by_name_alone(context: RunContext, run_id: str) -> Any:
        run, why = delete(context, run_id)
        context.cluster.remove(run_id, lambda: NOTHING)
        return run, why

    patch.setattr(requests, "delete", by_name_alone)


def act_on_what_another_store_has_adopted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_events, "_take_ownership", lambda *_: None)


@pytest.mark.parametrize(
    "breaks",
    [
        delete_with_unread_logs,
        call_a_lost_answer_failed,
        read_from_the_beginning,
        follow_what_another_process_follows,
        forget_a_wish_in_an_outage,
        close_before_the_last_line,
        end_before_the_pods_are_listed,
        create_before_it_is_recorded,
        forget_what_is_left,
        resume_what_is_being_submitted,
        take_over_a_copy,
        act_on_what_another_store_has_adopted,
    ],
    ids=lambda breaks: breaks.__name__,
)
def test_a_fault_of_the_program_is_found(breaks: Breaks, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch)
    assert any(_fails(seed) for seed in range(MOST))


def _fails(seed: int) -> bool:
    try:
        play(seed)
    except (Violation, KeyError):  # a row that is looked for is not there
        return True
    return False
