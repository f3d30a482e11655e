"""Streaming answers of the API server: watches and followed logs."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import Any

import msgspec
import urllib3

from k8sbench.adapters.kubernetes.client.faults import ApiFault, from_status, from_transport

_BLOCK = 1 << 16


class LineStream:
    """An answer that is read while it arrives; one thread reads, any may close.

    Reading ends with the answer or after :meth:`close`; it raises :class:`ApiFault` where the
    connection breaks, or no data arrives within the read timeout.
    """

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._is_closed = False

    def chunks(self) -> Generator[bytes, None, None]:
        """Yield the pieces in which the answer arrives."""
        try:
            while data := self._read():
                yield data
        finally:
            # Not returned to the pool: a stream that is left early still holds data.
            self._response.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield lines with their line ends; the last one may have none."""
        rest = b""
        for data in self.chunks():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield line + b"\n"
        if rest and not self._is_closed:
            yield rest

    def close(self) -> None:
        """Close the answer; a thread that waits for the next line stops waiting."""
        self._is_closed = True
        # It may have ended in the meantime.
        with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
            self._response.shutdown()

    def _read(self) -> bytes:
        try:
            return b"" if self._is_closed else self._response.read1(_BLOCK)
        # ValueError and AttributeError: from a socket that was shut down while it was read.
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            if self._is_closed:
                return b""
            raise from_transport(error) from error


class WatchStream:
    """Changes of objects as they arrive: ``{"type": "ADDED", "object": {...}}``.

    Iteration ends when the server ends the watch, or after :meth:`close`; an ``ERROR`` event is
    raised as :class:`ApiFault` (410 Expired where the resourceVersion is too old).
    """

    def __init__(self, lines: LineStream) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for line in self._lines:
            try:
                event: dict[str, Any] = msgspec.json.decode(line)
            except msgspec.DecodeError as error:
                raise ApiFault(None, "", f"its answer is not JSON: {error}") from error
            if event["type"] == "ERROR":
                raise from_status(event["object"])
            yield event

    def close(self) -> None:
        """Close the watch; a thread that waits for the next change stops waiting."""
        self._lines.close()
