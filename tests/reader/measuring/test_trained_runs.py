"""Measurements of our trainers' time-to-accuracy runs."""

import re
from typing import Any

import msgspec
import pytest

from k8sbench.model.measurement import DataSet, Measurement, Weights
from k8sbench.model.plan import PlannedTraining
from k8sbench.reader.measuring import expectation
from k8sbench.reader.measuring.measuring import measure
from tests.reader.measuring.own_runs import PLAN
from tests.reader.measuring.support import Lines, ids
from tests.reader.measuring.train_logs import (
    BEGINS,
    EVALUATES,
    LENGTH,
    SAVES,
    START,
    attempt,
    texts,
    to_target,
    until,
)
from tests.unit.presence import present

TRAINING = PlannedTraining(
    length=LENGTH,
    unit="iterations",
    evaluate_every=20,
    metric="mIoU",
    target=40.0,
    stop_at_target=False,
)


def measured(lines: list[str], training: PlannedTraining | None = TRAINING) -> Measurement:
    """Measure a log against its plan."""
    plan = msgspec.structs.replace(
        PLAN,
        precision="fp32",
        amp_dtype=None,
        device="cuda",
        replicas=1,
        gpus_per_replica=2,
        processes_per_replica=2,
        preset="full",
        mode="train",
        data="path:/data",
        window=msgspec.structs.replace(PLAN.window, warmup=10, iterations=80, log_interval=5),
        training=training,
    )
    expected = msgspec.structs.replace(expectation.from_plan(plan), trainers=None)
    return measure([Lines(lines)], expected)


def test_a_run_has_its_time_to_train_its_accuracy_and_what_it_read() -> None:
    found = measured(texts(attempt()))
    assert (found.verdict, ids(found)) == ("valid", [])
    assert found.time_to_train_s == pytest.approx(to_target(80))
    assert (found.mode, found.target, found.ended_by, found.restarts) == (
        *("train", 40.0, "length", 0),
    )
    accuracy = present(found.accuracy)
    assert (accuracy.metric, accuracy.unit, accuracy.evaluations) == ("mIoU", "%", 5)
    assert (accuracy.at_target, accuracy.best, accuracy.final) == (40.0, 50.0, 50.0)
    assert found.data_set == DataSet(name="cityscapes", digest="d1", train=2975, val=500)
    assert found.weights == Weights(file="v1c.pth", digest="ab" * 32)
    assert found.environment["aAcc (final)"] == 95.0
    scratch = measured(texts(attempt(weights=False)))
    assert (scratch.weights, scratch.missing["weights"]) == (None, "The run trained from scratch.")


def test_the_throughput_is_of_training_alone() -> None:
    found = measured(texts(attempt()))
    figures = present(found.throughput)
    assert figures.time_weighted == pytest.approx(8.0)
    assert figures.time_weighted_steady == figures.timestamps == pytest.approx(8.0)
    assert (found.iterations, found.records) == (90, 18)
    # From the first to the last training line, with the four evaluations between them.
    assert found.train_wall_s == pytest.approx(95 + 4 * (EVALUATES + SAVES))


def test_a_run_that_ends_at_its_target_is_complete() -> None:
    found = measured(texts(attempt(stop=True)))
    assert (found.verdict, ids(found)) == ("valid", [])
    assert (found.ended_by, found.iterations) == ("target", 70)
    assert found.time_to_train_s == pytest.approx(to_target(80))


def test_a_run_that_ends_before_its_length_without_the_target_is_not() -> None:
    lines = [line.text for line in attempt(stop=True, target=40.0)]
    # The same steps, and the evaluation at their end is below the target.
    lines = [line.replace('"value": 40.0', '"value": 39.9') for line in lines]
    lines = [line.replace("eval_accuracy:0.40000", "eval_accuracy:0.39900") for line in lines]
    found = measured(lines)
    assert ids(found) == ["too-few-iterations", "ends-early"]
    assert found.time_to_train_s is None
    assert found.missing["time_to_train_s"] == "No evaluation reached the target of 40 %."


@pytest.mark.parametrize(
    ("start", "training", "said"),
    [
        ({"data": "synthetic"}, {}, "synthetic"),
        ({"data": "synthetic-host"}, {}, "synthetic"),
        ({"target": None}, {"target": None}, "The run has no target accuracy."),
        ({"metric": "top-1"}, {}, "The run evaluates top-1, the target is one of mIoU."),
        ({"resume": 60}, {}, "test_begin"),
    ],
)
def test_a_run_without_a_time_to_train_says_why(
    start: dict[str, Any], training: dict[str, Any], said: str
) -> None:
    found = measured(texts(attempt(**start)), msgspec.structs.replace(TRAINING, **training))
    assert found.time_to_train_s is None
    assert said in found.missing["time_to_train_s"]


def test_an_evaluation_that_lacks_samples_reaches_no_target() -> None:
    """Also where an earlier version of the trainer stopped there."""
    some = [line.replace('"samples": 500', '"samples": 150') for line in texts(attempt())]
    found = measured(some)
    assert found.time_to_train_s is None
    assert found.missing["time_to_train_s"].endswith("One that lacks samples reaches none.")
    assert present(found.accuracy).at_target is None
    late = [
        line if '"step": 80,' in line else whole
        for line, whole in zip(some, texts(attempt()), strict=True)
    ]
    assert measured(late).time_to_train_s == pytest.approx(to_target(100))


@pytest.mark.parametrize(("lost", "first"), [({40}, 40), ({100}, 100), ({20, 60}, 20)])
def test_a_run_that_lacks_a_planned_evaluation_is_not_finished(lost: set[int], first: int) -> None:
    def is_lost(line: str) -> bool:
        kind = '"event": "evaluation"' in line or "eval_accuracy" in line
        return kind and any(f'"step": {step},' in line for step in lost)

    lines = [line for line in texts(attempt()) if not is_lost(line)]
    found = measured(lines)
    assert (found.verdict, ids(found)) == ("rejected", ["evaluation-missing"])
    is_of = "1 of 5 planned evaluations is" if len(lost) == 1 else "2 of 5 planned evaluations are"
    assert found.reasons[0].sentence == f"{is_of} not in the log, first that at step {first}."
    # Earlier versions state no plan; the end of a run is evaluated in any case.
    before = [line.replace(', "evaluates": true', "") for line in lines]
    assert ids(measured(before)) == (["evaluation-missing"] if 100 in lost else [])


# Restarts


def again(
    killed: float,
    *,
    resume: int | None,
    wait: float = 60.0,
    torn: str = "",
    boot: str = "b1",
) -> list[str]:
    """Return a run killed after ``killed`` seconds and resumed from a step."""
    first = until(attempt(), killed)
    second = attempt(START + killed + wait, resume=resume, begun=START, boot=boot)
    return [*texts(first), *([torn] if torn else []), *texts(second)]


def test_a_restarted_run_is_one_run_and_its_time_to_train_has_the_restart_in_it() -> None:
    # Killed at iteration 61 of 100; the last checkpoint is of 60.
    killed = to_target(60) + SAVES + 1.5
    found = measured(again(killed, resume=60))
    assert (found.verdict, ids(found)) == ("valid", ["restarted"])
    assert found.restarts == 1
    assert found.time_to_train_s == pytest.approx(killed + 60 + BEGINS + 20 + EVALUATES)
    assert present(found.accuracy).evaluations == 5


def clock_set(lines: list[str], before: int, seconds: float) -> list[str]:
    """Return a log whose wall clock was set by ``seconds`` before a line."""

    def later(stamp: re.Match[str]) -> str:
        return f"{stamp[1]}{float(stamp[2]) + seconds:.6f}"

    stamps = re.compile(r'("time": |AI-Rank-log )(\d+\.\d+)')
    return [*lines[:before], *(stamps.sub(later, line) for line in lines[before:])]


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
@pytest.mark.parametrize(("killed", "resume"), [(None, None), (130.0, 60), (15.0, None)])
def test_the_time_to_train_does_not_depend_on_the_wall_clock(
    killed: float | None, resume: int | None, seconds: float
) -> None:
    lines = texts(attempt()) if killed is None else again(killed, resume=resume)
    took = present(measured(lines).time_to_train_s)
    for before in range(len(lines)):
        assert measured(clock_set(lines, before, seconds)).time_to_train_s == pytest.approx(took)


def test_between_two_machines_the_time_to_train_is_unknown_where_their_clocks_disagree() -> None:
    lines = again(15.0, resume=None, boot="b2")
    assert measured(lines).time_to_train_s == pytest.approx(75.0 + to_target(80))
    second = next(at for at, line in enumerate(lines) if '"start"' in line and at)
    found = measured(clock_set(lines, second, -3600.0))
    assert found.time_to_train_s is None
    assert found.missing["time_to_train_s"] == (
        "It ran on several machines, whose clocks contradict each other."
    )


def test_a_log_that_ends_at_any_line_and_goes_on_is_one_run() -> None:
    whole = list(attempt())
    for count in range(1, len(whole) - 1):
        saved = max((line.step for line in whole[:count] if '"checkpoint"' in line.text), default=0)
        at = whole[count - 1].at + 30
        begun = START if any("test_begin" in line.text for line in whole[:count]) else None
        lines = texts(whole[:count], attempt(at, resume=saved or None, begun=begun))
        found = measured(lines)
        assert (found.verdict, ids(found)) == ("valid", ["restarted"]), count
        assert (found.iterations, found.restarts) == (90, 1), count
        assert present(found.accuracy).evaluations == 5, count
        assert present(found.throughput).time_weighted == pytest.approx(8.0), count


# What the reader should know


def test_steps_whose_line_a_restart_lost_are_not_missing() -> None:
    # Killed at iteration 43, behind a checkpoint of 42; the line of 45 was never written.
    lines = again(to_target(40) + SAVES + 3.5, resume=42)
    found = measured(lines)
    assert ids(found) == ["restarted"]
    assert found.iterations == 88
    assert present(found.throughput).time_weighted == pytest.approx(8.0)
