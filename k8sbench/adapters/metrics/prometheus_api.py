"""Queries to one Prometheus, sent to its address or through the API server's service proxy.

Whatever is at the other end, an answer has come within the time that it was given, or there is a
reason in one sentence. Only GET is used, so that ``get`` on ``services/proxy`` is enough.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3

from k8sbench.adapters.kubernetes.client import faults, transport
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault
from k8sbench.adapters.kubernetes.client.connection import proxy_for
from k8sbench.adapters.kubernetes.client.credentials import Secrets
from k8sbench.adapters.kubernetes.client.transport import Transport
from k8sbench.adapters.metrics import http_config
from k8sbench.adapters.metrics.http_config import ConfigFault

T = TypeVar("T")
CONNECT_SECONDS = 2.0
LARGEST = 64 * 1024 * 1024
"""Bytes of an answer; that to the largest query that we send has a tenth."""
_PAUSE = 0.5
_BLOCK = 1 << 16
_SHOWN = 200
"""Letters of a server's own message that a reason repeats."""


class PrometheusFault(Exception):
    """There is no answer: one sentence that says why."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Row(msgspec.Struct):
    """One series of an answer."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []
    """Its samples, where a range was asked for."""
    value: tuple[float, str] = (0.0, "nan")
    """When a query was evaluated, and to what."""


class _Reply(msgspec.Struct):
    status: str = ""
    data: msgspec.Raw = msgspec.Raw()
    error: str = ""
    error_type: str = msgspec.field(name="errorType", default="")
    warnings: list[str] = []


class _Rows(msgspec.Struct):
    result: list[Row]


# Made here, once: msgspec crashes where two threads are the first to use a type.
_REPLY = msgspec.json.Decoder(_Reply)
_ROWS = msgspec.json.Decoder(_Rows)


class Direct:
    """By its own address."""

    def __init__(self, url: str, environ: Mapping[str, str] = os.environ) -> None:
        self.url = url.rstrip("/")
        self.name = f"Prometheus at {self.url}"
        """In sentences."""
        self._environ = environ
        self._lock = threading.Lock()
        self._pool: tuple[Transport, Secrets, urllib3.PoolManager] | None = None
        """With what it was made of."""

    def get(self, query: Mapping[str, str], until: float) -> bytes:
        """Return the answer to a query; raises :class:`ApiFault` and :class:`ConfigFault`.

        ``until`` is the monotonic time at which it is given up.
        """
        reached, secrets, pool = self._connections()
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        headers["User-Agent"] = "k8sbench"
        if secrets.authorization is not None:
            headers["Authorization"] = secrets.authorization
        left = max(0.1, until - time.monotonic())
        try:
            response = pool.request(
                "GET",
                f"{self.url}/api/v1/query?{urlencode(query)}",
                headers=headers,
                timeout=urllib3.Timeout(connect=min(CONNECT_SECONDS, left), read=left),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            # Not returned to the pool before it was read whole.
            with contextlib.closing(response):
                answer = whole(iter(lambda: response.read1(_BLOCK), b""), until)
                response.release_conn()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise faults.from_transport(error, reached.proxy) from error
        if 300 <= response.status < 400:
            # A sign-in page: its query holds state of its own.
            where = response.headers.get("Location", "").partition("?")[0]
            raise ApiFault(response.status, "", f"it sends us on to {where[:_SHOWN]}")
        if response.status >= 400:
            raise ApiFault(response.status, "", answer.decode(errors="replace"))
        return answer

    def close(self) -> None:
        """Close its connections."""
        with self._lock:
            if self._pool is not None:
                self._pool[2].clear()

    def _connections(self) -> tuple[Transport, Secrets, urllib3.PoolManager]:
        """Return them, new ones where what they are signed in with has changed."""
        with self._lock:
            config, folder = http_config.read(self._environ.get(http_config.VARIABLE))
            secrets = config.secrets(folder)
            tls = config.tls_config
            reached = Transport(
                server=self.url,
                verify=not tls.insecure_skip_verify,
                server_name=tls.server_name,
                proxy=config.proxy_url or proxy_for(self.url, self._environ),
            )
            if self._pool is None or self._pool[:2] != (reached, secrets):
                self._pool = (reached, secrets, transport.pool(reached, secrets))
            return self._pool


class Proxied:
    """As a service of the cluster, through the API server, with the user's own rights."""

    def __init__(self, api: Api, namespace: str, name: str, prefix: str = "") -> None:
        self.namespace, self.service = namespace, name
        """The service as the proxy's path and access rules name it: ``prometheus-k8s:web``."""
        self.name = f"Prometheus {namespace}/{name}"
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/services/{name}/proxy{prefix.rstrip('/')}"

    def get(self, query: Mapping[str, str], until: float) -> bytes:
        """Return the answer to a query, as :meth:`Direct.get`."""
        left = max(0.1, until - time.monotonic())
        lines = self._api.stream(f"{self._path}/api/v1/query", silence_s=left, **query)
        return whole(lines.chunks(), until)


Way = Direct | Proxied
"""How a Prometheus is reached."""


def ask(
    way: Way, query: str, seconds: float, *, at: float | None = None
) -> tuple[list[Row], list[str]]:
    """Return the rows of an answer and the warnings with it; raises :class:`PrometheusFault`."""
    until = time.monotonic() + seconds
    words = {"query": query}
    if at is not None:
        words["time"] = f"{at:.3f}"
    last: ApiFault | None = None
    while True:
        # The server gives up when we do.
        words["timeout"] = f"{max(1, int(until - time.monotonic()))}s"
        try:
            answer = way.get(words, until)
            break
        except ConfigFault as fault:
            raise PrometheusFault(str(fault)) from fault
        except ApiFault as fault:
            # One that starts or is busy may answer soon.
            again = fault.passes and fault.reason != faults.CREDENTIALS
            # That there was no time left for another try says less than an answer before it.
            last = fault if last is None or fault.status is not None else last
            if not again or time.monotonic() + _PAUSE > until:
                raise PrometheusFault(_explained(way, last), last.status) from last
        time.sleep(_PAUSE)
    reply = _decoded(way, lambda: _REPLY.decode(answer))
    if reply.status != "success":
        why = f"{reply.error_type}: {reply.error}"[:_SHOWN]
        raise PrometheusFault(f"{way.name} refuses the query ({why}).")
    return _decoded(way, lambda: _ROWS.decode(reply.data)).result, reply.warnings


def number(text: str) -> float:
    """Read a value; what is none is NaN, which counts as no sample."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _explained(way: Way, fault: ApiFault) -> str:
    said = _said(fault.message)
    if fault.reason == faults.CERTIFICATE and "PEM" in said:
        return f"The ca_file that {http_config.VARIABLE} names holds no certificate in PEM."
    if fault.reason == faults.CREDENTIALS or fault.denied:
        return f"{way.name} cannot be asked: {said}."
    if fault.status is None:
        return f"{way.name} cannot be reached: {said}."
    said = f"{way.name} answers {fault.status}{': ' if said else ''}{said}"
    if fault.status in {301, 302, 303, 307, 308, 401, 403} and isinstance(way, Direct):
        said += f"; {http_config.VARIABLE} names a file with credentials"
    return f"{said}."


def _said(text: str) -> str:
    """Return what a server says in its own words; a page says nothing."""
    with contextlib.suppress(msgspec.MsgspecError):
        text = _REPLY.decode(text).error or text
    if text.lstrip().startswith("<"):
        return "a page of HTML"
    return " ".join(text.split())[:_SHOWN].rstrip(".")


def _decoded(way: Way, decode: Callable[[], T]) -> T:
    try:
        return decode()
    except (msgspec.MsgspecError, ValueError, UnicodeDecodeError) as error:
        raise PrometheusFault(
            f"{way.name} does not speak Prometheus' API: its answer is not JSON as it should be."
        ) from error


def whole(chunks: Iterable[bytes], until: float) -> bytes:
    """Read an answer to its end; one that trickles is given up, too.

    Raises :class:`ApiFault` where the monotonic time is past ``until``.
    """
    found: list[bytes] = []
    size = 0
    for chunk in chunks:
        found.append(chunk)
        size += len(chunk)
        if time.monotonic() > until:
            raise ApiFault(None, "", "its answer did not end in time")
        if size > LARGEST:
            raise ApiFault(413, "", f"its answer is larger than {LARGEST >> 20} MiB")
    return b"".join(found)


def wrong_address(url: str) -> str | None:
    """Say what is wrong with an address; None: nothing is."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "it is no URL"
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return "it has to begin with http:// or https://, and a host"
    if parts.username is not None or parts.password is not None:
        return f"it holds a password, which belongs in the file that {http_config.VARIABLE} names"
    return None
