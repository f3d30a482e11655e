"""Street scenes in the shape of Cityscapes, for the segmentation trainers of both frameworks.

A scene is a grid of blocks, each of one class, painted in the colour of its class with noise: what
a network can learn, at no cost to the shapes. Every scene leaves the same number of pixels without
a class (the car's own bonnet at the bottom), so that every rank has equally many to learn from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

IGNORE = 255  # the label of pixels that belong to no class


def hue_turn(degrees: float) -> Array:
    """The 3×3 matrix that turns colours about the grey axis."""
    angle = np.deg2rad(degrees)
    cos, sin = np.cos(angle), np.sin(angle) / np.sqrt(3)
    matrix = np.full((3, 3), (1 - cos) / 3) + np.eye(3) * cos
    matrix += sin * np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    turn: Array = matrix.astype(np.float32)
    return turn


@dataclass(frozen=True)
class Scenes:
    """Scenes of `height` × `width` after cropping; decoded ones are twice as high and wide."""

    height: int
    width: int
    classes: int
    seed: int

    def painted(self, index: int) -> tuple[Array, Array]:
        """A normalised crop [3, height, width] and its classes."""
        random = np.random.default_rng((self.seed, index))
        labels = self.labels(random, self.height, self.width)
        image = self._colours()[np.minimum(labels, self.classes - 1)].astype(np.float32)
        image += random.standard_normal(image.shape, dtype=np.float32) * 0.5
        return np.ascontiguousarray(image.transpose(2, 0, 1)), labels.astype(np.int64)

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
