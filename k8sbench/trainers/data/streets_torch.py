"""Street scenes for PyTorch, through the augmentations of mmsegmentation's Cityscapes pipeline:
resize by 0.5–2, crop, flip, photometric distortion, normalise, pad.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from k8sbench.trainers.data.streets import IGNORE, Scenes, hue_turn

# mmsegmentation's mean and standard deviation of RGB values of 0–255.
MEAN = (123.675, 116.28, 103.53)
STD = (58.395, 57.12, 57.375)
SCALES = (0.5, 2.0)


class Streets(Scenes):
    """Scenes as tensors."""

    def ready(self, index: int) -> tuple[Tensor, Tensor]:
        """A normalised crop and its classes."""
        image, labels = self.painted(index)
        return torch.from_numpy(image), torch.from_numpy(labels)

    def decoded(self, index: int) -> tuple[Tensor, Tensor]:
        """A scene as decoded, through the augmentations."""
        random = np.random.default_rng((self.seed, index))
        height, width = 2 * self.height, 2 * self.width
        labels = torch.from_numpy(self.labels(random, height, width))
        pixels = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        image = torch.from_numpy(pixels).permute(2, 0, 1)

        scale = random.uniform(*SCALES)
        size = (max(round(height * scale), 1), max(round(width * scale), 1))
        image = F.interpolate(image[None], size=size, mode="bilinear", align_corners=False)[0]
        labels = F.interpolate(labels[None, None], size=size, mode="nearest")[0, 0]

        top = int(random.integers(0, max(size[0] - self.height, 0) + 1))
        left = int(random.integers(0, max(size[1] - self.width, 0) + 1))
        rows, columns = slice(top, top + self.height), slice(left, left + self.width)
        image, labels = image[:, rows, columns], labels[rows, columns]
        if random.random() < 0.5:
            image, labels = image.flip(-1), labels.flip(-1)
        image = (_distort(image, random) - _column(MEAN)) / _column(STD)
        missing = (0, self.width - image.shape[2], 0, self.height - image.shape[1])
        return F.pad(image, missing), F.pad(labels, missing, value=IGNORE).long()


def _column(values: tuple[float, ...]) -> Tensor:
    return torch.tensor(values).view(-1, 1, 1)


def _distort(image: Tensor, random: np.random.Generator) -> Tensor:
    """Brightness, contrast, saturation, hue and perhaps contrast only now, each in half of the
    cases; of bytes, as mmsegmentation's, so that every change is cut to whole numbers of 0–255.
    """

    def scaled(factor: float, offset: Tensor | float = 0.0) -> Tensor:
        return (image.float() * factor + offset).clamp_(0, 255).byte()

    if random.random() < 0.5:
        image = scaled(1.0, random.uniform(-32, 32))
    contrast_last = random.random() < 0.5
    for step in ("colours", "contrast") if contrast_last else ("contrast", "colours"):
        if step == "contrast":
            if random.random() < 0.5:
                image = scaled(random.uniform(0.5, 1.5))
            continue
        if random.random() < 0.5:
            # Saturation as HSV has it: the largest of the three colours stays as it is.
            factor = random.uniform(0.5, 1.5)
            image = scaled(factor, image.amax(0, keepdim=True).float() * (1 - factor))
        if random.random() < 0.5:
            # In steps of 2 degrees, of which OpenCV has 180: about the grey axis, which is quicker
            # here than by way of HSV.
            turn = torch.from_numpy(hue_turn(2.0 * random.integers(-18, 18)))
            turned = torch.einsum("ij,jhw->ihw", turn, image.float())
            image = turned.clamp_(0, 255).byte()
    return image
