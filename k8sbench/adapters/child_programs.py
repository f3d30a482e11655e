"""Programs of the trainers as child processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

END_SECONDS = 10.0
"""Seconds to wait for a program after SIGTERM."""


@contextlib.contextmanager
def run_module(module: str, words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Start ``python -m module``; it ends with the block.

    stdout and stderr are one stream. It has its own session, because Ctrl-C is handled here.
    """
    tree = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (tree, os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(END_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()


def read_lines(process: subprocess.Popen[str], tell: Callable[[str], None]) -> int:
    """Tell each line that a program prints until it ends; returns its exit code."""
    assert process.stdout is not None
    for line in process.stdout:
        tell(line.rstrip("\n"))
    return process.wait()
