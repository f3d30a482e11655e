# mypy: allow-subclassing-any
"""PLSC's "ResNet50": the IR-50 face backbone, which is not the ImageNet ResNet-50.

Stem without stride, blocks of two 3x3 convolutions (3, 4, 14, 3 of them) with a batch norm in
front and a PReLU of one slope between, stride 2 at the head of every stage, then norm, dropout,
a fully connected embedding and a norm. 43.585 M parameters and 6.309 GMAC at 112x112 (the
ImageNet network would do 1.08). Described by PLSC's `plsc/models/resnet.py`; written anew here.
"""

from __future__ import annotations

from typing import Any

import paddle
from paddle import ParamAttr, nn
from paddle.nn import functional as F

from k8sbench.trainers.parts import metrics
from k8sbench.trainers.parts.metrics import Evaluation
from k8sbench.trainers.parts.samples import Array, Files

EMBEDDING = 512
WIDTHS = (64, 128, 256, 512)
DEPTHS = (3, 4, 14, 3)
EPSILON = 2e-5


def _norm(channels: int) -> Any:
    return nn.BatchNorm2D(channels, epsilon=EPSILON)


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[Any]:
    # Xavier's normal with fan_in counted as 0, as upstream has it: variance 2 / fan_out.
    attr = ParamAttr(initializer=nn.initializer.XavierNormal(fan_in=0.0))
    return [
        nn.Conv2D(
            inputs,
            outputs,
            kernel,
            stride=stride,
            padding=kernel // 2,
            weight_attr=attr,
            bias_attr=False,
        ),
        _norm(outputs),
    ]


class Block(nn.Layer):
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
                layers.append(Block(inputs, width, 2 if index == 0 else 1))
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
                weight_attr=ParamAttr(initializer=nn.initializer.XavierNormal(fan_in=0.0)),
            ),
            nn.BatchNorm1D(EMBEDDING, epsilon=EPSILON),
        )

    def forward(self, faces: Any) -> Any:
        """Embeddings."""
        return self.embed(self.body(faces))


# --- verification: whether two pictures are of one person, by their embeddings' distance --------

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
