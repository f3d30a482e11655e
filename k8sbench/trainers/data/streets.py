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
        image = self._colours()[np.minimum(labels, self.classes - 1)].astype(np.float32)
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

    def _colours(self) -> Array:
        random = np.random.default_rng((self.seed, 1 << 40))
        colours: Array = random.standard_normal((self.classes, 3), dtype=np.float32)
        return colours
