"""Segmentation is evaluated as mmsegmentation does it, and learned by each of its trainers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from k8sbench.trainers.data import sample_sets
from k8sbench.trainers.parts import metrics
from tests.trainers import torch_runs
from tests.trainers.paddle_runs import import_paddle
from tests.trainers.references import Array, interpolated
from tests.trainers.torch_runs import events, only

pytestmark = [
    pytest.mark.tier("frameworks"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]

CLASSES = 19


def torch_sums(scores: Array, labels: Array) -> Array:
    """Of logits at half the size [pictures, classes, rows, columns] and labels."""
    import torch

    from k8sbench.trainers.models import deeplabv3plus_torch

    made = metrics.of_pixels(CLASSES, deeplabv3plus_torch.predicted, torch.bincount)
    total = np.zeros(CLASSES**2)
    for number, (score, label) in enumerate(zip(scores, labels, strict=True)):
        logits = torch.from_numpy(score[None])
        picture = torch.zeros((1, 3, *label.shape))
        sums = made.sums(
            lambda _, logits=logits: (logits, None),
            picture,
            torch.from_numpy(label[None]),
            [number],
        )
        total += sums.numpy()
    return total


def paddle_sums(layout: str) -> Callable[[Array, Array], Array]:
    """The same; Paddle's models resize their logits themselves."""

    def sums(scores: Array, labels: Array) -> Array:
        import_paddle()
        import paddle

        from k8sbench.trainers import deeplabv3p_paddle
        from k8sbench.trainers.models.blocks_paddle import resize

        predicted = deeplabv3p_paddle.predicted(layout)
        made = metrics.of_pixels(CLASSES, predicted, paddle.bincount)
        total = np.zeros(CLASSES**2)
        for number, (score, label) in enumerate(zip(scores, labels, strict=True)):
            axes = (0, 1, 2, 3) if layout == "NCHW" else (0, 2, 3, 1)
            logits = paddle.to_tensor(score[None].transpose(axes))
            picture = paddle.zeros(np.zeros((1, 3, *label.shape)).transpose(axes).shape)
            found = made.sums(
                lambda given, logits=logits: resize(logits, given, layout),
                picture,
                paddle.to_tensor(label[None]),
                [number],
            )
            total += found.numpy()
        return total

    return sums


@pytest.mark.parametrize(
    "sums",
    [torch_sums, paddle_sums("NCHW"), paddle_sums("NHWC")],
    ids=["torch", "paddle", "paddle NHWC"],
)
def test_miou_and_accuracy_are_those_of_counting_each_pixel(
    sums: Callable[[Array, Array], Array],
) -> None:
    random = np.random.default_rng(0)
    scores = random.standard_normal((3, CLASSES, 5, 9)).astype(np.float32)
    labels = random.choice([0, 1, 2, 255], (3, 10, 18)).astype(np.int64)  # none from 3 on
    scores[:, 3:] -= 20  # nor are they predicted

    right = counted = 0
    both, either = np.zeros(CLASSES), np.zeros(CLASSES)
    for score, label in zip(scores, labels, strict=True):
        best = interpolated(interpolated(score, 1, 10), 2, 18).argmax(0)
        for found, told in zip(best.ravel(), label.ravel(), strict=True):
            if told == 255:
                continue
            counted += 1
            right += found == told
            for kind in range(CLASSES):
                both[kind] += found == kind == told
                either[kind] += kind in (found, told)
    occurs = either > 0
    assert occurs.tolist() == [kind < 3 for kind in range(CLASSES)]

    figures = metrics.of_pixels(CLASSES, max, max).figures(sums(scores, labels))
    assert figures["mIoU"] == pytest.approx(100 * np.mean(both[occurs] / either[occurs]))
    assert figures["aAcc"] == pytest.approx(100 * right / counted)


# mIoU in percent that 80 steps lead to, of 40–60 that they led to with three seeds. An untrained
# network has 1–5.
LEVEL = 30.0
LEARNING = {
    "mmseg": ("deeplabv3p_pytorch", "--lr", "0.1"),
    "paddleseg": ("deeplabv3p_paddle", "--recipe", "paddleseg", "--lr", "0.2"),
    "matched": ("deeplabv3p_paddle", "--recipe", "matched", "--lr", "0.1"),
}


@pytest.mark.parametrize(
    "recipe",
    [
        "mmseg",
        *(pytest.param(each, marks=pytest.mark.soak) for each in LEARNING if each != "mmseg"),
    ],
)
def test_a_small_network_learns_generated_street_scenes_to_a_stated_level(
    recipe: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import_paddle()
    sample_sets.cityscapes(tmp_path, pictures=32)
    trainer, *options = LEARNING[recipe]
    text = torch_runs.output(
        capfd,
        trainer,
        *("--mode", "train", "--data", str(tmp_path), "--workers", "0"),
        *("--crop", "64x128", "--width-divisor", "16", "--batch-size", "8"),
        *("--length", "80", "--evaluate-every", "4", "--length-unit", "iterations"),
        *("--target", str(LEVEL), "--stop-at-target", *options),
    )
    found = events(text)
    evaluations = only(found, "evaluation")
    assert {each["metric"] for each in evaluations} == {"mIoU"}
    assert {(each["samples"], each["of"]) for each in evaluations} == {(8, 8)}
    assert evaluations[0]["value"] < 20
    assert evaluations[-1]["value"] >= LEVEL
    assert found[-1]["ended_by"] == "target"
    (data,) = only(found, "data")
    assert (data["name"], data["train"], data["val"]) == ("cityscapes", 32, 8)
