"""Pictures in the shape of ImageNet, and clips in the shape of Kinetics-400.

The content is noise, one fixed picture per number, so that a network can distinguish a few.
Augmentations are those of NVIDIA's ResNet-50 (random resized crop, flip, normalise) and of TSM
(multi-scale crop at fixed places, flip, normalise), on pictures as they come out of a decoder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

# Mean and standard deviation of ImageNet's RGB values, of 0–255.
MEAN = (123.675, 116.28, 103.53)
STD = (58.395, 57.12, 57.375)
PICTURE = (375, 500)  # a usual ImageNet picture, height × width
FRAME = (256, 340)  # a Kinetics frame as TSM's scripts extract it
CROP_SCALES = (1.0, 0.875, 0.75, 0.66)  # of a frame's shorter side
# Heights and widths of a crop, whose scales are at most one step apart (max_distort of TSM).
CROPS = [
    (int(min(FRAME) * high), int(min(FRAME) * wide))
    for i, high in enumerate(CROP_SCALES)
    for j, wide in enumerate(CROP_SCALES)
    if abs(i - j) <= 1
]


@dataclass(frozen=True)
class Pictures:
    """Square pictures of `size`, each of one class."""

    size: int
    classes: int
    seed: int

    def ready(self, index: int) -> tuple[Tensor, Tensor]:
        """Fixed noise and its class."""
        random = np.random.default_rng((self.seed, index))
        target = torch.tensor(int(random.integers(0, self.classes)))
        image = random.standard_normal((3, self.size, self.size), dtype=np.float32)
        return torch.from_numpy(image), target

    def decoded(self, index: int) -> tuple[Tensor, Tensor]:
        """A crop of 8–100 % of the area and a shape of 3:4 to 4:3, resized; flipped or not."""
        random = np.random.default_rng((self.seed, index))
        target = torch.tensor(int(random.integers(0, self.classes)))
        image = _decode(random, 1, *PICTURE)
        height, width = PICTURE
        area = height * width * random.uniform(0.08, 1.0)
        ratio = np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
        rows = int(np.clip(round((area / ratio) ** 0.5), 1, height))
        columns = int(np.clip(round((area * ratio) ** 0.5), 1, width))
        top = int(random.integers(0, height - rows + 1))
        left = int(random.integers(0, width - columns + 1))
        crop = image[..., top : top + rows, left : left + columns]
        return _finish(crop, self.size, random)[0], target


@dataclass(frozen=True)
class Clips:
    """Clips of `segments` square frames of `size`, each of one class."""

    segments: int
    size: int
    classes: int
    seed: int

    def ready(self, index: int) -> tuple[Tensor, Tensor]:
        """Fixed noise and its class."""
        random = np.random.default_rng((self.seed, index))
        target = torch.tensor(int(random.integers(0, self.classes)))
        shape = (self.segments, 3, self.size, self.size)
        return torch.from_numpy(random.standard_normal(shape, dtype=np.float32)), target

    def decoded(self, index: int) -> tuple[Tensor, Tensor]:
        """One crop for all frames: one of `CROPS`, at one of 13 places; flipped or not."""
        random = np.random.default_rng((self.seed, index))
        target = torch.tensor(int(random.integers(0, self.classes)))
        frames = _decode(random, self.segments, *FRAME)
        height, width = FRAME
        rows, columns = CROPS[random.integers(len(CROPS))]
        down, right = (height - rows) // 4, (width - columns) // 4
        places = [(i, j) for i in range(5) for j in range(5) if (i + j) % 2 == 0]
        i, j = places[random.integers(len(places))]
        crop = frames[..., i * down : i * down + rows, j * right : j * right + columns]
        return _finish(crop, self.size, random), target


def _decode(random: np.random.Generator, count: int, height: int, width: int) -> Tensor:
    pixels = random.integers(0, 256, (count, height, width, 3), dtype=np.uint8)
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def _finish(crop: Tensor, size: int, random: np.random.Generator) -> Tensor:
    images = F.interpolate(crop.float(), (size, size), mode="bilinear", align_corners=False)
    if random.random() < 0.5:
        images = images.flip(-1)
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
    return (images - mean) / std
