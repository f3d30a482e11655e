"""Whole runs of --mode train on small sets of files: what is learned, saved and told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from k8sbench.trainers.data import sample_sets
from k8sbench.trainers.parts import training
from tests.trainers import runs
from tests.trainers.runs import Captured, Event, losses, only

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]

TRAIN = (
    *("--mode", "train", "--workers", "0", "--warmup", "1"),
    *("--device", "cpu", "--threads", "1"),
)
# Options of a small network, its pictures, and the accuracy that it reaches. Guessing one of 8 and
# of 4 classes gives 12.5 and 25 %; an untrained network tells 75 % of the pairs.
LEARNED = {
    "resnet50": (
        (
            *("--input-size", "32", "--classes", "8", "--width-divisor", "8"),
            *("--batch-size", "8", "--accumulate", "2", "--lr", "0.1"),
        ),
        ("imagenet", 96, (40, 48)),
        ("top-1", 60.0),
    ),
    "tsm": (
        (
            *("--input-size", "32", "--classes", "4", "--width-divisor", "8", "--segments", "4"),
            *("--batch-size", "4", "--lr", "0.01"),
        ),
        ("kinetics", 32, (40, 48)),
        ("top-1", 70.0),
    ),
    "arcface": (
        (
            *("--size", "16", "--classes", "8", "--width-divisor", "8"),
            *("--batch-size", "16", "--lr", "0.1"),
        ),
        ("faces", 160, (16, 16)),
        ("accuracy", 95.0),
    ),
}


# mIoU in percent that 80 steps lead to, of 40–60 that they led to with three seeds. An untrained
# network has 1–5.
STREETS = (("cityscapes", 32, (64, 128)), ("mIoU", 30.0))
ON_STREETS = {
    "mmseg": ("deeplabv3p_pytorch", "--lr", "0.1"),
    "paddleseg": ("deeplabv3p_paddle", "--recipe", "paddleseg", "--lr", "0.2"),
    "matched": ("deeplabv3p_paddle", "--recipe", "matched", "--lr", "0.1"),
}


def trained(capfd: Captured, trainer: str, *options: str) -> list[Event]:
    return runs.run(capfd, trainer, *TRAIN, *options)


def learns(
    capfd: Captured,
    folder: Path,
    trainer: str,
    options: tuple[str, ...],
    drawn: tuple[str, int, tuple[int, int]],
    reached: tuple[str, float],
) -> None:
    """A trainer reaches its accuracy on a set that is drawn, and ends there."""
    (name, pictures, size), (metric, target) = drawn, reached
    sample_sets.SETS[name](folder, pictures=pictures, size=size)
    found = trained(
        capfd,
        trainer,
        *("--data", str(folder), "--length", "60", "--length-unit", "epochs"),
        *("--evaluate-every", "2", "--log-interval", "50"),
        *("--target", str(target), "--stop-at-target"),
        *options,
    )
    evaluations = only(found, "evaluation")
    assert {each["metric"] for each in evaluations} == {metric}
    assert evaluations[0]["value"] < target
    assert found[-1]["ended_by"] == "target", [each["value"] for each in evaluations]
    assert found[-1]["best"]["value"] >= target
    (data,) = only(found, "data")
    assert (data["name"], data["train"]) == (name, pictures)
    assert evaluations[-1]["samples"] == evaluations[-1]["of"] == data["val"]
    assert found[-1]["broken_samples"] == 0


@pytest.mark.parametrize("trainer", LEARNED)
def test_a_small_network_learns_a_small_set(trainer: str, tmp_path: Path, capfd: Captured) -> None:
    learns(capfd, tmp_path, trainer, *LEARNED[trainer])


@pytest.mark.parametrize(
    "recipe",
    ["mmseg", *(pytest.param(each, marks=pytest.mark.soak) for each in ("paddleseg", "matched"))],
)
def test_a_small_network_learns_street_scenes(recipe: str, tmp_path: Path, capfd: Captured) -> None:
    trainer, *own = ON_STREETS[recipe]
    small = ("--crop", "64x128", "--width-divisor", "16", "--batch-size", "8")
    options = (*small, *own, "--length", "20", "--evaluate-every", "1")
    learns(capfd, tmp_path, trainer, options, *STREETS)


def test_faces_are_trained_on_and_verified_by_two_ranks_as_by_one(tmp_path: Path) -> None:
    """With a classifier that they share, and batch norm that keeps its first statistics."""
    sample_sets.faces(tmp_path, pictures=12, size=(16, 16))
    options, _, _ = LEARNED["arcface"]
    job = (
        *("arcface", *TRAIN, *options[:4], "--frozen-norm", "--lr", "0.01", "--log-interval", "2"),
        *("--data", str(tmp_path), "--length", "4", "--evaluate-every", "2"),
    )
    found = [
        runs.in_turn([(*job, "--batch-size", str(4 // ranks))], ranks)[0][0] for ranks in (1, 2)
    ]
    one, two = ([each["figures"] for each in only(events, "evaluation")] for events in found)
    assert one == two
    assert len(one) == 2
    assert losses(found[1]) == pytest.approx(losses(found[0]), rel=1e-4)


def test_a_broken_file_is_named_and_the_run_goes_on(tmp_path: Path, capfd: Captured) -> None:
    options, (_, _, size), _ = LEARNED["tsm"]
    sample_sets.kinetics(tmp_path, pictures=8, size=size)
    broken = tmp_path / "images/class_1/train_0001/img_00003.jpg"
    broken.write_bytes(broken.read_bytes()[:-80])
    for frame in tmp_path.glob("images/class_0/val_0000/*"):
        frame.unlink()
    length = (
        *("--length", "12", "--length-unit", "epochs", "--log-interval", "8"),
        *("--broken-limit", "20%"),
    )
    found = trained(capfd, "tsm", *options, "--data", str(tmp_path), *length)
    told = {each["part"]: (each["path"], each["why"]) for each in only(found, "broken")}
    assert told.keys() == {"train", "val"}
    assert told["train"][0] == str(broken)
    assert "truncated" in told["train"][1]
    assert told["val"][1] == "No such file or directory"
    (evaluation,) = only(found, "evaluation")
    assert (evaluation["samples"], evaluation["of"]) == (1, 2)
    assert found[-1]["broken_samples"] == 2


def test_a_checkpoint_waits_until_added_gradients_have_changed_the_weights(
    tmp_path: Path, capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And from it the run goes on as if nothing had happened."""
    monkeypatch.setattr(training.Training, "is_due", lambda _, step: step == 5)
    options, _, _ = LEARNED["resnet50"]
    sample_sets.imagenet(tmp_path / "data", pictures=48, size=(40, 48))
    saved = tmp_path / "saved"
    shared = (
        *("--data", str(tmp_path / "data"), "--length", "8", "--log-interval", "1"),
        *("--checkpoints", str(saved)),
    )
    whole = trained(capfd, "resnet50", *options, *shared)
    assert [each["step"] for each in only(whole, "checkpoint")] == [6, 8]
    last = max(saved.glob("step-*"))
    shutil.rmtree(last)
    rest = trained(capfd, "resnet50", *options, *shared)
    assert only(rest, "resume")[0]["step"] == 6
    assert [each["step"] for each in only(rest, "step")] == [7, 8]
    assert losses(rest) == losses(whole)[-2:]


@pytest.mark.parametrize(
    ("options", "accumulated"),
    [
        (("--mode", "train"), 256),
        (("--mode", "train", "--recipe", "report"), 1),
        (("--mode", "train", "--accumulate", "3"), 3),
        ((), 1),
    ],
)
def test_resnet50_adds_gradients_up_to_2048_samples_where_it_trains_as_upstream(
    options: tuple[str, ...], accumulated: int, tmp_path: Path, capfd: Captured
) -> None:
    """And its rate is that of so many samples: 0.256 for 256, after 8 epochs that rise to it."""
    own, _, _ = LEARNED["resnet50"]
    sample_sets.imagenet(tmp_path, pictures=16, size=(40, 48))
    length = ("--length", "2") if "--mode" in options else ("--iterations", "1")
    found = runs.run(
        capfd,
        "resnet50",
        *(*own[:8], "--workers", "0", "--warmup", "1", "--device", "cpu"),
        *("--data", str(tmp_path), *length, *options),
    )
    assert found[0]["options"]["accumulate"] == accumulated
    assert only(found, "step")[0]["lr"] == pytest.approx(0.001 * 8 * accumulated / 8)
