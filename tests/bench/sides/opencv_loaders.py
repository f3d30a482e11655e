"""The pipelines of our loaders with OpenCV, as mmcv's and PaddleSeg's transforms use it.

Pictures are BGR until the end, as there; PaddleSeg's colours are Pillow's there too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from k8sbench.trainers.data import imagenet, kinetics
from k8sbench.trainers.data import streets_paddleseg as colours
from tests.bench.sides.plain_loaders import (
    CROP,
    SIZE,
    Array,
    Pipeline,
    chosen_frames,
    is_mixed,
    window,
)

cv2.setNumThreads(0)
VERSION = cv2.__version__


def _decoded(path: Path, flag: int = cv2.IMREAD_COLOR) -> Array:
    found = cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), flag)
    assert found is not None
    return found


def _channels_first(image: Array) -> Array:
    return np.ascontiguousarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB).transpose(2, 0, 1))


def _scaled(paths: Sequence[Path], ratio: float) -> tuple[Array, Array]:
    image, labels = _decoded(paths[0]), _decoded(paths[1], cv2.IMREAD_UNCHANGED)
    full = int(image.shape[1] * ratio + 0.5), int(image.shape[0] * ratio + 0.5)
    image = cv2.resize(image, full, interpolation=cv2.INTER_LINEAR)
    return image, cv2.resize(labels, full, interpolation=cv2.INTER_NEAREST)


def _cut(array: Array, box: imagenet.Box) -> Array:
    return array[box[1] : box[3], box[0] : box[2]]


def _flipped(image: Array, random: np.random.Generator) -> Array:
    return cv2.flip(image, 1) if random.random() < 0.5 else image


def streets_mmseg(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """mmsegmentation's steps."""
    image, labels = _scaled(paths, random.uniform(0.5, 2.0))
    size = image.shape[1], image.shape[0]
    box = window(size, random)
    for _ in range(10):
        if is_mixed(_cut(labels, box)):
            break
        box = window(size, random)
    image, labels = _cut(image, box), _cut(labels, box)
    if random.random() < 0.5:
        image, labels = cv2.flip(image, 1), cv2.flip(labels, 1)
    return _channels_first(_distorted(image, random)), np.ascontiguousarray(labels)


def _distorted(image: Array, random: np.random.Generator) -> Array:
    """mmsegmentation's PhotoMetricDistortion."""
    if random.random() < 0.5:
        image = _converted(image, beta=random.uniform(-32, 32))
    contrast_first = random.random() < 0.5
    if contrast_first and random.random() < 0.5:
        image = _converted(image, alpha=random.uniform(0.5, 1.5))
    if random.random() < 0.5:
        image = cv2.cvtColor(image, cv2.COLOR_BGR2HSV)
        image[:, :, 1] = _converted(image[:, :, 1], alpha=random.uniform(0.5, 1.5))
        image = cv2.cvtColor(image, cv2.COLOR_HSV2BGR)
    if random.random() < 0.5:
        image = cv2.cvtColor(image, cv2.COLOR_BGR2HSV)
        turn = int(random.integers(-18, 18))
        image[:, :, 0] = (image[:, :, 0].astype(int) + turn) % 180
        image = cv2.cvtColor(image, cv2.COLOR_HSV2BGR)
    if not contrast_first and random.random() < 0.5:
        image = _converted(image, alpha=random.uniform(0.5, 1.5))
    return image


def _converted(image: Array, alpha: float = 1, beta: float = 0) -> Array:
    return (image.astype(np.float32) * alpha + beta).clip(0, 255).astype(np.uint8)


def streets_paddleseg(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """PaddleSeg's steps."""
    image, labels = _scaled(paths, 0.5 + 0.25 * int(random.integers(7)))
    right, bottom = max(CROP[1] - image.shape[1], 0), max(CROP[0] - image.shape[0], 0)
    if right or bottom:
        to = 0, bottom, 0, right, cv2.BORDER_CONSTANT
        image = cv2.copyMakeBorder(image, *to, value=(127, 127, 127))
        labels = cv2.copyMakeBorder(labels, *to, value=255)
    box = window((image.shape[1], image.shape[0]), random)
    image, labels = _cut(image, box), _cut(labels, box)
    if random.random() < 0.5:
        image, labels = cv2.flip(image, 1), cv2.flip(labels, 1)
    held = Image.fromarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
    made = np.asarray(colours.distorted(held, random))
    return np.ascontiguousarray(made.transpose(2, 0, 1)), np.ascontiguousarray(labels)


def pictures(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """mmclassification's RandomResizedCrop and RandomFlip."""
    image = _decoded(paths[0])
    part = _cut(image, imagenet.crop_box(image.shape[1], image.shape[0], random))
    return (_channels_first(_flipped(cv2.resize(part, (SIZE, SIZE)), random)),)


def clips(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """mmaction's MultiScaleCrop, Resize and Flip."""
    frames = [_decoded(path) for path in chosen_frames(paths, random)]
    box = kinetics.crop_box(frames[0].shape[1], frames[0].shape[0], SIZE, random)
    frames = [cv2.resize(_cut(frame, box), (SIZE, SIZE)) for frame in frames]
    if random.random() < 0.5:
        frames = [cv2.flip(frame, 1) for frame in frames]
    return (np.stack([_channels_first(frame) for frame in frames]),)


def faces(paths: Sequence[Path], random: np.random.Generator) -> tuple[Array, ...]:
    """Flipped in half of the cases."""
    return (_channels_first(_flipped(_decoded(paths[0]), random)),)


PIPELINES: dict[str, Pipeline] = {
    "cityscapes, mmseg": streets_mmseg,
    "cityscapes, PaddleSeg": streets_paddleseg,
    "imagenet": pictures,
    "kinetics": clips,
    "faces": faces,
}
