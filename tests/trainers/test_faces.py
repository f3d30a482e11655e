"""Face lists and pairs in .bin files, compared with upstream's readers."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from k8sbench.trainers.data import faces, sample_sets
from k8sbench.trainers.parts.samples import BrokenSample, DataError
from tests.trainers.references import channels_first, coordinates, encoded, form

BOTH = [encoded(coordinates(8, 8)), encoded(coordinates(8, 8)[:, ::-1])]


def test_a_face_to_train_on_is_mirrored_in_half_of_the_cases_and_else_as_it_is() -> None:
    pixels = coordinates(9, 9)
    mirrored = 0
    for seed in range(60):
        flip = np.random.default_rng(seed).random() < 0.5
        mirrored += flip
        found = faces.to_train(Image.fromarray(pixels), np.random.default_rng(seed))
        told = pixels[:, ::-1] if flip else pixels
        assert np.array_equal(found, channels_first(told))
        assert found.flags["C_CONTIGUOUS"]
    assert 18 < mirrored < 42


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sample_sets.faces(tmp_path, pictures=8, size=(16, 16))
    return tmp_path


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("picture.jpg", "one field"),
        ("picture.jpg\tx", "'x' is not a whole number"),
        ("picture.jpg\t-1", "'-1' is not a whole number"),
        ("picture.jpg 8", "class 8 is not one of 8"),
    ],
)
def test_a_wrong_line_is_named_by_its_number(folder: Path, line: str, why: str) -> None:
    path = folder / "train.txt"
    path.write_text("a.jpg 1\n" + line + "\n")
    with pytest.raises(DataError) as caught:
        faces.open_set(folder, classes=8)
    told = f"{path}, line 2: {why}; expected PATH, a tab or a space, and LABEL, found {line!r}"
    assert str(caught.value) == told


def pairs(path: Path, data: bytes, size: int = 8) -> faces.Pairs:
    path.write_bytes(data)
    return faces.read_pairs(path, size)


def test_a_pair_is_both_pictures_and_whether_they_are_of_one_person(tmp_path: Path) -> None:
    other = encoded(np.zeros((8, 8, 3), np.uint8))
    whole = pickle.dumps(([BOTH[0], BOTH[1], BOTH[0], other], [True, False]), protocol=2)
    found = pairs(tmp_path / "lfw.bin", whole)
    assert len(found) == 2
    image, same = found.sample(0, np.random.default_rng(0))
    assert (form(image), form(same), int(same)) == ("uint8 (2, 3, 8, 8)", "int64 ()", 1)
    assert np.array_equal(image[0], image[1][:, :, ::-1])
    image, same = found.sample(1, np.random.default_rng(0))
    assert (int(same), image[1].max()) == (0, 0)


def python_2_arrays(texts: list[bytes]) -> bytes:
    """Pickle numpy's arrays of bytes like Python 2, as InsightFace's files."""
    arrays = b"".join(
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
        b"(K\x01M" + len(text).to_bytes(2, "little") + b"\x85"
        b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + len(text).to_bytes(4, "little") + text + b"tb"
        for text in texts
    )
    return b"\x80\x02](" + arrays + b"e](\x88e\x86."


def test_pairs_that_python_2_wrote_are_read(tmp_path: Path) -> None:
    assert pairs(tmp_path / "lfw.bin", python_2_arrays(BOTH)).encoded == BOTH


class Harm:
    """Harmful object in a pickle."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_cannot_do_anything(tmp_path: Path, protocol: int) -> None:
    for content in (Harm(tmp_path / "harm"), ([Harm(tmp_path / "harm")], [True])):
        with pytest.raises(DataError, match=r"it names (posix|os)\.mkdir"):
            pairs(tmp_path / "lfw.bin", pickle.dumps(content, protocol=protocol))
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is no pickle of a list of pictures and a list of truth values"),
        (b"nonsense", "is no pickle"),
        (pickle.dumps(5), "is no pickle"),
        (pickle.dumps(([10**12, 1], [True])), "is no pickle"),
        (pickle.dumps((BOTH, [True]))[:-30], "is no pickle"),
        (pickle.dumps((BOTH[:1], [True])), "has 1 pictures for 1 pairs, not two each"),
        (pickle.dumps(([], [])), "has 0 pictures for 0 pairs"),
    ],
)
def test_a_file_of_another_form_is_one_sentence(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(DataError, match=why):
        pairs(tmp_path / "lfw.bin", content)


def test_a_broken_picture_of_a_pair_is_a_broken_sample(tmp_path: Path) -> None:
    found = pairs(tmp_path / "lfw.bin", pickle.dumps(([*BOTH, BOTH[0], b""], [True, False]), 2))
    found.sample(0, np.random.default_rng(0))
    with pytest.raises(BrokenSample, match="the file is empty") as caught:
        found.sample(1, np.random.default_rng(0))
    assert caught.value.path == f"{tmp_path / 'lfw.bin'}, picture 4"
