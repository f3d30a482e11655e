"""--mode train on files, by framework, with one rank and two.

Evaluations, checkpoints, events, and equality of resumed and uninterrupted runs.
"""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.trainers import runs
from tests.trainers.runs import Event, events, free_port, losses, only, separate
from tests.trainers.toy_training import TRAINING, VALIDATION

pytestmark = pytest.mark.tier("frameworks")

ALL = ("--mode", "train", "--data", "/data", "--device", "cpu", "--warmup", "2")
EPOCHS = (*ALL, "--length", "3", "--length-unit", "epochs", "--evaluate-every", "1")
OF_ONE = TRAINING // 2  # steps of an epoch of one rank with 2 samples
OF_TWO = TRAINING // 4
ON_EACH = [
    ("pytorch", 2),
    ("paddle", 1),
    pytest.param("pytorch", 1, marks=pytest.mark.soak),
    pytest.param("paddle", 2, marks=pytest.mark.soak),
]
Runs = Callable[[int, Sequence[str]], list[str]]
"""Rank count and lines of `toy_training` → output by rank."""


@pytest.fixture(scope="module", params=["pytorch", "paddle"])
def toy(request: pytest.FixtureRequest) -> Runs:
    """Runs the toy on one of the frameworks."""

    def run(world: int, jobs: Sequence[str]) -> list[str]:
        script = "\n".join(job if "=" in job else f"{free_port()} {job}" for job in jobs)
        arguments = ["-m", "tests.trainers.toy_training", request.param, script]
        if world == 1:
            return [runs.alone(arguments, framework=request.param)]
        return runs.ranks(arguments, world, request.param, timeout=200.0)

    return run


def told(found: list[Event], *names: str) -> list[tuple[Any, ...]]:
    """The fields of these names of each evaluation."""
    return [tuple(event[name] for name in names) for event in only(found, "evaluation")]


@pytest.fixture(scope="module")
def alone(toy: Runs, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[list[Event]]]:
    """Output of one rank's trainings.

    Trained; resumed from step 28; trained without checkpoints and by loader processes; trained to a
    target without a validation sample, and with all of them; the first resumed with another target.
    """
    folder = tmp_path_factory.mktemp("runs")
    saving = [*EPOCHS, "--target", "45", "--checkpoints", f"{folder}/run"]
    saving += ["--save-at", "7", "14", "21", "28"]
    broken = ["--broken", "5", "6"]
    partial = [*broken, "--broken-val", "2", "--target", "0", "--stop-at-target"]
    text = toy(
        1,
        [
            " ".join([*saving, *broken]),
            f"REMOVE={folder}/run/step-{3 * OF_ONE:010d}",
            " ".join([*saving, *broken]),
            " ".join([*EPOCHS, *broken, "--workers", "2"]),
            " ".join([*EPOCHS, *partial]),
            " ".join([*EPOCHS, "--length", "5", "--target", "45", "--stop-at-target"]),
            f"REMOVE={folder}/run/step-{3 * OF_ONE:010d}",
            " ".join([*saving, *broken, "--target", "99.9", "--stop-at-target"]),
        ],
    )[0]
    return text, separate(events(text))


def test_a_run_is_evaluated_each_epoch_and_at_its_end(alone: tuple[str, list[list[Event]]]) -> None:
    whole = alone[1][0]
    assert told(whole, "step", "epoch") == [(OF_ONE, 1), (2 * OF_ONE, 2), (3 * OF_ONE, 3)]
    for event in only(whole, "evaluation"):
        assert (event["metric"], event["unit"], event["target"]) == ("top-1", "%", 45)
        assert event["value"] == event["figures"]["top-1"]
        assert event["reached"] == (event["value"] >= 45)
        assert (event["samples"], event["of"]) == (VALIDATION, VALIDATION)
        assert event["figures"]["seen"] == VALIDATION
    (data,) = only(whole, "data")
    assert (data["name"], data["train"], data["val"]) == ("toy", TRAINING, VALIDATION)
    assert whole[0]["mode"] == "train"
    best = max(only(whole, "evaluation"), key=lambda event: event["value"])
    summary = whole[-1]
    assert summary["best"] == {"value": best["value"], "step": best["step"]}
    assert (summary["evaluations"], summary["ended_by"]) == (3, "length")
    assert summary["steps"] == 3 * OF_ONE


def test_no_step_contains_what_is_between_steps(alone: tuple[str, list[list[Event]]]) -> None:
    whole = alone[1][0]
    steps = {step["step"]: step for step in only(whole, "step")}
    saved = {event["step"]: event["seconds"] for event in only(whole, "checkpoint")}
    evaluated = {event["step"]: event["seconds"] for event in only(whole, "evaluation")}
    assert sorted(saved) == [7, OF_ONE, 14, 21, 2 * OF_ONE, 28, 3 * OF_ONE]
    for number, step in steps.items():
        paused = saved.get(number - 1, 0) + evaluated.get(number - 1, 0)
        assert ("paused_seconds" in step) == (paused > 0)
        assert step.get("paused_seconds", 0) >= paused
    window = whole[-1]["window"]
    assert (window["first_step"], window["last_step"]) == (3, 3 * OF_ONE)
    spent = sum(step["seconds"] for number, step in steps.items() if number > 2)
    assert window["seconds"] == pytest.approx(spent, abs=1e-6)


def test_a_resumed_run_equals_an_uninterrupted_one(alone: tuple[str, list[list[Event]]]) -> None:
    """Bitwise on a CPU: samples, augmentation and dropout follow from the step."""
    whole, resumed, *_ = alone[1]
    (event,) = only(resumed, "resume")
    assert (event["step"], event["restored"]) == (28, f"step-{28:010d}")
    assert losses(resumed) == losses(whole)[28:]
    last = ("step", "epoch", "value", "figures")
    assert told(resumed, *last) == told(whole, *last)[2:]
    names = ("best", "evaluations", "final_loss")
    assert [resumed[-1][name] for name in names] == [whole[-1][name] for name in names]
    window = resumed[-1]["window"]
    assert (window["first_step"], window["last_step"]) == (31, 33)


def test_checkpoints_and_loaders_change_nothing(alone: tuple[str, list[list[Event]]]) -> None:
    whole, _, plain, *_ = alone[1]
    assert losses(plain) == losses(whole)
    assert told(plain, "step", "value") == told(whole, "step", "value")
    assert not only(plain, "checkpoint")
    assert told(plain, "target", "reached") == [(None, None)] * 3
    assert plain[-1]["time_to_target_seconds"] is None


def test_a_broken_sample_is_named_once_and_counted(alone: tuple[str, list[list[Event]]]) -> None:
    train = {("train", "/data/5.png"), ("train", "/data/6.png")}
    runs = {0: train, 2: train, 3: train | {("val", "/data/2.png")}}
    for run, broken in ((alone[1][number], broken) for number, broken in runs.items()):
        found = {(event["part"], event["path"]) for event in only(run, "broken")}
        assert found == broken
        assert [event["count"] for event in only(run, "broken")] == [1, 2, 3][: len(broken)]
        assert {event["why"] for event in only(run, "broken")} == {"cut off"}
        assert run[-1]["broken_samples"] == len(broken)


def test_an_incomplete_evaluation_reaches_nothing(alone: tuple[str, list[list[Event]]]) -> None:
    partial = alone[1][3]
    for event in only(partial, "evaluation"):
        assert (event["samples"], event["of"]) == (VALIDATION - 1, VALIDATION)
        assert event["figures"]["seen"] == VALIDATION - 1
        assert (event["value"] >= event["target"], event["reached"]) == (True, False)
    assert partial[-1]["ended_by"] == "length"
    assert partial[-1]["time_to_target_seconds"] is None


def test_a_run_ends_at_its_target_if_asked_to(alone: tuple[str, list[list[Event]]]) -> None:
    stopped = alone[1][4]
    reached = [event["reached"] for event in only(stopped, "evaluation")]
    assert reached == [False] * (len(reached) - 1) + [True]
    last = only(stopped, "evaluation")[-1]["step"]
    summary = stopped[-1]
    assert (summary["ended_by"], summary["steps"]) == ("target", last)
    assert summary["window"]["last_step"] == last
    assert len(losses(stopped)) == last
    took = only(stopped, "evaluation")[-1]["time"] - only(stopped, "data")[0]["time"]
    assert 0 < summary["time_to_target_seconds"] < took


@pytest.fixture(scope="module")
def together(toy: Runs, tmp_path_factory: pytest.TempPathFactory) -> list[list[list[Event]]]:
    """Events of two ranks: trained; resumed from epoch 2; one sample evaluated."""
    folder = pathlib.Path(tmp_path_factory.mktemp("runs")) / "run"
    saving = " ".join([*EPOCHS, "--checkpoints", str(folder), "--broken", "5", "--broken-val", "3"])
    last = f"{folder}/step-{3 * OF_TWO:010d}"
    one = " ".join([*ALL, "--length", "4", "--validation", "1"])
    printed = toy(2, [saving, f"REMOVE={last}", saving, one])
    return [list(each) for each in zip(*map(separate, map(events, printed)), strict=True)]


def test_two_ranks_count_each_sample_once(together: list[list[list[Event]]]) -> None:
    for run in together[:2]:
        for event in only(run[0], "evaluation"):
            assert event["samples"] == event["figures"]["seen"] == VALIDATION - 1
        assert not only(run[1], "evaluation")
    assert told(together[2][0], "samples", "of") == [(1, 1)]  # the other rank has none


def test_two_ranks_go_on_as_they_would_have(together: list[list[list[Event]]]) -> None:
    (whole, _), (resumed, _), _ = together
    assert only(resumed, "resume")[0]["step"] == 2 * OF_TWO
    assert losses(resumed) == losses(whole)[2 * OF_TWO :]
    assert told(resumed, "step", "value") == told(whole, "step", "value")[2:]


def ended(framework: str, *options: str) -> tuple[list[Event], str]:
    """Run a training that fails with code 2; return events and error line."""
    (done,) = runs.start(framework, command(framework, *options), [runs.environment()], 200.0)
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
    return events(done.out), done.err.splitlines()[-1]


def command(framework: str, *options: str) -> list[str]:
    script = " ".join([str(free_port()), *options])
    return ["-m", "tests.trainers.toy_training", framework, script]


def test_broken_samples_of_all_attempts_end_a_run(tmp_path: pathlib.Path) -> None:
    saving = (*EPOCHS, "--checkpoints", str(tmp_path), "--workers", "1", "--broken-limit", "6%")
    # An epoch meets both of them; then it ends, since no checkpoint has a finite value.
    first = (*saving, "--broken", "1", "2", "--diverges", str(OF_ONE + 2))
    found, last = ended("pytorch", *first)
    assert last.startswith("k8sbench: error: the loss was nan in 5 steps in a row")
    found, last = ended("pytorch", *saving, "--broken", "1", "2", "3")
    assert only(found, "resume")[0]["step"] == OF_ONE
    assert [(event["path"], event["count"]) for event in only(found, "broken")] == [
        ("/data/3.png", 3)
    ]
    samples = TRAINING + VALIDATION
    assert last.startswith(
        f"k8sbench: error: 3 of {samples} samples cannot be read, more than the limit of 2;"
    )


@pytest.mark.parametrize(("framework", "world"), ON_EACH)
def test_an_ended_run_saves_on_all(framework: str, world: int, tmp_path: pathlib.Path) -> None:
    """After the step in which one rank is told.

    Though gradients are added up. A launcher tells its loader processes, too.
    """
    options = (*ALL, "--length", "20", "--accumulate", "8")
    saving = (*options, "--checkpoints", str(tmp_path), "--workers", str(2 - world))
    found = attempt(framework, world, *saving, "--terminated", "11", code=143)
    (saved,) = only(found, "checkpoint")
    assert saved["step"] == len(losses(found)) == 12
    resumed = attempt(framework, world, *saving)
    assert only(resumed, "resume")[0]["step"] == 12
    whole = attempt(framework, world, *options)
    assert losses(found) + losses(resumed) == losses(whole)
    assert told(resumed, "step", "value") == told(whole, "step", "value")


def attempt(framework: str, world: int, *options: str, code: int = 0) -> list[Event]:
    """Run an attempt; return rank 0's events."""
    of_ranks = runs.rank_variables(framework, world) if world > 1 else [{}]
    words = command(framework, *options)
    return events(runs.together(words, of_ranks, framework=framework, code=code)[0])


@pytest.mark.parametrize(("framework", "world"), ON_EACH)
def test_an_evaluation_that_is_cut_short_is_made_again_after_its_own_step(
    framework: str, world: int, tmp_path: pathlib.Path
) -> None:
    """In its repetition, too, and while gradients are added up."""
    options = (*ALL, "--length", "6", "--evaluate-every", "3", "--accumulate", "4")
    saving = (*options, "--checkpoints", str(tmp_path))
    second = str(1 + (4 if world == 1 else 2))  # the first batch of the second evaluation
    first, again, last, once_more = (
        attempt(framework, world, *saving, "--cut", batch, code=143)
        for batch in ("1", "1", second, "1")
    )
    assert [event["step"] for event in only([*first, *again], "checkpoint")] == [3]
    assert [event["step"] for event in only([*last, *once_more], "checkpoint")] == [3, 6]
    cut = [*first, *again, *last, *once_more]
    assert told(cut, "step") == [(3,)]
    assert not only(cut, "summary")
    resumed, whole = attempt(framework, world, *saving), attempt(framework, world, *options)
    assert losses(cut) == losses(whole)
    assert losses(again) == losses(once_more) == losses(resumed) == []
    assert told([*cut, *resumed], "step", "samples", "value") == told(
        whole, "step", "samples", "value"
    )
    assert resumed[-1]["evaluations"] == whole[-1]["evaluations"] == 2


def test_a_run_that_diverges_ends_and_keeps_the_checkpoints_before(tmp_path: pathlib.Path) -> None:
    saving = ("--checkpoints", str(tmp_path), "--save-at", *map(str, range(1, 20)))
    found, last = ended("paddle", *EPOCHS, *saving, "--diverges", "12")
    told = [(event["step"], "failed" in event) for event in only(found, "checkpoint")]
    assert told == [(step, step > 12) for step in range(1, 18)]
    assert last.startswith("k8sbench: error: the loss was nan in 5 steps in a row")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("step-0000000011", "step-0000000012")
    ]
