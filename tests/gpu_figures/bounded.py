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
    stopped: str | None = None
    """The limit at which it was stopped, as a phrase; None if it ended by itself."""

    @property
    def how(self) -> str:
        """How it ended, as a phrase."""
        return self.stopped or f"exit code {self.code}"


def run(words: Sequence[str], *, seconds: float, environ: Mapping[str, str]) -> Ended:
    """Run a command from the top of the tree, as a process group of its own, which ends with it."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            words, cwd=ROOT, env=environ, stdout=output, stderr=output, start_new_session=True
        )
        code, stopped = None, f"stopped after {seconds:.0f} s"
        try:
            code, stopped = process.wait(seconds), ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return Ended(output.read().decode(errors="replace").splitlines(), code, stopped or None)
