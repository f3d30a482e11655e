"""Preparing a data set as a process: killed at any point, twice at once, on a full disk."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from k8sbench.trainers.data.cityscapes import TABLE
from k8sbench.trainers.prepare_data import SAMPLE, STATE
from tests.harness import disks
from tests.harness.archive_server import ArchiveServer, serving
from tests.harness.cluster.shell import until
from tests.tiers import ROOT

PROGRAM = [sys.executable, "-m", "k8sbench.trainers.prepare_data"]


class Prepared:
    """The program on one folder."""

    def __init__(self, folder: Path, *words: str, **environ: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*PROGRAM, words[0], words[1], str(folder), *words[2:]],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | environ,
        )

    def ends(self, code: int = 0) -> str:
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == code, out
        return out


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and STATE not in path.parts
    }


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "imagenet"
    Prepared(folder, "make-sample", "imagenet", "--pictures=16", "--size=32x32").ends()
    return folder


@pytest.fixture(scope="module")
def archive(sample: Path) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as made:
        made.add(sample, "ILSVRC")
    return held.getvalue()


@pytest.fixture
def server(archive: bytes) -> Iterator[ArchiveServer]:
    with serving(archive) as found:
        yield found


@pytest.fixture
def prepare(server: ArchiveServer, tmp_path: Path) -> Callable[..., Prepared]:
    md5 = hashlib.md5(server.content, usedforsecurity=False).hexdigest()

    def start(*words: str, **environ: str) -> Prepared:
        given = words or (f"--url={server.url}", f"--checksum={md5}")
        return Prepared(tmp_path / "set", "prepare", "imagenet", *given, **environ)

    return start


def test_a_set_is_fetched_unpacked_and_checked_and_nothing_else_is_left(
    prepare: Callable[..., Prepared], sample: Path, tmp_path: Path
) -> None:
    out = prepare().ends()
    steps = [line.partition(":")[0] for line in out.splitlines() if "(0%)" in line]
    assert steps == ["fetch set.tar", "verify set.tar", "unpack set.tar"]
    assert contents(tmp_path / "set") == contents(sample)
    assert not (tmp_path / "set" / STATE).exists()


@pytest.mark.parametrize("files", [1, 7, 20])
def test_killed_while_it_unpacks_it_goes_on_and_every_file_is_whole(
    prepare: Callable[..., Prepared],
    server: ArchiveServer,
    sample: Path,
    tmp_path: Path,
    files: int,
) -> None:
    stops = f"""
import os, pathlib, sys
from k8sbench.trainers import prepare_data
left = [{files}]
replace = pathlib.Path.replace
def replaced(self, target):
    if self.name == "incoming":
        if not left[0]:
            os.kill(os.getpid(), 9)
        left[0] -= 1
    return replace(self, target)
pathlib.Path.replace = replaced
sys.exit(prepare_data.main(sys.argv[1:]))
"""
    words = ["prepare", "imagenet", str(tmp_path / "set"), f"--url={server.url}"]
    killed = subprocess.run([sys.executable, "-c", stops, *words], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len([*contents(tmp_path / "set")]) == files
    server.requests.clear()
    prepare(f"--url={server.url}").ends()
    assert contents(tmp_path / "set") == contents(sample)
    assert not server.requests  # the archive was whole


def test_the_second_at_once_says_that_the_first_is_at_work(
    prepare: Callable[..., Prepared], server: ArchiveServer, sample: Path, tmp_path: Path
) -> None:
    server.gate = threading.Event()
    first = prepare()
    until(lambda: bool(server.requests), "the first's request")
    out = prepare().ends(3)
    assert f"being prepared by process {first.process.pid}" in out
    server.gate.set()
    first.ends()
    assert contents(tmp_path / "set") == contents(sample)
    assert len(server.requests) == 1


def test_what_is_missing_is_named_and_the_exit_code_is_2(sample: Path, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    Prepared(folder, "make-sample", "imagenet", "--pictures=16", "--size=32x32").ends()
    Prepared(folder, "check", "imagenet", "--deep").ends()
    victim = min((folder / "val").glob("*/*"))
    victim.unlink()
    out = Prepared(folder, "check", "imagenet").ends(2)
    assert "31" not in out.replace(str(folder), "")
    assert f"{victim.parent.relative_to(folder)}: no pictures" in out
    assert "23 of 24 files" in out
    picture = min((folder / "train").glob("*/*"))
    picture.write_bytes(picture.read_bytes()[:200])
    out = Prepared(folder, "check", "imagenet", "--deep").ends(2)
    assert picture.name in out


def test_a_set_that_is_not_marked_as_drawn_is_held_against_the_real_numbers(
    sample: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "set"
    Prepared(folder, "make-sample", "imagenet", "--pictures=16", "--size=32x32").ends()
    (folder / SAMPLE).unlink()
    out = Prepared(folder, "check", "imagenet").ends()
    assert out.splitlines() == [
        "Note: train: 16 of 1,281,167 pictures of the published set.",
        "Note: train: 8 of 1,000 classes of the published set.",
        "Note: val: 8 of 50,000 pictures of the published set.",
    ]


def test_an_archive_that_was_unpacked_is_not_fetched_for_another_one(
    prepare: Callable[..., Prepared], server: ArchiveServer, tmp_path: Path
) -> None:
    (tmp_path / "other.tar").write_bytes(server.content)
    with (
        tarfile.open(tmp_path / "train.tar", "w") as part,
        tarfile.open(tmp_path / "other.tar") as whole,
    ):
        for member in whole:
            if "/train/" in member.name and member.isfile():
                part.addfile(member, whole.extractfile(member))
    with serving((tmp_path / "train.tar").read_bytes()) as first:
        prepare(f"--url={first.url}").ends(2)  # no validation part
        first.requests.clear()
        prepare(f"--url={first.url}", f"--url={server.url}").ends()
        assert not first.requests
        assert server.requests


def test_a_folder_that_holds_something_is_not_drawn_into(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    out = Prepared(tmp_path, "make-sample", "faces").ends(2)
    assert "is not empty" in out
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_train_ids_are_made_of_labels_that_have_none(tmp_path: Path) -> None:
    folder = tmp_path / "gtFine" / "train" / "aachen"
    folder.mkdir(parents=True)
    labels = folder / "aachen_0_gtFine_labelIds.png"
    Image.frombytes("L", (16, 16), bytes(range(256))).save(labels)
    Prepared(tmp_path, "prepare", "cityscapes").ends(2)  # the rest is missing
    made = folder / "aachen_0_gtFine_labelTrainIds.png"
    with Image.open(made) as picture:
        assert list(picture.tobytes()) == TABLE


def test_a_full_disk_is_told_and_gone_on_with_when_there_is_room(
    server: ArchiveServer, sample: Path, tmp_path: Path
) -> None:
    room = (len(server.content) * 3 // 2) // 4096 * 4
    with disks.small(tmp_path / "disk", f"{room}k") as disk:
        words = ("prepare", "imagenet", f"--url={server.url}")
        out = Prepared(disk, *words).ends(3)
        assert "No space left" in out
        assert not [*(disk / STATE).glob("incoming")]
        disks.grow(disk, f"{4 * room}k")
        server.requests.clear()
        Prepared(disk, *words).ends()
        assert not server.requests
        assert contents(disk) == contents(sample)


def test_ctrl_c_ends_the_program_of_this_machine_and_says_how_to_go_on(
    server: ArchiveServer, sample: Path, tmp_path: Path
) -> None:
    server.gate = threading.Event()
    folder = tmp_path / "set"
    command = [sys.executable, "-m", "k8sbench", "data", "prepare", "imagenet"]
    words = [*command, f"--data={folder}", f"--url={server.url}"]
    running = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    until(lambda: bool(server.requests), "its request")
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "the program on this machine was ended" in err
    assert "The same command continues with what is there." in err
    server.gate.set()
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert contents(folder) == contents(sample)
