"""Plain references of what Pillow and upstream's augmentations do, written from their rules."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Array = np.ndarray[Any, np.dtype[Any]]


def coordinates(height: int, width: int) -> Array:
    """Return a noisy picture; red grows to the right, green grows downwards."""
    rows, columns = np.mgrid[0:height, 0:width]
    blue = np.random.default_rng(0).integers(0, 256, (height, width))
    return np.stack([columns * 200 // width, rows * 200 // height, blue], 2).astype(np.uint8)


def triangle(pixels: Array, height: int, width: int) -> Array:
    """Resize bilinearly, each side separately, with bytes in between.

    The filter grows with the reduction. Nearly Pillow's, which computes with whole numbers: see
    :func:`near`.
    """
    for axis, size in ((1, width), (0, height)):
        scale = pixels.shape[axis] / size
        reach = max(scale, 1.0)
        places = np.arange(pixels.shape[axis]) + 0.5
        middles = (np.arange(size) + 0.5) * scale
        weights = np.clip(1 - np.abs(places[None] - middles[:, None]) / reach, 0, None)
        weights /= weights.sum(1, keepdims=True)
        mixed = np.tensordot(weights, pixels.astype(float), axes=(1, axis))
        pixels = np.floor(np.moveaxis(mixed, 0, axis) + 0.5 + 1e-6)
    return pixels.astype(np.uint8)


def interpolated(values: Array, axis: int, size: int) -> Array:
    """Bilinear along one axis: each point between its two neighbours, corners not aligned."""
    at = (np.arange(size) + 0.5) * values.shape[axis] / size - 0.5
    places = np.arange(values.shape[axis])
    lines = np.moveaxis(values, axis, -1)
    made = [np.interp(at, places, line) for line in lines.reshape(-1, len(places))]
    return np.moveaxis(np.array(made).reshape(*lines.shape[:-1], size), -1, axis)


def near(found: Array, told: Array) -> bool:
    """Return True if bytes are equal up to two roundings of :func:`triangle`."""
    away = np.abs(found.astype(int) - told.astype(int))
    return form(found) == form(told) and bool(away.max() <= 2 and away.mean() < 0.1)


def middle(pixels: Array, shorter: int, size: int) -> Array:
    """Resize the shorter side to `shorter`; crop the middle `size` pixels."""
    height, width = pixels.shape[:2]
    if width <= height:
        resized = triangle(pixels, int(shorter * height / width), shorter)
    else:
        resized = triangle(pixels, shorter, int(shorter * width / height))
    top = round((resized.shape[0] - size) / 2)
    left = round((resized.shape[1] - size) / 2)
    return resized[top : top + size, left : left + size]


def channels_first(pixels: Array) -> Array:
    return pixels.transpose(2, 0, 1)


def form(array: Array) -> str:
    return f"{array.dtype} {array.shape}"


def saved(path: Path, pixels: Array, form: str = "PNG") -> Path:
    """Save a picture; PNG is lossless, whatever the file is called."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(pixels, form))
    return path


def encoded(pixels: Array, form: str = "PNG") -> bytes:
    held = io.BytesIO()
    Image.fromarray(pixels).save(held, form)
    return held.getvalue()
