"""Street scenes in the shape of Cityscapes, for the segmentation trainers of both frameworks.

A scene is a grid of blocks, each of one class, painted in the colour of its class with noise: what
a network can learn, at no cost to the shapes. Every scene leaves the same number of pixels without
a class (the car's own bonnet at the bottom), so that every rank has equally many to learn from.
What loader processes make goes through the same augmentations as real files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from k8sbench.trainers.parts.samples import Array
from k8sbench.trainers.parts.segmentation import IGNORE

# Of (picture [rows, columns, 3], labels [rows, columns], random state): an augmented sample.
Augment = Callable[[Array, Array, np.random.Generator], tuple[Array, Array]]


@dataclass(frozen=True)
class Scenes:
    """Scenes of `crop` (height, width); decoded ones are twice as high and wide."""

    crop: tuple[int, int]
    classes: int
    seed: int
    augment: Augment

    def ready(self, index: int) -> tuple[Array, Array]:
        """A normalised crop [3, height, width] and its classes."""
        random = np.random.default_rng((self.seed, index))
        labels = self.labels(random, *self.crop)
        same = np.random.default_rng((self.seed, 1 << 40))  # for all pictures
        colours = same.standard_normal((self.classes, 3), dtype=np.float32)
        image = colours[np.minimum(labels, self.classes - 1)].astype(np.float32)
        image += random.standard_normal(image.shape, dtype=np.float32) * 0.5
        image = np.ascontiguousarray(image.transpose(2, 0, 1))
        return image, labels.astype(np.int64)

    def decoded(self, index: int) -> tuple[Array, Array]:
        """An augmented crop, uint8 [3, height, width], which the device normalises; its classes."""
        random = np.random.default_rng((self.seed, index))
        height, width = (2 * side for side in self.crop)
        labels = self.labels(random, height, width)
        picture = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        return self.augment(picture, labels, random)

    def labels(self, random: np.random.Generator, height: int, width: int) -> Array:
        """The classes of a scene of any size."""
        block = max(min(height, width) // 4, 1)
        shape = (-(-height // block), -(-width // block))
        coarse = random.integers(0, self.classes, shape, dtype=np.uint8)
        labels: Array = coarse.repeat(block, 0).repeat(block, 1)[:height, :width].copy()
        labels[height - height // 16 :] = IGNORE
        return labels


# --- pictures and labels resized by OpenCV's rules, of which only a window is computed -----------
#
# OpenCV's bilinear rule mixes the four pixels around a point, also where it makes a picture smaller
# (Pillow and PyTorch's antialiasing average over more of them). Its nearest rule takes the pixel
# that holds a point's upper left corner, not its middle.

ROWS = 32  # computed at a time, so that what they need stays in the processor's cache


@dataclass(frozen=True)
class Crop:
    """Window of `height` × `width` at (`top`, `left`), in a picture resized to `full`."""

    full: tuple[int, int]  # height, width
    top: int
    left: int
    height: int
    width: int

    @classmethod
    def drawn(
        cls, full: tuple[int, int], crop: tuple[int, int], random: np.random.Generator
    ) -> Crop:
        """Draw a window of size `crop`, at most the picture's, at random."""
        height, width = (min(side, most) for side, most in zip(full, crop, strict=True))
        top = int(random.integers(full[0] - height + 1))
        left = int(random.integers(full[1] - width + 1))
        return cls(full, top, left, height, width)

    def bilinear(self, picture: Array, *, rounded: bool = True) -> Array:
        """Resize uint8 [rows, columns, 3] to uint8 [3, height, width]; `rounded` or cut."""
        upper, lower, down = _between(self.top, self.height, self.full[0], picture.shape[0])
        left, right, along = _between(self.left, self.width, self.full[1], picture.shape[1])
        first, last = left[0], right[-1] + 1
        left, right = left - first, right - first
        made = np.empty((3, self.height, self.width), np.uint8)
        for start in range(0, self.height, ROWS):
            rows = slice(start, start + ROWS)
            above = picture[upper[rows], first:last]
            mixed = np.subtract(picture[lower[rows], first:last], above, dtype=np.float32)
            mixed *= down[rows, None, None]
            mixed += above
            there = mixed.take(left, axis=1)
            beside = mixed.take(right, axis=1)
            beside -= there
            beside *= along[:, None]
            beside += there
            if rounded:
                beside += 0.5
            made[:, rows] = beside.transpose(2, 0, 1)
        return made

    def nearest(self, labels: Array) -> Array:
        """Resize uint8 [rows, columns] to uint8 [height, width]."""
        rows = _before(self.top, self.height, self.full[0], labels.shape[0])
        columns = _before(self.left, self.width, self.full[1], labels.shape[1])
        resized: Array = labels[rows].take(columns, axis=1)
        return resized


def _between(first: int, count: int, full: int, size: int) -> tuple[Array, Array, Array]:
    """Return each point's neighbouring pixels, and its distance from the first."""
    at = ((np.arange(first, first + count) + 0.5) * (size / full) - 0.5).clip(0, size - 1)
    before = at.astype(np.intp)
    return before, np.minimum(before + 1, size - 1), (at - before).astype(np.float32)


def _before(first: int, count: int, full: int, size: int) -> Array:
    at = np.arange(first, first + count) * (1 / (full / size))  # in OpenCV's own order
    return np.minimum(at.astype(np.intp), size - 1)
