"""ImageNet as folders of classes, DIR/{train,val}/CLASS/*.JPEG, and its augmentations.

They are those of torchvision and of the PyTorch loader of NVIDIA's DeepLearningExamples: a crop of
8–100 % of the area and of a shape of 3:4 to 4:3, resized by Pillow's bilinear rule, mirrored in
half of the cases; to validate, the middle of the picture whose shorter side is 256. The loader of
the report, DALI, tries 100 crops instead of 10 before it takes the middle, and does not average
pixels when it makes a crop smaller.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from k8sbench.trainers.data import decoding
from k8sbench.trainers.parts.samples import Array, DataError, Files

ENDINGS = (".jpeg", ".jpg", ".png")
CLASSES = 1000
SAMPLES = {"train": 1_281_167, "val": 50_000}
AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
TRIES = 10


def crop_box(width: int, height: int, random: np.random.Generator) -> tuple[int, int, int, int]:
    """A random part of a picture to train on: left, top, right, bottom."""
    for _ in range(TRIES):
        area = width * height * random.uniform(*AREA)
        ratio = math.exp(random.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        columns = round(math.sqrt(area * ratio))
        rows = round(math.sqrt(area / ratio))
        if 0 < columns <= width and 0 < rows <= height:
            top = int(random.integers(height - rows + 1))
            left = int(random.integers(width - columns + 1))
            return left, top, left + columns, top + rows
    # All of the picture, or the middle of one that is too long.
    columns = min(width, round(height * RATIO[1]))
    rows = min(height, round(width / RATIO[0]))
    left = (width - columns) // 2
    top = (height - rows) // 2
    return left, top, left + columns, top + rows


def to_train(image: decoding.Picture, size: int, random: np.random.Generator) -> Array:
    """A random part of `image`, resized and mirrored or not: uint8 [3, size, size]."""
    box = crop_box(*image.size, random)
    mirrored = random.random() < 0.5
    part = image.crop(box).resize((size, size), Image.Resampling.BILINEAR)
    return decoding.pixels(decoding.mirrored(part) if mirrored else part)


def to_validate(image: decoding.Picture, size: int) -> Array:
    """The middle of `image`: uint8 [3, size, size]."""
    return decoding.pixels(decoding.centre(decoding.shorter_side(image, size * 256 // 224), size))


def _made(path: str, _: int, random: np.random.Generator, *, size: int, training: bool) -> Array:
    image = decoding.picture(path)
    return to_train(image, size, random) if training else to_validate(image, size)


def open_set(folder: Path, *, size: int = 224, classes: int = CLASSES) -> Files:
    """The data set in `folder`, by pictures of `size` pixels; raises `DataError`.

    A class is numbered by the place of its folder among those in DIR/train, in order of names; at
    most `classes` of them fit the model.
    """
    listings = {part: _classes(folder / part) for part in SAMPLES}
    known = listings["train"]
    if len(known) > classes:
        raise DataError(
            f"{folder / 'train'} has {len(known)} classes, more than the model's {classes}"
        )
    if unknown := sorted(set(listings["val"]) - set(known)):
        raise DataError(f"{folder}: val has the class {unknown[0]}, which train has not")

    def part(name: str, *, training: bool) -> decoding.Listed:
        names = []
        labels = []
        for kind, pictures in listings[name].items():
            names += [f"{kind}/{picture}" for picture, _ in pictures]
            labels += [list(known).index(kind)] * len(pictures)
        if not names:
            raise DataError(f"{folder / name} has no pictures")
        return decoding.Listed(
            folder / name,
            decoding.names(names),
            np.array(labels, dtype=np.int64),
            partial(_made, size=size, training=training),
        )

    listed = (
        f"{name}/{kind}/{picture} {length}\n"
        for name in sorted(listings)
        for kind, pictures in listings[name].items()
        for picture, length in pictures
    )
    return Files(
        "imagenet",
        part("train", training=True),
        part("val", training=False),
        decoding.digest(line.encode("utf-8", "surrogateescape") for line in listed),
    )


def _classes(folder: Path) -> dict[str, list[tuple[str, int]]]:
    """Return a part's classes by name, each with names and sizes of pictures."""
    try:
        kinds = sorted(entry.name for entry in _entries(folder) if entry.is_dir())
        # Many at a time: a folder on a network takes its time for each.
        with ThreadPoolExecutor(16) as pool:
            listed = list(pool.map(_pictures, [folder / kind for kind in kinds]))
    except OSError as error:
        raise DataError(f"{error.filename or folder}: {error.strerror}") from None
    if not kinds:
        raise DataError(f"{folder} has no folders of classes")
    return dict(zip(kinds, listed, strict=True))


def _entries(folder: Path) -> Iterable[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return [entry for entry in entries if not entry.name.startswith(".")]


def _pictures(folder: Path) -> list[tuple[str, int]]:
    return sorted(
        (entry.name, decoding.length(entry))
        for entry in _entries(folder)
        if entry.name.lower().endswith(ENDINGS)
    )
