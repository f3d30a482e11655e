"""Accuracies of classes, pairs and pixels, beside plain references, however samples are divided."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from k8sbench.trainers.parts import metrics
from k8sbench.trainers.parts.metrics import Scoring
from tests.trainers.references import Array, interpolated
from tests.trainers.runs import import_paddle

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore")]

# Samples, ranks and samples of a batch; most do not divide by one another.
DIVISIONS = [(24, 1, 24), (24, 1, 7), (24, 2, 5), (23, 3, 4), (5, 8, 2), (24, 4, 1)]


def batches(samples: int, ranks: int, size: int) -> list[list[int]]:
    """Return the batches of all ranks: rank r has r, r + ranks, …"""
    found = []
    for rank in range(ranks):
        mine = list(range(rank, samples, ranks))
        found += [mine[first : first + size] for first in range(0, len(mine), size)]
    return found


def as_they_are(logits: Any) -> Any:
    return logits


def figures(evaluation: Scoring, each: Sequence[Any]) -> dict[str, float]:
    assert len({tuple(sums.shape) for sums in each}) == 1
    summed = np.sum([sums.numpy().astype(np.float64) for sums in each], axis=0)
    return dict(evaluation.figures(summed))


@pytest.mark.parametrize(("samples", "ranks", "size"), DIVISIONS)
def test_top_1_and_top_5_count_each_sample_once(samples: int, ranks: int, size: int) -> None:
    import torch

    from k8sbench.trainers.models import resnet_torch

    random = np.random.default_rng(samples)
    logits, labels = random.standard_normal((samples, 9)), random.integers(0, 9, samples)
    evaluation = resnet_torch.evaluation(size)
    each = [
        evaluation.sums(
            as_they_are,
            torch.from_numpy(logits[numbers]),
            torch.from_numpy(labels[numbers]),
            numbers,
        )
        for numbers in batches(samples, ranks, size)
    ]
    first = five = 0
    for row, label in zip(logits, labels, strict=True):  # sorted by hand, one after the other
        best = sorted(range(9), key=lambda kind: -row[kind])[:5]
        first, five = first + (best[0] == label), five + (label in best)
    assert 0 < first < five < samples
    told = {"top-1": 100 * first / samples, "top-5": 100 * five / samples}
    assert figures(evaluation, each) == pytest.approx(told)
    assert (evaluation.metric, evaluation.batch_size) == ("top-1", size)


SIZE, COUNT = 6, 24
SAME = np.arange(COUNT) % 2 == 1


@dataclass(frozen=True)
class Pairs:
    """Pairs, as far as they are asked."""

    same: Array

    def __len__(self) -> int:
        return len(self.same)


def faces() -> Array:
    """Pairs of noise, half of them of nearly the same pictures."""
    random = np.random.default_rng(3)
    alike = np.where(SAME, random.uniform(0.3, 0.9, COUNT), random.uniform(0.0, 0.4, COUNT))
    share = alike[:, None, None, None]
    first, noise = random.standard_normal((2, COUNT, 3, SIZE, SIZE))
    return np.stack([first, share * first + (1 - share) * noise], 1).astype(np.float32)


def distances(pairs: Array, weight: Array) -> list[float]:
    """PLSC's and InsightFace's rule, pair by pair: the squared distances."""
    told = []
    for pair in pairs.astype(np.float64):
        both = [face.ravel() @ weight + face[:, :, ::-1].ravel() @ weight for face in pair]
        first, second = (each / np.sqrt((each**2).sum()) for each in both)
        told.append(float(((first - second) ** 2).sum()))
    return told


@pytest.mark.parametrize("missing", [[], [3, 10]])
@pytest.mark.parametrize(("ranks", "size"), [(1, 24), (1, 7), (3, 5)])
def test_pairs_are_verified_as_upstream_does_it(ranks: int, size: int, missing: list[int]) -> None:
    """Also when some could not be read, and however they are divided."""
    import_paddle()
    import paddle

    from k8sbench.trainers.models import arcface_paddle

    paddle.set_device("cpu")
    pairs = faces()
    linear = paddle.nn.Linear(3 * SIZE * SIZE, 16, bias_attr=False)
    weight = np.random.default_rng(1).standard_normal((3 * SIZE * SIZE, 16)).astype(np.float32)
    linear.weight.set_value(weight)
    network = paddle.nn.Sequential(paddle.nn.Flatten(), linear)
    files: Any = SimpleNamespace(validation=Pairs(SAME))
    evaluation = arcface_paddle.evaluation(files)
    each = []
    for numbers in batches(COUNT, ranks, size):
        there = [number for number in numbers if number not in missing]
        with paddle.no_grad():
            each.append(evaluation.sums(network, paddle.to_tensor(pairs[there]), None, there))
    present = [number for number in range(COUNT) if number not in missing]
    told = distances(pairs[present], weight)
    summed = np.sum([sums.numpy() for sums in each], axis=0).reshape(COUNT, 2)
    assert summed[present, 0] == pytest.approx(told, rel=1e-4)
    assert summed[:, 1].tolist() == [float(number in present) for number in range(COUNT)]
    # By the rule of folds: tests/unit/trainers/test_metrics.py.
    accuracy = 100 * metrics.verification_accuracy(np.array(told), SAME[present])
    assert 60 < accuracy < 100
    assert figures(evaluation, each) == {"accuracy": pytest.approx(accuracy)}


CLASSES = 19


def score_pixels(layout: str | None) -> tuple[Any, Any, Callable[[Any, Any], Any]]:
    """Return an evaluation, its tensor constructor and a fake model.

    The model gives logits at half the size. On PyTorch without a layout; Paddle's models resize
    their logits themselves.
    """
    if layout is None:
        import torch

        from k8sbench.trainers.models import deeplabv3plus_torch

        made = metrics.score_pixels(CLASSES, deeplabv3plus_torch.predicted, torch.bincount)
        return made, torch.from_numpy, lambda logits, _: (logits, None)
    import_paddle()
    import paddle

    from k8sbench.trainers import deeplabv3p_paddle
    from k8sbench.trainers.models.deeplab_paddle import resize

    made = metrics.score_pixels(CLASSES, deeplabv3p_paddle.predicted(layout), paddle.bincount)
    return made, paddle.to_tensor, lambda logits, given: resize(logits, given, layout)


@pytest.mark.parametrize("layout", [None, "NCHW", "NHWC"])
def test_miou_and_accuracy_are_those_of_counting_each_pixel(layout: str | None) -> None:
    random = np.random.default_rng(0)
    scores = random.standard_normal((3, CLASSES, 5, 9)).astype(np.float32)
    labels = random.choice([0, 1, 2, 255], (3, 10, 18)).astype(np.int64)  # none from 3 on
    scores[:, 3:] -= 20  # nor are they predicted

    matrix = np.zeros((CLASSES, CLASSES))
    for score, label in zip(scores, labels, strict=True):
        best = interpolated(interpolated(score, 1, 10), 2, 18).argmax(0)
        for found, told in zip(best.ravel(), label.ravel(), strict=True):
            if told != 255:
                matrix[told, found] += 1
    assert (matrix.sum(0) + matrix.sum(1) > 0).tolist() == [kind < 3 for kind in range(CLASSES)]

    made, tensor, model = score_pixels(layout)
    axes = (0, 2, 3, 1) if layout == "NHWC" else (0, 1, 2, 3)
    total = np.zeros(CLASSES**2)
    for number, (score, label) in enumerate(zip(scores, labels, strict=True)):
        logits = tensor(score[None].transpose(axes))
        picture = tensor(np.zeros((1, 3, *label.shape), np.float32).transpose(axes))
        given = partial(model, logits)
        total += made.sums(given, picture, tensor(label[None]), [number]).numpy()
    figures = made.figures(total)
    # By their definitions: tests/unit/trainers/test_metrics.py.
    assert figures["mIoU"] == pytest.approx(100 * metrics.mean_iou(matrix))
    assert figures["aAcc"] == pytest.approx(100 * metrics.pixel_accuracy(matrix))
