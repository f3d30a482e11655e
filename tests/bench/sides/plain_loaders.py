"""The pipelines of our loaders as one writes them with Pillow and numpy: each step on the picture
that the step before it left, whole pictures first, then the crop.

A pipeline takes the paths of a sample's files and a random state: uint8 [(frames,) 3, height,
width], and the classes of a street scene. As ours they leave it to the device to normalise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from k8sbench.trainers.data import imagenet, kinetics

Array = np.ndarray[Any, np.dtype[Any]]
Picture = Image.Image
Pipeline = Callable[[Sequence[Path], np.random.Generator], tuple[Array, ...]]

CROP = (512, 1024)
SIZE = 224
BILINEAR, NEAREST = Image.Resampling.BILINEAR, Image.Resampling.NEAREST
FLIP = Image.Transpose.FLIP_LEFT_RIGHT


def opened(path: Path) -> Picture:
    """As torchvision's pil_loader does it."""
    with path.open("rb") as file:
        return Image.open(file).convert("RGB")


def labels_of(path: Path) -> Picture:
    """One byte for each pixel."""
    with path.open("rb") as file:
        return Image.open(file).copy()


def channels_first(image: Picture) -> Array:
    """As torchvision's PILToTensor has it, in one piece for a batch."""
    return np.ascontiguousarray(np.array(image).transpose(2, 0, 1))


def window(size: tuple[int, int], random: np.random.Generator) -> imagenet.Box:
    """A place for the crop in a picture of `size` (width, height)."""
    top = int(random.integers(size[1] - CROP[0] + 1))
    left = int(random.integers(size[0] - CROP[1] + 1))
    return left, top, left + CROP[1], top + CROP[0]


def is_mixed(labels: Array) -> bool:
    """mmsegmentation's rule: of no class 75 % or more."""
    found, counts = np.unique(labels, return_counts=True)
    counts = counts[found != 255]
    return len(counts) > 1 and counts.max() / counts.sum() < 0.75


def mixed_window(labels: Picture, random: np.random.Generator) -> imagenet.Box:
    """mmsegmentation's RandomCrop: at most 10 tries to find a mixed window."""
    box = window(labels.size, random)
    for _ in range(10):
        if is_mixed(np.asarray(labels.crop(box))):
            break
        box = window(labels.size, random)
    return box


def streets_mmseg(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """mmsegmentation's steps."""
    image, labels = opened(paths[0]), labels_of(paths[1])
    ratio = random.uniform(0.5, 2.0)
    full = int(image.width * ratio + 0.5), int(image.height * ratio + 0.5)
    image, labels = image.resize(full, BILINEAR), labels.resize(full, NEAREST)
    box = mixed_window(labels, random)
    image, labels = image.crop(box), labels.crop(box)
    if random.random() < 0.5:
        image, labels = image.transpose(FLIP), labels.transpose(FLIP)
    image = distorted_mmseg(image, random)
    return channels_first(image), np.array(labels)


def distorted_mmseg(image: Picture, random: np.random.Generator) -> Picture:
    """Brightness, contrast, saturation, hue, each in half of the cases."""
    values = np.arange(256, dtype=np.float32)
    if random.random() < 0.5:
        image = _point(image, values + random.uniform(-32, 32))
    contrast_first = random.random() < 0.5
    if contrast_first and random.random() < 0.5:
        image = _point(image, values * random.uniform(0.5, 1.5))
    if random.random() < 0.5:
        hue, saturation, value = image.convert("HSV").split()
        saturation = _point(saturation, values * random.uniform(0.5, 1.5))
        image = Image.merge("HSV", (hue, saturation, value)).convert("RGB")
    if random.random() < 0.5:
        image = turned(image, random.uniform(-18, 18) * 256 / 180)
    if not contrast_first and random.random() < 0.5:
        image = _point(image, values * random.uniform(0.5, 1.5))
    return image


def turned(image: Picture, steps: float) -> Picture:
    """Hues by `steps` of which a full turn has 256."""
    hue, saturation, value = image.convert("HSV").split()
    hue = hue.point([int(each + steps) % 256 for each in range(256)])
    return Image.merge("HSV", (hue, saturation, value)).convert("RGB")


def _point(image: Picture, table: Array) -> Picture:
    return image.point(table.clip(0, 255).astype(np.uint8).tolist() * len(image.getbands()))


def streets_paddleseg(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """PaddleSeg's steps."""
    image, labels = opened(paths[0]), labels_of(paths[1])
    scale = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)[random.integers(7)]
    full = round(image.width * scale), round(image.height * scale)
    image, labels = image.resize(full, BILINEAR), labels.resize(full, NEAREST)
    missing = (0, 0, max(CROP[1] - full[0], 0), max(CROP[0] - full[1], 0))
    if any(missing):
        image = ImageOps.expand(image, missing, (127, 127, 127))
        labels = ImageOps.expand(labels, missing, 255)
    box = window(image.size, random)
    image, labels = image.crop(box), labels.crop(box)
    if random.random() < 0.5:
        image, labels = image.transpose(FLIP), labels.transpose(FLIP)
    enhancers = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color, None)
    for chosen in random.permutation(len(enhancers)):
        if random.random() < 0.5:
            enhancer = enhancers[chosen]
            if enhancer is None:
                image = turned(image, random.uniform(-18, 18))
            else:
                image = enhancer(image).enhance(random.uniform(0.5, 1.5))
    return channels_first(image), np.array(labels)


def pictures(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """RandomResizedCrop and RandomHorizontalFlip."""
    image = opened(paths[0])
    image = image.crop(imagenet.crop_box(*image.size, random)).resize((SIZE, SIZE), BILINEAR)
    return (channels_first(image.transpose(FLIP) if random.random() < 0.5 else image),)


def clips(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """TSM's GroupMultiScaleCrop and GroupRandomHorizontalFlip."""
    frames = [opened(path) for path in chosen_frames(paths, random)]
    box = kinetics.crop_box(*frames[0].size, SIZE, random)
    frames = [frame.crop(box).resize((SIZE, SIZE), BILINEAR) for frame in frames]
    if random.random() < 0.5:
        frames = [frame.transpose(FLIP) for frame in frames]
    return (np.stack([channels_first(frame) for frame in frames]),)


def chosen_frames(paths: Sequence[Path], random: np.random.Generator) -> list[Path]:
    """8 frames of all of a clip's."""
    return [paths[index - 1] for index in kinetics.indices_to_train(len(paths), 8, random)]


def faces(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """RandomHorizontalFlip."""
    image = opened(paths[0])
    return (channels_first(image.transpose(FLIP) if random.random() < 0.5 else image),)


PIPELINES: dict[str, Pipeline] = {
    "cityscapes, mmseg": streets_mmseg,
    "cityscapes, PaddleSeg": streets_paddleseg,
    "imagenet": pictures,
    "kinetics": clips,
    "faces": faces,
}
EQUAL = ("imagenet", "kinetics", "faces")
"""Whose pictures must be ours: Pillow makes them on both sides, by the same random numbers."""
