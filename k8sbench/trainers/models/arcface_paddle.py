# mypy: allow-subclassing-any
"""PLSC's "ResNet50": the IR-50 face backbone, which is not the ImageNet ResNet-50.

Stem without stride, blocks of two 3x3 convolutions (3, 4, 14, 3 of them) with a batch norm in
front and a PReLU of one slope between, stride 2 at the head of every stage, then norm, dropout,
a fully connected embedding and a norm. 43.585 M parameters and 6.309 GMAC at 112x112 (the
ImageNet network would do 1.08). Described by PLSC's `plsc/models/resnet.py`; written anew here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import paddle
from paddle import ParamAttr, distributed, nn
from paddle.autograd import PyLayer
from paddle.nn import functional as F

from k8sbench.trainers.parts import metrics, watch
from k8sbench.trainers.parts.metrics import Scoring
from k8sbench.trainers.parts.samples import Array, Files

EMBEDDING = 512
WIDTHS = (64, 128, 256, 512)
DEPTHS = (3, 4, 14, 3)
EPSILON = 2e-5


def _norm(channels: int) -> Any:
    return nn.BatchNorm2D(channels, epsilon=EPSILON)


def _drawn(fan_out: int) -> Any:
    """Weights of variance 2 / fan_out."""
    # Upstream's are Xavier's with a fan_in of 0, for which Paddle 3 draws zeros.
    return ParamAttr(initializer=nn.initializer.Normal(0.0, math.sqrt(2.0 / fan_out)))


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[Any]:
    return [
        nn.Conv2D(
            inputs,
            outputs,
            kernel,
            stride=stride,
            padding=kernel // 2,
            weight_attr=_drawn(outputs * kernel * kernel),
            bias_attr=False,
        ),
        _norm(outputs),
    ]


class IRBlock(nn.Layer):
    """Residual block: norm, 3x3, norm, PReLU, 3x3 with stride, norm."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _norm(inputs),
            *_conv(inputs, outputs, 3),
            nn.PReLU(init=0.25),
            *_conv(outputs, outputs, 3, stride),
        )
        self.shortcut = None
        if inputs != outputs or stride != 1:
            self.shortcut = nn.Sequential(*_conv(inputs, outputs, 1, stride))

    def forward(self, x: Any) -> Any:
        """The block's output."""
        return self.body(x) + (x if self.shortcut is None else self.shortcut(x))


class IR50(nn.Layer):
    """Faces [N, 3, size, size] to embeddings [N, 512], not normalised."""

    def __init__(self, *, size: int = 112, width_divisor: int = 1) -> None:
        super().__init__()
        widths = [width // width_divisor for width in WIDTHS]
        layers: list[Any] = [*_conv(3, widths[0], 3), nn.PReLU(init=0.25)]
        inputs = widths[0]
        for width, depth in zip(widths, DEPTHS, strict=True):
            for index in range(depth):
                layers.append(IRBlock(inputs, width, 2 if index == 0 else 1))
                inputs = width
                size = (size + 1) // 2 if index == 0 else size
        self.body = nn.Sequential(*layers)
        self.embed = nn.Sequential(
            _norm(inputs),
            nn.Dropout(0.4),
            nn.Flatten(),
            nn.Linear(
                inputs * size * size,
                EMBEDDING,
                weight_attr=_drawn(EMBEDDING),
            ),
            nn.BatchNorm1D(EMBEDDING, epsilon=EPSILON),
        )

    def forward(self, faces: Any) -> Any:
        """Embeddings."""
        return self.embed(self.body(faces))


# --- the head ----------------------------------------------------------------------------------
#
# ArcFace's classifier, with its class centres sharded over the ranks (model parallel).
#
# Each rank holds ceil(classes / world) centres and sees the features of all ranks: logits are
# sharded by class, the batch is the job's batch. Three heads compute the same loss,
# mean over the job's batch of -log softmax(scale * cos(theta + margin at the label)):
#
# - ``margin``: `paddle.nn.functional.margin_cross_entropy`, the fused kernel; GPU only.
# - ``own``: exact, on any device; checks ``margin`` where both run.
# - ``dense``: the report's head on one GPU (PLSC's `arcface`): margin and one-hot over the whole
#   matrix, then softmax_with_cross_entropy. It costs more, which is why a run names its head.
#
# The loss is a mean over the job, so the backbone's gradients are the *sum* over the ranks. The
# gradient of the gathered features is scaled by the world size, so that DataParallel's mean is that
# sum; the centres' own gradients are complete on their own rank and are not shared.

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
    """Centres [embedding, count] of the classes from `first` on: normal, Xavier's variance.

    All are drawn on every rank, so that they do not depend on the sharding.
    """
    drawn = np.random.default_rng(seed).standard_normal((classes, embedding), dtype=np.float32)
    deviation = np.float32(math.sqrt(2.0 / (embedding + classes)))
    return np.ascontiguousarray(drawn[first : first + count].T * deviation)


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
        rank = distributed.get_rank()
        world = distributed.get_world_size()
        mine = gradient.shape[0] // world
        return gradient[rank * mine : (rank + 1) * mine] * world


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
            watch.at()
            features = Gather.apply(features)
            parts: list[Any] = []
            distributed.all_gather(parts, labels)
            labels = paddle.concat(parts)
        cosines = paddle.matmul(features, F.normalize(self.centres, axis=0)).astype("float32")
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
        if self.head == "dense":
            one_hot = F.one_hot(labels, cosines.shape[1])
        else:
            own = paddle.arange(self.first, self.first + cosines.shape[1], dtype=labels.dtype)
            one_hot = (labels.unsqueeze(1) == own).astype(cosines.dtype)
        angles = paddle.acos(cosines.clip(-LARGEST_COSINE, LARGEST_COSINE))
        logits = (cosines + (paddle.cos(angles + self.margin) - cosines) * one_hot) * self.scale
        if self.head == "dense" and not cosines.place.is_cpu_place():
            return F.softmax_with_cross_entropy(logits, labels.unsqueeze(1)).mean()
        # The CPU's kernel cuts logits off 64 below the largest: wrong at this scale.
        return self._cross_entropy(logits, one_hot)

    def _cross_entropy(self, logits: Any, one_hot: Any) -> Any:
        """Cross entropy over the shards of all ranks."""
        with paddle.no_grad():
            largest = logits.max(axis=1, keepdim=True)
            if self.world > 1:
                distributed.all_reduce(largest, op=distributed.ReduceOp.MAX)
            shares = paddle.exp(logits - largest)
            sums = paddle.stack([shares.sum(axis=1), ((logits - largest) * one_hot).sum(axis=1)])
            if self.world > 1:
                distributed.all_reduce(sums)
            loss = (paddle.log(sums[0]) - sums[1]).mean()
            slope = (shares / sums[0].unsqueeze(1) - one_hot) / logits.shape[0]
        # Collectives have no gradient: this has the gradient of the loss, and then its value.
        flow = (slope * logits).sum()
        return flow + (loss - flow).detach()


# --- verification: whether two pictures are of one person, by their embeddings' distance --------

BATCH = 60  # pairs: PLSC's test_batch_size is 120 pictures


def evaluation(files: Files) -> Scoring:
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

    return Scoring(metric="accuracy", batch_size=BATCH, sums=sums, figures=figures)
