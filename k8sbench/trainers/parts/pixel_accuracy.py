"""How segmentation is evaluated, whatever the framework: by the classes of all pixels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from k8sbench.trainers.parts import metrics
from k8sbench.trainers.parts.metrics import Evaluation
from k8sbench.trainers.parts.samples import Array
from k8sbench.trainers.parts.segmentation import IGNORE


def evaluation(
    classes: int, predicted: Callable[[Any, Any], Any], bincount: Callable[..., Any]
) -> Evaluation:
    """Of whole pictures at their own scale, one at a time: mIoU and the share of right pixels.

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
            "mIoU": 100.0 * metrics.mean_iou(matrix),
            "aAcc": 100.0 * metrics.pixel_accuracy(matrix),
        }

    return Evaluation(metric="mIoU", batch_size=1, sums=sums, figures=figures)
