"""Bytes of a replica's output become whole lines: complete, bounded and always text."""

from __future__ import annotations

import zlib

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
    """Splits what a program writes, whatever the pieces in which it arrives.

    ``\\n`` ends a line. Within it ``\\r`` ends a state of a progress bar, which the next one would
    overwrite on a terminal: each state that holds anything is a line of its own, and a ``\\r``
    before the line's end means nothing. Bytes that are not UTF-8 become U+FFFD, unless ``errors``
    names another of Python's ways.
    """

    def __init__(self, errors: str = "replace") -> None:
        self._errors = errors
        self._rest = b""
        self._cut = 0
        """Bytes that were dropped of what is in ``_rest``, being beyond the limit."""
        self._has_states = False
        """True if the unfinished line has yielded states already."""

    def feed(self, data: bytes) -> list[str]:
        """Take what has arrived; returns the lines that it completes."""
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
        """Return what is left without a line end, if anything is."""
        rest, self._rest = self._rest, b""
        return self._states([rest])

    def _states(self, states: list[bytes]) -> list[str]:
        return [self._text(state) for state in states if state]

    def _text(self, state: bytes) -> str:
        cut, self._cut = self._cut + max(0, len(state) - LIMIT), 0
        text = state[:LIMIT].decode(errors=self._errors)
        return f"{text} [k8sbench: line cut, {cut} more bytes]" if cut else text
