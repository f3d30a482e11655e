"""Metrics equal their definitions written out sample by sample, however samples are divided."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.trainers.parts import metrics
from k8sbench.trainers.parts.samples import Array

CLASSES, IGNORE = 4, 255


@st.composite
def pictures(draw: st.DrawFn) -> list[tuple[Array, Array]]:
    """Some predictions and labels of 3×3 pixels; classes may be missing, pixels be ignored."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    known = draw(st.lists(st.sampled_from([*range(CLASSES), IGNORE]), min_size=1, max_size=3))
    return [
        (random.integers(0, CLASSES, (3, 3)), random.choice(known, (3, 3)).astype(np.uint8))
        for _ in range(draw(st.integers(1, 5)))
    ]


def plain_iou(found: list[tuple[Array, Array]]) -> list[float]:
    """By class, pixel by pixel; NaN where a class does not occur."""
    shares = []
    for kind in range(CLASSES):
        both = either = 0
        for predicted, labels in found:
            for guess, label in zip(predicted.flat, labels.flat, strict=True):
                if label != IGNORE:
                    both += guess == kind and label == kind
                    either += guess == kind or label == kind
        shares.append(both / either if either else math.nan)
    return shares


def summed(found: list[tuple[Array, Array]], ranks: int) -> Array:
    """The confusion matrix as so many ranks make it, each of every so-manieth picture."""
    total = np.zeros((CLASSES, CLASSES))
    for rank in range(ranks):
        of_rank = [metrics.confusion(*one, CLASSES) for one in found[rank::ranks]]
        total += np.sum(of_rank, axis=0)
    return total


@given(pictures(), st.integers(1, 4))
def test_iou_is_the_shared_part_of_labels_and_predictions(
    found: list[tuple[Array, Array]], ranks: int
) -> None:
    matrix, plain = summed(found, ranks), plain_iou(found)
    assert metrics.intersection_over_union(matrix) == pytest.approx(plain, nan_ok=True)
    there = [share for share in plain if not math.isnan(share)]
    mean = sum(there) / len(there) if there else math.nan
    assert metrics.mean_iou(matrix) == pytest.approx(mean, nan_ok=True)
    pairs = [
        (guess, label)
        for one in found
        for guess, label in zip(*(each.flat for each in one), strict=True)
        if label != IGNORE
    ]
    right = sum(guess == label for guess, label in pairs)
    share = right / len(pairs) if pairs else math.nan
    assert metrics.pixel_accuracy(matrix) == pytest.approx(share, nan_ok=True)


def test_iou_of_a_picture_by_hand() -> None:
    """Labels 0 0 1 1 and one pixel without; the first is taken for 1, and class 2 is only guessed.

    Class 0: 1 of 2. Class 1: 1 of 3. Class 2: 0 of 1. Class 3 does not occur and counts nothing.
    """
    predicted, labels = np.array([1, 0, 1, 2, 3]), np.array([0, 0, 1, 1, IGNORE])
    matrix = metrics.confusion(predicted, labels, CLASSES)
    assert matrix.tolist() == [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert metrics.mean_iou(matrix) == pytest.approx((1 / 2 + 1 / 3 + 0) / 3)
    assert metrics.pixel_accuracy(matrix) == 0.5


@pytest.mark.parametrize(("predicted", "label"), [(0, 4), (0, 254), (4, 0), (-1, 0)])
def test_a_number_that_is_no_class_is_an_error(predicted: int, label: int) -> None:
    with pytest.raises(ValueError, match="none of the 4 classes"):
        metrics.confusion(np.array([predicted]), np.array([label]), CLASSES)


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 5))
def test_a_hit_is_a_label_that_fewer_than_k_scores_exceed(seed: int, samples: int, k: int) -> None:
    random = np.random.default_rng(seed)
    scores = random.permutation(samples * 5).reshape(samples, 5).astype(float)  # no two are equal
    labels = random.integers(0, 5, samples)
    plain = sum(
        sum(score > row[label] for score in row) < k
        for row, label in zip(scores, labels, strict=True)
    )
    assert metrics.top_k_hits(scores, labels, k) == plain


def plain_verification(distances: list[float], same: list[bool]) -> float:
    """Ten folds of consecutive pairs, the first ones a pair longer; thresholds one by one."""
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
