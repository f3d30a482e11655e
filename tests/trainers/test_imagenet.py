"""ImageNet's folders, and pictures augmented as torchvision's RandomResizedCrop has it."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from k8sbench.trainers.data import imagenet, sample_sets
from k8sbench.trainers.parts.samples import DataError
from tests.trainers.references import (
    channels_first,
    coordinates,
    middle,
    near,
    saved,
    triangle,
)


@pytest.mark.parametrize(
    ("width", "height"), [(50, 37), (37, 50), (400, 400), (7, 400), (400, 7), (1, 1)]
)
def test_a_crop_has_torchvisions_area_and_shape(width: int, height: int) -> None:
    """The middle of a long picture, where none of ten fits."""
    for seed in range(300):
        left, top, right, bottom = imagenet.crop_box(width, height, np.random.default_rng(seed))
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
        if width == height == 400:
            columns, rows = right - left, bottom - top
            assert 0.079 < columns * rows / (width * height) <= 1
            assert 0.74 < columns / rows < 1.35
        if (width, height) == (7, 400) and (right - left, bottom - top) == (7, 9):
            assert top == 195
    boxes = {imagenet.crop_box(400, 400, np.random.default_rng(seed))[:2] for seed in range(300)}
    assert len(boxes) > 250


def test_a_picture_to_train_on_is_cropped_resized_and_mirrored() -> None:
    pixels = coordinates(45, 60)
    mirrored = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        left, top, right, bottom = imagenet.crop_box(60, 45, random)
        told = triangle(pixels[top:bottom, left:right], 24, 24)
        if random.random() < 0.5:
            told, mirrored = told[:, ::-1], mirrored + 1
        found = imagenet.to_train(Image.fromarray(pixels), 24, np.random.default_rng(seed))
        assert near(found, channels_first(told))
    assert 10 < mirrored < 30


@pytest.mark.parametrize(
    ("height", "width"), [(300, 400), (400, 300), (256, 256), (90, 70), (300, 402)]
)
def test_a_picture_to_validate_is_the_middle_of_256(height: int, width: int) -> None:
    pixels = coordinates(height, width)
    found = imagenet.to_validate(Image.fromarray(pixels), 224)
    told = channels_first(middle(pixels, 256, 224))
    assert near(found, told)


def test_a_class_is_the_place_of_its_folder_in_train_in_order_of_names(tmp_path: Path) -> None:
    grey = {"n03": 30, "n01": 10, "n02": 20}
    for name, level in grey.items():
        saved(tmp_path / f"train/{name}/a.JPEG", np.full((9, 9, 3), level, np.uint8))
    for name in ("n02", "n03"):  # not all of them: the numbers are those of train
        saved(tmp_path / f"val/{name}/b.png", np.full((9, 9, 3), grey[name], np.uint8))
    files = imagenet.open_set(tmp_path, size=8)
    for each, told in ((files.training, {10: 0, 20: 1, 30: 2}), (files.validation, {20: 1, 30: 2})):
        samples = [each.sample(number, np.random.default_rng(0)) for number in range(len(each))]
        assert {int(image[0, 0, 0]): int(label) for image, label in samples} == told


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sample_sets.imagenet(tmp_path, pictures=16, size=(20, 24))
    return tmp_path


def test_more_classes_than_the_model_has_are_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="has 8 classes, more than the model's 7"):
        imagenet.open_set(folder, classes=7)
