"""Checking and drawing a data set as a process: output and exit code."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from k8sbench.trainers.check_data import SAMPLE
from k8sbench.trainers.data import sample_sets
from tests.tiers import ROOT

PROGRAM = [sys.executable, "-m", "k8sbench.trainers.check_data"]


def ends(folder: Path, action: str, name: str, *words: str, code: int = 0) -> str:
    """Run the program on a folder to its end; returns what it printed."""
    done = subprocess.run(
        [*PROGRAM, action, name, str(folder), *words],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a set that was drawn."""
    ends(tmp_path / "set", "make-sample", "imagenet", "--pictures=16", "--size=32x32")
    return tmp_path / "set"


def test_what_is_missing_is_named_and_the_exit_code_is_2(folder: Path) -> None:
    min((folder / "val").glob("*/*")).unlink()
    out = ends(folder, "check", "imagenet", code=2)
    assert out.splitlines() == [f"missing: {folder}: 23 of 24 files"]
    picture = min((folder / "train").glob("*/*"))
    picture.write_bytes(picture.read_bytes()[:200])
    for words in ((), ("--deep",)):
        assert f"missing: {picture}: " in ends(folder, "check", "imagenet", *words, code=2)
    (folder / "val").rename(folder / "validation")
    out = ends(folder, "check", "imagenet", code=2)
    assert f"missing: {folder / 'val'}: No such file or directory" in out


def test_a_set_that_is_not_marked_as_drawn_is_held_against_the_real_numbers(folder: Path) -> None:
    (folder / SAMPLE).unlink()
    out = ends(folder, "check", "imagenet")
    assert out.splitlines() == [
        "Note: train: 16 of 1,281,167 samples of the published set.",
        "Note: val: 8 of 50,000 samples of the published set.",
    ]


def cut(path: Path) -> None:
    """As after a crash of the file server: the end is zeros."""
    data = path.read_bytes()
    path.write_bytes(data[:-60] + bytes(5000))


def damaged(path: Path) -> None:
    path.write_text("[]")


def to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def to_pixel(path: Path) -> None:
    Image.new("RGB", (1, 1)).save(path)


def with_nul(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"train", b"tr\0in", 1))


def without_classes(path: Path) -> None:
    Image.open(path).point(lambda _: 255).save(path)


def to_jpeg(path: Path) -> None:
    Image.open(path).save(path, "JPEG")


def of_nine_pairs(path: Path) -> None:
    encoded, same = pickle.loads(path.read_bytes())
    path.write_bytes(pickle.dumps((encoded[:18], same[:9])))


LABELS = "gtFine/val/*/*.png"
DAMAGES: dict[str, tuple[str, str, Callable[[Path], None], str]] = {
    "a JPEG that ends in zeros": ("imagenet", "val/*/*", cut, "the picture is truncated"),
    "a PNG that ends in zeros": ("cityscapes", LABELS, cut, "checksum"),
    "a picture of one pixel": ("kinetics", "images/*/val_0000/*7.jpg", to_pixel, "1 × 1 pixels"),
    "a pipe as a picture": ("imagenet", "train/*/*", to_pipe, "Not a regular file"),
    "a pipe as a list": ("faces", "train.txt", to_pipe, "Not a regular file"),
    "a pipe as pairs": ("faces", "lfw.bin", to_pipe, "Not a regular file"),
    "a NUL in a path": ("kinetics", "labels/train*", with_nul, "line 1: a NUL"),
    "labels without a class": ("cityscapes", LABELS, without_classes, "every label is 255"),
    "labels as JPEG": ("cityscapes", LABELS, to_jpeg, "labels are PNG"),
    "a marker": ("imagenet", SAMPLE, damaged, "not as it was written"),
    "nine pairs": ("faces", "lfw.bin", of_nine_pairs, "has 9 pairs"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_each_kind_of_damage_is_found(kind: str, tmp_path: Path) -> None:
    name, pattern, damage, why = DAMAGES[kind]
    sample_sets.SETS[name](tmp_path, pictures=4)
    (tmp_path / SAMPLE).write_text('{"files": 0}')
    path = min(tmp_path.glob(pattern))
    damage(path)
    out = ends(tmp_path, "check", name, "--deep", code=2)
    (line,) = [line for line in out.splitlines() if line.startswith("missing: ")]
    assert str(path) in line
    assert why in line


def test_a_folder_that_holds_something_is_not_drawn_into(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    out = ends(tmp_path, "make-sample", "faces", code=2)
    assert "is not empty" in out
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
