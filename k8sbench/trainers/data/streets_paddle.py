"""Street scenes in the shape of Cityscapes, as numpy arrays, for the Paddle trainers.

A scene is a grid of blocks, each of one class, painted in the colour of its class with noise: what
a network can learn, at no cost to the shapes. Every scene leaves the same number of pixels without
a class (the car's own bonnet at the bottom), so that every rank has equally many to learn from.
Augmentations are those of PaddleSeg's benchmark: resize by 0.5-2 in steps of 0.25, pad, crop,
flip, distort, normalise. Only the pixels inside the crop are ever resized.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

IGNORE = 255
SCALES = (0.5, 2.0, 0.25)
MEAN = STD = 127.5  # PaddleSeg's Normalize: 0.5 and 0.5 of values of 0-1
DISTORTION = 0.4  # RandomDistort's range of brightness, contrast and saturation
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Streets:
    """Scenes of `height` x `width` after cropping; decoded ones are twice as high and wide."""

    height: int
    width: int
    classes: int
    seed: int

    def ready(self, index: int) -> tuple[Array, Array]:
        """A normalised crop and its classes."""
        random = np.random.default_rng((self.seed, index))
        labels = self._labels(random, self.height, self.width)
        image = self._colours()[np.minimum(labels, self.classes - 1)].astype(np.float32)
        image += random.standard_normal(image.shape, dtype=np.float32) * 0.5
        return np.ascontiguousarray(image.transpose(2, 0, 1)), labels.astype(np.int64)

    def decoded(self, index: int) -> tuple[Array, Array]:
        """A scene as decoded, through the augmentations."""
        random = np.random.default_rng((self.seed, index))
        height, width = 2 * self.height, 2 * self.width
        labels = self._labels(random, height, width)
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

    def _labels(self, random: np.random.Generator, height: int, width: int) -> Array:
        block = max(min(height, width) // 4, 1)
        shape = (-(-height // block), -(-width // block))
        coarse = random.integers(0, self.classes, shape, dtype=np.uint8)
        labels: Array = coarse.repeat(block, 0).repeat(block, 1)[:height, :width].copy()
        labels[height - height // 16 :] = IGNORE
        return labels

    def _colours(self) -> Array:
        random = np.random.default_rng((self.seed, 1 << 40))
        colours: Array = random.standard_normal((self.classes, 3), dtype=np.float32)
        return colours


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
    """Brightness, contrast and saturation, each in half of the cases."""
    around = 1 - DISTORTION, 1 + DISTORTION
    if random.random() < 0.5:
        image = image * np.float32(random.uniform(*around))
    if random.random() < 0.5:
        mean = image.mean()
        image = mean + (image - mean) * np.float32(random.uniform(*around))
    if random.random() < 0.5:
        grey = image.mean(2, keepdims=True)
        image = grey + (image - grey) * np.float32(random.uniform(*around))
    return np.clip(image, 0, 255)
