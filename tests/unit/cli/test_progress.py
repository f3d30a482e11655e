"""Where there is no terminal: plain lines on stderr, few enough for a CI log."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

import pytest

from k8sbench.cli.terminal.progress import Progress, figure_words
from k8sbench.lifecycle.live_state import LAST_LINES
from k8sbench.model.measurement import AccuracyResult
from k8sbench.model.phase import Phase
from k8sbench.model.spec import LogFormat
from k8sbench.report import group_words
from tests.unit.cli import live_runs
from tests.unit.cli.live_runs import NOW, line, moved, replica, step
from tests.unit.local.test_exits import torchrun
from tests.unit.store.examples import REJECTION, measurement

Said = Callable[[], list[str]]


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tell(clock: Clock) -> Progress:
    return Progress(clock)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    """What was printed since the last look; nothing may ever go to stdout."""

    def look() -> list[str]:
        out, err = capsys.readouterr()
        assert out == ""
        return err.splitlines()

    return look


def test_the_plan_comes_first(tell: Progress, said: Said) -> None:
    tell.planned(live_runs.run(notes=("Batch 2 is unlike the report's.",)))
    plan, note, run = said()
    assert plan.startswith("seg · pytorch · mm · fp32 · ")
    assert note == "  note: Batch 2 is unlike the report's."
    assert run == "run seg-1 (set nightly, repeat 1)"


def test_repeats_of_a_case_share_one_plan_line(tell: Progress, said: Said) -> None:
    tell.planned(live_runs.run())
    said()
    tell.planned(live_runs.run("seg-2", repeat=2))
    assert said() == ["run seg-2 (set nightly, repeat 2)"]
    tell.planned(live_runs.run("seg-3", batch_size=4))
    assert "batch 4" in said()[0]


def test_a_change_of_state_has_its_cause_and_what_to_do(tell: Progress, said: Said) -> None:
    run = live_runs.run()
    tell.on_event(run, moved(Phase.PENDING, "No node has 8 GPUs.", action="Take a pool."))
    tell.on_event(run, moved(Phase.RUNNING))
    assert said() == ["  Pending: No node has 8 GPUs.", "    Take a pool.", "  Running"]


def test_a_step_is_reported_every_five_seconds_at_most(
    tell: Progress, clock: Clock, said: Said
) -> None:
    run = live_runs.run()  # 1 process × batch 2
    tell.on_event(run, step(10))
    assert said() == ["  step 10/100  2 samples/s  loss 0.5123  ETA –"]
    for second in range(1, 5):
        clock.now = NOW + second
        tell.on_event(run, step(10 + second, at=clock.now))
    assert said() == []
    clock.now = NOW + 5
    tell.on_event(run, step(15, at=clock.now))
    # 5 iterations in 5 seconds, 85 to go.
    assert said() == ["  step 15/100  2 samples/s  loss 0.5123  ETA 1m25s"]


def test_the_latest_evaluation_stands_beside_the_steps_that_follow_it(
    tell: Progress, clock: Clock, said: Said
) -> None:
    run = live_runs.run()
    for value in (60.0, 71.25):
        event = {"event": "evaluation", "step": 10, "metric": "mIoU", "value": value, "unit": "%"}
        tell.on_event(run, line(f"K8SBENCH {json.dumps(event | {'target': 78.5})}"))
    tell.on_event(run, line('K8SBENCH {"event": "evaluation", "metr'))  # torn
    for second in range(40):  # more lines than are kept until somebody looks
        clock.now = NOW + second / 100
        tell.on_event(run, step(11 + second, at=clock.now))
    clock.now = NOW + 5
    tell.on_event(run, step(60, at=clock.now))
    assert "  mIoU 71.25 %  ETA " in said()[-1]


def test_a_pace_is_of_the_present_attempt(tell: Progress, clock: Clock, said: Said) -> None:
    run = live_runs.run()
    tell.on_event(run, step(80))
    clock.now = NOW + 10
    tell.on_event(run, step(10, at=clock.now))  # the replica was started again
    assert said()[-1].endswith("ETA –")


def test_a_declared_format_gives_steps_too(tell: Progress, said: Said) -> None:
    mine = LogFormat(
        name="mine", record=r"it (?P<iteration>\d+) ips (?P<rate>[\d.]+)", unit="img", per="card"
    )
    run = live_runs.run(log=mine, replicas=3)
    tell.on_event(run, line("not UTF-8: \udcff"))
    tell.on_event(run, line("it 7 ips 1000.5"))
    assert said() == ["  step 7  3002 samples/s  ETA –"]


def test_a_step_in_a_family_line_of_our_own_trainers_is_not_counted_twice(
    tell: Progress, said: Said
) -> None:
    run = live_runs.run(log="k8sbench")
    tell.on_event(
        run, line("Iter [50/80000] lr: 1e-2, time: 0.500, data_time: 0.010, loss: 2.5000")
    )
    assert said() == []


@pytest.mark.parametrize(
    "text", ["K8SBENCH {", 'K8SBENCH {"event": "step"}', 'K8SBENCH {"event": "step", "step": "x"}']
)
def test_a_torn_step_is_no_step(text: str, tell: Progress, said: Said) -> None:
    tell.on_event(live_runs.run(), line(text))
    assert said() == []


def test_the_first_replicas_to_fail_are_heard_out(tell: Progress, said: Said) -> None:
    run = live_runs.run()
    for each in range(6):
        for number in range(LAST_LINES + 5):
            text = f"line {number} \x1b[31mof\r {'x' * 1000}"
            tell.on_event(run, line(text, replica=f"worker-{each}"))
    for each in (4, 2, 1, 0):
        tell.on_event(run, replica(f"worker-{each}", Phase.FAILED, exit_code=1))
    said()
    tell.on_event(run, moved(Phase.FAILED, "worker-4 ended with exit code 1."))
    first, *lines, last = said()
    assert first == "  Failed: worker-4 ended with exit code 1."
    heads = [text for text in lines if not text.startswith("    ")]
    assert heads == [f"  last lines of worker-{each}:" for each in (4, 2, 1)]
    assert len(lines) == 3 * (1 + LAST_LINES)
    assert lines[1].startswith("    line 5 of  xxx")
    assert lines[LAST_LINES].startswith(f"    line {LAST_LINES + 4} ")
    assert max(len(text) for text in lines) < 600
    assert last == "  last lines of 1 more: k8sbench logs seg-1"


def test_a_replica_that_came_back_did_not_fail(tell: Progress, said: Said) -> None:
    run = live_runs.run()
    for each in ("worker-0", "worker-1"):
        tell.on_event(run, line("bye", replica=each))
        tell.on_event(run, replica(each, Phase.FAILED))
    tell.on_event(run, replica("worker-0", Phase.RUNNING, restarts=1))
    tell.on_event(run, moved(Phase.FAILED))
    assert said()[1:-1] == ["  last lines of worker-1:", "    bye"]


def test_the_replica_that_is_blamed_is_heard_first_though_it_was_ended_by_others(
    tell: Progress, said: Said
) -> None:
    run = live_runs.run()
    for each in ("worker-1", "worker-11", "worker-10"):
        tell.on_event(run, line(f"bye from {each}", replica=each))
    tell.on_event(run, replica("worker-1", Phase.FAILED, exit_code=1))
    tell.on_event(run, replica("worker-11", Phase.CANCELLED))
    tell.on_event(run, moved(Phase.FAILED, "rank 23 of worker-11 exited: no worker-10 here"))
    assert said()[1:] == [
        *("  last lines of worker-11:", "    bye from worker-11"),
        *("  last lines of worker-1:", "    bye from worker-1"),
        "  all lines: k8sbench logs seg-1",
    ]


def test_the_last_lines_of_a_failed_replica_are_its_own_and_not_torchrun_s(
    tell: Progress, said: Said
) -> None:
    run = live_runs.run()
    refused = "python -m k8sbench.trainers.tsm: error: argument --seed: must be a whole number"
    for text in ("usage: tsm", refused, *torchrun((0, 2))):
        tell.on_event(run, line(text))
    tell.on_event(run, replica("master-0", Phase.FAILED, exit_code=1))
    tell.on_event(run, moved(Phase.FAILED))
    assert said()[1:] == [
        *("  last lines of master-0:", "    usage: tsm", f"    {refused}"),
        "  all lines: k8sbench logs seg-1",
    ]


def test_gaps_and_notes_are_reported(tell: Progress, said: Said) -> None:
    run = live_runs.run()
    tell.on_event(run, live_runs.note("The API server does not answer since 10 s."))
    for after, before in ((NOW, NOW + 1), (NOW, None), (None, NOW), (None, None)):
        tell.on_event(run, live_runs.gap(after, before))
    tell.note("Ctrl-C: detaching.")
    first, then = "2026-11-20T07:33:20Z", "2026-11-20T07:33:21Z"
    assert said() == [
        "  The API server does not answer since 10 s.",
        f"  the log of worker-1 lacks lines between {first} and {then}: Rotated.",
        f"  the log of worker-1 lacks lines between {first} and its end: Rotated.",
        f"  the log of worker-1 lacks lines between its beginning and {first}: Rotated.",
        "  the log of worker-1 lacks lines between its beginning and its end: Rotated.",
        "Ctrl-C: detaching.",
    ]


def test_a_run_that_is_not_simply_valid_says_why(tell: Progress, said: Said) -> None:
    run = live_runs.run()
    tell.planned(run)
    said()
    rejected = measurement(reasons=(REJECTION,), verdict="rejected", throughput=None, accuracy=None)
    tell.ended(live_runs.ended(run, measurement=rejected))
    assert said() == [
        "  measured no figure, rejected, smoke: checks the path, not the speed",
        "  reject too-few-records: 4 records, 5 are needed.",
    ]


def test_a_run_that_ends_says_its_figure_by_which_estimator_and_how_far_it_goes(
    tell: Progress, said: Said
) -> None:
    smoke = ", smoke: checks the path, not the speed"
    for preset, mark in (("full", ""), ("smoke", smoke)):
        run = live_runs.run(preset=preset)
        tell.planned(run)
        said()
        tell.ended(live_runs.ended(run, measurement=measurement(accuracy=None)))
        assert said() == [f"  measured 12.50 images/s (time_weighted), valid{mark}"]


@pytest.mark.parametrize(
    ("target", "seconds", "words"),
    [
        (None, None, "top-1 76.6 %"),
        (75.9, None, "top-1 76.6 % (75.9 % not reached)"),
        (75.9, 44338.456, "top-1 76.6 % (75.9 % after 44338.456 s)"),
    ],
)
def test_a_training_that_ends_says_what_it_reached(
    target: float | None, seconds: float | None, words: str
) -> None:
    reached = AccuracyResult(metric="top-1", best=76.6, final=76.0, unit="%", evaluations=2)
    found = measurement(accuracy=reached, target=target, time_to_train_s=seconds)
    assert group_words.trained(found) == words
    assert f", trained to {words}, valid" in figure_words(found, live_runs.run().plan)


def test_a_note_on_the_plans_of_many_cases_is_printed_once(tell: Progress, said: Said) -> None:
    for size in (2, 4):
        tell.planned(live_runs.run(f"seg-{size}", batch_size=size, notes=("no GPU here",)))
    lines = said()
    assert sum("no GPU here" in text for text in lines) == 1
    assert sum("batch" in text for text in lines) == 2


def test_of_several_runs_each_line_says_which(tell: Progress, said: Said) -> None:
    one, two = live_runs.run(), live_runs.run("seg-2")
    tell.planned(one)
    tell.planned(two)
    said()
    tell.on_event(one, moved(Phase.RUNNING, "All replicas run."))
    tell.on_event(two, step(10, run_id="seg-2"))
    tell.ended(live_runs.ended(one))
    tell.on_event(two, moved(Phase.FAILED, "It broke.", "seg-2", action="Mend it."))
    lines = said()
    assert lines[:4] == [
        "  [seg-1] Running: All replicas run.",
        "  [seg-2] step 10/100  2 samples/s  loss 0.5123  ETA –",
        "  [seg-2] Failed: It broke.",
        "  [seg-2]   Mend it.",
    ]


def test_a_run_that_is_left_alone_has_not_ended(tell: Progress) -> None:
    run = live_runs.run("seg-1")
    tell.planned(run)
    tell.ended(live_runs.ended(run, Phase.RUNNING))
    assert (tell._left, tell._ended.total()) == ({"seg-1"}, 0)
    tell.planned(run)  # `collect` tries it again
    tell.ended(live_runs.ended(run))
    assert (tell._left, tell._ended.total()) == (set(), 1)


@pytest.mark.slow
def test_little_is_kept_of_a_run_and_nothing_of_one_that_has_ended(tell: Progress) -> None:
    runs = [live_runs.run(f"seg-{each}") for each in range(100)]
    tracemalloc.start()
    try:
        for run in runs:
            for number in range(20):
                tell.on_event(run, line(f"{number} {'x' * 20_000}", run_id=run.run_id))
        kept, _ = tracemalloc.get_traced_memory()
        for run in runs:
            tell.ended(live_runs.ended(run))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2e6  # 40 MB were printed
    assert after < 1e5


def test_a_sweep_says_after_each_run_how_far_it_is_and_what_the_run_reached(
    tell: Progress, said: Said, clock: Clock
) -> None:
    runs = [live_runs.run(f"seg-{number}", repeat=number) for number in (1, 2, 3)]
    tell.expect([run.plan for run in runs], [], 1)
    tell.planned(runs[0])
    clock.now += 60
    said()
    tell.ended(live_runs.ended(runs[0], measurement=measurement(accuracy=None)))
    assert said() == [
        (
            "1 of 3 ended, about 2m left (estimated from their times); seg pytorch fp32 1x1-cpu,"
            " repeat 1: 12.50 samples/s"
        )
    ]
    tell.planned(runs[1])
    said()
    tell.ended(live_runs.ended(runs[1], Phase.FAILED))
    assert said()[-1].startswith("2 of 3 ended, about 1m left")
    tell.planned(runs[2])
    said()
    tell.ended(live_runs.ended(runs[2], measurement=measurement(accuracy=None)))
    assert said() == ["3 of 3 ended; seg pytorch fp32 1x1-cpu, repeat 3: 12.50 samples/s"]
