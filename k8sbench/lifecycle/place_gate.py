"""The gate of a place: while it refuses jobs, one creation at a time asks it again."""

from __future__ import annotations

import math

from k8sbench.model.errors import BenchError

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Pauses between two requests of a place that refuses jobs, seconds; each is twice the last."""


class PlaceGate:
    """State of a place by its last answer: it takes jobs, or refuses them."""

    def __init__(self) -> None:
        self.refusal = ""
        """Reason why it creates no job, in sentences; empty while it does."""
        self.took_at = -math.inf
        """Time when it last took a job, monotonic seconds; −inf if never."""
        self._again_at = -math.inf
        self._pause = FIRST_PAUSE

    def is_due(self, now: float) -> bool:
        """Return True if the place may be asked at this time, monotonic seconds."""
        return now >= self._again_at

    def close(self, error: BenchError, now: float) -> bool:
        """Take an error of the place; returns True for a new one.

        Answers to earlier requests do not prolong the pause.
        """
        if self.is_due(now):
            self._again_at = now + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        is_new = self.refusal != str(error)
        self.refusal = str(error)
        return is_new

    def take(self, now: float) -> None:
        """Take the answer that a job was created, or waits for a quota alone."""
        self.took_at = now

    def open(self) -> None:
        """Take an answer that speaks of one job: the place works."""
        self.refusal = ""
        self._again_at, self._pause = -math.inf, FIRST_PAUSE
