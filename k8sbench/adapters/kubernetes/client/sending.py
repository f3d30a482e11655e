"""One request to a server, signed, and its answer, whole or as it arrives, or its fault.

A request is sent once more where a certificate or a token was rejected and is renewed. Nothing else
is repeated here: that is for :mod:`.api`.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import math
import os
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import urllib3

from k8sbench.adapters import clock
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client import faults
from k8sbench.adapters.kubernetes.client.credentials import Credentials, Secrets
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.errors import BenchError

CONNECTIONS = 80
"""Kept in the pool: 64 log streams, the watches and other requests."""
_KEEPALIVE = {
    socket.TCP_KEEPIDLE: 20,
    socket.TCP_KEEPINTVL: 10,
    socket.TCP_KEEPCNT: 4,
    socket.TCP_USER_TIMEOUT: 60_000,
}
"""A connection is closed after 60 s without an acknowledgement."""
CONNECT_SECONDS = 5.0
"""For a connection to a server that is expected to be there."""
LARGEST = 64 * 1024 * 1024
"""Bytes of a whole answer; the largest that is asked for has a tenth."""
READ_SECONDS = 30.0
"""Until the last header of an answer. A busy server lets requests wait in its queues."""
WHOLE_SECONDS = 120.0
"""Until the last byte of an answer, of at most some MB."""
_BLOCK, _PIECE = 1 << 20, 1 << 16
"""Bytes that are read at once of an answer, and of one that is read while it arrives."""
QUICK_CONNECT_SECONDS = 2.0
"""For a connection to a server that may not be there."""
JUST_BACK_SECONDS = 20.0
"""For so long after an outage it may reject every request: it has just started, and has not loaded
the roles yet. Such rejections are raised as 503."""
SAME_TIME_SECONDS = 5.0
"""Clocks that differ by less count as equal: answers carry whole seconds, and take some time."""
_METHODS = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}
"""Verb of the access rules → HTTP method; of all others it is GET."""
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """Address of the API server and the way to it."""

    server: str
    verify: bool = True
    server_name: str | None = None
    """Name in the server's certificate, if that is not the host's."""
    proxy: str | None = None


class Request(NamedTuple):
    """One request."""

    verb: str
    """As access rules call it: get, list, watch, create, patch, delete."""
    path: str
    query: Mapping[str, str] = {}
    body: Mapping[str, Any] | None = None
    brief: bool = False
    """Whether an object's metadata are enough."""
    headers: Mapping[str, str] = {}
    """Headers besides our own."""


class Sender:
    """Sends the requests of one user to one server; any thread may."""

    def __init__(
        self, reached: Transport, credentials: Credentials, *, is_cluster: bool = True
    ) -> None:
        self.requests: Counter[str] = Counter()
        """How many requests were sent: ``create pytorchjobs``, ``watch pods``."""
        self.errors: Counter[str] = Counter()
        """How many were refused or not answered, by HTTP status; ``none``: without an answer."""
        self._transport = reached
        self._credentials = credentials
        self._is_cluster = is_cluster
        """False: another server than an API server."""
        self._lock = threading.Lock()
        self._pool: urllib3.PoolManager | None = None
        self._certificates: tuple[bytes | None, bytes | None] | None = None
        """Those of the connection pool: the client's, and the authority's."""
        self._ahead = 0.0
        """Seconds by which the server's clock is ahead of :func:`.clock.steady`, by its latest
        answer."""
        self._away_at = -math.inf
        """When it last did not answer, monotonic seconds."""

    def time(self) -> float:
        """Return the server's time, Unix seconds; ours before its first answer.

        Between two answers it goes on with the monotonic clock: that ours is set does not count.
        """
        return clock.steady() + self._ahead

    def send(
        self,
        request: Request,
        *,
        read_s: float | None = READ_SECONDS,
        connect_s: float = CONNECT_SECONDS,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request; raises :class:`ApiFault`, also for an answer that is a refusal."""
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
        fault = self._fault(response, read_s or WHOLE_SECONDS)
        if fault.status in {401, 403} and time.monotonic() - self._away_at < JUST_BACK_SECONDS:
            raise ApiFault(503, "JustBack", fault.message, retry_after=1.0)
        if response.status >= 500 and self._is_of_cluster(request.path):
            self._away_at = time.monotonic()
        raise fault

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._pool is not None:
                self._pool.clear()

    def _count_error(self, code: str) -> None:
        with self._lock:
            self.errors[code] += 1

    def _send_signed(self, request: Request, timeout: urllib3.Timeout) -> urllib3.BaseHTTPResponse:
        """Send a request, once more where a certificate or token was rejected and is renewed."""
        secrets = self._credentials.current()
        try:
            response = self._send_once(request, timeout, secrets)
            if response.status != 401 or not self._credentials.renew(secrets):
                return response
            self.read(response, timeout.read_timeout or WHOLE_SECONDS)
        except ApiFault as fault:
            if fault.reason not in faults.CERTIFICATES or not self._credentials.renew(secrets):
                raise
        return self._send_once(request, timeout, self._credentials.current())

    def _send_once(
        self, request: Request, timeout: urllib3.Timeout, secrets: Secrets
    ) -> urllib3.BaseHTTPResponse:
        verb, path, query, body, brief, more = request
        what = f"{verb} {kinds.resource(path)}"
        headers = {"User-Agent": "k8sbench", **more}
        if not path.endswith("/log"):
            headers["Accept"] = _METADATA if brief else "application/json"
        if verb in {"get", "list"} and timeout.read_timeout is not None:
            headers["Accept-Encoding"] = "gzip"
        if secrets.authorization is not None:
            headers["Authorization"] = secrets.authorization
        if body is not None:
            kind = "merge-patch+json" if verb == "patch" else "json"
            headers["Content-Type"] = f"application/{kind}"
        with self._lock:
            self.requests[what] += 1
            pool = self._pool_for(secrets)
        try:
            response = pool.request(
                _METHODS.get(verb, "GET"),
                self._transport.server + path + (f"?{urlencode(query)}" if query else ""),
                body=None if body is None else msgspec.json.encode(body),
                headers=headers,
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            if self._is_of_cluster(path):
                self._away_at = time.monotonic()
            raise faults.from_transport(error, self._transport.proxy) from error
        if self._is_of_cluster(path):
            with contextlib.suppress(ValueError):
                date = parsedate_to_datetime(response.headers.get("Date", ""))
                ahead = date.timestamp() - clock.steady()
                self._ahead = ahead if abs(ahead) >= SAME_TIME_SECONDS else 0.0
        return response

    def read(self, response: urllib3.BaseHTTPResponse, within_s: float = WHOLE_SECONDS) -> bytes:
        """Read a whole answer; raises :class:`ApiFault` for one that has not ended in time."""
        until, size = time.monotonic() + within_s, 0
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
            raise faults.from_transport(error, self._transport.proxy) from error
        finally:
            response.release_conn()

    def _fault(self, response: urllib3.BaseHTTPResponse, within_s: float) -> ApiFault:
        """Make a fault of an answer that is a refusal; a proxy's may be no Status."""
        seconds = response.headers.get("Retry-After", "")
        # It may also be a date, which is as good as none.
        retry_after = float(seconds) if seconds.isascii() and seconds.isdecimal() else None
        text = self.read(response, min(within_s, WHOLE_SECONDS))
        status: Any = None
        with contextlib.suppress(msgspec.DecodeError):
            status = msgspec.json.decode(text)
        if isinstance(status, dict) and status.get("kind") == "Status":
            return faults.from_status({**status, "code": response.status}, retry_after)
        if response.status < 400:
            # To a page where users sign in: its query holds state of its own.
            where = response.headers.get("Location", "").partition("?")[0]
            message = f"it sends us on to {where[:200]}"
            return ApiFault(response.status, faults.NOT_KUBERNETES, message)
        # Of a load balancer's page its title says nothing more than the status.
        message = "" if text.lstrip().startswith(b"<") else text.decode(errors="replace").strip()
        return ApiFault(
            response.status, "", message[:300] or str(response.reason or ""), retry_after
        )

    def _is_of_cluster(self, path: str) -> bool:
        """Return whether an API server itself answers, and no pod or service behind its proxy.

        Only that one refuses everybody for a moment after its start, and only its clock counts.
        """
        return self._is_cluster and "/proxy/" not in path

    def _pool_for(self, secrets: Secrets) -> urllib3.PoolManager:
        """Return the connection pool; a new one where a certificate has changed."""
        certificates = (secrets.certificate, secrets.authority)
        if self._pool is None or self._certificates != certificates:
            try:
                self._pool = _pool(self._transport, secrets)
            except ApiFault:
                if self._pool is None:
                    raise
                # The file may be half written: the next request reads it again.
            else:
                self._certificates = certificates
        return self._pool


class _Head:
    """The lines before an answer's body, which may come bit by bit, until a time."""

    def __init__(self, file: io.BufferedReader, until: float) -> None:
        self._file, self._until = file, until
        self.close = file.close

    def readline(self, limit: int) -> bytes:
        """Return the next line, or what the limit or the end of the answer leaves of it."""
        line = b""
        # What was peeked at is there: reading it does not wait.
        while not line.endswith(b"\n") and (
            most := min(limit - len(line), len(self._file.peek(1)))
        ):
            if time.monotonic() > self._until:
                raise TimeoutError
            line += self._file.readline(most)
        return line


class _Answer(http.client.HTTPResponse):
    """Ends the wait for a status and headers in the time in which their first byte must come."""

    def __init__(self, sock: socket.socket, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        self._head: Any = _Head(self.fp, time.monotonic() + (sock.gettimeout() or math.inf))

    def begin(self) -> None:
        """Read the status and the headers."""
        file, self.fp = self.fp, self._head
        try:
            super().begin()
        finally:
            self.fp = self.fp and file  # None: it was closed


class _Pool(urllib3.HTTPConnectionPool):
    class ConnectionCls(urllib3.connection.HTTPConnection):
        response_class = _Answer


class _SecurePool(urllib3.HTTPSConnectionPool):
    class ConnectionCls(urllib3.connection.HTTPSConnection):
        response_class = _Answer


def _pool(transport: Transport, secrets: Secrets) -> urllib3.PoolManager:
    """Make a connection pool; raises :class:`ApiFault` for a certificate that cannot be read."""
    context = _tls(transport, secrets)
    alive = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    alive += [(socket.IPPROTO_TCP, option, value) for option, value in _KEEPALIVE.items()]
    options: dict[str, Any] = {
        "num_pools": 2,
        "maxsize": CONNECTIONS,
        "socket_options": [*urllib3.connection.HTTPConnection.default_socket_options, *alive],
    }
    if context is not None:
        options["ssl_context"] = context
        if transport.server_name:
            options["server_hostname"] = transport.server_name
        if not transport.verify:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            options["cert_reqs"] = "CERT_NONE"
            options["assert_hostname"] = False
    make: type[urllib3.PoolManager] = urllib3.PoolManager
    if transport.proxy is not None:
        options["proxy_url"], make = transport.proxy, urllib3.ProxyManager
    try:
        pool = make(**options)
    except urllib3.exceptions.HTTPError as error:
        raise faults.from_transport(error, transport.proxy) from error
    pool.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
    return pool


def _tls(transport: Transport, secrets: Secrets) -> ssl.SSLContext | None:
    if not transport.server.startswith("https"):
        return None
    authority = secrets.authority
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    except (ssl.SSLError, ValueError) as error:
        why = "the certificate authority that is given holds no certificate in PEM"
        raise ApiFault(None, faults.CERTIFICATE, why) from error
    if not transport.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if secrets.certificate is not None:
        _load(context, secrets.certificate)
    return context


def _load(context: ssl.SSLContext, certificate: bytes) -> None:
    """Load a client certificate, which OpenSSL reads from a file only.

    The file is in memory, since secrets do not belong on a disk, which may be full besides.
    """
    with os.fdopen(os.memfd_create("secret"), "r+b", buffering=0) as file:
        file.write(certificate)
        try:
            # With a password OpenSSL does not prompt for one on the terminal.
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password="")
        except (ssl.SSLError, ValueError) as error:
            is_other = isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH"
            not_pem = "it is not a certificate with a key in PEM"
            why = "the key is another certificate's" if is_other else not_pem
            raise ApiFault(None, faults.CLIENT_CERTIFICATE, f"cannot be used: {why}") from error


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
                is_one = is_error or "resourceVersion" in about["metadata"]
            except (msgspec.DecodeError, LookupError, TypeError, ValueError) as error:
                raise ApiFault(None, "", "its answer is no change of an object") from error
            if is_error:
                raise faults.from_status(about)
            if not is_one:
                raise ApiFault(None, "", "its answer is no change of an object")
            yield event

    def close(self) -> None:
        """Close the answer; a thread that waits for the next line stops waiting."""
        self._is_closed = True
        # It may have ended in the meantime.
        with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
            self._response.shutdown()

    def _read(self) -> bytes:
        try:
            return b"" if self._is_closed else self._response.read1(_PIECE)
        # ValueError and AttributeError: from a socket that was shut down while it was read.
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            if self._is_closed:
                return b""
            raise faults.from_transport(error) from error
