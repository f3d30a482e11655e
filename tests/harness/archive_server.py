"""An HTTP server on loopback that serves one file, and misbehaves as it is told."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ArchiveServer(ThreadingHTTPServer):
    """Serves ``content`` under any path."""

    daemon_threads = True

    def __init__(self, content: bytes = b"", host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), _Handler)
        self.content = content
        self.ranges = True
        """Whether it serves a part that is asked for."""
        self.cut_after: list[int] = []
        """Bytes after which the next answers break off, one each."""
        self.says_length: int | None = None
        """A length that it pretends."""
        self.statuses: list[int] = []
        """Statuses of the next answers, in the place of the file."""
        self.needs: str | None = None
        """Value of the header Authorization without which it answers 401."""
        self.redirects_to: str | None = None
        self.redirects_once_to: str | None = None
        """Where it redirects the next request to, if anywhere."""
        self.requests: list[dict[str, str]] = []
        """The headers of every request so far."""
        self.gate: threading.Event | None = None
        """Opened: an answer goes on after its first half."""

    @property
    def url(self) -> str:
        """Where the file is."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}/data/set.tar"

    def ask_for(self, user: str, password: str) -> None:
        """Demand basic authentication."""
        self.needs = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def asked(self, header: str) -> list[str | None]:
        """Return the value of a header in every request."""
        return [each.get(header) for each in self.requests]


class _Handler(BaseHTTPRequestHandler):
    server: ArchiveServer

    def do_GET(self) -> None:
        here = self.server
        here.requests.append(dict(self.headers))
        if here.needs is not None and self.headers.get("Authorization") != here.needs:
            self.send_error(401)
        elif here.statuses:
            self.send_error(here.statuses.pop(0))
        elif to := here.redirects_once_to or here.redirects_to:
            here.redirects_once_to = None
            self.send_response(302)
            self.send_header("Location", to)
            self.end_headers()
        else:
            self._serve(here)

    def _serve(self, here: ArchiveServer) -> None:
        begin, asked = 0, self.headers.get("Range")
        if asked and here.ranges:
            begin = int(asked.removeprefix("bytes=").rstrip("-"))
        if begin >= len(here.content) > 0:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(here.content)}")
            self.end_headers()
            return
        part = here.content[begin:]
        self.send_response(206 if begin else 200)
        if begin:
            last = len(here.content) - 1
            self.send_header("Content-Range", f"bytes {begin}-{last}/{len(here.content)}")
        length = len(part) if here.says_length is None else here.says_length
        self.send_header("Content-Length", str(length))
        self.end_headers()
        with contextlib.suppress(OSError):  # the reader is gone
            if here.gate is not None:
                half = len(part) // 2
                self.wfile.write(part[:half])
                self.wfile.flush()
                here.gate.wait(60)
                part = part[half:]
            self.wfile.write(part[: here.cut_after.pop(0)] if here.cut_after else part)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Keep the tests' output clean."""


@contextlib.contextmanager
def serving(content: bytes = b"", host: str = "127.0.0.1") -> Iterator[ArchiveServer]:
    """Serve a file until the end of the block."""
    with ArchiveServer(content, host) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
