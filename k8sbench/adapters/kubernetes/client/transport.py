"""Transport: one request and its answer, whole or streamed, or its fault.

Requests use the connections of the official client, which signs in. After a rejected certificate or
token, a request is sent once more with a new login. Other retries are those of :mod:`.api`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3.util.ssl_ import ALPN_PROTOCOLS, create_urllib3_context

from k8sbench.adapters import steady_clock
from k8sbench.adapters.kubernetes.client import faults
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.errors import BenchError

CONNECTIONS = 80
"""Maximum pooled connections: 64 log streams, watches and other requests."""
_KEEPALIVE = (
    *urllib3.connection.HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
)
"""A connection is closed after 60 s without an acknowledgement."""
CONNECT_SECONDS = 5.0
"""Connect timeout for a server that should exist, seconds."""
LARGEST = 64 * 1024 * 1024
"""Maximum bytes of a whole answer; the largest real one has a tenth."""
READ_SECONDS = 30.0
"""Timeout until the last header; a busy server queues requests."""
WHOLE_SECONDS = 120.0
"""Timeout until the last byte of an answer of some MB, seconds."""
_BLOCK, _PIECE = 1 << 20, 1 << 16
"""Bytes per read of a whole answer, and of a streamed one."""
_TLS_FILES = ("ca_certs", "cert_file", "key_file")
QUICK_CONNECT_SECONDS = 2.0
"""Connect timeout for a server that may not exist, seconds."""
SAME_TIME_SECONDS = 5.0
"""Clock difference that counts as none, seconds.

Answers carry whole seconds and take some time.
"""
_METHODS = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}
"""Verb of access rules → HTTP method; GET for others."""


class ApiRequest(NamedTuple):
    """One request."""

    verb: str
    """Verb of access rules: get, list, watch, create, patch, delete."""
    path: str
    query: Mapping[str, str] = {}
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = {}
    """Headers besides our own."""
    is_repeatable: bool = False
    """True for a creation that does no harm a second time."""


class Login(NamedTuple):
    """One sign-in: the official client with credentials and connections."""

    configuration: Any
    pool: urllib3.PoolManager
    whose: str

    def headers(self) -> urllib3.HTTPHeaderDict:
        """Return the headers that a request is signed with; raises :class:`.KubeconfigFault`."""
        headers = urllib3.HTTPHeaderDict()
        try:
            for one in self.configuration.auth_settings().values():
                headers[one["key"]] = str(one["value"]).strip()
        except Exception as error:  # of a pod's token, which is read again
            raise faults.KubeconfigFault(
                f"{self.whose} cannot be used: {error}.", faults.REPAIR
            ) from error
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise faults.KubeconfigFault(
                f"No HTTP header can hold the token of {self.whose}.", faults.SIGN_IN
            )
        return headers


class Sender:
    """Requests of one user to one API server, from any thread."""

    def __init__(self, server: str, proxy: str | None, sign_in: Callable[[], Login]) -> None:
        self.errors: Counter[str] = Counter()
        """Numbers of failed requests, by HTTP status; ``none``: no answer."""
        self.server, self.proxy = server, proxy
        self._sign_in = sign_in
        self._login: Login | None = None
        self._lock = threading.Lock()
        self._signing_in = threading.Lock()
        self._ahead = 0.0
        """Lead of the server's clock over :func:`.steady_clock.steady`, s."""

    def time(self) -> float:
        """Return the server's time, Unix seconds; ours before its first answer.

        Between two answers it goes on with the monotonic clock: that ours is set does not count.
        """
        return steady_clock.steady() + self._ahead

    def send(
        self,
        request: ApiRequest,
        *,
        read_s: float | None = READ_SECONDS,
        connect_s: float = CONNECT_SECONDS,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request; raises :class:`ApiFault`, also for refusals."""
        timeout = urllib3.Timeout(connect=connect_s, read=read_s)
        try:
            response = self._send_signed(request, timeout)
        except BenchError as error:
            self._count_error("none")
            raise ApiFault(None, faults.CREDENTIALS, error.message) from error
        except ApiFault:
            self._count_error("none")
            raise
        if response.status < 300:
            return response
        self._count_error(str(response.status))
        raise refusal(response, read_s or WHOLE_SECONDS)

    def close(self) -> None:
        """Close the connections."""
        if self._login is not None:
            self._login.pool.clear()

    def _count_error(self, code: str) -> None:
        with self._lock:
            self.errors[code] += 1

    def login(self, rejected: Login | None = None) -> Login:
        """Return the login; replace a rejected one."""
        with self._signing_in:
            login = self._login
            if login is None or login is rejected:
                login = self._sign_in()
                try:
                    connect_within_limits(login.pool)
                except OSError as error:
                    raise faults.from_transport(error, self.proxy) from error
                self._login = login
            return login

    def _send_signed(
        self, request: ApiRequest, timeout: urllib3.Timeout
    ) -> urllib3.BaseHTTPResponse:
        """Send a request, and once more after a rejected certificate or token."""
        login = self.login()
        try:
            response = self._send_once(request, timeout, login)
            if response.status != 401:
                return response
            read(response, timeout.read_timeout or WHOLE_SECONDS, self.proxy)
        except ApiFault as fault:
            if fault.reason not in faults.CERTIFICATES:
                raise
        return self._send_once(request, timeout, self.login(rejected=login))

    def _send_once(
        self, request: ApiRequest, timeout: urllib3.Timeout, login: Login
    ) -> urllib3.BaseHTTPResponse:
        verb, path, query, body, more, _ = request
        headers = login.headers()
        headers.update({"User-Agent": "k8sbench", **more})
        if not path.endswith("/log"):
            headers["Accept"] = "application/json"
        if verb in {"get", "list"} and timeout.read_timeout is not None:
            headers["Accept-Encoding"] = "gzip"
        if body is not None:
            kind = "merge-patch+json" if verb == "patch" else "json"
            headers["Content-Type"] = f"application/{kind}"
        try:
            response = login.pool.request(
                _METHODS.get(verb, "GET"),
                self.server + path + (f"?{urlencode(query)}" if query else ""),
                body=None if body is None else msgspec.json.encode(body),
                headers=headers,
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise faults.from_transport(error, self.proxy) from error
        if "/proxy/" not in path:  # the clock of what is behind the API server does not count
            with contextlib.suppress(ValueError):
                date = parsedate_to_datetime(response.headers.get("Date", ""))
                ahead = date.timestamp() - steady_clock.steady()
                self._ahead = ahead if abs(ahead) >= SAME_TIME_SECONDS else 0.0
        return response


def read(
    response: urllib3.BaseHTTPResponse, within_s: float = WHOLE_SECONDS, proxy: str | None = None
) -> bytes:
    """Read a whole answer; raises :class:`ApiFault` after the time limit."""
    until = time.monotonic() + within_s
    size = 0
    parts = []
    try:
        while part := response.read1(_BLOCK, decode_content=True):
            parts.append(part)
            size += len(part)
            if size > LARGEST:
                response.close()
                raise ApiFault(413, "", f"its answer is larger than {LARGEST >> 20} MiB")
            if time.monotonic() > until:
                response.close()
                raise ApiFault(None, "", "it did not answer in time: its answer has no end")
        return b"".join(parts)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise faults.from_transport(error, proxy) from error
    finally:
        response.release_conn()


def refusal(response: urllib3.BaseHTTPResponse, within_s: float) -> ApiFault:
    """Convert a refusal to a fault; a proxy's may be no Status."""
    seconds = response.headers.get("Retry-After", "")
    # A date is ignored.
    retry_after = float(seconds) if seconds.isascii() and seconds.isdecimal() else None
    text = read(response, min(within_s, WHOLE_SECONDS))
    status: Any = None
    with contextlib.suppress(msgspec.DecodeError):
        status = msgspec.json.decode(text)
    if isinstance(status, dict) and status.get("kind") == "Status":
        return faults.from_status({**status, "code": response.status}, retry_after)
    if response.status < 400:
        # The query of a sign-in page holds private state.
        where = response.headers.get("Location", "").partition("?")[0]
        message = f"it sends us on to {where[:200]}"
        return ApiFault(response.status, faults.NOT_KUBERNETES, message)
    # A load balancer's page says no more than the status.
    message = "" if text.lstrip().startswith(b"<") else text.decode(errors="replace").strip()
    return ApiFault(response.status, "", message[:300] or str(response.reason or ""), retry_after)


def connect_within_limits(pool: urllib3.PoolManager) -> None:
    """Limit the silence, the number and the cost of new connections.

    urllib3 would make a TLS context for each connection, which takes longer than the handshake. The
    context goes with the login: rejected certificates are read again by the next one.
    """
    options = pool.connection_pool_kw
    options |= {"socket_options": _KEEPALIVE, "maxsize": CONNECTIONS}
    authority, certificate, key = (options.pop(name, None) for name in _TLS_FILES)
    context = create_urllib3_context(cert_reqs=options.get("cert_reqs"))
    if authority:
        context.load_verify_locations(authority)
    else:
        context.load_default_certs()
    if certificate:
        # An encrypted key is an error; without a password OpenSSL would ask for one.
        context.load_cert_chain(certificate, key, password="")
    # urllib3 sets them each time, which OpenSSL does not allow during other handshakes.
    context.set_alpn_protocols(ALPN_PROTOCOLS)
    vars(context)["set_alpn_protocols"] = lambda _: None
    options["ssl_context"] = context


class LineStream:
    """Streamed answer; one thread reads it, any thread may close it.

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
            # Not returned to the pool, because it may still hold data.
            self._response.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield lines with their ends; the last one may lack its end."""
        rest = b""
        for data in self.chunks():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield line + b"\n"
        if rest and not self._is_closed:
            yield rest

    def changes(self) -> Iterator[dict[str, Any]]:
        """Yield the changes of a watch: ``{"type": "ADDED", "object": {...}}``.

        An ``ERROR`` event is raised as :class:`ApiFault` (410 Expired where the resourceVersion is
        too old).
        """
        for line in self:
            try:
                event: dict[str, Any] = msgspec.json.decode(line)
                about = dict(event["object"])
                is_error = event["type"] == "ERROR"
                _ = is_error or about["metadata"]["resourceVersion"]
            except (msgspec.DecodeError, LookupError, TypeError, ValueError) as error:
                raise ApiFault(None, "", "its answer is no change of an object") from error
            if is_error:
                raise faults.from_status(about)
            yield event

    def close(self) -> None:
        """Close the answer and wake a waiting reader."""
        self._is_closed = True
        # It may have ended in the meantime.
        with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
            self._response.shutdown()

    def _read(self) -> bytes:
        try:
            return b"" if self._is_closed else self._response.read1(_PIECE)
        # ValueError and AttributeError: the socket was shut down during a read.
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            if self._is_closed:
                return b""
            raise faults.from_transport(error) from error
