"""Prepares, checks and draws data sets in folders, on this machine or in a container.

``prepare`` fetches, unpacks and checks, ``check`` says what is missing, by name, ``make-sample``
draws a small set. All may be killed at any point and run again. What is printed is described in
:mod:`~k8sbench.trainers.prepare.said`. Exit codes: 0 all is there, 2 something is missing or the
input is wrong, 3 it could not be completed now.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from k8sbench.trainers.parts.settings import Parser, size, whole
from k8sbench.trainers.prepare import labels
from k8sbench.trainers.prepare.fetching import GIVEN, SECRET, URL, Source, fetch
from k8sbench.trainers.prepare.holding import held
from k8sbench.trainers.prepare.said import EXIT_FAILED, EXIT_INPUT, Failed, say
from k8sbench.trainers.prepare.unpacking import unpack

STATE = ".k8sbench-prepare"
SAMPLE = "k8sbench-sample.json"  # marks a drawn set, and says how many files it has
TOP = {
    "cityscapes": frozenset({"leftImg8bit", "gtFine", SAMPLE}),
    "imagenet": frozenset({"train", "val", SAMPLE}),
    "kinetics": frozenset({"labels", "images", SAMPLE}),
    "faces": frozenset(),  # the list names pictures anywhere below the folder
}
LIFE_SECONDS = 10.0
LENGTHS = {"md5": 32, "sha256": 64}
_NUMBER = re.compile(r": [\d,]+ of [\d,]+ (pictures|label files|clips|classes|pairs)$")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        return int(given.run(given))
    except Failed as failed:
        say("failed", text=failed.text, action=failed.action, code=failed.code)
        return failed.code
    except OSError as error:
        action = "The same command continues with what is there."
        if error.errno in {28, 122}:
            action = f"Make room or enlarge the volume. {action}"
        why = f"{error.filename or given.folder}: {error.strerror}."
        say("failed", text=why, action=action, code=EXIT_FAILED)
        return EXIT_FAILED


def _parser() -> Parser:
    made = Parser(prog="python -m k8sbench.trainers.prepare_data", description=__doc__)
    commands = made.add_subparsers(required=True)
    for name, run in (("prepare", _prepare), ("check", _check), ("make-sample", _make_sample)):
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        command.add_argument("name", choices=sorted(TOP))
        command.add_argument("folder", type=Path)
        if name == "prepare":
            command.add_argument("--url", action="append", default=[])
            for algorithm in LENGTHS:
                command.add_argument(f"--{algorithm}", action="append", default=[])
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
    with held(state / "lock"):
        if next(_missing(given.name, folder), None) is None:
            say("note", text="All is there: nothing is fetched.")
            return _tell(given.name, folder, deep=False)
        finished = state / "finished.json"
        done: list[str] = json.loads(finished.read_text()) if finished.exists() else []
        for source in _sources(given):
            archive = state / f"archive-{source.name}"
            if source.key not in done:
                fetch(source, archive)
                unpack(archive, folder, TOP[given.name], state)
                done.append(source.key)
                new = state / "finished.new"
                new.write_text(json.dumps(done))
                new.replace(finished)
            archive.unlink(missing_ok=True)
        if given.name == "cityscapes":
            labels.make_train_ids(folder, state)
        code = _tell(given.name, folder, deep=False)
        finished.unlink(missing_ok=True)
    if code == 0:
        shutil.rmtree(state, ignore_errors=True)
    return code


def _sources(given: argparse.Namespace) -> list[Source]:
    secret = os.environ.get(SECRET)
    if secret and not any(name in os.environ for name in GIVEN):
        raise Failed(
            f"There is no Secret {secret}, or it has none of the keys that are read.",
            "Its keys are username and password, header, url: docs/data.md says what they hold.",
            EXIT_INPUT,
        )
    urls = given.url or [url for url in [os.environ.get(URL)] if url]
    sums = [(name, value) for name in LENGTHS for value in getattr(given, name)]
    if sums and len(sums) != len(urls):
        raise Failed(
            f"There are {len(urls)} URLs and {len(sums)} checksums.",
            "Give one checksum for each URL, in the same order, or none.",
            EXIT_INPUT,
        )
    for name, value in sums:
        if not re.fullmatch(rf"[0-9a-fA-F]{{{LENGTHS[name]}}}", value):
            raise Failed(
                f"{value!r} is no {name}.", f"Give {LENGTHS[name]} hexadecimal digits.", EXIT_INPUT
            )
    if not sums:
        return [Source(url) for url in urls]
    return [Source(url, *pair) for url, pair in zip(urls, sums, strict=True)]


def _check(given: argparse.Namespace) -> int:
    return _tell(given.name, given.folder, deep=given.deep)


def _tell(name: str, folder: Path, *, deep: bool) -> int:
    count, over = 0, threading.Event()
    threading.Thread(target=_show_life, args=(name, over), daemon=True).start()
    for sentence in _missing(name, folder, deep=deep):
        say("missing", text=sentence)
        count += 1
    over.set()
    say("end", problems=count)
    return EXIT_INPUT if count else 0


def _show_life(name: str, over: threading.Event) -> None:
    """Print how long it takes: nothing else is printed while all is right."""
    began = time.monotonic()
    while not over.wait(LIFE_SECONDS):
        done = int(time.monotonic() - began)
        say("progress", step=f"check {name}", done=done, total=None, unit="seconds")


def _missing(name: str, folder: Path, *, deep: bool = False) -> Iterator[str]:
    """Name what the folder lacks; a drawn set is not compared with the numbers of the real one."""
    if not folder.is_dir():
        yield f"{folder}: no such folder"
        return
    marker = folder / SAMPLE
    is_drawn = marker.exists()
    for sentence in _module(name).problems(folder, deep=deep):
        if not (is_drawn and _NUMBER.search(sentence)):
            yield sentence
    if is_drawn:
        files, have = json.loads(marker.read_text())["files"], _files(folder)
        if have < files:
            yield f"{folder}: {have:,} of {files:,} files"


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"k8sbench.trainers.data.{name}")
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
    sample = _module("sample_sets").SETS[given.name]
    folder.mkdir(parents=True, exist_ok=True)
    sample.write(
        folder,
        pictures=given.pictures or sample.pictures,
        size=given.size or sample.size,
        seed=given.seed,
    )
    (folder / SAMPLE).write_text(json.dumps({"set": given.name, "files": _files(folder)}))
    say("note", text=f"{_files(folder)} files were drawn into {folder}.")
    return _tell(given.name, folder, deep=False)


if __name__ == "__main__":
    sys.exit(main())
