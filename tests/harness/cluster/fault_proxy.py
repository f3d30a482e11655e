"""An HTTP proxy before the API server that injects faults by request.

Clients reach it by plain HTTP on the loopback address. It passes their tokens on, or presents the
client certificate of the kubeconfig, so that the API server sees the same user.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import json
import re
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack
from urllib.parse import urlsplit

from tests.harness.cluster.limits import SECONDS

_PIECE = 1 << 16
_HOP = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive"})


class Request(NamedTuple):
    """A request that came, whether or not it was forwarded."""

    method: str
    path: str
    """With the query."""


class Which(TypedDict, total=False):
    """Further criteria of a fault's requests; see :class:`FaultProxy`."""

    method: str
    skip: int
    times: int | None


class Fault:
    """A fault of some requests, until :meth:`end` or for ``times`` requests.

    Also a context manager, which ends it.
    """

    def __init__(
        self, proxy: FaultProxy, kind: str, wanted: Request, *, skip: int, times: int | None
    ) -> None:
        self.kind = kind
        self.hits = 0
        """Requests that it has met so far."""
        self.status, self.body, self.headers = 0, b"", dict[str, str]()
        self.answers: dict[str, tuple[int, bytes]] = {}
        """By path: what was answered there first."""
        self.change: Callable[[bytes], bytes] = lambda line: line
        self._proxy, self._wanted, self._skip, self._times = proxy, wanted, skip, times
        self._is_over = threading.Event()

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def meets(self, request: Request) -> bool:
        """Return True if the fault applies to this request; count the request."""
        methods = self._wanted.method.split("|")
        if self._is_over.is_set() or not {"", request.method} & set(methods):
            return False
        if re.search(self._wanted.path, request.path) is None:
            return False
        if self._skip > 0:
            self._skip -= 1
            return False
        if self._times is not None and self.hits >= self._times:
            return False
        self.hits += 1
        return True

    def wait(self, hits: int = 1) -> None:
        """Wait until it has met so many requests."""
        self._proxy.until(lambda: self.hits >= hits, f"{self.kind} of {self._wanted}")

    def end(self) -> None:
        """Let requests through from now on, those that are held, too; idempotent."""
        self._is_over.set()

    def wait_for_end(self) -> None:
        """Wait until it ends."""
        self._is_over.wait()


class FaultProxy:
    """Forwards requests to a kubeconfig's API server unless a fault applies.

    A fault applies to a method (any, if empty; ``POST|PATCH``: one of these) and to paths with
    query in which a regular expression is found. The first fault that was added and fits is used.
    It skips the first ``skip`` requests and ends after ``times``.
    """

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        (cluster,), (user,) = config["clusters"], config["users"]
        parts = urlsplit(cluster["cluster"]["server"])
        self._upstream = parts.hostname or "", parts.port or 443
        self._tls = _client_context(cluster["cluster"], user["user"])
        self._faults: list[Fault] = []
        self._requests: list[Request] = []
        self._changed = threading.Condition()
        self.connections: set[socket.socket] = set()
        """Those with clients."""
        self.is_mute = False
        """True while responses of the API server are dropped."""
        self._server = _Server(self)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    # -- faults ---------------------------------------------------------------------------------

    def answer(
        self,
        status: int,
        path: str = "",
        *,
        body: Mapping[str, Any] | str = "",
        headers: Mapping[str, str] = {},
        **which: Unpack[Which],
    ) -> Fault:
        """Answer with a status and a Status object or text; forward nothing."""
        fault = self._fault("answer", path, **which)
        fault.status, fault.headers = status, {**headers}
        given = body or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
        if not isinstance(given, str):
            fault.headers.setdefault("Content-Type", "application/json")
            given = json.dumps(given)
        fault.body = given.encode()
        return self._added(fault)

    def drop(self, path: str = "", **which: Unpack[Which]) -> Fault:
        """Break the connection without forwarding."""
        return self._added(self._fault("drop", path, **which))

    def lose_answer(self, path: str = "", **which: Unpack[Which]) -> Fault:
        """Forward, and break the connection when the answer is there."""
        return self._added(self._fault("lose", path, **which))

    def hold(self, path: str = "", **which: Unpack[Which]) -> Fault:
        """Hold requests until the fault ends, then process them normally."""
        return self._added(self._fault("hold", path, **which))

    def freeze(self, path: str) -> Fault:
        """Answer each read as it was answered first; watches go on."""
        return self._added(self._fault("freeze", f"^(?!.*watch=).*{path}", method="GET"))

    def alter(self, path: str, change: Callable[[bytes], bytes], **which: Unpack[Which]) -> Fault:
        """Forward, and change each line of the answer's body."""
        fault = self._fault("alter", path, **which)
        fault.change = change
        return self._added(fault)

    # -- faults of all connections ----------------------------------------------------------------

    def cut(self) -> None:
        """Break all connections; new ones can be made."""
        for connection in self.connections.copy():
            break_off(connection)

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Break connections, and new ones at their first request, during the block."""
        with self.drop():
            self.cut()
            yield

    @contextlib.contextmanager
    def mute(self) -> Iterator[None]:
        """Answer nothing, and break nothing, until the end of the block.

        What is sent meanwhile is lost, so the connections of that time are broken then.
        """
        with self.hold():
            self.is_mute = True
            try:
                yield
            finally:
                self.cut()
                self.is_mute = False

    def _fault(
        self, kind: str, path: str, *, method: str = "", skip: int = 0, times: int | None = None
    ) -> Fault:
        return Fault(self, kind, Request(method, path), skip=skip, times=times)

    def _added(self, fault: Fault) -> Fault:
        with self._changed:
            self._faults.append(fault)
        return fault

    # -- what came ------------------------------------------------------------------------------

    def requests(self, path: str = "", *, method: str = "") -> list[Request]:
        """Return the requests so far that a method and a regular expression are for."""
        with self._changed:
            return [
                one
                for one in self._requests
                if method in {"", one.method} and re.search(path, one.path)
            ]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something holds that a request changes."""
        with self._changed:
            if not self._changed.wait_for(condition, SECONDS):
                raise TimeoutError(f"not seen in {SECONDS:.0f} s: {what}")

    def close(self) -> None:
        """End all faults and the proxy."""
        for fault in self._faults:
            fault.end()
        self._server.shutdown()
        self._server.server_close()

    # -- one request ----------------------------------------------------------------------------

    def take(self, request: Request) -> Fault | None:
        """Note that a request came; returns the fault that is for it."""
        with self._changed:
            self._requests.append(request)
            found = next((fault for fault in self._faults if fault.meets(request)), None)
            self._changed.notify_all()
        return found

    def connect(self) -> http.client.HTTPSConnection:
        """Make a connection to the API server."""
        return http.client.HTTPSConnection(*self._upstream, context=self._tls)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: clients break connections as they like."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        """Have the connection known."""
        super().setup()
        self.server.proxy.connections.add(self.connection)

    def finish(self) -> None:
        """Forget it."""
        self.server.proxy.connections.discard(self.connection)
        super().finish()

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy = self.server.proxy
        fault = proxy.take(Request(self.command, self.path))
        kind = "" if fault is None else fault.kind
        if fault is not None and kind == "hold":
            fault.wait_for_end()
        if fault is not None and kind == "answer":
            self._answer(fault)
        elif kind == "drop":
            self._break()
        elif fault is not None and self.path in fault.answers:
            fault.status, fault.body = fault.answers[self.path]
            self._answer(fault)
        else:
            with contextlib.closing(proxy.connect()) as upstream:
                headers = {
                    k: v for k, v in self.headers.items() if k.lower() not in _HOP | {"host"}
                }
                upstream.request(self.command, self.path, body or None, headers)
                answer = upstream.getresponse()
                if kind == "lose":
                    answer.read()
                    self._break()
                elif fault is not None and kind == "freeze":
                    fault.status, fault.body = answer.status, answer.read()
                    fault.answers[self.path] = fault.status, fault.body
                    self._answer(fault)
                else:
                    self._pass_on(answer, fault.change if fault and kind == "alter" else None)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - http.server's names

    def _answer(self, fault: Fault) -> None:
        self.send_response(fault.status)
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(fault.body)))
        self.end_headers()
        self.wfile.write(fault.body)

    def _pass_on(
        self, answer: http.client.HTTPResponse, change: Callable[[bytes], bytes] | None
    ) -> None:
        # Not send_response, which would add another Date and Server.
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        pieces = iter(lambda: answer.read1(_PIECE), b"") if change is None else map(change, answer)
        for piece in filter(None, pieces):
            if not self.server.proxy.is_mute:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _break(self) -> None:
        self.close_connection = True
        break_off(self.connection)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def break_off(connection: socket.socket) -> None:
    """Break a connection, whatever is under way on it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _client_context(cluster: Mapping[str, str], user: Mapping[str, str]) -> ssl.SSLContext:
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    if "token" in user:  # the client sends it, and it is passed on
        return context
    with tempfile.NamedTemporaryFile() as file:  # the ssl module takes certificates of files alone
        for name in ("client-certificate-data", "client-key-data"):
            file.write(base64.b64decode(user[name]))
        file.flush()
        context.load_cert_chain(file.name)
    return context


_numbers = itertools.count()


@contextlib.contextmanager
def before(kubeconfig: Path) -> Iterator[tuple[FaultProxy, Path]]:
    """Yield a proxy before a kubeconfig's server, and a kubeconfig for it."""
    config = json.loads(kubeconfig.read_text())
    proxy = FaultProxy(kubeconfig)
    config["clusters"][0]["cluster"] = {"server": proxy.url}
    path = kubeconfig.with_suffix(f".proxy{next(_numbers)}")
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    try:
        yield proxy, path
    finally:
        proxy.close()
