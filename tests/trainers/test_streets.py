"""Augmentation of street scenes: windows, labels that follow their pixels, colours, padding."""

from typing import Any

import numpy as np
import pytest
from PIL import Image

from k8sbench.trainers.data import streets
from k8sbench.trainers.data.streets import Crop
from k8sbench.trainers.parts.segmentation import IGNORE
from tests.trainers.references import Array, interpolated

on_each = pytest.mark.parametrize("augmented", [streets.mmseg, streets.paddleseg])


def scene(height: int = 48, width: int = 96) -> tuple[Array, Array]:
    """Blocks of ten classes; a pixel's red tells its class, and green its column."""
    coarse = np.random.default_rng(0).integers(0, 10, (height // 16, width // 16), dtype=np.uint8)
    labels = coarse.repeat(16, 0).repeat(16, 1)
    columns = np.broadcast_to(np.arange(width, dtype=np.uint8) * 2, labels.shape)
    return np.stack([labels * 20, columns, np.zeros_like(labels)], 2), labels


def test_windows_are_drawn_at_all_places_and_are_no_larger_than_the_picture() -> None:
    random = np.random.default_rng(0)
    drawn = [Crop.drawn((10, 6), (8, 8), random) for _ in range(200)]
    assert {(each.height, each.width, each.left) for each in drawn} == {(8, 6, 0)}
    assert {each.top for each in drawn} == {0, 1, 2}


@pytest.mark.parametrize("full", [(96, 160), (30, 50), (48, 99)])
def test_a_window_is_a_part_of_the_picture_resized_without_averaging(full: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (48, 99, 3), dtype=np.uint8)
    whole = interpolated(interpolated(pixels, 0, full[0]), 1, full[1])
    window = Crop(full, 5, 9, 20, 30)
    found = np.asarray(window.of(Image.fromarray(pixels)), float)
    assert np.abs(found - whole[5:25, 9:39]).max() <= 1


@on_each
def test_labels_and_pixels_are_moved_alike(augmented: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_coloured", "_contrasted"):
        monkeypatch.setattr(streets, name, lambda image, *_: image)
    monkeypatch.setattr(streets, "BRIGHTNESS", 0)
    monkeypatch.setattr(streets, "DISTORTION", (1.0, 1.0))
    picture, labels = scene()
    mirrored = 0
    for seed in range(40):
        image, classes = augmented(picture, labels, np.random.default_rng(seed), (24, 48))
        assert (image.dtype, image.shape) == (np.uint8, (3, 24, 48))
        assert (classes.dtype, classes.shape) == (np.uint8, (24, 48))
        held = classes != IGNORE
        # At the borders of blocks pixels are mixed.
        assert np.mean(np.abs(image[0][held] / 20 - classes[held]) < 0.1) > 0.6
        across = np.diff(image[1].astype(int)[:, : held[0].sum()]).mean()
        mirrored += across < 0
    assert 8 < mirrored < 32


def test_mmsegs_crop_is_drawn_again_where_one_class_has_most_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels = np.zeros((64, 64), np.uint8)
    labels[:, 40:] = 1
    picture = np.zeros((64, 64, 3), np.uint8)

    def mixed() -> int:
        """The crops of sixty that show both classes."""
        crops = (
            streets.mmseg(picture, labels, np.random.default_rng(seed), (16, 16))[1]
            for seed in range(60)
        )
        return sum(len(np.unique(classes)) > 1 for classes in crops)

    drawn_again = mixed()
    monkeypatch.setattr(streets, "TRIES", 0)
    assert drawn_again > 1.5 * mixed()


@on_each
def test_colours_are_distorted_within_upstreams_limits(augmented: Any) -> None:
    picture, labels = np.full((32, 32, 3), (160, 90, 60), np.uint8), scene(32, 32)[1]
    found = {
        tuple(augmented(picture, labels, np.random.default_rng(seed), (16, 16))[0][:, 8, 8])
        for seed in range(60)
    }
    assert len(found) > 20
    low, high = np.min(list(found), 0), np.max(list(found), 0)
    assert low[0] > 40
    assert high[0] > 200
