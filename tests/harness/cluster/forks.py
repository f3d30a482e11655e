"""Commands of k8sbench in processes that are forked off one that has loaded it.

To load it takes a third of a second of a processor, and tests run it hundreds of times to its end.
What they interrupt or kill is started as a program.
"""

import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["__main__", "tests.harness.cluster.loaded"])


class Ended(NamedTuple):
    """A command that has ended, and what it has printed."""

    code: int
    out: str
    err: str


def run(words: Sequence[str], folder: Path, environ: Mapping[str, str], seconds: float) -> Ended:
    """Run a command to its end; raises TimeoutError if it takes longer."""
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        files = (os.devnull, out.name, err.name)
        process = _CONTEXT.Process(target=_command, args=(words, folder, dict(environ), files))
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"{' '.join(words)}\n{out.read()}\n{err.read()}")
        return Ended(process.exitcode, out.read(), err.read())


def _command(
    words: Sequence[str], folder: Path, environ: Mapping[str, str], files: Sequence[str]
) -> None:
    for number, name in enumerate(files):
        opened = os.open(name, os.O_RDWR)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv[1:] = words
    runpy.run_module("k8sbench", run_name="__main__", alter_sys=True)
