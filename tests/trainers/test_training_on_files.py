"""Whole runs of --mode train on small sets of files: what is learned, saved and told."""

from __future__ import annotations

from pathlib import Path

import pytest

from k8sbench.trainers.data import sample_sets
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
