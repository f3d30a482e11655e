"""Augmentation of street scenes, compared with a slow, plain reference.

The reference resizes the whole picture and cuts the crop out of it, and takes its random numbers in
the order in which the augmentation takes them.
"""

import colorsys
import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from k8sbench.trainers.data import streets_mmseg, streets_paddleseg
from k8sbench.trainers.data.streets import Crop, Scenes
from k8sbench.trainers.parts.segmentation import IGNORE
from tests.trainers.references import Array, interpolated


def scene(height: int, width: int, seed: int = 0) -> tuple[Array, Array]:
    """Colours that change from pixel to pixel, and blocks of ten classes."""
    random = np.random.default_rng(seed)
    picture = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
    coarse = random.integers(0, 10, (height // 8 + 1, width // 8 + 1), dtype=np.uint8)
    labels = coarse.repeat(8, 0).repeat(8, 1)[:height, :width].copy()
    labels[-3:] = IGNORE
    return picture, labels


def plain_scene(height: int, width: int, seed: int) -> tuple[Array, Array]:
    """Return a scene of mostly one or no class: most crops are redrawn."""
    picture, labels = scene(height, width, seed)
    return picture, np.choose(labels.clip(0, 5) // 2, [0, 1, IGNORE]).astype(np.uint8)


def scene_of_one_class(height: int, width: int, seed: int) -> tuple[Array, Array]:
    """However often a crop is drawn again."""
    return scene(height, width, seed)[0], np.zeros((height, width), np.uint8)


def bilinear(pixels: Array, height: int, width: int) -> Array:
    """The whole picture: each point between the pixels around it, without averaging over more."""
    return interpolated(interpolated(pixels, 0, height), 1, width)


def nearest(labels: Array, height: int, width: int) -> Array:
    """The whole picture: the pixel that holds a point's upper left corner."""
    # In OpenCV's own order of operations: where a corner is on a pixel's border, that decides.
    down, along = 1 / (height / labels.shape[0]), 1 / (width / labels.shape[1])
    rows = [math.floor(row * down) for row in range(height)]
    columns = [math.floor(column * along) for column in range(width)]
    return labels[rows][:, columns]


def test_windows_are_drawn_at_all_places_and_are_no_larger_than_the_picture() -> None:
    random = np.random.default_rng(0)
    drawn = [Crop.drawn((10, 6), (8, 8), random) for _ in range(200)]
    assert {(each.height, each.width, each.left) for each in drawn} == {(8, 6, 0)}
    assert {each.top for each in drawn} == {0, 1, 2}


def in_hsv(pixel: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return hue (0–179), saturation and value by OpenCV's 12-bit integer tables."""
    red, green, blue = pixel
    value = max(pixel)
    spread = value - min(pixel)
    if not spread:
        return 0, 0, value
    if value == red:
        above = green - blue
    elif value == green:
        above = blue - red + 2 * spread
    else:
        above = red - green + 4 * spread
    hue = (above * round((180 << 12) / (6 * spread)) + 2048) >> 12
    return hue % 180, (spread * round((255 << 12) / value) + 2048) >> 12, value


def in_rgb(hue: int, saturation: int, value: int) -> list[float]:
    """By the six sectors of the circle; not cut yet."""
    return [255 * each for each in colorsys.hsv_to_rgb(hue / 180, saturation / 255, value / 255)]


COLOURS = np.concatenate(
    [
        np.random.default_rng(0).integers(0, 256, (400, 3)),
        np.random.default_rng(1).integers(100, 120, (100, 3)),
        list(itertools.product((0, 7, 255), repeat=3)),
    ]
).astype(np.uint8)


@pytest.mark.parametrize(
    ("factor", "steps"),
    [(0.5, None), (0.83, None), (1.5, None), (None, -18), (None, 0), (None, 17)],
)
def test_saturation_and_hue_are_opencvs(factor: float | None, steps: int | None) -> None:
    image = np.ascontiguousarray(COLOURS.T[:, :, None])
    if factor is not None:
        found = streets_mmseg.saturation_times(image, factor)
    else:
        found = streets_mmseg.hue_plus(image, steps or 0)
    for column, pixel in enumerate(COLOURS.tolist()):
        hue, saturation, value = in_hsv(tuple(pixel))
        if factor is not None:
            saturation = min(int(np.float32(saturation) * np.float32(factor)), 255)
        told = in_rgb((hue + (steps or 0)) % 180, saturation, value)
        # Cut to a whole number, where single precision may fall short of one.
        assert np.abs(found[:, column, 0] - np.floor(np.add(told, 1e-3))).max() <= 1
        assert np.abs(found[:, column, 0] - np.array(told)).max() < 1 + 1e-3


def changed(image: Array, factor: float = 1.0, offset: float = 0.0) -> Array:
    return (image.astype(np.float32) * factor + offset).clip(0, 255).astype(np.uint8)


def mmseg(picture: Array, labels: Array, random: Any, crop: tuple[int, int]) -> tuple[Any, Any]:
    """Resize, RandomCrop, RandomFlip, PhotoMetricDistortion and Pad, one after the other."""
    ratio = random.uniform(0.5, 2.0)
    height, width = labels.shape
    longest, shortest = int(width * ratio), int(height * ratio)
    scale = min(longest / width, shortest / height)
    size = int(height * scale + 0.5), int(width * scale + 0.5)
    image = np.floor(bilinear(picture, *size) + 0.5 + 1e-6).astype(np.uint8)
    classes = nearest(labels, *size)

    def box() -> tuple[slice, slice]:
        top = random.integers(0, max(size[0] - crop[0], 0) + 1)
        left = random.integers(0, max(size[1] - crop[1], 0) + 1)
        return slice(top, top + crop[0]), slice(left, left + crop[1])

    cut = box()
    for _ in range(10):
        found, counts = np.unique(classes[cut], return_counts=True)
        counts = counts[found != IGNORE]
        if len(counts) > 1 and counts.max() / counts.sum() < 0.75:
            break
        cut = box()
    image, classes = image[cut], classes[cut]
    if random.random() < 0.5:
        image, classes = image[:, ::-1], classes[:, ::-1]

    if random.random() < 0.5:
        image = changed(image, offset=random.uniform(-32, 32))
    first = random.random() < 0.5
    if first and random.random() < 0.5:
        image = changed(image, random.uniform(0.5, 1.5))
    planes = image.transpose(2, 0, 1)
    if random.random() < 0.5:
        planes = streets_mmseg.saturation_times(planes, random.uniform(0.5, 1.5))
    if random.random() < 0.5:
        planes = streets_mmseg.hue_plus(planes, random.integers(-18, 18))
    image = planes.transpose(1, 2, 0)
    if not first and random.random() < 0.5:
        image = changed(image, random.uniform(0.5, 1.5))

    missing = (0, crop[0] - image.shape[0]), (0, crop[1] - image.shape[1])
    normal = (image - np.array([123.675, 116.28, 103.53])) / [58.395, 57.12, 57.375]
    return np.pad(normal, (*missing, (0, 0))), np.pad(classes, missing, constant_values=IGNORE)


def paddleseg(picture: Array, labels: Array, random: Any, crop: tuple[int, int]) -> tuple[Any, Any]:
    """ResizeStepScaling, RandomPaddingCrop, flip, RandomDistort and Normalize, one by one."""
    scale = np.linspace(0.5, 2.0, 7)[random.integers(7)]
    size = round(scale * labels.shape[0]), round(scale * labels.shape[1])
    missing = tuple((0, max(most - side, 0)) for most, side in zip(crop, size, strict=True))
    image = np.pad(bilinear(picture, *size), (*missing, (0, 0)), constant_values=127.5)
    classes = np.pad(nearest(labels, *size), missing, constant_values=IGNORE)
    top = random.integers(0, image.shape[0] - crop[0] + 1)
    left = random.integers(0, image.shape[1] - crop[1] + 1)
    cut = slice(top, top + crop[0]), slice(left, left + crop[1])
    image, classes = image[cut], classes[cut]
    if random.random() < 0.5:
        image, classes = image[:, ::-1], classes[:, ::-1]
    held = Image.fromarray((image + 1e-6).astype(np.uint8))
    for chosen in random.permutation(4):
        if random.random() < 0.5:
            if chosen == 0:
                held = ImageEnhance.Brightness(held).enhance(random.uniform(0.5, 1.5))
            elif chosen == 1:
                held = ImageEnhance.Contrast(held).enhance(random.uniform(0.5, 1.5))
            elif chosen == 2:
                held = ImageEnhance.Color(held).enhance(random.uniform(0.5, 1.5))
            else:
                turn = random.uniform(-18, 18)
                in_steps = np.array(held.convert("HSV"))
                hues = np.trunc(in_steps[:, :, 0] + turn).astype(int)
                in_steps[:, :, 0] = hues % 256  # as a byte goes round
                held = Image.fromarray(in_steps, mode="HSV").convert("RGB")
    return (np.asarray(held) / 255.0 - 0.5) / 0.5, classes


UPSTREAM = {"mmseg": (mmseg, streets_mmseg), "paddleseg": (paddleseg, streets_paddleseg)}


@pytest.mark.filterwarnings("ignore:'mode' parameter is deprecated:DeprecationWarning")
@pytest.mark.parametrize("crop", [(24, 48), (40, 60)], ids=["crop", "padded"])
@pytest.mark.parametrize("made", [scene, plain_scene, scene_of_one_class])
@pytest.mark.parametrize("recipe", UPSTREAM)
def test_samples_equal_upstreams_steps(recipe: str, made: Any, crop: tuple[int, int]) -> None:
    reference, module = UPSTREAM[recipe]
    mean, spread = (np.array(each)[:, None, None] for each in module.NORMALISE)
    level = float(1 / spread.min())  # of a byte's step
    for seed in range(40):
        picture, labels = made(48, 99, seed)
        random, again = np.random.default_rng(seed), np.random.default_rng(seed)
        image, classes = module.augmented(picture, labels, random, crop)
        told, told_classes = reference(picture, labels, again, crop)
        assert (image.dtype, image.shape) == (np.uint8, (3, *crop))
        assert np.array_equal(classes, told_classes)
        off = np.abs((image - mean) / spread - told.transpose(2, 0, 1))
        # Where a point lies in the middle between two bytes: one of them, then distorted alike.
        assert np.mean(off > 0.6 * level) < 0.01
        assert np.median(off) < 0.5 * level
        assert random.random() == again.random(), "other random numbers were taken"


@pytest.mark.parametrize("module", [streets_mmseg, streets_paddleseg])
def test_scenes_of_loader_processes_go_through_the_same_augmentations(module: Any) -> None:
    augment = partial(module.augmented, crop=(32, 48))
    scenes = Scenes((32, 48), 5, 1, augment)
    for index in range(20):
        image, labels = scenes.decoded(index)
        assert (str(image.dtype), image.shape) == ("uint8", (3, 32, 48))
        assert image.flags.writeable  # PyTorch warns of arrays that are not
        assert set(labels.flatten().tolist()) <= {0, 1, 2, 3, 4, IGNORE}
