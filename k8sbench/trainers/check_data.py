"""Checks and draws data sets in folders.

``check`` says what is missing, by name; ``make-sample`` draws a small set. Exit codes: 0 all is
there, 2 something is missing or the input is wrong, 3 it could not be completed now. What the set
lacks begins with :data:`MISSING`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from k8sbench.trainers.parts.settings import Parser, size, whole

SETS = ("cityscapes", "faces", "imagenet", "kinetics", "tokens")
SPREAD = 200  # samples of a part that are decoded, unless all are
SAMPLE = "k8sbench-sample.json"  # marks a drawn set, and says how many files it has
MISSING = "missing: "
EXIT_INPUT, EXIT_FAILED = 2, 3
# What does not hold of a drawn set.
_SIZE = re.compile(r": \d+x\d+ pixels, not \d+x\d+$")


def say(text: str) -> None:
    """Print one line, whatever the names of files in it hold."""
    line = " ".join(text.splitlines())
    print(line.encode(errors="backslashreplace").decode(), flush=True)


def fail(text: str, action: str, code: int = EXIT_FAILED) -> NoReturn:
    """End the command with the problem, the remedy and an exit code."""
    say(f"error: {text}")
    say(action)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        return int(given.run(given))
    except OSError as error:
        action = "Mend it, or make room; then give the same command again, with an empty folder."
        fail(f"{error.filename or given.folder}: {error.strerror}.", action)


def _parser() -> Parser:
    made = Parser(prog="python -m k8sbench.trainers.check_data", description=__doc__)
    commands = made.add_subparsers(required=True)
    for name, run in (("check", _check), ("make-sample", _make_sample)):
        command = commands.add_parser(name)
        command.set_defaults(run=run, deep=False)
        command.add_argument("name", choices=SETS)
        command.add_argument("folder", type=Path)
        if name == "check":
            command.add_argument("--deep", action="store_true")
        else:
            command.add_argument("--pictures", type=whole(2), default=None)
            command.add_argument("--size", type=size, default=None)
            command.add_argument("--seed", type=whole(0), default=0)
    return made


def _check(given: argparse.Namespace) -> int:
    """Print what the set lacks; the exit code."""
    code = 0
    for sentence in _missing(given.name, given.folder, deep=given.deep):
        say(f"{MISSING}{sentence}")
        code = EXIT_INPUT
    return code


def _missing(name: str, folder: Path, *, deep: bool) -> Iterator[str]:
    """Yield what is missing or broken; `deep` decodes all samples.

    Other counts than the published set's are printed as notes, but of a drawn set.
    """
    if not folder.is_dir():
        yield f"{folder}: no such folder"
        return
    module = _module(f"data.{name}")
    import numpy as np

    from k8sbench.trainers.parts.samples import BrokenSample, DataError

    marker = folder / SAMPLE
    is_drawn = marker.exists()
    try:
        files = module.open_set(folder)
    except DataError as error:
        yield str(error)
        return
    if files.left_out:
        say(f"Note: samples left out: {len(files.left_out)}")
        for sentence in files.left_out:
            say(f"Note: {sentence}")
    for part, samples in (("train", files.training), ("val", files.validation)):
        held = len(samples)
        published = module.SAMPLES[part]
        if held != published and not is_drawn:
            say(f"Note: {part}: {held:,} of {published:,} samples of the published set.")
        for number in range(0, held, 1 if deep else max(held // SPREAD, 1)):
            try:
                samples.sample(number, np.random.default_rng(number))
            except BrokenSample as error:
                if not (is_drawn and _SIZE.search(str(error))):
                    yield str(error)
    if is_drawn:
        try:
            have = _files(folder)
            drawn = int(json.loads(marker.read_text())["files"])
        except (ValueError, KeyError, TypeError):
            yield f"{marker}: not as it was written"
            return
        if have < drawn:
            yield f"{folder}: {have:,} of {drawn:,} files"


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"k8sbench.trainers.{name}")
    except ModuleNotFoundError as error:
        fail(
            f"This takes numpy and Pillow, and {error.name} is not installed.",
            "Install both: pip install numpy pillow",
        )


def _files(folder: Path) -> int:
    return sum(path.is_file() and path.name != SAMPLE for path in folder.rglob("*"))


def _make_sample(given: argparse.Namespace) -> int:
    folder: Path = given.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        fail(f"{folder} is not empty.", "Name a folder that is not there yet.", EXIT_INPUT)
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
