"""Step times, by a clock that the test moves."""

import math
import types
from collections.abc import Mapping

import pytest

from k8sbench.trainers.parts import steps
from k8sbench.trainers.parts.steps import StepPlan, StepRecord, StepTimer


class Clock:
    """A clock that only moves when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def drive(
    plan: StepPlan,
    *,
    data: float = 0.25,
    after: float = 0.0,
    pauses: Mapping[int, float] = types.MappingProxyType({}),
    end: int = 0,
) -> tuple[StepTimer, list[StepRecord]]:
    """Run a plan; steps wait `data`, compute 0.75 s and log for `after`.

    There is a pause after some, and `end` is the last step of an interrupted run.
    """
    clock = Clock()
    timer = StepTimer(plan, clock=clock)
    records = []
    clock.now += 50.0  # what comes before the first step is nobody's time
    timer.start()
    while timer.another():
        clock.now += data
        timer.data_ready()
        clock.now += 0.75
        record = timer.step_done()
        clock.now += after
        if record is not None:
            records.append(record)
        if timer.steps in pauses:
            with timer.pause():
                clock.now += pauses[timer.steps]
        if timer.steps == end:
            timer.end()
    return timer, records


def test_a_record_covers_the_steps_since_the_one_before() -> None:
    _, records = drive(StepPlan(warmup=4, iterations=6, log_interval=2))
    assert [record.step for record in records] == [2, 4, 6, 8, 10]
    for record in records:
        assert (record.steps, record.of) == (2, 10)
        assert record.seconds == pytest.approx(2.0)
        assert record.data_seconds == pytest.approx(0.5)


def test_the_time_between_steps_belongs_to_the_next_one() -> None:
    timer, records = drive(StepPlan(warmup=0, iterations=4, log_interval=1), after=0.5)
    assert [record.seconds for record in records] == pytest.approx([1.0, 1.5, 1.5, 1.5])
    assert timer.window().seconds == pytest.approx(5.5)


def test_records_end_with_the_warm_up_and_with_the_window() -> None:
    timer, records = drive(StepPlan(warmup=5, iterations=6, log_interval=4))
    assert [(record.step, record.steps) for record in records] == [(4, 4), (5, 1), (8, 3), (11, 3)]
    measured = [record for record in records if record.step > 5]
    window = timer.window()
    assert sum(record.steps for record in measured) == window.steps == 6
    assert math.fsum(record.seconds for record in measured) == pytest.approx(window.seconds)
    assert (window.first_step, window.last_step) == (6, 11)


def test_a_rank_keeps_the_times_of_its_window_only() -> None:
    timer, _ = drive(
        StepPlan(warmup=3, iterations=5, log_interval=1, min_steady_seconds=20.0), data=0.5
    )
    assert timer.steps > 8
    assert list(timer.step_seconds) == pytest.approx([1.25] * 5)


def test_training_goes_on_until_the_steady_part_is_long_enough() -> None:
    timer, records = drive(
        StepPlan(warmup=2, iterations=4, log_interval=3, min_steady_seconds=10.5)
    )
    # 4 s are measured; 6.5 s more are 7 steps, in whole intervals 9.
    assert timer.steps == 2 + 4 + 9
    assert timer.window().seconds == pytest.approx(4.0)
    assert [record.of for record in records if record.step <= 6] == [6] * 3
    assert [record.of for record in records if record.step > 6] == [15] * 3


def test_the_steps_themselves_fill_the_steady_part_and_not_what_follows_the_last() -> None:
    _, records = drive(
        StepPlan(warmup=0, iterations=1, log_interval=1, min_steady_seconds=1.4), after=0.5
    )
    assert sum(record.seconds for record in records) >= 1.4


def test_a_run_that_is_long_enough_ends_with_its_window() -> None:
    timer, _ = drive(StepPlan(warmup=1, iterations=4, log_interval=1, min_steady_seconds=3.9))
    assert timer.steps == 5


@pytest.mark.parametrize(
    ("done", "steady", "more"),
    [(10, 10.0, 0), (10, 12.0, 0), (10, 5.0, 10), (10, 9.9, 5), (0, 0.0, 5), (10, 0.0, 5)],
)
def test_an_extension_is_whole_log_intervals(done: int, steady: float, more: int) -> None:
    plan = StepPlan(warmup=0, iterations=10, log_interval=5, min_steady_seconds=10.0)
    assert steps.extension(plan, done, steady) == more


@pytest.mark.parametrize(("each", "rests"), [(False, [2, 4, 5]), (True, [1, 2, 3, 4, 5])])
def test_the_device_is_synchronised_only_at_records(each: bool, rests: list[int]) -> None:
    rested: list[int] = []
    timer = StepTimer(
        StepPlan(warmup=0, iterations=5, log_interval=2),
        sync=lambda: rested.append(timer.steps),
        sync_each_step=each,
        clock=Clock(),
    )
    timer.start()
    rested.clear()
    while timer.another():
        timer.step_done()
    assert rested == rests


@pytest.mark.parametrize(
    ("pauses", "noted"),
    [
        ({2: 30.0}, {3: 30.0}),
        ({3: 30.0}, {4: 30.0}),
        ({5: 20.0, 6: 10.0}, {6: 20.0, 8: 10.0}),
        ({10: 30.0}, {}),
    ],
)
def test_no_step_contains_a_pause(pauses: dict[int, float], noted: dict[int, float]) -> None:
    timer, records = drive(StepPlan(warmup=3, iterations=7, log_interval=2), pauses=pauses)
    assert [record.seconds for record in records] == [record.steps for record in records]
    assert list(timer.step_seconds) == [1.0] * 7
    assert timer.window().seconds == 7.0
    told = {record.step: record.paused_seconds for record in records if record.paused_seconds}
    assert told == noted


def test_a_record_ends_before_each_evaluation() -> None:
    _, records = drive(StepPlan(warmup=0, iterations=8, log_interval=5, evaluate_every=3))
    assert [record.step for record in records] == [3, 5, 6, 8]


def test_a_window_ends_where_the_run_was_ended() -> None:
    plan = StepPlan(warmup=2, iterations=8, log_interval=4, evaluate_every=5)
    timer, records = drive(plan, pauses={5: 9.0}, end=5)
    assert (timer.steps, timer.window()) == (5, steps.RankWindow(3, 5, 3.0))
    assert records[-1].step == 5
    timer, _ = drive(plan, end=1)
    assert timer.window().steps < 1


def test_a_resumed_run_counts_on_and_warms_up_anew() -> None:
    timer, records = drive(StepPlan(warmup=2, iterations=3, log_interval=2, done=100))
    assert [record.step for record in records] == [102, 104, 105]
    assert {record.of for record in records} == {105}
    assert timer.window() == steps.RankWindow(103, 105, 3.0)
    short, records = drive(StepPlan(warmup=20, iterations=-17, log_interval=2, done=100))
    assert [record.step for record in records] == [102, 103]
    assert short.window().steps < 1
