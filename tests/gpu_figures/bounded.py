"""Runs a program within a limit of time; nothing that it starts is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
POLL_SECONDS = 0.5
GRACE_SECONDS = 5.0
"""From SIGTERM to SIGKILL."""


@dataclass(frozen=True)
class Ended:
    """How a program ended, and what it printed on stdout and stderr."""

    lines: list[str]
    code: int | None
    """Exit code, a signal's number below 0; None if the program was stopped at its limit."""
    stopped: str | None
    """The limit at which it was stopped, as a phrase; None if it ended by itself."""


def run(words: Sequence[str], *, seconds: float, environ: Mapping[str, str] | None = None) -> Ended:
    """Run a command from the top of the tree, as a process group of its own."""
    family: set[psutil.Process] = set()
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while process.poll() is None and (left := deadline - time.monotonic()) > 0:
                _look(process, family)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(min(POLL_SECONDS, left))
            code = process.poll()
        finally:
            _stop(process, family)
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
        return Ended(lines, code, f"stopped after {seconds:.0f} s" if code is None else None)


def _look(process: subprocess.Popen[bytes], family: set[psutil.Process]) -> None:
    """Add to `family` what a process has started.

    A program in a session of its own belongs to no group that is killed here.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        family.update((parent, *parent.children(recursive=True)))


def _stop(process: subprocess.Popen[bytes], family: set[psutil.Process]) -> None:
    _look(process, family)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for each in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()
