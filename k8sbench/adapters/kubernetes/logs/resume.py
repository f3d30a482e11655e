"""Resuming a log at the end of its archive: no gap, no duplicate.

The place is found by content, never by the order of stamps: a node's clock may be set back, and
``sinceTime`` would then leave out what is printed from there on, in an open stream too. What a node
has written into a log does not change, stamps included; so the archive's last line is the one that
has its text and its stamp, and the archive's lines before it. Lines of one stamp (to the
microsecond) are counted, since they may be alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from k8sbench.adapters.kubernetes.logs.text import Line
from k8sbench.adapters.lines import MARKED_BYTES, digest
from k8sbench.ports import LogMark


class Resume:
    """Finds the lines that are new among those that are served.

    ``anew``: what is served begins after the mark, with another container or after a gap; all of
    it is new. ``near``: what is served may begin amid lines of one time.
    """

    def __init__(
        self,
        mark: LogMark | None,
        *,
        anew: bool = False,
        now: int = 0,
        near: bool = False,
    ) -> None:
        self.found = mark is None or anew
        """True if the mark was found, so that further lines are new."""
        self.served = 0
        """Lines that were served."""
        self.is_later = False
        """True if the first served line's stamp is later than the mark."""
        self._mark, self._now, self._near = mark, now, near
        self._is_advanced = False
        self._at: int | None = None
        """Stamp of the last line."""
        self._run = 0
        """Latest consecutive lines with the same stamp."""
        self._texts = mark.texts if mark is not None and anew else b""
        """Digests of the last lines; the archive's once the mark is found."""

    @property
    def mark(self) -> LogMark | None:
        """Position up to which the log was read."""
        if not self._is_advanced or self._at is None:
            return self._mark
        return LogMark(self._at / 1_000_000, self._run, self._texts)

    def feed(self, lines: Iterable[Line]) -> list[Line]:
        """Return those that are new, each with a stamp."""
        new: list[Line] = []
        for line in lines:
            # A line without a stamp gets that of the line before it, or now.
            at = line.at or (self._now if self._at is None else self._at)
            self._run = self._run + 1 if at == self._at else 1
            self._texts = (self._texts + digest(line.text))[-MARKED_BYTES:]
            self._at = at
            self.served += 1
            if self.found:
                new.append(Line(at, line.text))
                self._is_advanced = True
            elif self._mark is not None:
                self._look(self._mark, at)
        return new

    def _look(self, mark: LogMark, at: int) -> None:
        """Check whether the last served line is the archive's last."""
        marked_at = round(mark.at * 1_000_000)
        if self.served == 1:
            self.is_later = at > marked_at
        # Fewer were served where the log begins amid them, or archived.
        if not (mark.texts.endswith(self._texts) or self._texts.endswith(mark.texts)):
            return
        if at == marked_at and self._is_counted(mark):
            self.found = True
            self._at, self._run, self._texts = marked_at, mark.lines, mark.texts

    def _is_counted(self, mark: LogMark) -> bool:
        """Return True if the lines of the mark's time were all served.

        If the first of them may be missing, the last one must be unique among them.
        """
        if self._run < self.served:
            return self._run == mark.lines
        size = len(digest(""))
        run = mark.texts[-size * mark.lines :]
        texts = [run[place : place + size] for place in range(0, len(run), size)]
        is_single = self._run <= mark.lines and texts.count(run[-size:]) == 1
        return is_single or (self._run == mark.lines and not self._near)
