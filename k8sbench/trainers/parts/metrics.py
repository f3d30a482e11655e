"""Evaluation figures, from sums over validation samples.

IoU, pixels and pairs. Each figure is computed from sums that add up over batches and ranks, in
float64, so that it does not depend on how the samples were divided. Arrays are numpy's; figures are
fractions from 0 to 1, and NaN where there is nothing to compute them from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from k8sbench.trainers.parts.samples import Array
from k8sbench.trainers.parts.segmentation import IGNORE

FOLDS = 10
# The distances that are tried as the border between same and different (InsightFace, PLSC).
THRESHOLDS = np.arange(0, 4, 0.01)


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """Sums over all ranks' validation samples, and the resulting figures.

    Each sample of the validation part is counted exactly once, whatever the number of ranks and the
    batch size.
    """

    # The name of the headline, as in the catalog: "mIoU", "top-1", "accuracy".
    metric: str
    # Samples per forward pass and rank.
    batch_size: int
    # Of (model, inputs, targets, numbers): one batch's sums, a 1-D tensor of the framework whose
    # length is the same for every batch. `numbers` are the samples' numbers in the validation part.
    sums: Callable[[Any, Any, Any, list[int]], Any]
    # From the sums over all samples (float64) to figures in percent, the headline under `metric`.
    figures: Callable[[Array], Mapping[str, float]]


def mean_iou(matrix: Array) -> float:
    """Mean IoU from pixels by label (row) and prediction (column).

    Over the classes that occur as either (mmsegmentation; PaddleSeg counts the others as 0).
    """
    hits = np.diagonal(matrix)
    shares = _shares(hits, matrix.sum(0) + matrix.sum(1) - hits)
    shares = shares[~np.isnan(shares)]
    return float(shares.mean()) if shares.size else float("nan")


def pixel_accuracy(matrix: Array) -> float:
    """The share of pixels with a class whose prediction is right (mmsegmentation's aAcc)."""
    return float(_shares(np.trace(matrix), matrix.sum()))


def score_pixels(
    classes: int, predicted: Callable[[Any, Any], Any], bincount: Callable[..., Any]
) -> Scoring:
    """Evaluation of segmentation: mIoU and pixel accuracy of unscaled pictures.

    `predicted` gives the classes [samples, height, width] of (model, pictures); `bincount` is the
    framework's.
    """

    def sums(model: Any, pictures: Any, labels: Any, _: list[int]) -> Any:
        pairs = labels * classes + predicted(model, pictures)
        # A row for each byte that a label can be: those without a class come after all others.
        return bincount(pairs.flatten(), minlength=(IGNORE + 1) * classes)[: classes**2]

    def figures(counts: Array) -> Mapping[str, float]:
        matrix = counts.reshape(classes, classes)
        return {
            "mIoU": 100.0 * mean_iou(matrix),
            "aAcc": 100.0 * pixel_accuracy(matrix),
        }

    return Scoring(metric="mIoU", batch_size=1, sums=sums, figures=figures)


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
    part = np.asarray(part, np.float64)
    whole = np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
