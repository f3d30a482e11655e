"""Small data sets that are drawn, in the folder form of each real one.

They exist for checks: loaders and trainers work on them as on the real files, and a small model
learns them in seconds. What tells a class survives the training augmentations of its benchmark:
crops, flips and, in street scenes, distortion of brightness and colour. Equal arguments give equal
pictures. A speed or an accuracy on them says nothing of the real sets.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from k8sbench.trainers.data.cityscapes import blocks
from k8sbench.trainers.parts.samples import Array
from k8sbench.trainers.parts.segmentation import IGNORE

Size = tuple[int, int]  # height, width

# Train ids of Cityscapes that the scenes hold: road, vegetation, sky, car. Few, so that their
# colours stay apart where hues are turned.
STREET_CLASSES = (0, 8, 10, 13)
CITIES = {"train": ("aachen", "bochum"), "val": ("lindau",)}
PICTURE_CLASSES = 8
CLIP_CLASSES = 4
CLIP_FRAMES = 12
IDENTITIES = 8
TOKENS = 256
_TRAIN, _VAL = range(2)  # what a random state is for


def _random(seed: int, purpose: int, number: int) -> np.random.Generator:
    return np.random.default_rng((seed, purpose, number))


def _parts(pictures: int, classes: int = 2) -> tuple[tuple[str, int, int], ...]:
    return (("train", _TRAIN, pictures), ("val", _VAL, _validation(pictures, classes)))


def _validation(pictures: int, classes: int = 2) -> int:
    return max(pictures // 4, min(classes, pictures))


def _encoded(pixels: Array, form: str) -> bytes:
    held = io.BytesIO()
    # Chroma at full resolution: the classes of small pictures are told by colour.
    options = {"quality": 92, "subsampling": 0} if form == "JPEG" else {}
    Image.fromarray(pixels).save(held, form, **options)
    return held.getvalue()


def _write(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def _noisy(pixels: Array, random: np.random.Generator, spread: float = 8) -> Array:
    noise = random.normal(0, spread, pixels.shape)
    return np.asarray((pixels + noise).clip(0, 255), np.uint8)


def cityscapes(folder: Path, *, pictures: int = 16, size: Size = (64, 128), seed: int = 0) -> None:
    """Write street scenes: `pictures` to train on, a quarter to validate.

    ``leftImg8bit/{train,val}/CITY/*.png`` and their ``gtFine`` labels as train ids.
    """
    for part, purpose, count in _parts(pictures):
        for number in range(count):
            city = CITIES[part][number % len(CITIES[part])]
            name = f"{part}/{city}/{city}_{number:06d}_000019"
            picture, labels = _scene(size, _random(seed, purpose, number))
            _write(folder / f"leftImg8bit/{name}_leftImg8bit.png", _encoded(picture, "PNG"))
            _write(folder / f"gtFine/{name}_gtFine_labelTrainIds.png", _encoded(labels, "PNG"))


def _scene(size: Size, random: np.random.Generator) -> tuple[Array, Array]:
    """Blocks of the classes, each in its colour."""
    drawn = blocks(random, len(STREET_CLASSES), *size)
    labels = np.full(256, IGNORE, np.uint8)
    colours = np.zeros((256, 3))
    for number, label in enumerate(STREET_CLASSES):
        labels[number], colours[number] = label, _hue(number / len(STREET_CLASSES))
    return _noisy(colours[drawn], random), labels[drawn]


def imagenet(folder: Path, *, pictures: int = 64, size: Size = (64, 80), seed: int = 0) -> None:
    """Write pictures of :data:`PICTURE_CLASSES` classes: ``{train,val}/CLASS/*.JPEG``.

    A class is a colour and a pattern that look the same in any crop and mirrored. Each class that
    is trained on has a picture to validate.
    """
    for part, purpose, count in _parts(pictures, PICTURE_CLASSES):
        for number in range(count):
            label = number % PICTURE_CLASSES
            pixels = _pattern(size, label, PICTURE_CLASSES, _random(seed, purpose, number))
            name = f"n{label + 1:08d}"
            _write(folder / f"{part}/{name}/{name}_{number}.JPEG", _encoded(pixels, "JPEG"))


def _pattern(size: Size, label: int, classes: int, random: np.random.Generator) -> Array:
    """A field of one hue, crossed by darker stripes: horizontal, vertical, both or none."""
    rows, columns = np.mgrid[0 : size[0], 0 : size[1]]
    period = random.integers(8, 13)
    offset = random.integers(8)
    lying = (rows + offset) % period < 3
    standing = (columns + offset) % period < 3
    stripes = (lying, standing, lying | standing, lying & False)[label % 4]
    field = np.tile(_hue(label / classes) * random.uniform(0.75, 1.0), (*size, 1))
    field[stripes] *= 0.45
    return _noisy(field, random)


def _hue(turn: float) -> Array:
    """Return a bright colour by its share of the colour circle."""
    angles = 2 * np.pi * (turn - np.arange(3) / 3)
    return np.asarray(140 + 100 * np.cos(angles))


def kinetics(folder: Path, *, pictures: int = 16, size: Size = (48, 64), seed: int = 0) -> None:
    """Write clips of :data:`CLIP_FRAMES` frames: `pictures` of them to train on.

    ``labels/{train,val}_videofolder.txt`` and ``images/PATH/img_00001.jpg`` …; a class is the
    pattern of a picture whose stripes move down from frame to frame.
    """
    for part, purpose, count in _parts(pictures):
        lines = []
        for number in range(count):
            random = _random(seed, purpose, number)
            label = number % CLIP_CLASSES
            path = f"class_{label}/{part}_{number:04d}"
            first = _pattern(size, label, CLIP_CLASSES, random)
            for frame in range(CLIP_FRAMES):
                pixels = np.roll(first, 2 * frame, axis=0)
                data = _encoded(pixels, "JPEG")
                _write(folder / f"images/{path}/img_{frame + 1:05d}.jpg", data)
            lines.append(f"{path} {CLIP_FRAMES} {label}\n")
        _write(folder / f"labels/{part}_videofolder.txt", "".join(lines))


def faces(folder: Path, *, pictures: int = 64, size: Size = (112, 112), seed: int = 0) -> None:
    """Write pictures of :data:`IDENTITIES` people: ``train.txt``, its pictures, and ``lfw.bin``.

    A person is a colour and a pattern, as a class of :func:`imagenet` is. The pairs are new
    pictures of the same people, so that a check needs few steps; LFW's people are not among those
    that a real set trains on. Their number is a multiple of 2 × 10: half of each of the ten folds
    are of one person.
    """
    people = min(IDENTITIES, max(2, pictures // 2))
    lines = []
    for number in range(pictures):
        who = number % people
        path = f"images/id_{who:03d}/{number:05d}.jpg"
        pixels = _pattern(size, who, IDENTITIES, _random(seed, _TRAIN, number))
        _write(folder / path, _encoded(pixels, "JPEG"))
        lines.append(f"{path}\t{who}\n")
    _write(folder / "train.txt", "".join(lines))
    # Of ten folds, each with as many equal as different pairs.
    pairs = 20 * max(1, _validation(pictures) // 20)
    encoded = []
    same = []
    for pair in range(pairs):
        random = _random(seed, _VAL, pair)
        person = pair // 2 % people
        equal = pair % 2 == 0
        other = person if equal else (person + 1 + int(random.integers(people - 1))) % people
        both = [_pattern(size, who, IDENTITIES, random) for who in (person, other)]
        encoded += [_encoded(pixels, "JPEG") for pixels in both]
        same.append(equal)
    # Protocol 2: what the published .bin files have, and any Python reads.
    _write(folder / "lfw.bin", pickle.dumps((encoded, same), protocol=2))


def tokens(folder: Path, *, pictures: int = 16, size: Size = (1, 1024), seed: int = 0) -> None:
    """Write ``train.bin``, `pictures` sequences of height × width tokens, and ``val.bin``.

    A token follows from the one before it in three of four places.
    """
    for part, purpose, count in _parts(pictures):
        random = _random(seed, purpose, 0)
        stream = random.integers(TOKENS, size=count * size[0] * size[1] + 1)
        for place in np.flatnonzero(random.random(len(stream) - 1) < 0.75):
            stream[place + 1] = (5 * stream[place] + 1) % TOKENS
        _write(folder / f"{part}.bin", stream.astype("<u2").tobytes())


SETS: dict[str, Callable[..., None]] = {
    "cityscapes": cityscapes,
    "imagenet": imagenet,
    "kinetics": kinetics,
    "faces": faces,
    "tokens": tokens,
}
"""Data set → its writer, with default number and size of pictures."""
