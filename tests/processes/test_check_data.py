"""Checking and drawing a data set as a process: output and exit code."""

import subprocess
import sys
from pathlib import Path

import pytest

from k8sbench.trainers.check_data import SAMPLE, say
from tests.harness import disks
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


def test_a_folder_that_holds_something_is_not_drawn_into(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    out = ends(tmp_path, "make-sample", "faces", code=2)
    assert "is not empty" in out
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with disks.small(tmp_path / "disk", "64k") as disk:
        out = ends(disk / "set", "make-sample", "imagenet", "--size=256x256", code=3)
    assert "No space left" in out
    assert "make room" in out


def test_a_name_of_a_file_cannot_begin_another_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("train: no pictures in a\nmissing: b\udcff")
    assert capsys.readouterr().out == "train: no pictures in a missing: b\\udcff\n"
