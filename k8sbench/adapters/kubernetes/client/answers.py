"""Answers of the API server that go on: watches and followed logs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from k8sbench.adapters.kubernetes.client.faults import ApiFault, from_status, from_transport

if TYPE_CHECKING:
    import urllib3

_BLOCK = 1 << 16


class LineStream:
    """An answer as it comes; one thread reads, any may close.

    Reading ends where the answer does, or after :meth:`close`; it raises :class:`ApiFault` where
    the connection breaks, or stays silent for longer than was allowed.
    """

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._is_closed = False

    def chunks(self) -> Iterator[bytes]:
        """Yield it in the pieces in which it arrives."""
        try:
            while data := self._read():
                yield data
        finally:
            # Never back to the pool: a stream that is left early would still hold data.
            self._response.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield whole lines with their ends; the last one may lack it, where the text ends so."""
        rest = b""
        for data in self.chunks():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield line + b"\n"
        if rest and not self._is_closed:
            yield rest

    def close(self) -> None:
        """End it; a thread that waits for the next line stops waiting."""
        self._is_closed = True
        # It may have ended meanwhile, or be about to.
        with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
            self._response.shutdown()

    def _read(self) -> bytes:
        import urllib3

        try:
            return b"" if self._is_closed else self._response.read1(_BLOCK)
        # ValueError and AttributeError: of a socket that was shut down while it was read.
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as wrong:
            if self._is_closed:
                return b""
            raise from_transport(wrong) from wrong


class Watch:
    """Changes of objects as they come: ``{"type": "ADDED", "object": {...}}``.

    Iteration ends where the server ends the watch, or after :meth:`close`; an ``ERROR`` of the
    server is raised as :class:`ApiFault` (410 Expired where the resourceVersion is too old).
    """

    def __init__(self, lines: LineStream) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for line in self._lines:
            try:
                event: dict[str, Any] = msgspec.json.decode(line)
            except msgspec.DecodeError as wrong:
                raise ApiFault(None, "", f"what came is not JSON: {wrong}") from wrong
            if event["type"] == "ERROR":
                raise from_status(event["object"])
            yield event

    def close(self) -> None:
        """End it; a thread that waits for the next change stops waiting."""
        self._lines.close()
