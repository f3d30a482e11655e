"""Cityscapes' folders: pairs, missing files and broken files, by name."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from k8sbench.trainers.data import cityscapes, sample_sets, streets
from k8sbench.trainers.parts.samples import BrokenSample, Files

CITY = "train/aachen/aachen_000000_000019"
PICTURE = Path(f"leftImg8bit/{CITY}_leftImg8bit.png")
LABELS = Path(f"gtFine/{CITY}_gtFine_labelTrainIds.png")
AUGMENT = partial(streets.mmseg, crop=(16, 32))


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
