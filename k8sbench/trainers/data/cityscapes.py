"""Cityscapes, for the segmentation trainers of both frameworks: files, synthetic scenes, crops.

DIR/leftImg8bit/{train,val}/CITY/NAME_leftImg8bit.png has its labels in
DIR/gtFine/{train,val}/CITY/NAME_gtFine_labelTrainIds.png: one byte for each pixel, 0–18 for a class
and 255 for none.

A synthetic scene is a grid of blocks, each of one class, painted in the colour of its class with
noise: what a network can learn, at no cost to the shapes. Every scene leaves the same number of
pixels without a class (the car's own bonnet at the bottom), so that every rank has equally many to
learn from. What loader processes make goes through the same augmentations as real files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from k8sbench.trainers.data import decoding
from k8sbench.trainers.parts.samples import Array, BrokenSample, DataError, Files
from k8sbench.trainers.parts.segmentation import IGNORE

SAMPLES = {"train": 2975, "val": 500}  # of the published set
CLASSES = 19
PICTURE, LABELS = "_leftImg8bit.png", "_gtFine_labelTrainIds.png"
# Mean and standard deviation of RGB values of 0–255: configs/_base_/datasets/cityscapes.py of
# mmsegmentation, and PaddleSeg's Normalize by its default 0.5 and 0.5 of values of 0–1.
MMSEG_NORMALISE = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
PADDLESEG_NORMALISE = ((127.5, 127.5, 127.5), (127.5, 127.5, 127.5))
# Of (picture [rows, columns, 3], labels [rows, columns], random state): an augmented sample.
Augment = Callable[[Array, Array, np.random.Generator], tuple[Array, Array]]


@dataclass(frozen=True)
class Streets:
    """The pictures of one part, augmented if they are to train on, else whole.

    A sample is uint8 [3, height, width] in RGB and uint8 [height, width].
    """

    folder: Path
    part: str
    names: Array  # CITY/NAME
    classes: int
    augment: Augment | None = None

    def __len__(self) -> int:
        return len(self.names)

    def sample(self, number: int, random: np.random.Generator) -> tuple[Array, Array]:
        """Picture and classes; raises `BrokenSample`."""
        name = decoding.name(self.names[number])
        picture, labels = _pair(self.folder, self.part, name, self.classes)
        if self.augment is not None:
            return self.augment(picture, labels, random)
        return np.ascontiguousarray(picture.transpose(2, 0, 1)), labels


def open_set(folder: Path, augment: Augment | None = None, *, classes: int = CLASSES) -> Files:
    """The data set in `folder`, to be trained on by `augment`; raises `DataError`.

    A sample with a label of `classes` or more (but 255) is broken.
    """
    parts = {}
    sizes = []
    for part in SAMPLES:
        pictures = _listed(_folder(folder, PICTURE, part), PICTURE)
        labels = _listed(_folder(folder, LABELS, part), LABELS)
        if not pictures:
            raise DataError(f"{_folder(folder, PICTURE, part)} has no pictures CITY/*{PICTURE}")
        if missing := sorted(pictures.keys() - labels.keys()):
            raise DataError(f"{_path(folder, PICTURE, part, missing[0])} has no labels in gtFine")
        parts[part] = decoding.names(sorted(pictures))
        for ending, held in ((PICTURE, pictures), (LABELS, labels)):
            sizes += [(str(_path(Path(), ending, part, name)), held[name]) for name in pictures]
    return Files(
        "cityscapes",
        Streets(folder, "train", parts["train"], classes, augment),
        Streets(folder, "val", parts["val"], classes),
        decoding.digest(
            f"{name} {size}\n".encode("utf-8", "surrogateescape") for name, size in sorted(sizes)
        ),
    )


def _pair(folder: Path, part: str, name: str, classes: int) -> tuple[Array, Array]:
    picture = np.asarray(decoding.picture(_path(folder, PICTURE, part, name)))
    path = _path(folder, LABELS, part, name)
    labels = decoding.labels(path)
    if labels.shape != picture.shape[:2]:
        sizes = (f"{array.shape[1]} × {array.shape[0]}" for array in (labels, picture))
        raise BrokenSample(str(path), "it is {}, and its picture {}".format(*sizes))
    strange = (labels >= classes) & (labels != IGNORE)
    if strange.any():
        raise BrokenSample(
            str(path), f"the label {labels[strange][0]} is none of {classes} classes"
        )
    if (labels == IGNORE).all():  # its loss would be 0, or no number
        raise BrokenSample(str(path), f"every label is {IGNORE}: no pixel has a class")
    return picture, labels


def _folder(folder: Path, ending: str, part: str) -> Path:
    return folder / ("leftImg8bit" if ending == PICTURE else "gtFine") / part


def _path(folder: Path, ending: str, part: str, name: str) -> Path:
    return _folder(folder, ending, part) / f"{name}{ending}"


def _listed(folder: Path, ending: str) -> dict[str, int]:
    """The files CITY/NAME`ending`: CITY/NAME and their bytes."""
    held = {}
    try:
        with os.scandir(folder) as cities:
            for city in sorted(city_folder.name for city_folder in cities if city_folder.is_dir()):
                with os.scandir(folder / city) as files:
                    for file in files:
                        if file.name.endswith(ending):
                            held[f"{city}/{file.name[: -len(ending)]}"] = decoding.length(file)
    except OSError as error:
        raise DataError(f"{error.filename or folder}: {error.strerror}") from None
    return held


# --- synthetic scenes ----------------------------------------------------------------------------


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
        labels = blocks(random, self.classes, *self.crop)
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
        labels = blocks(random, self.classes, height, width)
        picture = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        return self.augment(picture, labels, random)


def blocks(random: np.random.Generator, classes: int, height: int, width: int) -> Array:
    """The classes of a scene of any size."""
    block = max(min(height, width) // 4, 1)
    shape = (-(-height // block), -(-width // block))
    coarse = random.integers(0, classes, shape, dtype=np.uint8)
    labels: Array = coarse.repeat(block, 0).repeat(block, 1)[:height, :width].copy()
    labels[height - height // 16 :] = IGNORE
    return labels


# --- augmentations -------------------------------------------------------------------------------
#
# Both upstreams resize by 0.5–2, crop, flip and distort colours. They resize by OpenCV's bilinear
# rule, which mixes the four pixels around a point also where it makes a picture smaller; so do
# Pillow's transformations, of which only the crop is computed. A picture is scaled from its own
# size, where mmsegmentation names 2048 × 1024, that of every picture of Cityscapes. A sample stays
# bytes, which the device normalises.

TRIES, LARGEST_SHARE = 10, 0.75
"""Draws of mmsegmentation's RandomCrop, while one class has this share."""
# Its PhotoMetricDistortion; hue in steps of 2°.
BRIGHTNESS = 32
CONTRAST = (0.5, 1.5)
SATURATION = (0.5, 1.5)
HUE = 18
# RandomDistort of PaddleSeg without arguments; hue in steps of which a full turn has 256.
ENHANCERS = ("Brightness", "Contrast", "Color")
DISTORTION = (0.5, 1.5)
PADDLE_HUE = 18
PADDLE_SCALES = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)


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

    def cut(self, image: Image.Image) -> Image.Image:
        """Return the window of a picture: bilinear; of labels, which have one band, the nearest."""
        across = image.width / self.full[1]
        down = image.height / self.full[0]
        return image.transform(
            (self.width, self.height),
            Image.Transform.AFFINE,
            (across, 0, self.left * across, 0, down, self.top * down),
            Image.Resampling.NEAREST if image.mode == "L" else Image.Resampling.BILINEAR,
        )


def mmseg(
    picture: Array, labels: Array, random: np.random.Generator, crop: tuple[int, int]
) -> tuple[Array, Array]:
    """mmsegmentation's: uint8 [rows, columns, 3] and [rows, columns] to [3, *crop] and [*crop].

    Padding is the nearest colour to the mean instead of the mean.
    """
    image = Image.fromarray(picture)
    classes = Image.fromarray(labels)
    ratio = random.uniform(0.5, 2.0)
    scale = min(int(side * ratio) / side for side in labels.shape)
    height, width = (int(side * scale + 0.5) for side in labels.shape)
    window = Crop.drawn((height, width), crop, random)
    for _ in range(TRIES):
        if _is_mixed(window.cut(classes)):
            break
        window = Crop.drawn((height, width), crop, random)
    image, classes = _flipped(window.cut(image), window.cut(classes), random)
    mean = tuple(round(level) for level in MMSEG_NORMALISE[0])
    return _sample(_distorted(image, random), classes, crop, mean)


def paddleseg(
    picture: Array, labels: Array, random: np.random.Generator, crop: tuple[int, int]
) -> tuple[Array, Array]:
    """PaddleSeg's, of `benchmark/deeplabv3p.yml`: in and out as :func:`mmseg`.

    As there, padding comes first, so that it is flipped and distorted too.
    """
    scale = PADDLE_SCALES[random.integers(len(PADDLE_SCALES))]
    full = (round(scale * labels.shape[0]), round(scale * labels.shape[1]))
    window = Crop.drawn(full, crop, random)
    image = _padded(window.cut(Image.fromarray(picture)), crop, (127,) * 3)
    classes = _padded(window.cut(Image.fromarray(labels)), crop, IGNORE)
    image, classes = _flipped(image, classes, random)
    for chosen in random.permutation(len(ENHANCERS) + 1):
        if random.random() >= 0.5:
            continue
        if chosen < len(ENHANCERS):
            enhancer = getattr(ImageEnhance, ENHANCERS[chosen])(image)
            image = enhancer.enhance(random.uniform(*DISTORTION))
        else:
            image = _coloured(image, random.uniform(-PADDLE_HUE, PADDLE_HUE))
    return _sample(image, classes, crop, 0)


def _is_mixed(classes: Image.Image) -> bool:
    """True for several classes, none with too large a share."""
    counts = classes.histogram()[:IGNORE]
    return sum(map(bool, counts)) > 1 and max(counts) < LARGEST_SHARE * sum(counts)


def _flipped(
    image: Image.Image, classes: Image.Image, random: np.random.Generator
) -> tuple[Image.Image, Image.Image]:
    """Both mirrored in half of the cases."""
    if random.random() >= 0.5:
        return image, classes
    return ImageOps.mirror(image), ImageOps.mirror(classes)


def _distorted(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Distort colours: each change with probability ½, contrast before or after."""
    if random.random() < 0.5:
        brighter = random.uniform(-BRIGHTNESS, BRIGHTNESS)
        image = image.point(_bytes(lambda level: level + brighter) * 3)
    contrast_first = random.random() < 0.5
    if contrast_first:
        image = _contrasted(image, random)
    factor = random.uniform(*SATURATION) if random.random() < 0.5 else 1.0
    turn = int(random.integers(-HUE, HUE)) * 256 / 180 if random.random() < 0.5 else 0.0
    image = _coloured(image, turn, factor)
    return image if contrast_first else _contrasted(image, random)


def _contrasted(image: Image.Image, random: np.random.Generator) -> Image.Image:
    if random.random() >= 0.5:
        return image
    factor = random.uniform(*CONTRAST)
    return image.point(_bytes(lambda level: level * factor) * 3)


def _coloured(image: Image.Image, turn: float, factor: float = 1.0) -> Image.Image:
    """Turn hues, of which the circle has 256; saturation times `factor`."""
    if not turn and factor == 1.0:
        return image
    hue, saturation, value = image.convert("HSV").split()
    hue = hue.point(_bytes(lambda level: (level + turn) % 256))
    saturation = saturation.point(_bytes(lambda level: level * factor))
    return Image.merge("HSV", (hue, saturation, value)).convert("RGB")


def _bytes(change: Callable[[int], float]) -> list[int]:
    """The table byte → changed byte, cut to bytes."""
    return [min(max(int(change(level)), 0), 255) for level in range(256)]


def _padded(image: Image.Image, crop: tuple[int, int], colour: Any) -> Image.Image:
    """On the right and at the bottom, up to the crop's size."""
    height, width = crop
    if image.size == (width, height):
        return image
    padded = Image.new(image.mode, (width, height), colour)
    padded.paste(image)
    return padded


def _sample(
    image: Image.Image, classes: Image.Image, crop: tuple[int, int], colour: Any
) -> tuple[Array, Array]:
    """A picture and its classes as arrays, padded to the crop's size."""
    labels = np.array(_padded(classes, crop, IGNORE))
    return decoding.pixels(_padded(image, crop, colour)), labels
