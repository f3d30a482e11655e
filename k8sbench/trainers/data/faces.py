"""Faces in the format of PLSC and InsightFace.

A list of pictures to train on, and pairs to verify.

DIR/train.txt, or PLSC's DIR/label.txt, has a picture per line, its path below DIR and its class,
with a tab or a space between; DIR/lfw.bin is a pickle of a list of encoded pictures, two for each
pair, and a list that tells of each pair whether both are of one person. Pictures are aligned
already: they are mirrored in half of the cases and not resized.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from k8sbench.trainers.data import decoding
from k8sbench.trainers.parts.metrics import FOLDS
from k8sbench.trainers.parts.samples import Array, BrokenSample, DataError, Files
from k8sbench.trainers.parts.weights import Arrays

CLASSES = 85_742
SIZE = 112  # pixels a side
SAMPLES = {"train": 5_822_653, "val": 6_000}  # pictures and pairs of the published set
FORM = "PATH, a tab or a space, and LABEL"


def to_train(image: decoding.Picture, random: np.random.Generator) -> Array:
    """Mirrored or not: uint8 [3, size, size]."""
    return decoding.pixels(decoding.mirrored(image) if random.random() < 0.5 else image)


def _checked(image: decoding.Picture, size: int, name: str) -> decoding.Picture:
    if image.size != (size, size):
        raise BrokenSample(name, "{}x{} pixels, not {size}x{size}".format(*image.size, size=size))
    return image


def _made(path: str, _: int, random: np.random.Generator, *, size: int) -> Array:
    return to_train(_checked(decoding.picture(path), size, path), random)


@dataclass(frozen=True)
class Pairs:
    """Pairs of a .bin file: uint8 [2, 3, size, size], 1 for one person."""

    path: Path
    encoded: list[bytes]
    same: Array
    size: int

    def __len__(self) -> int:
        return len(self.same)

    def sample(self, number: int, random: np.random.Generator) -> tuple[Array, Array]:
        """Both pictures of pair `number`, as they are."""
        del random
        both = [self.picture(2 * number + second) for second in (0, 1)]
        return np.stack(both), np.asarray(self.same[number].astype(np.int64))

    def picture(self, number: int) -> Array:
        """One picture; raises `BrokenSample`."""
        name = f"{self.path}, picture {number + 1}"
        image = decoding.decoded(self.encoded[number], name)
        return decoding.pixels(_checked(image, self.size, name))


def open_set(folder: Path, *, size: int = SIZE, classes: int = CLASSES) -> Files:
    """The data set in `folder`, whose pictures have `size` pixels a side; raises `DataError`.

    Its digest is that of the list and of the pairs: the pictures are too many to be asked for.
    """
    listed = _listed(folder, classes)
    pairs = read_pairs(folder / "lfw.bin", size)
    if len(pairs) < FOLDS:
        raise DataError(f"{pairs.path} has {len(pairs)} pairs; an accuracy takes at least {FOLDS}")
    names, labels = zip(*listed, strict=True)
    return Files(
        "faces",
        decoding.Listed(
            folder,
            decoding.names(names),
            np.array(labels, dtype=np.int64),
            partial(_made, size=size),
        ),
        pairs,
        decoding.digest(map(decoding.listing, (_list(folder), pairs.path))),
    )


def _list(folder: Path) -> Path:
    own = folder / "train.txt"
    plsc = folder / "label.txt"
    return plsc if plsc.exists() and not own.exists() else own


def _listed(folder: Path, classes: int) -> list[tuple[str, int]]:
    def read(line: str) -> tuple[str, int]:
        path, _, label = line.replace("\t", " ").rpartition(" ")
        if not path:
            raise ValueError("one field")
        return line[: len(path)].rstrip(), decoding.label(label, classes)

    path = _list(folder)
    entries = list(decoding.lines(path, read, FORM))
    if not entries:
        raise DataError(f"{path} has no pictures")
    return entries


def read_pairs(path: Path, size: int) -> Pairs:
    """Read the pairs of a .bin file; raises `DataError`.

    Pickled objects other than data are refused.
    """
    data = decoding.listing(path)
    try:
        encoded, same = Arrays(io.BytesIO(data), encoding="bytes").load()
        pictures = [bytes(memoryview(item)) for item in encoded]
        told = [bool(item) for item in same]
    except Exception as error:  # damaged data make pickle raise nearly anything
        raise DataError(
            f"{path} is no pickle of a list of pictures and a list of truth values: {error}"
        ) from None
    if not told or len(pictures) != 2 * len(told):
        raise DataError(f"{path} has {len(pictures)} pictures for {len(told)} pairs, not two each")
    return Pairs(path, pictures, np.array(told), size)
