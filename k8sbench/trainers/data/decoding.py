"""Picture files as RGB, and the list files that name them.

The orientation that EXIF tells is left alone, as torchvision, TSM and PLSC leave it. Needs Pillow.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image, ImageFile

from k8sbench.trainers.parts import samples, watch
from k8sbench.trainers.parts.samples import Array, BrokenSample, DataError

Picture = Image.Image
Opened = ImageFile.ImageFile
T = TypeVar("T")

FORMATS = ("JPEG", "PNG")  # by their content, whatever the file's name ends in
LONGEST = 100  # times the shorter side: resizing a longer picture would take all memory


def picture(path: Path | str) -> Picture:
    """The picture in a file, whatever its colours, as RGB; raises `BrokenSample`."""
    return decoded(_content(path), str(path))


def labels(path: Path) -> Array:
    """Read a PNG picture of classes: uint8 [height, width].

    Raises `BrokenSample`.
    """
    return np.asarray(decoded(_content(path), str(path), _copy_one_byte))


def decoded(data: bytes, name: str, read: Callable[[Opened], Picture] | None = None) -> Picture:
    """Decode a picture, by `read` or to RGB.

    Raises `BrokenSample` with `name`. `read` may raise any error that says what is wrong with the
    picture.
    """
    if not data:
        raise BrokenSample(name, "the file is empty")
    try:
        with _opened(data) as picture_file:
            made = (read or _rgb)(picture_file)
    except Exception as error:  # damaged data make Pillow's decoders raise nearly anything
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "BytesIO" in why:  # which says where the data were, not what is wrong with them
            why = "neither a JPEG nor a PNG picture"
        raise BrokenSample(name, why) from None
    shorter, longer = sorted(made.size)
    if shorter < 2 or longer > LONGEST * shorter:
        sides = "{} × {} pixels".format(*made.size)
        raise BrokenSample(name, f"a picture of {sides} has nothing to learn from")
    return made


def _content(path: Path | str) -> bytes:
    try:
        return samples.content(path)
    except OSError as error:
        raise BrokenSample(str(path), error.strerror or str(error)) from None


def _opened(data: bytes) -> Opened:
    """A picture before it is decoded; raises if its end is lost.

    Pillow would decode trailing zeros as pixels.
    """
    held = io.BytesIO(data)
    opened = Image.open(held, formats=FORMATS)
    if opened.format == "PNG":
        opened.verify()  # its checksums; nothing can be read of it afterwards
        return Image.open(io.BytesIO(data), formats=FORMATS)
    # A preview in the header has an end marker, too. Pillow has read up to the pixels, or, of a
    # file with several pictures, is back at its start.
    if data.find(b"\xff\xd9", held.tell() or data.rfind(b"\xff\xda")) < 0:
        raise ValueError("the picture is truncated: it has no end")
    return opened


def _rgb(picture: Picture) -> Picture:
    if picture.mode.startswith("I"):  # grey of 16 bits, which Pillow would cut at 255
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8)).convert("RGB")
    return picture.convert("RGB")


def _copy_one_byte(picture: Opened) -> Picture:
    if picture.format != "PNG":
        raise ValueError(f"labels are PNG, and {picture.format} changes them")
    stored = picture.tile[0][3]  # grey of fewer bits would be spread over 0-255
    if stored != "L" and picture.mode != "P":
        raise ValueError(f"labels are one byte for each pixel, and here they are {stored}")
    return picture.copy()


def length(entry: os.DirEntry[str]) -> int:
    """Size of a file; -1 for a broken link, which is a broken sample."""
    watch.alive()  # a folder on a network has millions
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return -1


def pixels(image: Picture) -> Array:
    """Uint8 [3, height, width] of RGB.

    Pillow takes the colours apart, which it does faster than numpy.
    """
    bands = [image.tobytes("raw", colour) for colour in "RGB"]
    return np.frombuffer(bytearray().join(bands), np.uint8).reshape(3, image.height, image.width)


def mirrored(image: Picture) -> Picture:
    """Left is right."""
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def shorter_side(image: Picture, size: int) -> Picture:
    """Resized, bilinear, so that the shorter side is `size`."""
    width, height = image.size
    if width <= height:
        to = size, int(size * height / width)
    else:
        to = int(size * width / height), size
    return image.resize(to, Image.Resampling.BILINEAR)


def centre(image: Picture, size: int) -> Picture:
    """The square of `size` pixels in the middle."""
    left, top = (round((side - size) / 2.0) for side in image.size)
    return image.crop((left, top, left + size, top + size))


def lines(path: Path, read: Callable[[str], T], form: str) -> Iterator[T]:
    """Yield `read(line)` for each line with content.

    Raises `DataError`, with the line's number if `read` raises `ValueError`, and for an unreadable
    file.
    """
    text = listing(path).removeprefix(codecs.BOM_UTF8)
    # Of bytes, LF, CR LF and CR alone end a line; of a string, other characters would, too.
    for number, encoded in enumerate(text.splitlines(), 1):
        line = encoded.decode("utf-8", "surrogateescape").strip()
        if line:
            try:
                if "\0" in line:
                    raise ValueError("a NUL")
                yield read(line)
            except ValueError as error:
                why = f"{path}, line {number}: {error}; expected {form}, found {line[:80]!r}"
                raise DataError(why) from None


def listing(path: Path) -> bytes:
    """Content of a file that a whole data set needs; raises `DataError`."""
    try:
        return samples.content(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def whole(text: str) -> int:
    """A number from 0; raises `ValueError`."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def label(text: str, classes: int) -> int:
    """A class's number; raises `ValueError` for one outside 0 … `classes` − 1."""
    number = whole(text)
    if number >= classes:
        raise ValueError(f"class {number} is not one of {classes}")
    return number


@dataclass(frozen=True)
class Listed:
    """Part of a data set with a path and a class per sample."""

    folder: Path
    names: Array
    labels: Array
    # Of (path, number, random state): the input.
    made: Callable[[str, int, np.random.Generator], Array]

    def __len__(self) -> int:
        return len(self.names)

    def path(self, number: int) -> str:
        """Path of sample `number`."""
        return f"{self.folder}/{name(self.names[number])}"

    def sample(self, number: int, random: np.random.Generator) -> tuple[Array, Array]:
        """Input and class; raises `BrokenSample`."""
        return self.made(self.path(number), number, random), np.asarray(self.labels[number])


def names(texts: Iterable[str]) -> Array:
    """Pack paths as bytes into one array.

    Every loader process would copy millions of objects.
    """
    return np.array([name.encode("utf-8", "surrogateescape") for name in texts], dtype=np.bytes_)


def name(encoded_name: bytes) -> str:
    """A path of :func:`names`."""
    return bytes(encoded_name).decode("utf-8", "surrogateescape")


def digest(parts: Iterable[bytes]) -> str:
    """SHA-256 of all parts, hex."""
    made = hashlib.sha256()
    for part in parts:
        made.update(part)
    return made.hexdigest()
