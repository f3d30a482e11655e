"""Reads a pod's log as the API server serves it into the program's lines.

With ``timestamps=true`` the kubelet (cri-client, ``logs.go``) begins each line with the time
at which the container's runtime read it, to the nanosecond and in the node's own zone. A line
longer than 16 KiB is stored in parts there and served in one piece, under the first part's stamp.
Two things come without a stamp:

- what follows a part of a long line, if the other of stdout and stderr wrote in between: it is
  served as if it were that line's end, and cannot be separated;
- the kubelet's own errors, which it writes into a log that it has begun to serve. They are the
  last thing in it and mostly lack a line end, which a whole line never does.
"""

from __future__ import annotations

import calendar
import re
import time
from typing import NamedTuple

from k8sbench.adapters.lines import LIMIT, Lines

LONGEST_STAMP = 64
"""Bytes within which a line's stamp ends; ``2026-11-20T08:15:30.123456789+01:00`` has 35."""
_ERRORS_MODE = "surrogateescape"
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
_ERRORS = re.compile(
    r"rpc error: code = |unable to retrieve container logs for |context cancelled$"
    r"|failed to (?:watch (?:file|directory)|create fsnotify watcher|try resolving symlinks"
    r"|(?:open|read|seek|tail|reset seek)\b.* log file|get parse function)"
    r'|unexpected stream type "|pod "[^"]*" cannot be found'
    r'|(?:previous terminated )?container "[^"]*" in pod "[^"]*" '
)
"""Beginnings of the kubelet's errors.

From cri-client ``logs.go``, ``kubelet_pods.go`` and ``kuberuntime_container.go`` of Kubernetes
1.33.
"""


class Line(NamedTuple):
    """One line of a program's log."""

    at: int | None
    """Unix microseconds, cut from nanoseconds; None where it came without a stamp."""
    text: str
    """Bytes that are no UTF-8 are kept as lone surrogates (``surrogateescape``)."""


class LogText:
    """Splits what is served of one log, whatever the pieces in which it arrives.

    Lines are those of :class:`~k8sbench.adapters.lines.Lines`: bounded, and each state of a
    progress bar is one.
    """

    def __init__(self) -> None:
        self.error: str | None = None
        """The kubelet's error in place of the log, or of its rest."""
        self._head: bytes | None = b""
        """Beginning of a line that may have a stamp; None once that is decided."""
        self._at: int | None = None
        self._is_error = False
        self._body = Lines(errors=_ERRORS_MODE)
        self._second = (b"", 0)

    def feed(self, data: bytes) -> list[Line]:
        """Take what has arrived; returns the lines that it completes."""
        found: list[Line] = []
        *whole, last = data.split(b"\n")
        for piece in whole:
            self._take(piece, found, ended=True)
            self._head, self._is_error = b"", False
        if last:
            self._take(last, found, ended=False)
        return found

    def end(self) -> list[Line]:
        """Return the unterminated rest; the program's if it ended as well."""
        found: list[Line] = []
        if self._head:
            self._begin(self._head, found, ended=False)
            self._head = None
        rest = self._body.end()
        if self._at is None and rest and self.error is None:
            self.error = rest[0]
        return found if self._at is None else [*found, *(Line(self._at, text) for text in rest)]

    def _take(self, piece: bytes, found: list[Line], *, ended: bool) -> None:
        if self._head is None:
            self._feed(piece, found, ended=ended)
        elif ended or len(self._head) + len(piece) >= LONGEST_STAMP:
            head, self._head = self._head + piece, None
            self._begin(head, found, ended=ended)
        else:
            self._head += piece

    def _begin(self, head: bytes, found: list[Line], *, ended: bool) -> None:
        match = _STAMP.match(head)
        self._at = self._microseconds(match) if match else None
        body = head[match.end() :] if match and self._at is not None else head
        if ended and match and b"\r" not in body and len(body) <= LIMIT:
            # The common case; Lines would return the same.
            found.append(Line(self._at, body.decode(errors=_ERRORS_MODE)))
            return
        if self._at is None and _ERRORS.match(text := body.decode(errors="replace")):
            self.error, self._is_error = text, True
        self._feed(body, found, ended=ended)

    def _feed(self, data: bytes, found: list[Line], *, ended: bool) -> None:
        if not self._is_error:
            texts = self._body.feed(data + b"\n" if ended else data)
            found += [Line(self._at, text) for text in texts]

    def _microseconds(self, match: re.Match[bytes]) -> int | None:
        moment, fraction, zone = match.groups()
        if self._second[0] != moment + zone:
            try:
                self._second = (moment + zone, _seconds(moment, zone))
            except ValueError:  # no date: a part of the program's line
                return None
        return self._second[1] * 1_000_000 + int((fraction or b"0").ljust(6, b"0")[:6])


def _seconds(moment: bytes, zone: bytes) -> int:
    local = calendar.timegm(time.strptime(moment.decode(), "%Y-%m-%dT%H:%M:%S"))
    if zone == b"Z":
        return local
    hours, _, minutes = zone[1:].partition(b":")
    ahead = int(hours) * 3600 + int(minutes) * 60
    return local + ahead if zone.startswith(b"-") else local - ahead
