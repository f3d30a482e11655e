"""Runs a program within a limit of time, and ends its process group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            code = process.poll()
        finally:
            _stop(process)
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
        return Ended(lines, code, f"stopped after {seconds:.0f} s" if code is None else None)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the group, at its limit or after its end."""
    for number, grace in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
