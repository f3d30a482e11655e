"""Cityscapes: pairs of files and broken ones by name; windows, colours and padding."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from k8sbench.trainers.data import cityscapes, sample_sets
from k8sbench.trainers.data.cityscapes import Crop
from k8sbench.trainers.parts.samples import BrokenSample, Files
from k8sbench.trainers.parts.segmentation import IGNORE
from tests.trainers.references import Array, interpolated

CITY = "train/aachen/aachen_000000_000019"
PICTURE = Path(f"leftImg8bit/{CITY}_leftImg8bit.png")
LABELS = Path(f"gtFine/{CITY}_gtFine_labelTrainIds.png")
AUGMENT = partial(cityscapes.mmseg, crop=(16, 32))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four pictures to train on, two to validate."""
    sample_sets.cityscapes(tmp_path, pictures=4, size=(32, 64))
    return tmp_path


def opened(folder: Path) -> Files:
    return cityscapes.open_set(folder, AUGMENT)


def random() -> np.random.Generator:
    return np.random.default_rng(0)


def test_pictures_and_labels_are_paired_by_their_names(folder: Path) -> None:
    files = opened(folder)
    assert (files.name, len(files.training), len(files.validation)) == ("cityscapes", 4, 2)
    for number in range(2):
        picture, labels = files.validation.sample(number, random())
        assert (str(picture.dtype), picture.shape) == ("uint8", (3, 32, 64))
        path = f"val/lindau/lindau_{number:06d}_000019"
        told = Image.open(folder / f"gtFine/{path}_gtFine_labelTrainIds.png")
        assert np.array_equal(labels, np.asarray(told))
        told = Image.open(folder / f"leftImg8bit/{path}_leftImg8bit.png")
        assert np.array_equal(picture.transpose(1, 2, 0), np.asarray(told))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-60])


def smaller(path: Path) -> None:
    Image.open(path).crop((0, 0, 64, 31)).save(path)


def coloured(path: Path) -> None:
    Image.open(path).convert("RGB").save(path)


def of_16_bits(path: Path) -> None:
    values = np.asarray(Image.open(path)).astype(np.uint16) * 256
    Image.fromarray(values).save(path)


def as_jpeg(path: Path) -> None:
    Image.open(path).save(path, "JPEG", quality=100)


def without_classes(path: Path) -> None:
    Image.fromarray(np.full((32, 64), 255, np.uint8)).save(path)


def of_one_pixel(path: Path) -> None:
    Image.open(path).crop((0, 0, 1, 1)).save(path)


def of_two_bits(path: Path) -> None:
    labels = Image.open(path).point(lambda value: value % 4)
    labels.save(path, bits=2)


def with_label(value: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        labels = np.array(Image.open(path))
        labels[20, 30] = value
        Image.fromarray(labels).save(path)

    return damage


# What is no picture at all: test_decoding.py.
DAMAGES: dict[str, tuple[Callable[[Path], None], Path, str]] = {
    "a picture cut off": (truncated, PICTURE, "Truncated"),
    "a picture that is gone": (Path.unlink, PICTURE, "No such file"),
    "a picture of another size": (smaller, PICTURE, "it is 64 × 32, and its picture 64 × 31"),
    "labels cut off": (truncated, LABELS, "Truncated"),
    "labels that are gone": (Path.unlink, LABELS, "No such file"),
    "labels of another size": (smaller, LABELS, "it is 64 × 31, and its picture 64 × 32"),
    "labels in colours": (coloured, LABELS, "RGB"),
    "labels that are stored as JPEG": (as_jpeg, LABELS, "labels are PNG, and JPEG changes them"),
    "labels without a class": (without_classes, LABELS, "every label is 255"),
    "labels of one pixel": (of_one_pixel, LABELS, "1 × 1 pixels"),
    "labels of 2 bits": (of_two_bits, LABELS, "L;2"),
    "labels of 16 bits": (of_16_bits, LABELS, "I;16"),
    "the first label that is no class": (with_label(19), LABELS, "19 is none of 19 classes"),
    "the last label that is no class": (with_label(254), LABELS, "254 is none of 19 classes"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_a_broken_sample_that_is_named(name: str, folder: Path) -> None:
    damage, path, why = DAMAGES[name]
    files = opened(folder)
    damage(folder / path)
    with pytest.raises(BrokenSample) as error:
        files.training.sample(0, random())
    blamed = LABELS if "another size" in name else path
    assert error.value.path == str(folder / blamed)
    assert why in error.value.why
    assert "\n" not in str(error.value)
    files.training.sample(1, random())  # the others are whole


def test_all_train_ids_of_the_model_and_255_are_labels(folder: Path) -> None:
    for value in (0, 18, 255):
        with_label(value)(folder / LABELS)
        opened(folder).training.sample(0, random())
    with_label(18)(folder / LABELS)
    with pytest.raises(BrokenSample, match="none of 5 classes"):
        cityscapes.open_set(folder, AUGMENT, classes=5).training.sample(0, random())


# --- augmentation --------------------------------------------------------------------------------

on_each = pytest.mark.parametrize("augmented", [cityscapes.mmseg, cityscapes.paddleseg])


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
    found = np.asarray(window.cut(Image.fromarray(pixels)), float)
    assert np.abs(found - whole[5:25, 9:39]).max() <= 1


@on_each
def test_labels_and_pixels_are_moved_alike(augmented: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_coloured", "_contrasted"):
        monkeypatch.setattr(cityscapes, name, lambda image, *_: image)
    monkeypatch.setattr(cityscapes, "BRIGHTNESS", 0)
    monkeypatch.setattr(cityscapes, "DISTORTION", (1.0, 1.0))
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
            cityscapes.mmseg(picture, labels, np.random.default_rng(seed), (16, 16))[1]
            for seed in range(60)
        )
        return sum(len(np.unique(classes)) > 1 for classes in crops)

    drawn_again = mixed()
    monkeypatch.setattr(cityscapes, "TRIES", 0)
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
