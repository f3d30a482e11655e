"""Verification of faces: whether two pictures are of one person, by their embeddings' distance."""

from __future__ import annotations

from typing import Any

import paddle
from paddle.nn import functional as F

from k8sbench.trainers.parts import metrics
from k8sbench.trainers.parts.metrics import Evaluation
from k8sbench.trainers.parts.samples import Array, Files

BATCH = 60  # pairs: PLSC's test_batch_size is 120 pictures


def evaluation(files: Files) -> Evaluation:
    """The 10-fold accuracy on the pairs of `files`, with a backbone as the model.

    The sums are [pairs, 2], flat: a pair's distance at its number, and a 1 where it was read.
    """
    pairs: Any = files.validation  # of the kind `data.faces.Pairs`

    def sums(backbone: Any, both: Any, _: Any, numbers: list[int]) -> Any:
        faces = both.flatten(0, 1)
        # As upstream: a face and its mirror image are one embedding.
        embeddings = (backbone(faces) + backbone(faces.flip(-1))).astype("float64")
        embeddings = F.normalize(embeddings).reshape([len(numbers), 2, -1])
        distances = (embeddings[:, 0] - embeddings[:, 1]).square().sum(-1)
        rows = paddle.stack([distances, paddle.ones_like(distances)], axis=1)
        empty = paddle.zeros([len(pairs), 2], dtype="float64")
        return paddle.scatter(empty, paddle.to_tensor(numbers, dtype="int64"), rows).flatten()

    def figures(summed: Array) -> dict[str, float]:
        distances, read = summed.reshape(len(pairs), 2).T
        held = read > 0
        accuracy = metrics.verification_accuracy(distances[held], pairs.same[held])
        return {"accuracy": 100.0 * accuracy}

    return Evaluation(metric="accuracy", batch_size=BATCH, sums=sums, figures=figures)
