"""mmsegmentation's augmentations of street scenes, as its 0.11 has them for Cityscapes.

Resize by 0.5–2, crop, flip, distort brightness, contrast, saturation and hue, normalise, pad. Two
things differ: a picture is scaled from its own size, where upstream names 2048 × 1024, that of
every picture of Cityscapes; and a sample stays bytes, which the device normalises, so that padding
is the nearest colour to the mean instead of the mean. (A picture of Cityscapes is never padded: at
half its size it is as large as the crop.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from k8sbench.trainers.data.streets import Crop
from k8sbench.trainers.parts.samples import Array
from k8sbench.trainers.parts.segmentation import IGNORE

# Mean and standard deviation of RGB values of 0–255: configs/_base_/datasets/cityscapes.py.
NORMALISE = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
SCALES = (0.5, 2.0)
# RandomCrop: so often another window is drawn where one class has this share or more of it.
TRIES, LARGEST_SHARE = 10, 0.75
# PhotoMetricDistortion.
BRIGHTNESS, CONTRAST, SATURATION, HUE = 32, (0.5, 1.5), (0.5, 1.5), 18


def augmented(
    picture: Array, labels: Array, random: np.random.Generator, crop: tuple[int, int]
) -> tuple[Array, Array]:
    """Uint8 [rows, columns, 3] and [rows, columns]: uint8 [3, *crop] in RGB and [*crop]."""
    full = _resized((labels.shape[0], labels.shape[1]), random.uniform(*SCALES))
    window = Crop.drawn(full, crop, random)
    classes = window.nearest(labels)
    for _ in range(TRIES):
        if _mixed(classes):
            break
        window = Crop.drawn(full, crop, random)
        classes = window.nearest(labels)
    image = window.bilinear(picture)
    if random.random() < 0.5:
        image, classes = image[:, :, ::-1], classes[:, ::-1]
    return _padded(distorted(image, random), classes, crop)


def _resized(size: tuple[int, int], ratio: float) -> tuple[int, int]:
    """Return the largest size within the scaled size, cut to whole numbers."""
    scale = min(int(side * ratio) / side for side in size)
    height, width = (int(side * scale + 0.5) for side in size)
    return height, width


def _mixed(classes: Array) -> bool:
    """True for several classes, none with too large a share."""
    counts = np.bincount(classes.ravel(), minlength=IGNORE + 1)[:IGNORE]
    return bool(np.count_nonzero(counts) > 1 and counts.max() / counts.sum() < LARGEST_SHARE)


def distorted(image: Array, random: np.random.Generator) -> Array:
    """Distort colours: each change with probability ½, contrast before or after."""
    tables = []  # of what comes before the colours: brightness, perhaps contrast
    if random.random() < 0.5:
        tables.append(_table(1.0, random.uniform(-BRIGHTNESS, BRIGHTNESS)))
    contrast_first = random.random() < 0.5
    if contrast_first and random.random() < 0.5:
        tables.append(_table(random.uniform(*CONTRAST)))
    image = _translated(image, tables)
    if random.random() < 0.5:
        image = saturation_times(image, random.uniform(*SATURATION))
    if random.random() < 0.5:
        image = hue_plus(image, int(random.integers(-HUE, HUE)))
    if not contrast_first and random.random() < 0.5:
        image = _translated(image, [_table(random.uniform(*CONTRAST))])
    return image


def _table(factor: float, offset: float = 0.0) -> Array:
    """Return the table byte → scaled byte, cut to bytes."""
    values = np.arange(256, dtype=np.float32) * factor + offset
    return values.clip(0, 255).astype(np.uint8)


def _translated(image: Array, tables: list[Array]) -> Array:
    """Each byte by all tables, one after the other."""
    if not tables:
        return image
    table = reduce(lambda before, after: after[before], tables)
    translated = bytearray(image.tobytes()).translate(table.tobytes())
    return np.frombuffer(translated, np.uint8).reshape(image.shape)


def _padded(image: Array, classes: Array, crop: tuple[int, int]) -> tuple[Array, Array]:
    """On the right and at the bottom, up to the crop's size."""
    height, width = classes.shape
    if (height, width) == crop:
        return np.ascontiguousarray(image), np.ascontiguousarray(classes)
    mean = np.rint(NORMALISE[0]).astype(np.uint8)
    pixels = np.empty((3, *crop), np.uint8)
    pixels[:] = mean[:, None, None]
    pixels[:, :height, :width] = image
    labels = np.full(crop, IGNORE, np.uint8)
    labels[:height, :width] = classes
    return pixels, labels


# --- hue and saturation of bytes as OpenCV has them ----------------------------------------------
#
# Hue in 180 steps of 2°, all cut to whole numbers. Pictures and results are uint8 [3, height,
# width] in RGB.

HUES = 180
ROWS = 16  # computed at a time, so that what they need stays in the processor's cache
_BITS = 12  # after the point, of OpenCV's whole-number arithmetic
_ONE = 1 << _BITS
_HALF = _ONE // 2


def saturation_times(image: Array, factor: float) -> Array:
    """Saturations times `factor`, cut at 255 and to whole numbers."""

    def change(hue: Array, saturation: Array) -> tuple[Array, Array]:
        saturation *= np.float32(factor)
        np.minimum(saturation, 255, out=saturation)
        return hue, np.floor(saturation, out=saturation)

    return _changed(image, change)


def hue_plus(image: Array, steps: int) -> Array:
    """Hues turned by `steps` of 2°."""

    def change(hue: Array, saturation: Array) -> tuple[Array, Array]:
        hue += steps % HUES
        hue -= (hue >= HUES) * np.int32(HUES)
        return hue, saturation

    return _changed(image, change)


def _changed(image: Array, change: Callable[[Array, Array], tuple[Array, Array]]) -> Array:
    made = np.empty_like(image)
    for start in range(0, image.shape[1], ROWS):
        part = image[:, start : start + ROWS]
        highest = np.maximum(np.maximum(part[0], part[1]), part[2])
        hue, saturation = change(*_of_rgb(part, highest))
        _to_rgb(hue, saturation, highest, out=made[:, start : start + ROWS])
    return made


def _of_rgb(part: Array, value: Array) -> tuple[Array, Array]:
    """Hue (int32, 0–179) and saturation (float32, 0–255)."""
    spread = value - np.minimum(np.minimum(part[0], part[1]), part[2])
    # float32 holds these products exactly: both are at most 255 << 12.
    saturation = np.rint(255 * _ONE / np.maximum(value, 1).astype(np.float32))
    saturation *= spread
    saturation += _HALF
    saturation *= 1 / _ONE
    np.floor(saturation, out=saturation)

    red, green, blue = part.astype(np.int16)
    wide = spread.astype(np.int16)
    hue = np.where(
        part[0] == value,
        green - blue,
        np.where(part[1] == value, blue - red + 2 * wide, red - green + 4 * wide),
    ).astype(np.int32)
    sixths = np.rint((HUES * _ONE / 6) / np.maximum(spread, 1).astype(np.float32))
    hue *= sixths.astype(np.int32)
    hue += _HALF
    hue >>= _BITS
    hue += (hue < 0) * np.int32(HUES)
    return hue, saturation


def _to_rgb(hue: Array, saturation: Array, value: Array, *, out: Array) -> None:
    turn = hue * np.float32(6 / HUES)
    high = value * np.float32(1 / 255)
    depth = saturation
    depth *= np.float32(1 / 255)
    depth *= high
    # How far each colour is below the highest, as a share of `depth`: 0 within 60° of its own hue.
    for colour, sign, centre, offset in ((0, -1, 3, 2), (1, 1, 2, -1), (2, 1, 4, -1)):
        share = turn - np.float32(centre)
        np.abs(share, out=share)
        share *= sign
        share += offset
        np.clip(share, 0, 1, out=share)
        share *= depth
        np.subtract(high, share, out=share)
        share *= 255
        out[colour] = share  # cut: as OpenCV's vector instructions do; its plain code rounds
