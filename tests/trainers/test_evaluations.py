"""Accuracies of classes, pairs and pixels, against plain references, however samples are divided.

And that each trainer of segmentation learns it.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from k8sbench.trainers.data import sample_sets
from k8sbench.trainers.parts import metrics
from k8sbench.trainers.parts.metrics import Evaluation
from k8sbench.trainers.parts.samples import Files
from tests.trainers.references import Array, encoded, interpolated
from tests.trainers.runs import import_paddle

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore")]

# Samples, ranks and samples of a batch; most do not divide by one another.
DIVISIONS = [(24, 1, 24), (24, 1, 7), (24, 2, 5), (23, 3, 4), (5, 8, 2), (24, 4, 1)]


def batches(samples: int, ranks: int, size: int) -> list[list[int]]:
    """Of all ranks: rank r has the numbers r, r + ranks, …"""
    found = []
    for rank in range(ranks):
        mine = list(range(rank, samples, ranks))
        found += [mine[first : first + size] for first in range(0, len(mine), size)]
    return found


def as_they_are(logits: Any) -> Any:
    return logits


def figures(evaluation: Evaluation, each: Sequence[Any]) -> dict[str, float]:
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


def test_of_three_classes_all_are_among_the_best_five() -> None:
    import torch

    from k8sbench.trainers.models import resnet_torch

    logits = torch.tensor([[0.1, 0.3, 0.2], [0.3, 0.1, 0.2]])
    evaluation = resnet_torch.evaluation(2)
    sums = evaluation.sums(as_they_are, logits, torch.tensor([1, 2]), [0, 1])
    assert figures(evaluation, [sums]) == {"top-1": 50.0, "top-5": 100.0}


SIZE, COUNT = 6, 24


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Pairs of noise, half of them of nearly the same pictures."""
    from k8sbench.trainers.data import faces

    random = np.random.default_rng(3)
    pictures, same = [], []
    for pair in range(COUNT):
        first = random.integers(0, 256, (SIZE, SIZE, 3)).astype(np.uint8)
        share = random.uniform(0.3, 0.9) if pair % 2 else random.uniform(0.0, 0.4)
        noise = random.integers(0, 256, first.shape)
        pictures += [
            encoded(first),
            encoded((share * first + (1 - share) * noise).astype(np.uint8)),
        ]
        same.append(bool(pair % 2))
    path = tmp_path / "lfw.bin"
    path.write_bytes(pickle.dumps((pictures, same), protocol=2))
    pairs = faces.read_pairs(path, SIZE)
    return Files("faces", pairs, pairs, "")


def backbone() -> tuple[Any, Array]:
    """A network of one matrix, and the matrix."""
    import paddle

    linear = paddle.nn.Linear(3 * SIZE * SIZE, 16, bias_attr=False)
    weight = np.random.default_rng(1).standard_normal((3 * SIZE * SIZE, 16)).astype(np.float32)
    linear.weight.set_value(weight)
    return paddle.nn.Sequential(paddle.nn.Flatten(), linear), weight


def normalised(files: Files, number: int) -> Array:
    both, _ = files.validation.sample(number, np.random.default_rng(0))
    return ((both.astype(np.float32) - 127.5) / 128).astype(np.float32)


def verified(files: Files, numbers: Sequence[int], weight: Array) -> tuple[float, list[float]]:
    """PLSC's and InsightFace's rule, pair by pair: percent, and the squared distances."""
    distances, same = [], []
    for number in numbers:
        found = []
        for face in normalised(files, number).astype(np.float64):
            both = face.flatten() @ weight + face[:, :, ::-1].flatten() @ weight
            found.append(both / np.sqrt((both**2).sum()))
        distances.append(float(((found[0] - found[1]) ** 2).sum()))
        same.append(number % 2 == 1)

    def right(threshold: float, members: list[int]) -> int:
        return sum((distances[i] < threshold) == same[i] for i in members)

    accuracies, first = [], 0
    for fold in range(10):
        length = len(numbers) // 10 + (fold < len(numbers) % 10)
        test = list(range(first, first + length))
        train = [i for i in range(len(numbers)) if i not in test]
        thresholds = [step * 0.01 for step in range(400)]
        best = max(thresholds, key=lambda threshold: right(threshold, train))
        accuracies.append(right(best, test) / length)
        first += length
    return 100 * float(np.mean(accuracies)), distances


@pytest.mark.parametrize("missing", [[], [3, 10]])
@pytest.mark.parametrize(("ranks", "size"), [(1, 24), (1, 7), (3, 5)])
def test_pairs_are_verified_as_upstream_does_it(
    files: Files, ranks: int, size: int, missing: list[int]
) -> None:
    """Also when some could not be read, and however they are divided."""
    import_paddle()
    import paddle

    from k8sbench.trainers.models import ir50_paddle

    paddle.set_device("cpu")
    network, weight = backbone()
    evaluation = ir50_paddle.evaluation(files)
    each = []
    for numbers in batches(COUNT, ranks, size):
        there = [number for number in numbers if number not in missing]
        both = paddle.to_tensor(np.stack([normalised(files, number) for number in there]))
        with paddle.no_grad():
            each.append(evaluation.sums(network, both, None, there))
    present = [number for number in range(COUNT) if number not in missing]
    accuracy, distances = verified(files, present, weight)
    summed = np.sum([sums.numpy() for sums in each], axis=0).reshape(COUNT, 2)
    assert summed[present, 0] == pytest.approx(distances, rel=1e-4)
    assert summed[:, 1].tolist() == [float(number in present) for number in range(COUNT)]
    assert 60 < accuracy < 100
    assert figures(evaluation, each) == {"accuracy": pytest.approx(accuracy)}


def test_a_trainer_opens_its_own_folder_and_a_sample_follows_from_its_random_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_paddle()
    from k8sbench.trainers import arcface, deeplabv3p_pytorch, resnet50, tsm
    from k8sbench.trainers.parts import paddle_loop, torch_loop

    made: list[Any] = []
    for loop in (paddle_loop, torch_loop):
        monkeypatch.setattr(loop, "train", lambda work, _: made.append(work))
    monkeypatch.setattr(os, "environ", {**os.environ})  # which a trainer changes
    sample_sets.imagenet(tmp_path / "i", pictures=8, size=(9, 9))
    sample_sets.kinetics(tmp_path / "k", pictures=4, size=(9, 9))
    sample_sets.faces(tmp_path / "f", pictures=8, size=(16, 16))
    sample_sets.cityscapes(tmp_path / "c", pictures=4, size=(64, 128))
    small = ("--input-size", "32")
    for trainer, options, folder, shape in (
        (resnet50, small, "i", (3, 32, 32)),
        (tsm, (*small, "--segments", "3"), "k", (3, 3, 32, 32)),
        (arcface, ("--size", "16"), "f", (3, 16, 16)),
        (deeplabv3p_pytorch, ("--crop", "32x48", "--classes", "19"), "c", (3, 32, 48)),
    ):
        trainer.main(["--classes", "8", *options])
        part = made[-1].files(tmp_path / folder).training
        inputs, _ = part.sample(0, np.random.default_rng(0))
        assert inputs.shape == shape
        again = pickle.loads(pickle.dumps(part))  # as a loader process gets it
        assert np.array_equal(again.sample(0, np.random.default_rng(0))[0], inputs)
        others = [part.sample(0, np.random.default_rng(seed))[0] for seed in range(1, 9)]
        assert not all(np.array_equal(other, inputs) for other in others)


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
