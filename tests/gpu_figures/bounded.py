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
    """Exit and output of a program."""

    lines: list[str]
    code: int | None
    """Exit code; negative for a signal; None if stopped at its limit."""
    stopped: str | None = None
    """Limit that stopped it, as a phrase; None if it ended itself."""

    @property
    def how(self) -> str:
        """Return its end as a phrase."""
        return self.stopped or f"exit code {self.code}"


def run(words: Sequence[str], *, seconds: float, environ: Mapping[str, str]) -> Ended:
    """Run a command at the tree's root, in its own process group.

    The group ends with it.
    """
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
