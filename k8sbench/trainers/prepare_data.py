"""Prepares, checks and draws data sets in folders, on this machine or in a container.

``prepare`` fetches, unpacks and checks, ``check`` says what is missing, by name, ``make-sample``
draws a small set. All may be killed at any point and run again. Exit codes: 0 all is there, 2
something is missing or the input is wrong, 3 it could not be completed now.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from k8sbench.trainers.parts.settings import Parser, size, whole
from k8sbench.trainers.prepare.fetching import NO_ROOM, URL, ArchiveSource, fetch
from k8sbench.trainers.prepare.messages import EXIT_INPUT, MISSING, Failed, say
from k8sbench.trainers.prepare.unpacking import unpack

STATE = ".k8sbench-prepare"
SAMPLE = "k8sbench-sample.json"  # marks a drawn set, and says how many files it has
TOP = {
    "cityscapes": frozenset({"leftImg8bit", "gtFine", SAMPLE}),
    "imagenet": frozenset({"train", "val", SAMPLE}),
    "kinetics": frozenset({"labels", "images", SAMPLE}),
    "faces": frozenset(),  # the list names pictures anywhere below the folder
}
UNPACKED = ".unpacked"  # ends the name of the mark of an archive that is
LENGTHS = (32, 64)  # of an MD5 and a SHA-256
# What does not hold of a drawn set, nor of a part of a published one.
_NUMBER = re.compile(r": [\d,]+ of [\d,]+ (pictures|label files|clips|classes|pairs)$")
_SIZE = re.compile(r": \d+x\d+ pixels, not \d+x\d+$")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        return int(given.run(given))
    except Failed as error:
        failed = error
    except OSError as error:
        action = "The same command continues with what is there."
        if error.errno in NO_ROOM:
            action = f"Make room or enlarge the volume. {action}"
        failed = Failed(f"{error.filename or given.folder}: {error.strerror}.", action)
    say(f"error: {failed.text}")
    say(failed.action)
    return failed.code


def _parser() -> Parser:
    made = Parser(prog="python -m k8sbench.trainers.prepare_data", description=__doc__)
    commands = made.add_subparsers(required=True)
    for name, run in (("prepare", _prepare), ("check", _check), ("make-sample", _make_sample)):
        command = commands.add_parser(name)
        command.set_defaults(run=run, deep=False)
        command.add_argument("name", choices=sorted(TOP))
        command.add_argument("folder", type=Path)
        if name == "prepare":
            command.add_argument("--url", action="append", default=[])
            command.add_argument("--checksum", action="append", default=[])
        elif name == "check":
            command.add_argument("--deep", action="store_true")
        else:
            command.add_argument("--pictures", type=whole(2), default=None)
            command.add_argument("--size", type=size, default=None)
            command.add_argument("--seed", type=whole(0), default=0)
    return made


def _prepare(given: argparse.Namespace) -> int:
    folder: Path = given.folder
    state = folder / STATE
    state.mkdir(parents=True, exist_ok=True)
    with _held(state / "lock"):
        sources = _sources(given)
        marks = [state / f"{source.key}{UNPACKED}" for source in sources]
        are_unpacked = all(mark.exists() for mark in marks)
        lacks = list(_missing(given.name, folder))
        if not lacks or (are_unpacked and all(map(_NUMBER.search, lacks))):
            say("All is there: nothing is fetched.")
        else:
            for mark in marks if are_unpacked else ():
                mark.unlink()  # something of it is gone
            try:
                _fill(given.name, sources, folder, state)
            finally:
                (state / "incoming").unlink(missing_ok=True)  # which may fill the disk
        problems, notes = _told(given)
        if not problems + notes:
            # Else the archives are remembered: the next call may name others.
            shutil.rmtree(state, ignore_errors=True)
    return EXIT_INPUT if problems else 0


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; raises :class:`Failed` where another process is at work.

    The folder may be shared by several machines. The lock ends with its process, also with one that
    is killed.
    """
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Failed(
                f"The folder is being prepared by {file.read() or 'another process'}.",
                "Wait for its end; then the same command says that all is there.",
            ) from None
        except OSError as error:  # of a file system without locks
            say(f"{path} cannot be locked ({error.strerror}): start nothing else on this folder.")
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def _fill(name: str, sources: Sequence[ArchiveSource], folder: Path, state: Path) -> None:
    for source in sources:
        archive, mark = state / source.key / source.name, state / f"{source.key}{UNPACKED}"
        archive.parent.mkdir(exist_ok=True)
        if not mark.exists():
            fetch(source, archive)
            unpack(archive, folder, TOP[name], state)
            mark.touch()
        archive.unlink(missing_ok=True)
    if name == "cityscapes":
        _module("data.cityscapes").make_train_ids(folder, state)


def _sources(given: argparse.Namespace) -> list[ArchiveSource]:
    urls = given.url or [url for url in [os.environ.get(URL)] if url]
    sums = given.checksum
    if sums and len(sums) != len(urls):
        raise Failed(
            f"There are {len(urls)} URLs and {len(sums)} checksums.",
            "Give one checksum for each URL, in the same order, or none.",
            EXIT_INPUT,
        )
    for value in sums:
        if not re.fullmatch("[0-9a-fA-F]+", value) or len(value) not in LENGTHS:
            why = f"{value!r} is no MD5 and no SHA-256."
            raise Failed(why, "Give 32 or 64 hexadecimal digits.", EXIT_INPUT)
    pairs = itertools.zip_longest(urls, sums)
    return [ArchiveSource(url, value) for url, value in pairs]


def _check(given: argparse.Namespace) -> int:
    return EXIT_INPUT if _told(given)[0] else 0


def _told(given: argparse.Namespace) -> tuple[int, int]:
    """Say what the folder lacks, and what it has less or more of than the published set has: how
    many lines of both.
    """
    counts = [0, 0]
    for sentence in _missing(given.name, given.folder, deep=given.deep):
        is_note = _NUMBER.search(sentence) is not None
        say(f"Note: {sentence} of the published set." if is_note else f"{MISSING}{sentence}")
        counts[is_note] += 1
    return counts[0], counts[1]


def _missing(name: str, folder: Path, *, deep: bool = False) -> Iterator[str]:
    """Name what the folder lacks; a drawn set is not compared with the numbers of the real one."""
    if not folder.is_dir():
        yield f"{folder}: no such folder"
        return
    marker = folder / SAMPLE
    is_drawn = marker.exists()
    for sentence in _module(f"data.{name}").problems(folder, deep=deep):
        if not (is_drawn and (_NUMBER.search(sentence) or _SIZE.search(sentence))):
            yield sentence
    if is_drawn:
        files, have = json.loads(marker.read_text())["files"], _files(folder)
        if have < files:
            yield f"{folder}: {have:,} of {files:,} files"


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"k8sbench.trainers.{name}")
    except ModuleNotFoundError as error:
        raise Failed(
            f"This takes numpy and Pillow, and {error.name} is not installed.",
            "Install it, or name an image that has both with --image.",
        ) from None


def _files(folder: Path) -> int:
    return sum(
        path.is_file() and path.name != SAMPLE and STATE not in path.parts
        for path in folder.rglob("*")
    )


def _make_sample(given: argparse.Namespace) -> int:
    folder: Path = given.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Failed(f"{folder} is not empty.", "Name a folder that is not there yet.", EXIT_INPUT)
    write = _module("data.sample_sets").SETS[given.name]
    folder.mkdir(parents=True, exist_ok=True)
    asked = {name: getattr(given, name) for name in ("pictures", "size") if getattr(given, name)}
    write(folder, seed=given.seed, **asked)
    files = _files(folder)
    (folder / SAMPLE).write_text(json.dumps({"set": given.name, "files": files}))
    say(f"{files} files were drawn into {folder}, those of the validation among them.")
    return _check(given)


if __name__ == "__main__":
    sys.exit(main())
