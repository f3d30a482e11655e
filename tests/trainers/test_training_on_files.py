"""Whole runs of --mode train on small file sets."""

from pathlib import Path

import pytest

from k8sbench.trainers.data import sample_sets
from tests.trainers import runs
from tests.trainers.runs import Captured, only

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]

TRAIN = (
    *("--mode", "train", "--workers", "0", "--warmup", "1"),
    *("--device", "cpu", "--threads", "1"),
)
# Trainer, options of a small network, its pictures, the length, and the accuracy that it reaches.
# Guessing one of 8 and of 4 classes gives 12.5 and 25 %; an untrained network tells 75 % of the
# pairs and has 1–5 % mIoU, of which three seeds led to 40–60 %.
FACES = ("--size", "16", "--classes", "8", "--width-divisor", "8")
STREETS = ("--crop", "64x128", "--width-divisor", "16", "--batch-size", "8", "--lr", "0.1")
DRAWN = ("cityscapes", 32, (64, 128))
Case = tuple[str, tuple[str, ...], tuple[str, int, tuple[int, int]], str, tuple[str, float]]
LEARNED: dict[str, Case] = {
    "resnet50": (
        "resnet50",
        (
            *("--input-size", "32", "--classes", "8", "--width-divisor", "8"),
            *("--batch-size", "8", "--accumulate", "2", "--lr", "0.1"),
        ),
        *(("imagenet", 96, (40, 48)), "60", ("top-1", 60.0)),
    ),
    "tsm": (
        "tsm",
        (
            *("--input-size", "32", "--classes", "4", "--width-divisor", "8", "--segments", "4"),
            *("--batch-size", "4", "--lr", "0.01"),
        ),
        *(("kinetics", 32, (40, 48)), "60", ("top-1", 70.0)),
    ),
    "arcface": (
        *("arcface", (*FACES, "--batch-size", "16", "--lr", "0.1")),
        *(("faces", 160, (16, 16)), "60", ("accuracy", 95.0)),
    ),
    "mmseg": ("deeplabv3p_pytorch", STREETS, DRAWN, "20", ("mIoU", 30.0)),
    "paddleseg": ("deeplabv3p_paddle", (*STREETS, "--lr", "0.2"), DRAWN, "20", ("mIoU", 30.0)),
    "matched": (
        *("deeplabv3p_paddle", (*STREETS, "--recipe", "matched")),
        *(DRAWN, "20", ("mIoU", 30.0)),
    ),
}


@pytest.mark.parametrize(
    "case",
    [
        *("resnet50", "tsm", "arcface", "mmseg"),
        *(pytest.param(each, marks=pytest.mark.soak) for each in ("paddleseg", "matched")),
    ],
)
def test_a_small_network_learns_a_small_set(case: str, tmp_path: Path, capfd: Captured) -> None:
    """It reaches its accuracy on a set that is drawn, and ends there."""
    trainer, options, (name, pictures, size), length, (metric, target) = LEARNED[case]
    sample_sets.SETS[name](tmp_path, pictures=pictures, size=size)
    found = runs.run(
        capfd,
        trainer,
        *TRAIN,
        "--data",
        str(tmp_path),
        *options,
        "--length",
        length,
        "--length-unit",
        "epochs",
        "--log-interval",
        "50",
        "--evaluate-every",
        "1" if name == "cityscapes" else "2",
        "--target",
        str(target),
        "--stop-at-target",
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
