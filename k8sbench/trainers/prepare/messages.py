"""What preparing a data set prints: lines for people, which ``k8sbench data`` passes on.

What the set lacks begins with :data:`MISSING`. How it ended is the exit code.
"""

from __future__ import annotations

import time

MISSING = "missing: "
EVERY_SECONDS = 10.0
EXIT_INPUT, EXIT_FAILED = 2, 3


class Failed(Exception):
    """Preparing cannot go on: what is wrong, what to do, and the exit code."""

    def __init__(self, text: str, action: str, code: int = EXIT_FAILED) -> None:
        super().__init__(text)
        self.text, self.action, self.code = text, action, code


def say(text: str) -> None:
    """Print one line, whatever the names of files in it hold."""
    line = " ".join(text.splitlines())
    print(line.encode(errors="backslashreplace").decode(), flush=True)


def size(count: float) -> str:
    """Write bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.4g} TB"


class Progress:
    """Prints how far a step is: at its start, every ten seconds, and at its end."""

    def __init__(self, step: str, total: int | None, unit: str = "bytes", done: int = 0) -> None:
        self.step, self.total, self.unit, self.done = step, total, unit, done
        self._said = -EVERY_SECONDS
        self.add(0)

    def add(self, count: int) -> None:
        """Count what was done."""
        self.done += count
        if time.monotonic() - self._said >= EVERY_SECONDS:
            self.say()

    def say(self) -> None:
        """Print how far it is now."""
        self._said = time.monotonic()
        counts = [count for count in (self.done, self.total) if count is not None]
        texts = [size(count) if self.unit == "bytes" else f"{count:,}" for count in counts]
        text = " of ".join(texts) + ("" if self.unit == "bytes" else f" {self.unit}")
        share = f" ({self.done / self.total:.0%})" if self.total else ""
        say(f"{self.step}: {text}{share}")
