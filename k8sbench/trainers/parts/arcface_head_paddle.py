# mypy: allow-subclassing-any
"""ArcFace's classifier, with its class centres sharded over the ranks (model parallel).

Each rank holds ceil(classes / world) centres and sees the features of all ranks: logits are
sharded by class, the batch is the job's batch. Three heads compute the same loss,
mean over the job's batch of -log softmax(scale * cos(theta + margin at the label)):

- ``margin``: `paddle.nn.functional.margin_cross_entropy`, the fused kernel; GPU only.
- ``own``: exact, on any device; checks ``margin`` where both run.
- ``dense``: the report's head on one GPU (PLSC's `arcface`): margin and one-hot over the whole
  matrix, then softmax_with_cross_entropy. It costs more, which is why a run names its head.

The loss is a mean over the job, so the backbone's gradients are the *sum* over the ranks. The
gradient of the gathered features is scaled by the world size, so that DataParallel's mean is that
sum; the centres' own gradients are complete on their own rank and are not shared.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import paddle
from paddle import distributed, nn
from paddle.autograd import PyLayer
from paddle.nn import functional as F

# Centres are drawn in blocks of this many classes, so that they do not depend on the sharding.
BLOCK = 1024
# A cosine of 1 is an angle whose slope is infinite.
LARGEST_COSINE = 1.0 - 1e-6


def shard(classes: int, rank: int, world: int) -> tuple[int, int]:
    """Return the first class of `rank` and its number of classes.

    ceil(C / world); the last rank has less.
    """
    share = -(-classes // world)
    first = min(rank * share, classes)
    return first, min(share, classes - first)


def initial_centres(
    classes: int, embedding: int, first: int, count: int, seed: int
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Centres [embedding, count] of the classes from `first` on: normal, Xavier's variance."""
    deviation = math.sqrt(2.0 / (embedding + classes))
    drawn = []
    for block in range(first // BLOCK, (first + count - 1) // BLOCK + 1):
        random = np.random.Generator(np.random.Philox(key=np.array([seed, block], dtype=np.uint64)))
        drawn.append(random.standard_normal((BLOCK, embedding), dtype=np.float32))
    start = first % BLOCK
    rows = np.concatenate(drawn)[start : start + count]
    return np.ascontiguousarray(rows.T * np.float32(deviation))


class Gather(PyLayer):
    """Features of this rank to features of all ranks."""

    @staticmethod
    def forward(_: Any, features: Any) -> Any:
        """Concatenate in the order of the ranks."""
        parts: list[Any] = []
        distributed.all_gather(parts, features)
        return paddle.concat(parts)

    @staticmethod
    def backward(_: Any, gradient: Any) -> Any:
        """Sum of the shards' gradients, of this rank's rows, times the world size."""
        gradient = gradient.clone()  # the collective works in place
        distributed.all_reduce(gradient)
        rank, world = distributed.get_rank(), distributed.get_world_size()
        mine = gradient.shape[0] // world
        return gradient[rank * mine : (rank + 1) * mine] * world


class MarginSoftmax(PyLayer):
    """Mean loss from cosines [batch, shard] and labels [batch], over all ranks."""

    @staticmethod
    def forward(
        ctx: Any, cosines: Any, labels: Any, first: int, margin: float, scale: float, world: int
    ) -> Any:
        """Softmax over all shards by its maximum, its sum, and the label's own logit."""
        count = cosines.shape[1]
        here = paddle.logical_and(labels >= first, labels < first + count).unsqueeze(1)
        column = (labels - first).unsqueeze(1).clip(0, count - 1)
        cosine = paddle.take_along_axis(cosines, column, 1)
        angle = paddle.acos(cosine.clip(-LARGEST_COSINE, LARGEST_COSINE))
        target = paddle.cos(angle + margin)
        nothing = paddle.zeros_like(cosine)
        logits = paddle.put_along_axis(
            cosines, column, paddle.where(here, target - cosine, nothing), 1, reduce="add"
        )
        logits = logits * scale
        largest = logits.max(axis=1, keepdim=True)
        if world > 1:
            distributed.all_reduce(largest, op=distributed.ReduceOp.MAX)
        shares = paddle.exp(logits - largest)
        total = shares.sum(axis=1, keepdim=True)
        label_logit = paddle.where(here, target * scale - largest, nothing)
        if world > 1:
            distributed.all_reduce(total)
            distributed.all_reduce(label_logit)
        slope = paddle.where(here, paddle.sin(angle + margin) / paddle.sin(angle), nothing + 1.0)
        ctx.save_for_backward(shares / total, column, here.astype(cosines.dtype), slope)
        ctx.scale = scale
        return (paddle.log(total) - label_logit).mean()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """(p - onehot) / batch, through scale and, at the label, through the margin."""
        probabilities, column, here, slope = ctx.saved_tensor()
        label = paddle.take_along_axis(probabilities, column, 1)
        change = (label - here) * slope - label
        probabilities = paddle.put_along_axis(probabilities, column, change, 1, reduce="add")
        return probabilities * (gradient * (ctx.scale / probabilities.shape[0]))


class ArcFace(nn.Layer):
    """The centres of this rank, and the loss of the job's batch."""

    def __init__(
        self,
        classes: int,
        embedding: int,
        *,
        head: str,
        margin: float = 0.5,
        scale: float = 64.0,
        rank: int = 0,
        world: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.first, count = shard(classes, rank, world)
        self.head, self.margin, self.scale, self.world = head, margin, scale, world
        centres = initial_centres(classes, embedding, self.first, count, seed)
        self.centres = self.create_parameter(
            list(centres.shape), default_initializer=nn.initializer.Assign(centres)
        )
        self.centres.is_distributed = True  # no rank has another's

    def forward(self, features: Any, labels: Any) -> Any:
        """Mean loss over the job's batch: the same number on every rank."""
        features = F.normalize(features.astype("float32"), axis=1)
        if self.world > 1:
            features = Gather.apply(features)
            parts: list[Any] = []
            distributed.all_gather(parts, labels)
            labels = paddle.concat(parts)
        cosines = paddle.matmul(features, F.normalize(self.centres, axis=0)).astype("float32")
        if self.head == "dense":
            return self._dense(cosines, labels)
        if self.head == "margin":
            return F.margin_cross_entropy(
                cosines,
                labels,
                margin1=1.0,
                margin2=self.margin,
                margin3=0.0,
                scale=self.scale,
                reduction="mean",
            )
        return MarginSoftmax.apply(cosines, labels, self.first, self.margin, self.scale, self.world)

    def _dense(self, cosines: Any, labels: Any) -> Any:
        one_hot = F.one_hot(labels, cosines.shape[1])
        angles = paddle.acos(cosines.clip(-LARGEST_COSINE, LARGEST_COSINE))
        logits = (cosines + (paddle.cos(angles + self.margin) - cosines) * one_hot) * self.scale
        if cosines.place.is_cpu_place():
            # The CPU kernel cuts logits off 64 below the largest: wrong at this scale.
            return (paddle.logsumexp(logits, axis=1) - (logits * one_hot).sum(axis=1)).mean()
        return F.softmax_with_cross_entropy(logits, labels.unsqueeze(1)).mean()
