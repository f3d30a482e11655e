"""Generated pictures in the shapes of ImageNet, Kinetics-400 and PLSC's faces.

The content is noise, one fixed picture per number, so that a network can distinguish a few. As a
decoder would give them, they pass through the augmentations of the real sets (`imagenet`,
`kinetics`, `faces`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from k8sbench.trainers.data import faces, imagenet, kinetics
from k8sbench.trainers.parts.samples import Array

# Mean and standard deviation of ImageNet's RGB values, of 0–255.
NORMALISE = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
FACES_NORMALISE = ((127.5,) * 3, (128.0,) * 3)  # as PLSC has them
PICTURE = (375, 500)  # a usual ImageNet picture, height × width
FRAME = (256, 340)  # a Kinetics frame as TSM's scripts extract it


@dataclass(frozen=True)
class Pictures:
    """Square pictures, clips of several frames, or faces, with one class each."""

    size: int
    classes: int
    seed: int
    frames: int | None = None
    faces: bool = False

    def ready(self, index: int) -> tuple[Array, Array]:
        """Fixed noise and its class."""
        random, target = self._drawn(index)
        clip = () if self.frames is None else (self.frames,)
        return random.standard_normal((*clip, 3, self.size, self.size), dtype=np.float32), target

    def decoded(self, index: int) -> tuple[Array, Array]:
        """Uint8 [(frames,) 3, size, size], to be normalised on the device, and its class."""
        random, target = self._drawn(index)
        if self.faces:
            return faces.to_train(_decode(random, self.size, self.size), random), target
        if self.frames is None:
            return imagenet.to_train(_decode(random, *PICTURE), self.size, random), target
        frames = [_decode(random, *FRAME) for _ in range(self.frames)]
        return kinetics.to_train(frames, self.size, random), target

    def _drawn(self, index: int) -> tuple[np.random.Generator, Array]:
        random = np.random.default_rng((self.seed, index))
        return random, np.asarray(random.integers(0, self.classes))


def _decode(random: np.random.Generator, height: int, width: int) -> Image.Image:
    return Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))
