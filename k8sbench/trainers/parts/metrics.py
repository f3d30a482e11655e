"""Figures of evaluations, from sums over validation samples: accuracy, IoU, verification.

Each is computed from sums that add up over batches and ranks, in float64, so that it does not
depend on how the samples were divided. Arrays are numpy's; figures are fractions from 0 to 1, and
NaN where there is nothing to compute them from.
"""

from __future__ import annotations

import numpy as np

from k8sbench.trainers.parts.samples import Array

FOLDS = 10
# The distances that are tried as the border between same and different (InsightFace, PLSC).
THRESHOLDS = np.arange(0, 4, 0.01)


def confusion(predicted: Array, labels: Array, classes: int, ignore: int = 255) -> Array:
    """Pixels by label (row) and prediction (column), int64 [classes, classes].

    `predicted` and `labels` have the same shape. Pixels whose label is `ignore` are left out.
    Raises `ValueError` for any other label, and any prediction, that is no class.
    """
    counted = labels != ignore
    rows, columns = labels[counted].astype(np.int64), predicted[counted].astype(np.int64)
    for name, found in (("label", rows), ("prediction", columns)):
        if found.size and not 0 <= found.min() <= found.max() < classes:
            strange = found.min() if found.min() < 0 else found.max()
            raise ValueError(f"a {name} of {strange}, which is none of the {classes} classes")
    counts: Array = np.bincount(rows * classes + columns, minlength=classes**2)
    return counts.reshape(classes, classes)


def intersection_over_union(matrix: Array) -> Array:
    """By class, from a confusion matrix: NaN for a class that occurs neither as label nor as
    prediction.
    """
    hits = np.diagonal(matrix)
    return _shares(hits, matrix.sum(0) + matrix.sum(1) - hits)


def mean_iou(matrix: Array) -> float:
    """The mean over the classes that occur (mmsegmentation; PaddleSeg counts the others as 0)."""
    found = intersection_over_union(matrix)
    found = found[~np.isnan(found)]
    return float(found.mean()) if found.size else float("nan")


def pixel_accuracy(matrix: Array) -> float:
    """The share of pixels with a class whose prediction is right (mmsegmentation's aAcc)."""
    return float(_shares(np.trace(matrix), matrix.sum()))


def top_k_hits(scores: Array, labels: Array, k: int) -> int:
    """How many of the samples have their label among the `k` highest of scores [samples, classes].

    Of equal scores the one with the lower number is the higher.
    """
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return int((best == labels[:, None]).any(1).sum())


def verification_accuracy(distances: Array, same: Array) -> float:
    """The 10-fold accuracy of pairs in their order, as of LFW (InsightFace, PLSC).

    `distances` are squared distances of normalised embeddings [pairs], from 0 to 4; `same` says
    whether a pair shows the same person. In each of ten folds of consecutive pairs the threshold
    is the lowest one that is best on the other nine; a pair below it is taken for the same person.
    """
    pairs = len(distances)
    if pairs < FOLDS:
        return float("nan")
    right = (distances[None, :] < THRESHOLDS[:, None]) == same.astype(bool)[None, :]
    accuracies = []
    for fold in np.array_split(np.arange(pairs), FOLDS):
        others = right.sum(1) - right[:, fold].sum(1)
        accuracies.append(right[np.argmax(others), fold].mean())
    return float(np.mean(accuracies))


def _shares(part: Array, whole: Array) -> Array:
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
