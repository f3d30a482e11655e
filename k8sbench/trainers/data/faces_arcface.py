"""Faces in the shape of PLSC's synthetic data: normal noise and a class each, as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from k8sbench.trainers.parts.samples import Array

NORMALISE = ((127.5,) * 3, (128.0,) * 3)  # mean and standard deviation, as PLSC has them


@dataclass(frozen=True)
class Faces:
    """Square images of `size` pixels and one class out of `classes`."""

    size: int
    classes: int
    seed: int

    def ready(self, index: int) -> tuple[Array, Array]:
        """A face as the network takes it, and its class."""
        random = np.random.default_rng((self.seed, index))
        image = random.standard_normal((3, self.size, self.size), dtype=np.float32)
        return image, np.asarray(random.integers(0, self.classes), dtype=np.int64)

    def decoded(self, index: int) -> tuple[Array, Array]:
        """A face as decoded and flipped in half of the cases, to be normalised on the device."""
        from PIL import Image

        from k8sbench.trainers.data import faces

        random = np.random.default_rng((self.seed, index))
        pixels = random.integers(0, 256, (self.size, self.size, 3), dtype=np.uint8)
        label = np.asarray(random.integers(0, self.classes), dtype=np.int64)
        return faces.to_train(Image.fromarray(pixels), random), label
