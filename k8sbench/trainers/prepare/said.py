"""What preparing a data set prints: ``K8SBENCH {json}`` lines, read by ``k8sbench data``.

Events: ``note`` (text), ``progress`` (step, done, total or null; bytes or files by ``unit``),
``missing`` (text), ``failed`` (text, action, code) and ``end`` (problems). The last line of a run
is ``failed`` or ``end``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

PREFIX = "K8SBENCH "
EVERY_SECONDS = 1.0
EXIT_INPUT, EXIT_FAILED = 2, 3


class Failed(Exception):
    """Preparing cannot go on: what is wrong, what to do, and the exit code."""

    def __init__(self, text: str, action: str, code: int = EXIT_FAILED) -> None:
        super().__init__(text)
        self.text, self.action, self.code = text, action, code


def say(event: str, **fields: object) -> None:
    """Print one event."""
    sys.stdout.write(PREFIX + json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def size(count: float) -> str:
    """Write bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.4g} TB"


class Progress:
    """Prints how far a step is: at its start, once a second, and at its end."""

    def __init__(self, step: str, total: int | None, unit: str = "bytes", done: int = 0) -> None:
        self.step, self.total, self.unit, self.done = step, total, unit, done
        self.clock: Callable[[], float] = time.monotonic
        self._said = -EVERY_SECONDS
        self.add(0)

    def add(self, count: int) -> None:
        """Count what was done."""
        self.done += count
        if self.clock() - self._said >= EVERY_SECONDS:
            self.say()

    def say(self) -> None:
        """Print how far it is now."""
        self._said = self.clock()
        say("progress", step=self.step, done=self.done, total=self.total, unit=self.unit)
