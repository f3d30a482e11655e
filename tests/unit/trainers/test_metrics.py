"""Metrics equal their definitions written out sample by sample."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.trainers.parts import metrics

CLASSES = 4


@given(st.integers(0, 2**32), st.lists(st.integers(0, CLASSES - 1), max_size=9))
def test_iou_is_the_shared_part_of_labels_and_predictions(seed: int, labels: list[int]) -> None:
    """Over the classes that occur; and the accuracy is the share of right pixels."""
    predicted = np.random.default_rng(seed).integers(0, CLASSES, len(labels)).tolist()
    matrix = np.zeros((CLASSES, CLASSES))
    both, either = [0] * CLASSES, [0] * CLASSES
    for guess, label in zip(predicted, labels, strict=True):
        matrix[label, guess] += 1
        for kind in {guess, label}:
            either[kind] += 1
            both[kind] += guess == label
    shares = [one / all_ for one, all_ in zip(both, either, strict=True) if all_]
    mean = sum(shares) / len(shares) if shares else math.nan
    assert metrics.mean_iou(matrix) == pytest.approx(mean, nan_ok=True)
    share = sum(both) / len(labels) if labels else math.nan
    assert metrics.pixel_accuracy(matrix) == pytest.approx(share, nan_ok=True)


def plain_verification(distances: list[float], same: list[bool]) -> float:
    """Verify by ten folds of consecutive pairs, and single thresholds."""
    size, longer = divmod(len(distances), 10)
    accuracies, first = [], 0
    for fold in range(10):
        after = first + size + (fold < longer)
        held = range(first, after)

        def share(threshold: float, pairs: list[int]) -> float:
            return sum((distances[at] < threshold) == same[at] for at in pairs) / len(pairs)

        rest = [at for at in range(len(distances)) if at not in held]
        best, chosen = -1.0, 0.0
        for step in range(400):
            if share(metrics.THRESHOLDS[step], rest) > best:
                best, chosen = share(metrics.THRESHOLDS[step], rest), metrics.THRESHOLDS[step]
        accuracies.append(share(chosen, list(held)))
        first = after
    return sum(accuracies) / 10


@pytest.mark.parametrize(("pairs", "seed"), [(10, 0), (37, 1), (60, 2)])
def test_verification_takes_each_folds_threshold_from_the_others(pairs: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    same = random.random(pairs) < 0.5
    distances = np.where(same, 0.8, 1.6) + random.normal(0, 0.5, pairs)
    distances = distances.clip(0, 4)
    plain = plain_verification(distances.tolist(), same.tolist())
    assert metrics.verification_accuracy(distances, same) == pytest.approx(plain)


def test_verification_of_pairs_apart_is_perfect_and_of_too_few_unknown() -> None:
    same = np.arange(20) % 2 == 0
    assert metrics.verification_accuracy(np.where(same, 0.5, 1.5), same) == 1.0
    assert metrics.verification_accuracy(np.where(same, 1.5, 0.5), same) == 0.5
    assert math.isnan(metrics.verification_accuracy(np.zeros(9), same[:9]))
