"""The drawn sample sets: the form of the real ones, the same every time, and learnable."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from k8sbench.trainers.data import sample_sets

Array = np.ndarray[Any, np.dtype[Any]]
STREET_CLASSES = (0, 1, 2, 8, 10, 11, 13)
"""Road, sidewalk, building, vegetation, sky, person, car: train ids of Cityscapes."""


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def pixels(path: Path) -> Array:
    with Image.open(path) as picture:
        return np.asarray(picture)


@pytest.mark.parametrize("name", sample_sets.SETS)
def test_equal_seeds_draw_equal_pictures_and_others_do_not(name: str, tmp_path: Path) -> None:
    write = sample_sets.SETS[name]
    for folder, seed in (("one", 3), ("two", 3), ("other", 4)):
        write(tmp_path / folder, pictures=4, size=(32, 48), seed=seed)
    one, two, other = (contents(tmp_path / each) for each in ("one", "two", "other"))
    assert one == two
    assert one.keys() == other.keys()
    assert one != other


@pytest.mark.parametrize("name", sample_sets.SETS)
def test_a_set_is_a_few_small_files(name: str, tmp_path: Path) -> None:
    sample_sets.SETS[name](tmp_path)
    written = contents(tmp_path)
    assert len(written) < 300
    assert sum(map(len, written.values())) < 3_000_000


def test_street_scenes_have_a_label_for_every_picture(tmp_path: Path) -> None:
    sample_sets.cityscapes(tmp_path, pictures=8, size=(64, 128))
    found: set[int] = set()
    for part, count in (("train", 8), ("val", 2)):
        pictures = sorted((tmp_path / "leftImg8bit" / part).glob("*/*_leftImg8bit.png"))
        assert len(pictures) == count
        for picture in pictures:
            labels = pixels(
                tmp_path / "gtFine" / part / picture.parent.name
                / picture.name.replace("leftImg8bit", "gtFine_labelTrainIds")
            )  # fmt: skip
            assert pixels(picture).shape == (64, 128, 3)
            assert labels.shape == (64, 128)
            found |= set(np.unique(labels).tolist())
    assert found == {*STREET_CLASSES, sample_sets.IGNORED}


def test_pixels_tell_their_class_under_the_mean_colour_of_it(tmp_path: Path) -> None:
    sample_sets.cityscapes(tmp_path, pictures=8, size=(64, 128))

    def all_of(part: str) -> tuple[Array, Array]:
        pictures = sorted(tmp_path.glob(f"leftImg8bit/{part}/*/*.png"))
        labels = sorted(tmp_path.glob(f"gtFine/{part}/*/*.png"))
        return (
            np.concatenate([pixels(each).reshape(-1, 3) for each in pictures]).astype(float),
            np.concatenate([pixels(each).reshape(-1) for each in labels]),
        )

    colours, classes = all_of("train")
    means = np.stack([colours[classes == each].mean(0) for each in STREET_CLASSES])
    colours, classes = all_of("val")
    judged = classes != sample_sets.IGNORED
    nearest = np.square(colours[judged][:, None] - means).sum(2).argmin(1)
    said = np.asarray(STREET_CLASSES)[nearest]
    assert (said == classes[judged]).mean() > 0.8


def test_pictures_tell_their_class_in_any_crop_and_mirrored(tmp_path: Path) -> None:
    sample_sets.imagenet(tmp_path, pictures=32)
    names = sorted(path.name for path in (tmp_path / "train").iterdir())
    assert len(names) == sample_sets.PICTURE_CLASSES

    def colour(path: Path, corner: tuple[int, int]) -> Array:
        # An eighth of the area, mirrored: RandomResizedCrop takes no less than 8 %.
        crop = pixels(path)[corner[0] : corner[0] + 22, corner[1] : corner[1] + 28, :]
        mean: Array = crop[:, ::-1].mean((0, 1))
        return np.asarray(mean / np.linalg.norm(mean))

    means = np.stack([
        np.mean([colour(each, (0, 0)) for each in (tmp_path / "train" / name).iterdir()], 0)
        for name in names
    ])  # fmt: skip
    for label, name in enumerate(names):
        for path in (tmp_path / "val" / name).iterdir():
            off = np.square(colour(path, (30, 40)) - means).sum(1)
            assert off.argmin() == label


def test_lists_of_clips_name_frames_that_are_there(tmp_path: Path) -> None:
    sample_sets.kinetics(tmp_path, pictures=4, size=(16, 16))
    for part, count in (("train", 4), ("val", 2)):
        lines = (tmp_path / f"labels/{part}_videofolder.txt").read_text().splitlines()
        assert len(lines) == count
        for line in lines:
            path, frames, label = line.split(" ")
            there = sorted(each.name for each in (tmp_path / "images" / path).iterdir())
            assert there == [f"img_{number:05d}.jpg" for number in range(1, int(frames) + 1)]
            assert int(label) < sample_sets.CLIP_CLASSES


def test_faces_come_with_pairs_of_which_each_fold_has_half_equal(tmp_path: Path) -> None:
    sample_sets.faces(tmp_path, pictures=16, size=(32, 32))
    lines = (tmp_path / "train.txt").read_text().splitlines()
    assert len(lines) == 16
    for line in lines:
        path, who = line.split("\t")
        assert pixels(tmp_path / path).shape == (32, 32, 3)
        assert int(who) < sample_sets.IDENTITIES
    encoded, same = pickle.loads((tmp_path / "lfw.bin").read_bytes())
    assert len(encoded) == 2 * len(same) == 40
    for fold in np.asarray(same).reshape(sample_sets.FOLDS, -1):
        assert fold.mean() == 0.5

    def mean(data: bytes) -> Array:
        # The middle of the face: its skin.
        found: Array = np.asarray(Image.open(io.BytesIO(data)))[15:17, 12:20].mean((0, 1))
        return np.asarray(found / np.linalg.norm(found))

    apart = [
        np.linalg.norm(mean(one) - mean(other))
        for one, other in zip(encoded[::2], encoded[1::2], strict=True)
    ]
    assert max(d for d, equal in zip(apart, same, strict=True) if equal) < min(
        d for d, equal in zip(apart, same, strict=True) if not equal
    )
