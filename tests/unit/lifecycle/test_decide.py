"""Decisions for each run state and view; see docs/architecture.md."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import msgspec
import pytest

from k8sbench.diagnose.job.causes import CAUSES
from k8sbench.lifecycle import decide
from k8sbench.model import creation
from k8sbench.model.errors import BenchError
from k8sbench.model.phase import LOGS_BEING_READ, RESTARTING, Phase, Transition
from k8sbench.model.run import Run, Wish
from tests import struct_docs
from tests.tiers import ROOT
from tests.unit.lifecycle.played import LOCATION, planned_case

NOW = 1000.0
WISH = Wish(kind="cancel", at=NOW, cause="Cancelled.", cause_id="cancelled")
UNKNOWN = creation.creation_unknown_error("seg-1", "the connection broke.")


def moment(at: float) -> decide.Now:
    return decide.Now(at, at)


def step(phase: Phase, cause_id: str | None = None, at: float = NOW) -> Transition:
    return Transition(phase=phase, at=at, cause="Because.", cause_id=cause_id)


def a_run(*steps: Transition, max_restarts: int = 0, requested_by: str | None = None) -> Run:
    plan = planned_case("kubernetes", timeout_s=600.0).plan("seg-1", "night")
    changes = {"max_restarts": max_restarts, "requested_by": requested_by}
    plan = msgspec.structs.replace(plan, **changes)
    first = step(Phase.CREATED)
    return Run(
        planned=plan,
        created_at=NOW,
        process=None,
        history=(first, *steps),
        artifacts=None,
        location=LOCATION,
    )


RUNS = {
    "Planned": a_run(),
    "Creating": a_run(creation.creation_unknown(UNKNOWN, NOW)),
    "Queued": a_run(creation.job_created(NOW)),
    "Running": a_run(step(Phase.RUNNING)),
    "Ending": a_run(step(Phase.RUNNING), step(Phase.RUNNING, LOGS_BEING_READ)),
    "Over, not measured": a_run(step(Phase.RUNNING), step(Phase.SUCCEEDED)),
    "Over": a_run(step(Phase.FAILED)),
}
JOBS = dict.fromkeys(decide.JobView) | {
    decide.JobView.ENDED: step(Phase.SUCCEEDED),
}
"""Each view of a job, and how it ended."""
OTHER = "k8sbench on lab-8"
TIMES = (-math.inf, decide.PENDING, NOW + 5.0)


def test_each_state_has_its_run() -> None:
    assert {decide.state_of(run).value for run in RUNS.values()} == set(RUNS)
    assert {state.value for state in decide.RunState} == set(RUNS)


def test_a_wait_in_the_queue_after_a_preemption_is_no_part_of_the_time_limit() -> None:
    preempted = (step(Phase.QUEUED), step(Phase.RUNNING, at=NOW + 50), step(Phase.QUEUED, at=1100))
    waiting, again = a_run(*preempted), a_run(*preempted, step(Phase.RUNNING, at=9000))
    assert decide.time_used(a_run(*preempted[:2]), NOW + 60) == 10
    assert decide.time_used(waiting, 8000.0) == 50
    assert decide.time_used(again, 9001.0) == 51


def test_the_time_of_a_continued_training_counts_from_its_next_attempt() -> None:
    before = a_run(step(Phase.RUNNING), step(Phase.FAILED, "timeout", at=1090))
    history = (*before.history, creation.training_continues(before.plan, 1, 1500.0))
    assert decide.time_used(msgspec.structs.replace(before, history=history), 1550.0) == 0
    history += (step(Phase.RUNNING, at=1600),)
    assert decide.time_used(msgspec.structs.replace(before, history=history), 1601.0) == 1


def test_a_clock_that_is_set_ends_no_run_and_prolongs_none() -> None:
    record = decide.RecordedRun(run=a_run(step(Phase.RUNNING)))
    for number, set_to in enumerate((NOW + 10.0, NOW + 5000.0, NOW - 5000.0)):
        decide.see_time(record, decide.Now(set_to, 7.0 + number))
        assert record.time_up_at == 7.0 + 600.0 - 10.0
    record.run = a_run(step(Phase.RUNNING), step(Phase.QUEUED, at=NOW + 9000.0))
    decide.see_time(record, decide.Now(NOW, 107.0))
    assert (record.time_up_at, record.time_left_s) == (math.inf, 490.0)
    record.run = a_run(step(Phase.RUNNING), step(Phase.QUEUED), step(Phase.RUNNING))
    decide.see_time(record, decide.Now(NOW, 307.0))
    assert record.time_up_at == 307.0 + 490.0


REFUSED = creation.wait_for_place(UNKNOWN, NOW + 10, is_of_job=False)
LATER = step(Phase.CREATED, creation.RESTART_WAITS, at=NOW + 20)


def queued(*steps: Transition) -> Run:
    run = a_run(*steps)
    plan = msgspec.structs.replace(run.plan, wait_timeout_s=100.0)
    return msgspec.structs.replace(run, planned=plan)


@pytest.mark.parametrize(
    ("steps", "since"),
    [
        ((), NOW),
        ((step(Phase.CREATED, creation.WAITS_FOR_TURN),), None),
        (
            (
                step(Phase.CREATED, creation.WAITS_FOR_TURN),
                creation.turn_came(NOW + 10),
                step(Phase.QUEUED, "queue-unusable", at=NOW + 20),
            ),
            NOW + 10,
        ),
        ((REFUSED,), NOW),
        ((step(Phase.CREATED, creation.WAITS_FOR_TURN), REFUSED), NOW + 10),
        ((REFUSED, creation.job_created(NOW + 30)), NOW),
        ((step(Phase.RUNNING), step(Phase.CREATED, RESTARTING), LATER), NOW + 20),
        ((step(Phase.RUNNING),), None),
        ((step(Phase.RUNNING), step(Phase.QUEUED, "queue-evicted", at=NOW + 50)), NOW + 50),
    ],
)
def test_a_wait_counts_from_a_runs_turn_whoever_refuses_its_job(
    steps: tuple[Transition, ...], since: float | None
) -> None:
    run = queued(*steps)
    assert decide.waits_since(run) == since
    record = decide.RecordedRun(run=run)
    decide.see_time(record, decide.Now(NOW + 60, 7.0))
    passed = 0.0 if since is None else NOW + 60 - since
    assert record.wait_up_at == (math.inf if since is None else 7.0 + 100.0 - passed)
    decide.see_time(record, decide.Now(NOW + 3660, 8.0))  # a clock that is set ends no wait
    assert record.wait_up_at == (math.inf if since is None else 7.0 + 100.0 - passed)


@pytest.mark.parametrize("keep", [False, True])
def test_a_run_that_has_waited_too_long_has_failed_by_that_and_was_not_cancelled(
    keep: bool,
) -> None:
    run = queued(creation.job_created(NOW), step(Phase.QUEUED, "queue-unusable", at=NOW + 1))
    record = decide.RecordedRun(run=run, keep=keep)
    view = decide.View(job=decide.JobView.REPORTED)
    decide.see_time(record, decide.Now(NOW, 0.0))
    at = decide.Now(NOW + 100, 100.0)
    assert decide.decide(record, view, decide.Now(NOW + 99, 99.0)) == decide.wait(100.0)
    assert decide.advance(record, view, at) is None
    action = decide.decide(record, view, at)
    assert (action.kind.value, action.cause_id) == ("Cancel", "wait-timeout")
    assert "(queue-unusable)" in action.cause
    wish = Wish(kind="cancel", at=at.at, cause=action.cause, cause_id=action.cause_id)
    record = msgspec.structs.replace(record, wish=wish)
    gone = decide.advance(record, ended(step(Phase.LOST, "job-deleted", at=at.at)), at)
    assert gone is not None
    assert (gone.phase, gone.cause_id) == (Phase.FAILED, "wait-timeout")


def test_no_combination_raises_an_error() -> None:
    every = itertools.product(RUNS.values(), JOBS.items(), TIMES, ("", OTHER))
    for run, (job, end), next_at, holder in every:
        for wish, keep, deletes in itertools.product((None, WISH), (False, True), (False, True)):
            record = decide.RecordedRun(run=run, wish=wish, keep=keep)
            view = decide.View(job=job, end=end, next_at=next_at, deletes=deletes, taken_by=holder)
            assert isinstance(decide.decide(record, view, moment(NOW)), decide.Action)
            recorded = decide.advance(record, view, moment(NOW))
            assert recorded is None or isinstance(recorded, Transition)


def _cells() -> Iterator[tuple[str, str, str, str]]:
    kinds = decide.JobView
    seen = [decide.View(job=job, end=end) for job, end in JOBS.items()]
    seen.append(decide.View(job=kinds.REPORTED, taken_by=OTHER))
    for (state, run), view in itertools.product(RUNS.items(), seen):
        answers, job = [], view.job.value
        for wish in (None, WISH):
            record = decide.RecordedRun(run=run, wish=wish)
            end = decide.advance(record, view, moment(NOW))
            answers.append(
                f"records {end.phase}"
                if end is not None and end.phase.final
                else decide.decide(record, view, moment(NOW)).kind.value
            )
        name = f"{job}, taken over" if view.taken_by else job
        yield (state, name, *answers)  # type: ignore[misc]


def test_the_table_of_the_page_is_generated_golden() -> None:
    states: dict[tuple[str, ...], list[str]] = {}
    for state, *cell in _cells():
        if not state.startswith("Over"):
            states.setdefault(tuple(cell), []).append(state)
    rows = ["| state | job | wanted: to run | wanted: its end |", "|---|---|---|---|"]
    rows += [f"| {', '.join(same)} | {' | '.join(cell)} |" for cell, same in states.items()]
    for name in ("Over, not measured", "Over"):
        for deletes in (True, False):
            view = ended(step(Phase.SUCCEEDED), deletes=deletes)
            job = "Ended" if deletes else "Ended, nothing is left of it"
            rows.append(f"| {' | '.join((name, job, *[decided(RUNS[name], view)] * 2))} |")
    struct_docs.assert_generated(ROOT / "docs" / "architecture.md", "states", "\n".join(rows))


# -- cells of their own ---------------------------------------------------------------------------


def decided(run: Run, view: decide.View, *, now: float = NOW, **record: object) -> str:
    known = decide.RecordedRun(run=run, **record)  # type: ignore[arg-type]
    decide.see_time(known, moment(NOW))
    return decide.decide(known, view, moment(now)).kind.value


def ended(end: Transition, *, deletes: bool = False) -> decide.View:
    return decide.View(job=decide.JobView.ENDED, end=end, deletes=deletes)


@pytest.mark.parametrize("state", ["Queued", "Running"])
def test_a_job_is_ended_when_what_it_printed_is_read_or_takes_too_long(state: str) -> None:
    unread = decide.View(job=decide.JobView.REPORTED, read_by=NOW + 60.0)
    assert decided(RUNS[state], unread, wish=WISH) == "Wait"
    assert decided(RUNS[state], unread, wish=WISH, now=NOW + 60.0) == "Cancel"
    assert decided(RUNS[state], decide.View(job=decide.JobView.REPORTED), wish=WISH) == "Cancel"


def test_the_time_in_which_logs_are_read_does_not_count() -> None:
    view = decide.View(job=decide.JobView.WATCHED)
    assert decided(RUNS["Running"], view, now=NOW + 601.0) == "Cancel"
    assert decided(RUNS["Ending"], view, now=NOW + 601.0) == "Wait"


def test_the_end_of_a_job_is_waited_for_once_it_was_asked_for_and_not_for_ever() -> None:
    record = decide.RecordedRun(run=RUNS["Running"], wish=WISH)
    view = decide.View(job=decide.JobView.REPORTED, asked_to_end_at=NOW, is_end_answered=True)
    assert decide.decide(record, view, moment(NOW + 1.0)).kind is decide.ActionKind.WAIT
    assert decide.advance(record, view, moment(NOW + 1.0)) is None
    left = decide.advance(record, view, moment(NOW + decide.CANCEL_SECONDS))
    assert left is not None
    assert (left.phase, left.cause_id) == (Phase.FAILED, "cancelled")


def test_another_attempt_follows_an_end_that_may_be_better_next_time() -> None:
    end = step(Phase.FAILED, "replica-failed")
    run = a_run(step(Phase.RUNNING), max_restarts=1, requested_by="stored-1")
    record = decide.RecordedRun(run=run)
    decide.see_time(record, moment(NOW))
    view = ended(end)
    assert decide.advance(record, view, moment(NOW)) is None
    assert decide.decide(record, view, moment(NOW)).kind is decide.ActionKind.RESTART
    wanted_by_none = a_run(step(Phase.RUNNING), max_restarts=1)
    for changes in ({"wish": WISH}, {"keep": True}, {"run": wanted_by_none}):
        last = msgspec.structs.replace(record, **changes)
        assert decide.advance(last, view, moment(NOW)) is not None
    assert decide.advance(record, view, moment(NOW + 601.0)) is not None, "its time is up"


@pytest.mark.parametrize(
    "end",
    [
        *(step(Phase.FAILED, one) for one, cause in CAUSES.items() if not cause.again),
        step(Phase.CANCELLED, "cancelled"),
        step(Phase.LOST, "job-deleted"),
        step(Phase.LOST, "replica-failed"),
    ],
    ids=lambda end: f"{end.phase} {end.cause_id}",
)
def test_any_other_end_is_the_run_s(end: Transition) -> None:
    record = decide.RecordedRun(run=a_run(step(Phase.RUNNING), max_restarts=1))
    assert decide.advance(record, ended(end), moment(NOW)) == end


def test_an_attempt_that_waits_is_not_waited_for_beyond_the_runs_time() -> None:
    began = a_run(step(Phase.RUNNING), max_restarts=1)
    again = creation.attempt_restarts(began.plan, 1, "It failed.", NOW)
    waits = creation.attempt_waits(began, BenchError("A pod is left."), NOW)
    run = msgspec.structs.replace(began, history=(*began.history, again, waits))
    view = decide.View(job=decide.JobView.NOT_ASKED, next_at=NOW + 5.0)
    assert decided(run, view) == "Wait"
    assert decided(run, view, now=NOW + 5.0) == "Create"
    assert decided(run, view, now=NOW + 600.0) == "Cancel"
