"""Faulty servers in the place of a Prometheus."""

import contextlib
import http.server
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator

Handle = Callable[[http.server.BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def serving(handle: Handle) -> Iterator[str]:
    """Serve all GETs by a function; gives the address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                handle(self)

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answer(status: int, text: str, **headers: str) -> Handle:
    """Give one answer to all."""

    def handle(request: http.server.BaseHTTPRequestHandler) -> None:
        send(request, status, text.encode(), headers)

    return handle


def guarded(url: str, token: str) -> Handle:
    """Pass on what bears a token."""

    def handle(request: http.server.BaseHTTPRequestHandler) -> None:
        if request.headers.get("Authorization") != f"Bearer {token}":
            send(request, 401, b"Unauthorized")
            return
        with urllib.request.urlopen(url + request.path, timeout=10) as found:
            send(request, found.status, found.read())

    return handle


def trickle(request: http.server.BaseHTTPRequestHandler) -> None:
    """Answer a little at a time, for as long as anybody listens."""
    request.send_response(200)
    request.end_headers()
    while True:
        request.wfile.write(b" ")
        time.sleep(0.05)


def send(
    request: http.server.BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    headers: dict[str, str] | None = None,
) -> None:
    """Send an answer whole."""
    request.send_response(status)
    for name, value in (headers or {}).items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)
