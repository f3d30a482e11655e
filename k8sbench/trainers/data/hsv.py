"""Hue and saturation of bytes as OpenCV has them: hue in 180 steps of 2°, all cut to whole numbers.

Pictures are uint8 [3, height, width] in RGB, and so are results.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from k8sbench.trainers.parts.samples import Array

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
