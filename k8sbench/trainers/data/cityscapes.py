"""Cityscapes in a folder: pictures in leftImg8bit, their classes as train ids in gtFine.

DIR/leftImg8bit/{train,val}/CITY/NAME_leftImg8bit.png has its labels in
DIR/gtFine/{train,val}/CITY/NAME_gtFine_labelTrainIds.png: one byte for each pixel, 0–18 for a class
and 255 for none.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from k8sbench.trainers.data import decoding
from k8sbench.trainers.data.streets import Augment
from k8sbench.trainers.parts.samples import Array, BrokenSample, DataError, Files
from k8sbench.trainers.parts.segmentation import IGNORE

SAMPLES = {"train": 2975, "val": 500}  # of the published set
CLASSES = 19
PICTURE, LABELS = "_leftImg8bit.png", "_gtFine_labelTrainIds.png"


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
    parts, sizes = {}, []
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
