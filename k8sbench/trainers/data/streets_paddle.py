"""Street scenes for Paddle, as numpy arrays, through the augmentations of PaddleSeg's benchmark:
resize by 0.5-2 in steps of 0.25, pad, crop, flip, distort, normalise. Only the pixels inside the
crop are ever resized.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from k8sbench.trainers.data.streets import IGNORE, Array, Scenes, hue_turn

SCALES = (0.5, 2.0, 0.25)
MEAN = STD = 127.5  # PaddleSeg's Normalize: 0.5 and 0.5 of values of 0-1
# RandomDistort without arguments: its range of brightness, contrast and saturation, and of hue in
# steps of which a full turn has 255.
DISTORTION, HUE = 0.5, 18


class Streets(Scenes):
    """Scenes as arrays."""

    def ready(self, index: int) -> tuple[Array, Array]:
        """A normalised crop and its classes."""
        return self.painted(index)

    def decoded(self, index: int) -> tuple[Array, Array]:
        """A scene as decoded, through the augmentations."""
        random = np.random.default_rng((self.seed, index))
        height, width = 2 * self.height, 2 * self.width
        labels = self.labels(random, height, width)
        image = random.integers(0, 256, (height, width, 3), dtype=np.uint8)

        low, high, step = SCALES
        scale = random.choice(np.arange(low, high + step, step))
        top = random.integers(0, max(round(height * scale) - self.height, 0) + 1)
        left = random.integers(0, max(round(width * scale) - self.width, 0) + 1)
        rows = (np.arange(top, top + self.height) + 0.5) / scale - 0.5
        columns = (np.arange(left, left + self.width) + 0.5) / scale - 0.5
        rows, columns = rows[rows < height - 0.5], columns[columns < width - 0.5]
        crop = _bilinear(image, rows, columns)
        classes = labels[np.ix_(_nearest(rows, height), _nearest(columns, width))]

        if random.random() < 0.5:
            crop, classes = crop[:, ::-1], classes[:, ::-1]
        crop = (_distort(crop, random) - MEAN) / STD
        missing = (0, self.height - len(rows)), (0, self.width - len(columns))
        crop = np.pad(crop, (*missing, (0, 0)))
        classes = np.pad(classes, missing, constant_values=IGNORE)
        return np.ascontiguousarray(crop.transpose(2, 0, 1)), classes.astype(np.int64)


def _nearest(at: Array, size: int) -> Array:
    return np.clip(np.rint(at).astype(np.int64), 0, size - 1)


def _bilinear(image: Array, rows: Array, columns: Array) -> Array:
    """The image's values at the crossings of `rows` and `columns`."""

    def between(values: Array, at: Array, axis: int) -> Array:
        low = np.clip(np.floor(at).astype(np.int64), 0, values.shape[axis] - 1)
        high = np.minimum(low + 1, values.shape[axis] - 1)
        share = np.clip(at - low, 0, 1).astype(np.float32)
        share = share.reshape([-1 if dimension == axis else 1 for dimension in range(3)])
        mixed: Array = values.take(low, axis) * (1 - share) + values.take(high, axis) * share
        return mixed

    return between(between(image, rows, 0), columns, 1)


def _distort(image: Array, random: np.random.Generator) -> Array:
    """Brightness, contrast, saturation and hue, each in half of the cases, in any order."""
    around = 1 - DISTORTION, 1 + DISTORTION

    def about(grey: Any) -> Array:
        changed: Array = grey + (image - grey) * np.float32(random.uniform(*around))
        return changed

    changes: list[Callable[[], Array]] = [
        lambda: about(np.float32(0)),
        lambda: about(image.mean()),
        lambda: about(image.mean(2, keepdims=True)),
        lambda: image @ hue_turn(random.uniform(-HUE, HUE) * 360 / 255).T,
    ]
    for chosen in random.permutation(len(changes)):
        if random.random() < 0.5:
            image = np.clip(changes[chosen](), 0, 255)
    return image
