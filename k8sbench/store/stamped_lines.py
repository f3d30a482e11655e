"""Lines of a replica's output: split into lines, with their time stamps, and resumed.

Lines are complete, of bounded length, and always text.
"""

from __future__ import annotations

import datetime
import re
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from k8sbench.model.replica_logs import LogMark

LIMIT = 256 * 1024
"""Maximum length of a line, bytes; longer ones are cut and marked.

A program that never ends a line must not fill the memory.
"""
MARKED_BYTES = 64 * 4
"""Length of a mark's digests: those of a log's last 64 lines.

Programs repeat lines, but hardly 64 of them.
"""


def digest(text: str) -> bytes:
    """Return a line's four-byte digest; see ``LogMark.texts``."""
    return zlib.crc32(text.encode("utf-8", "surrogateescape")).to_bytes(4, "big")


class LineSplitter:
    """Splits the output of a program into lines, whatever the pieces in which it arrives.

    ``\\n`` ends a line. Within it ``\\r`` ends a state of a progress bar, which the next one would
    overwrite on a terminal: each state that holds anything is a line of its own, and a ``\\r``
    before the line's end means nothing. Bytes that are not UTF-8 become U+FFFD, unless ``errors``
    names another of Python's ways.
    """

    def __init__(self, errors: str = "replace") -> None:
        self._errors = errors
        self._rest = b""
        self._cut = 0
        """Bytes of the unfinished line that were dropped beyond the limit."""
        self._has_states = False
        """True if the unfinished line has yielded states already."""

    def feed(self, data: bytes) -> list[str]:
        """Take data that has arrived; return the lines that it completes."""
        lines: list[str] = []
        *whole, last = (self._rest + data).split(b"\n")
        for line in whole:
            states = self._states(line.split(b"\r"))
            lines += states if states or self._has_states else [""]
            self._has_states = False
        *done, last = last.split(b"\r")
        states = self._states(done)
        lines += states
        self._has_states = self._has_states or bool(states)
        self._cut += max(0, len(last) - LIMIT)
        self._rest = last[:LIMIT]
        return lines

    def end(self) -> list[str]:
        """Return the unfinished line, if any."""
        unfinished, self._rest = self._rest, b""
        return self._states([unfinished])

    def _states(self, states: list[bytes]) -> list[str]:
        return [self._text(state) for state in states if state]

    def _text(self, state: bytes) -> str:
        cut = self._cut + max(0, len(state) - LIMIT)
        self._cut = 0
        text = state[:LIMIT].decode(errors=self._errors)
        return f"{text} [k8sbench: line cut, {cut} more bytes]" if cut else text


# -- lines of a pod's log, and which of them are new -----------------------------------------------
#
# With ``timestamps=true`` the kubelet (cri-client, ``logs.go``) begins each line with the time at
# which the container's runtime read it, to the nanosecond and in the node's own zone. A line longer
# than 16 KiB is stored in parts there and served in one piece, under the first part's stamp. Two
# things come without a stamp:
#
# - what follows a part of a long line, if the other of stdout and stderr wrote in between: it is
#   served as if it were that line's end, and cannot be separated;
# - the kubelet's own errors, which it writes into a log that it has begun to serve. They are the
#   last thing in it and lack a line end, which a whole line never does. Their words decide nothing.
#
# A log is resumed at the end of its archive, without a gap or a duplicate. The place is found by
# content, never by the order of stamps: a node's clock may be set back, and ``sinceTime`` would
# then leave out what is printed from there on, in an open stream too. What a node has written into
# a log does not change, stamps included; so the archive's last line is the one that has its text
# and its stamp, and the archive's lines before it. Lines of one stamp (to the microsecond) are
# counted, since they may be alike.

LONGEST_STAMP = 64
"""Bytes within which a line's stamp ends; ``2026-11-20T08:15:30.123456789+01:00`` has 35."""
_ERRORS_MODE = "surrogateescape"
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) ")
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


class StampedLine(NamedTuple):
    """One line of a program's log."""

    at: int | None
    """Unix microseconds, cut from nanoseconds; None where it came without a stamp."""
    text: str
    """Bytes that are no UTF-8 are kept as lone surrogates (``surrogateescape``)."""


class PodLogSplitter:
    """Splits a pod's log as the kubelet serves it into stamped lines.

    The text after a stamp is split as by :class:`LineSplitter`.
    """

    def __init__(self) -> None:
        self.error: str | None = None
        """The kubelet's error in place of the log, or of its rest."""
        self._head: bytes | None = b""
        """Beginning of a line that may have a stamp; None once that is decided."""
        self._at: int | None = None
        self._body = LineSplitter(errors=_ERRORS_MODE)

    def feed(self, data: bytes) -> list[StampedLine]:
        """Take data that has arrived; return the lines that it completes."""
        lines: list[StampedLine] = []
        *whole, last = data.split(b"\n")
        for piece in whole:
            self._take(piece, lines, ended=True)
            self._head = b""
        if last:
            self._take(last, lines, ended=False)
        return lines

    def end(self) -> list[StampedLine]:
        """Return the unterminated rest; the program's if it ended as well."""
        lines: list[StampedLine] = []
        if self._head:
            self._begin(self._head, lines, ended=False)
            self._head = None
        unfinished = self._body.end()
        if self._at is None and unfinished:
            self.error = unfinished[0]
        return (
            lines
            if self._at is None
            else [*lines, *(StampedLine(self._at, text) for text in unfinished)]
        )

    def _take(self, piece: bytes, lines: list[StampedLine], *, ended: bool) -> None:
        if self._head is None:
            self._feed(piece, lines, ended=ended)
        elif ended or len(self._head) + len(piece) >= LONGEST_STAMP:
            head = self._head + piece
            self._head = None
            self._begin(head, lines, ended=ended)
        else:
            self._head += piece

    def _begin(self, head: bytes, lines: list[StampedLine], *, ended: bool) -> None:
        match = _STAMP.match(head)
        self._at = _microseconds(match[1].decode()) if match else None
        body = head[match.end() :] if match and self._at is not None else head
        if ended and match and b"\r" not in body and len(body) <= LIMIT:
            # The common case; Lines would return the same.
            lines.append(StampedLine(self._at, body.decode(errors=_ERRORS_MODE)))
            return
        self._feed(body, lines, ended=ended)

    def _feed(self, data: bytes, lines: list[StampedLine], *, ended: bool) -> None:
        texts = self._body.feed(data + b"\n" if ended else data)
        lines += [StampedLine(self._at, text) for text in texts]


def _microseconds(stamp: str) -> int | None:
    """Read a stamp as Unix microseconds; None if it is no date."""
    try:
        return (datetime.datetime.fromisoformat(stamp) - _EPOCH) // _MICROSECOND
    except ValueError:
        return None


class NewLineFilter:
    """Finds the served lines that are not in the archive yet.

    ``anew``: the served log begins after the mark, with another container or after a gap; all of
    its lines are new. ``near``: the served log may begin amid lines of one time.
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

    def feed(self, lines: Iterable[StampedLine]) -> list[StampedLine]:
        """Return the new ones of some lines, each with a stamp."""
        new: list[StampedLine] = []
        for line in lines:
            # A line without a stamp gets that of the line before it, or now.
            at = line.at or (self._now if self._at is None else self._at)
            self._run = self._run + 1 if at == self._at else 1
            self._texts = (self._texts + digest(line.text))[-MARKED_BYTES:]
            self._at = at
            self.served += 1
            if self.found:
                new.append(StampedLine(at, line.text))
                self._is_advanced = True
            elif self._mark is not None:
                self._look(self._mark, at)
        return new

    def _look(self, mark: LogMark, at: int) -> None:
        """Check whether the last served line is the archive's last."""
        marked_at = round(mark.at * 1_000_000)
        if self.served == 1:
            self.is_later = at > marked_at
        # Fewer lines than in the mark: the served log, or the archive, begins amid them.
        if not (mark.texts.endswith(self._texts) or self._texts.endswith(mark.texts)):
            return
        if at == marked_at and self._is_counted(mark):
            self.found = True
            self._at, self._run, self._texts = marked_at, mark.lines, mark.texts

    def _is_counted(self, mark: LogMark) -> bool:
        """Return True if all lines with the mark's stamp were served.

        If the first of them may be missing, the last one must be unique among them.
        """
        if self._run < self.served:
            return self._run == mark.lines
        size = len(digest(""))
        run = mark.texts[-size * mark.lines :]
        texts = [run[place : place + size] for place in range(0, len(run), size)]
        is_single = self._run <= mark.lines and texts.count(run[-size:]) == 1
        return is_single or (self._run == mark.lines and not self._near)
