"""Data sets of full-size pictures, generated, whose files cost a decoder what photos cost.

A picture is smooth noise of many wavelengths and a little grain: so much of it that files are about
as large as those of the real sets (`BYTES`).
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Array = np.ndarray[Any, np.dtype[Any]]

# Of a file, on average, in the real sets. Cityscapes: 11 GB of 5,000 pictures; ImageNet: 138 GB of
# 1,281,167. A frame and a face are guesses from the usual quality, 90-95.
BYTES = {"cityscapes": 2_300_000, "imagenet": 108_000, "kinetics": 22_000, "faces": 5_000}
FRAMES = 24


def texture(height: int, width: int, rough: float, grain: float, seed: int) -> Array:
    """Uint8 [height, width, 3]; the more `rough`, the more there is of short wavelengths."""
    random = np.random.default_rng(seed)
    made = np.zeros((height, width, 3), np.float32)
    wavelength = 2
    while wavelength < min(height, width):
        coarse = random.standard_normal((height // wavelength + 2, width // wavelength + 2, 3))
        for colour in range(3):
            wave = Image.fromarray(coarse[:, :, colour].astype(np.float32))
            smooth = wave.resize((width, height), Image.Resampling.BICUBIC)
            made[:, :, colour] += np.asarray(smooth) * wavelength ** (1 - rough)
        wavelength *= 2
    made *= 45 / made.std()
    made += 128 + grain * random.standard_normal(made.shape, dtype=np.float32)
    return made.clip(0, 255).astype(np.uint8)


def encoded(pixels: Array, form: str) -> bytes:
    """As a file holds it; JPEG with quality 95, as most of ImageNet has it."""
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, form, **({"quality": 95} if form == "JPEG" else {}))
    return data.getvalue()


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def cityscapes(folder: Path, count: int) -> None:
    """Pictures of 2048x1024, and labels in large areas of one class with uneven edges."""
    for number in range(count):
        pixels = texture(1024, 2048, 0.25, 1.0, number)
        areas = texture(1024, 2048, -0.5, 0.0, 1000 + number)[:, :, 0] // 14
        for part in ("train", "val"):
            name = f"{part}/aachen/{number:03d}"
            _write(folder / f"leftImg8bit/{name}_leftImg8bit.png", encoded(pixels, "PNG"))
            labels = encoded(areas.astype(np.uint8), "PNG")
            _write(folder / f"gtFine/{name}_gtFine_labelTrainIds.png", labels)


def imagenet(folder: Path, count: int) -> None:
    """Pictures of 500x375."""
    for number in range(count):
        data = encoded(texture(375, 500, 0.6, 6.0, number), "JPEG")
        for part in ("train", "val"):
            _write(folder / part / "n01440764" / f"{number:04d}.JPEG", data)


def kinetics(folder: Path, count: int) -> None:
    """Clips of 24 frames of 340x256."""
    lines = []
    for number in range(count):
        for frame in range(FRAMES):
            data = encoded(texture(256, 340, 0.3, 1.0, number * FRAMES + frame), "JPEG")
            _write(folder / f"images/clip_{number}/img_{frame + 1:05d}.jpg", data)
        lines.append(f"clip_{number} {FRAMES} 0\n")
    for part in ("train", "val"):
        _write(folder / f"labels/{part}_videofolder.txt", "".join(lines).encode())


def faces(folder: Path, count: int) -> None:
    """Faces of 112x112."""
    data = [encoded(texture(112, 112, 0.4, 2.0, number), "JPEG") for number in range(count)]
    for number, each in enumerate(data):
        _write(folder / f"images/{number:05d}.jpg", each)
    lines = (f"images/{number:05d}.jpg\t0\n" for number in range(count))
    _write(folder / "train.txt", "".join(lines).encode())
    _write(folder / "lfw.bin", pickle.dumps((data[:2], [True]), protocol=2))


WRITERS: dict[str, tuple[Callable[[Path, int], None], int]] = {
    "cityscapes": (cityscapes, 4),
    "imagenet": (imagenet, 48),
    "kinetics": (kinetics, 6),
    "faces": (faces, 256),
}
"""Of each data set, and how many samples of it are enough."""
