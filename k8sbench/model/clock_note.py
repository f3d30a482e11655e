"""The note in a run's log that the wall clock was set.

Lines are stamped by the wall clock. Whoever stamps them compares it with the monotonic clock, and
writes this note in front of the first line after a difference.
"""

from __future__ import annotations

import re

LEAST_SECONDS = 1.0
"""Smallest change of the wall clock, relative to the monotonic clock, that is noted."""
NEEDLE = "[k8sbench: wall clock set by "
_NOTE = re.compile(re.escape(NEEDLE) + r"([-+]\d+\.\d) s\]")


class ClockWatch:
    """Compares the wall clock with the monotonic clock, from one line to the next."""

    def __init__(self) -> None:
        self._ahead: float | None = None
        """Wall clock less monotonic clock, at the first line or the last note."""

    def note(self, wall: float, monotonic: float) -> str | None:
        """Return the note for the log; None if the wall clock was not set."""
        ahead = wall - monotonic
        before = ahead if self._ahead is None else self._ahead
        if self._ahead is not None and abs(ahead - before) <= LEAST_SECONDS:
            return None
        self._ahead = ahead
        return None if ahead == before else f"{NEEDLE}{ahead - before:+.1f} s]"


def parse_note(text: str) -> float | None:
    """Read the seconds of a note; None for another text."""
    match = _NOTE.match(text)
    return None if match is None else float(match[1])
