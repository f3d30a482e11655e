"""Unpacking: nothing leaves the folder, nothing half written passes for a file."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from k8sbench.trainers.data.cityscapes import EVALUATED, TABLE
from k8sbench.trainers.prepare.messages import Failed
from k8sbench.trainers.prepare.unpacking import unpack

Unpacked = Callable[..., dict[str, bytes]]
WANTED = frozenset({"leftImg8bit", "gtFine"})
FILES = {
    "cityscapes/leftImg8bit/train/aachen/a.png": b"picture",
    "cityscapes/gtFine/train/aachen/a.png": b"labels",
    "cityscapes/README": b"to read",
}
PLACED = {
    "leftImg8bit/train/aachen/a.png": b"picture",
    "gtFine/train/aachen/a.png": b"labels",
}


def tarred(path: Path, files: dict[str, bytes], mode: str = "w", **more: tarfile.TarInfo) -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in more.values():
            archive.addfile(info)
    return path


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def packed(folder: Path, files: dict[str, bytes], form: str) -> Path:
    path = folder / f"a.{form}"
    if form == "html":
        path.write_bytes(b"<html>log in</html>" * 100)
        return path
    return zipped(path, files) if form == "zip" else tarred(path, files, f"w:{form[4:]}")


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "set"
    (made / "state").mkdir(parents=True)
    return made


@pytest.fixture
def unpacked(folder: Path) -> Unpacked:
    def run(archive: Path, wanted: frozenset[str] = WANTED) -> dict[str, bytes]:
        unpack(archive, folder, wanted, folder / "state")
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }

    return run


@pytest.mark.parametrize("form", ["tar", "tar.gz", "tar.xz", "zip"])
def test_what_the_set_needs_is_unpacked_whatever_stands_before_it(
    tmp_path: Path, unpacked: Unpacked, form: str, capsys: Any
) -> None:
    assert unpacked(packed(tmp_path, FILES, form)) == PLACED
    assert "Left out of the archive: cityscapes/README." in capsys.readouterr().out


def test_without_names_to_look_for_everything_keeps_its_path(
    tmp_path: Path, unpacked: Unpacked
) -> None:
    assert unpacked(tarred(tmp_path / "a.tar", FILES), frozenset()) == FILES


@pytest.mark.parametrize("name", [b"train/caf\xe9.JPEG", "train/字.JPEG".encode()])
def test_a_name_that_is_not_marked_as_utf_8_keeps_its_bytes(
    unpacked: Callable[..., dict[str, bytes]], tmp_path: Path, name: bytes
) -> None:
    files = {os.fsdecode(name): b"picture"}
    assert unpacked(tarred(tmp_path / "a.tar", files), frozenset()) == files
    # Python writes no zip as older programs do.
    placeholder = "x" * len(name)
    path = zipped(tmp_path / "a.zip", {placeholder: b"of a zip"})
    path.write_bytes(path.read_bytes().replace(placeholder.encode(), name))
    assert unpacked(path, frozenset()) == {os.fsdecode(name): b"of a zip"}


def test_files_that_are_whole_are_left_and_others_are_written_again(
    tmp_path: Path, folder: Path, unpacked: Unpacked
) -> None:
    archive = tarred(tmp_path / "a.tar", FILES)
    unpacked(archive)
    whole, half = (folder / name for name in PLACED)
    whole.write_bytes(b"PICTURE")  # of the same size: it stays
    half.write_bytes(b"lab")
    assert unpacked(archive) == {**PLACED, "leftImg8bit/train/aachen/a.png": b"PICTURE"}


@pytest.mark.parametrize("path", ["/gtFine/a.png", "../gtFine/a.png", "gtFine/../../a.png"])
@pytest.mark.parametrize("make", [tarred, zipped])
def test_an_archive_with_a_path_that_leads_out_is_refused(
    tmp_path: Path, unpacked: Unpacked, path: str, make: Callable[..., Path]
) -> None:
    archive = make(tmp_path / "a", {"gtFine/b.png": b"b", path: b"out"})
    with pytest.raises(Failed, match="leads out of the folder"):
        unpacked(archive)
    assert not (tmp_path / "a.png").exists()


def test_links_and_devices_are_left_out_and_named(
    tmp_path: Path, folder: Path, unpacked: Unpacked, capsys: Any
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    archive = tarred(
        tmp_path / "a.tar",
        FILES,
        link=special("gtFine/link", tarfile.SYMTYPE, str(out)),
        hard=special("gtFine/hard", tarfile.LNKTYPE, "cityscapes/README"),
        device=special("gtFine/device", tarfile.CHRTYPE),
        pipe=special("gtFine/pipe", tarfile.FIFOTYPE),
    )
    assert unpacked(archive) == PLACED
    printed = capsys.readouterr().out
    for name in ("link", "hard", "device", "pipe"):
        assert f"gtFine/{name}" in printed
        assert not (folder / "gtFine" / name).is_symlink()


def test_a_link_that_was_there_before_leads_nowhere(
    tmp_path: Path, folder: Path, unpacked: Unpacked
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (folder / "gtFine").symlink_to(out)
    with pytest.raises(Failed, match="leads out of"):
        unpacked(tarred(tmp_path / "a.tar", FILES))
    assert not any(out.iterdir())


@pytest.mark.parametrize("form", ["tar", "tar.gz", "zip", "html"])
def test_what_is_damaged_or_no_archive_is_named_in_one_line_and_deleted(
    tmp_path: Path, unpacked: Unpacked, form: str
) -> None:
    made = packed(tmp_path, {"gtFine/a.png": bytes(range(256)) * 400}, form)
    made.write_bytes(made.read_bytes()[: made.stat().st_size // 2])
    with pytest.raises(Failed, match=f"a.{form} is damaged or no archive") as caught:
        unpacked(made)
    assert "\n" not in str(caught.value)
    assert not made.exists()


def test_the_nineteen_classes_have_train_ids_and_all_else_is_ignored() -> None:
    # Of cityscapesScripts' helpers/labels.py: id → train id.
    known = {7: 0, 8: 1, 11: 2, 12: 3, 13: 4, 17: 5, 19: 6, 20: 7, 21: 8, 22: 9, 23: 10}
    known |= {24: 11, 25: 12, 26: 13, 27: 14, 28: 15, 31: 16, 32: 17, 33: 18}
    assert [known.get(label, 255) for label in range(256)] == TABLE
    assert len(EVALUATED) == 19
