"""The drawn sample sets: the form of the real ones, and the same every time.

That they are whole: tests/unit/cli/test_data.py. That networks learn them:
tests/trainers/test_training_on_files.py.
"""

from __future__ import annotations

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
    # A set of the usual size is a few small files.
    write(tmp_path / "usual")
    written = contents(tmp_path / "usual")
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
