"""Resumes a log where its archive ends: no line is lost, none comes twice.

``sinceTime`` has whole seconds only, so earlier lines are served again and must be separated
from the new ones. Stamps are not enough: many lines may bear one (to the microsecond), and
stdout's and stderr's are stamped by two threads, so that a line may bear a slightly earlier stamp
than the one before it. A :class:`Mark` therefore is the *latest* stamp and how many lines there
are from the first that bears it; those lines are skipped by counting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from k8sbench.adapters.kubernetes.logs.text import Line
from k8sbench.ports import LogMark

DISORDER = 1_000_000
"""Microseconds by which stamps may go back: a thread may pause between taking the time and writing.
Further back, the node's clock was set, and what comes counts as later."""


class Mark(NamedTuple):
    """How far a log was read."""

    at: int
    """Its latest stamp, Unix microseconds."""
    lines: int
    """Lines from the first one with this stamp on."""

    @classmethod
    def of(cls, mark: LogMark) -> Mark:
        """Make it of the archive's mark."""
        return cls(round(mark.at * 1_000_000), mark.lines)

    @property
    def since(self) -> int:
        """Unix second from which lines must be served to find the mark again."""
        return (self.at - DISORDER) // 1_000_000


def advanced(mark: Mark | None, at: int) -> Mark:
    """Return the mark after one more line."""
    if mark is None or at > mark.at or at < mark.at - DISORDER:
        return Mark(at, 1)
    return Mark(mark.at, mark.lines + 1)


class Resume:
    """Finds the lines that are new among those that are served.

    ``anew``: what is served begins after the mark, with another container or after a gap; all of
    it is new.
    """

    def __init__(self, mark: Mark | None, *, anew: bool = False, now: int = 0) -> None:
        self.mark = mark
        self.found = mark is None or anew
        """Whether the mark was found, so that what is served goes on where the archive ends."""
        self.lost = False
        """Whether lines were served that come after the mark, and the mark's own was not."""
        self._skipped = 0
        """Lines skipped since the first with the mark's stamp."""
        self._earlier = False
        """Whether lines before the mark were served: the log reaches back beyond it."""
        self._at = None if mark is None else mark.at
        self._now = now

    def feed(self, lines: Iterable[Line]) -> list[Line]:
        """Return those that are new, each with a stamp; nothing once the mark is lost."""
        new: list[Line] = []
        for line in lines:
            if self.lost or not (self.found or self._reached(line)):
                continue
            if line.at is None:
                # That of the line before it; at the very beginning there is none.
                line = Line(self._now if self._at is None else self._at, line.text)  # noqa: PLW2901
            new.append(line)
            self._at = at = line.at
            assert at is not None
            self.mark = advanced(self.mark, at)
        return new

    def _reached(self, line: Line) -> bool:
        """Look for the mark; return whether this line is the first after it."""
        assert self.mark is not None
        if line.at is None and not self._skipped:
            return False  # the rest of a line that began before what is served
        if not self._skipped and line.at is not None and line.at < self.mark.at:
            self._earlier = True
            return False
        if line.at is not None and line.at > self.mark.at:
            # None of the archive's lines is served any more; but where what is served reaches back
            # beyond the mark nothing is missing.
            self.found, self.lost = self._earlier, not self._earlier
            return self.found
        self._skipped += 1
        self.found = self._skipped == self.mark.lines
        return False
