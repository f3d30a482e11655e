"""The pipelines of our loaders by torchvision's v2 transforms, of Pillow's pictures.

Its transforms draw by PyTorch's random state; the colours of street scenes are changed by its
ColorJitter, each change in half of the cases, which is the nearest that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

from tests.bench.sides.plain_loaders import (
    CROP,
    SIZE,
    Array,
    Pipeline,
    chosen_frames,
    labels_of,
    mixed_window,
    opened,
    window,
)

torch.set_num_threads(1)
VERSION = torchvision.__version__


def _colours(*, brightness: float, hue: float) -> list[v2.Transform]:
    changes = ({"brightness": brightness}, {"contrast": 0.5}, {"saturation": 0.5}, {"hue": hue})
    return [v2.RandomApply([v2.ColorJitter(**change)]) for change in changes]


MMSEG = v2.Compose(_colours(brightness=0.25, hue=18 / 180))
PADDLESEG = v2.RandomOrder(_colours(brightness=0.5, hue=18 / 256))
PICTURES = v2.Compose([v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip()])
SCALES = v2.RandomResizedCrop(SIZE, scale=(0.43, 1.0), antialias=True)  # TSM's: it has no such crop


def _channels_first(image: Image.Image) -> Array:
    return functional.pil_to_tensor(image).contiguous().numpy()


def _scaled(paths: Sequence[Path], ratio: float) -> tuple[Image.Image, Image.Image]:
    image, labels = opened(paths[0]), labels_of(paths[1])
    size = [round(side * ratio) for side in (image.height, image.width)]
    return (
        functional.resize(image, size, v2.InterpolationMode.BILINEAR),
        functional.resize(labels, size, v2.InterpolationMode.NEAREST),
    )


def _cropped(
    image: Image.Image, labels: Image.Image, box: tuple[int, ...], colours: v2.Transform
) -> tuple[Array, ...]:
    place = box[1], box[0], *CROP
    image, labels = (functional.crop(each, *place) for each in (image, labels))
    if torch.rand(()) < 0.5:
        image, labels = map(functional.horizontal_flip, (image, labels))
    return _channels_first(colours(image)), functional.pil_to_tensor(labels)[0].numpy()


def streets_mmseg(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """mmsegmentation's steps."""
    image, labels = _scaled(paths, random.uniform(0.5, 2.0))
    return _cropped(image, labels, mixed_window(labels, random), MMSEG)


def streets_paddleseg(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """PaddleSeg's steps."""
    image, labels = _scaled(paths, 0.5 + 0.25 * int(random.integers(7)))
    missing = [0, 0, max(CROP[1] - image.width, 0), max(CROP[0] - image.height, 0)]
    if any(missing):
        image = functional.pad(image, missing, [127, 127, 127])
        labels = functional.pad(labels, missing, 255)
    return _cropped(image, labels, window(image.size, random), PADDLESEG)


def pictures(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """RandomResizedCrop and RandomHorizontalFlip."""
    del random
    return (_channels_first(PICTURES(opened(paths[0]))),)


def clips(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """One crop and one mirroring of all frames."""
    frames = SCALES([opened(path) for path in chosen_frames(paths, random)])
    if torch.rand(()) < 0.5:
        frames = [functional.horizontal_flip(frame) for frame in frames]
    return (torch.stack([functional.pil_to_tensor(frame) for frame in frames]).numpy(),)


def faces(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """RandomHorizontalFlip."""
    del random
    return (_channels_first(v2.RandomHorizontalFlip()(opened(paths[0]))),)


PIPELINES: dict[str, Pipeline] = {
    "cityscapes, mmseg": streets_mmseg,
    "cityscapes, PaddleSeg": streets_paddleseg,
    "imagenet": pictures,
    "kinetics": clips,
    "faces": faces,
}
