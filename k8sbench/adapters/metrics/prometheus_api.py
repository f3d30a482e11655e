"""Queries to one Prometheus, sent to its address or through the API server's service proxy.

Whatever is at the other end, an answer has come within the time that it was given, or there is a
reason in one sentence. Only GET is used, so that ``get`` on ``services/proxy`` is enough.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from k8sbench.adapters.kubernetes.client import faults
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault
from k8sbench.adapters.kubernetes.client.connection import proxy_for
from k8sbench.adapters.kubernetes.client.credentials import Credentials
from k8sbench.adapters.kubernetes.client.transport import Transport
from k8sbench.adapters.metrics import http_config
from k8sbench.model.run import Location

T = TypeVar("T")
AGAIN_SECONDS = 4.0
"""For which a server that starts or is busy is asked again."""
_SHOWN = 200
"""Letters of a server's own message that a reason repeats."""


class Way(NamedTuple):
    """How a Prometheus is reached."""

    api: Api
    """Its own, or the cluster's."""
    path: str
    name: str
    """In sentences."""
    service: tuple[str, str] | None = None
    """Namespace and service behind the API server's proxy, as its access rules name them:
    ``prometheus-k8s:web``."""


class PrometheusFault(Exception):
    """There is no answer: one sentence that says why."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status of the answer; None: there was none, or it is not what failed."""


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


def direct(url: str, environ: Mapping[str, str] = os.environ) -> Way:
    """Reach it by its own address; raises :class:`.ConfigFault`."""
    config, _ = http_config.read(environ)
    tls = config.tls_config
    reached = Transport(
        server=url.rstrip("/"),
        verify=not tls.insecure_skip_verify,
        server_name=tls.server_name,
        proxy=config.proxy_url or proxy_for(url, environ),
    )
    signed = Credentials(lambda: http_config.ConfiguredUser(environ))
    place = Location(server=reached.server, namespace="")
    api = Api(place, "--prometheus", reached, signed, is_cluster=False)
    return Way(api, "/api/v1/query", f"Prometheus at {reached.server}")


def proxied(api: Api, namespace: str, service: str, prefix: str = "") -> Way:
    """Reach a service of the cluster through the API server, with the user's own rights."""
    path = f"/api/v1/namespaces/{namespace}/services/{service}/proxy{prefix.rstrip('/')}"
    name = f"Prometheus {namespace}/{service}"
    return Way(api, f"{path}/api/v1/query", name, (namespace, service))


def ask(
    way: Way, query: str, seconds: float, *, at: float | None = None
) -> tuple[list[Row], list[str]]:
    """Return the rows of an answer and the warnings with it; raises :class:`PrometheusFault`."""
    # The server gives up when we do.
    words = {"query": query, "timeout": f"{max(1, int(seconds))}s"}
    if at is not None:
        words["time"] = f"{at:.3f}"
    again_s = min(seconds, AGAIN_SECONDS)
    try:
        answer = way.api.read(way.path, max(0.1, seconds), retry_s=again_s, **words)
    except ApiFault as fault:
        raise PrometheusFault(_explained(way, fault), fault.status) from fault
    reply = _decoded(way, lambda: _REPLY.decode(answer))
    if reply.status != "success":
        why = shortened(f"{reply.error_type}: {reply.error}")
        raise PrometheusFault(f"{way.name} refuses the query ({why}).")
    return _decoded(way, lambda: _ROWS.decode(reply.data)).result, reply.warnings


def number(text: str) -> float:
    """Read a value; what is none is NaN, which counts as no sample."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _explained(way: Way, fault: ApiFault) -> str:
    said = fault.message
    if fault.denied:
        why = faults.explained(fault, "Prometheus be asked", way.api.place)
        return f"{way.name} cannot be asked: {why.message}"
    with contextlib.suppress(msgspec.MsgspecError):
        said = _REPLY.decode(said).error or said
    said = shortened(said).rstrip(".")
    if fault.reason == faults.CREDENTIALS:
        return f"{way.name} cannot be asked: {said}."
    if fault.status is None:
        return f"{way.name} cannot be reached: {said}."
    said = f"{way.name} answers {fault.status}{': ' if said else ''}{said}"
    if fault.status in {301, 302, 303, 307, 308, 401, 403} and way.service is None:
        said += f"; {http_config.VARIABLE} names a file with credentials"
    return f"{said}."


def shortened(text: str) -> str:
    """Write a server's own message in one line; a long one ends after a whole word, with "…"."""
    text = " ".join(text.split())
    if len(text) <= _SHOWN:
        return text
    cut = text[: _SHOWN - 2]
    return (cut.rpartition(" ")[0] or cut).rstrip(" .,;:") + " …"


def _decoded(way: Way, decode: Callable[[], T]) -> T:
    try:
        return decode()
    except (msgspec.MsgspecError, ValueError, UnicodeDecodeError) as error:
        raise PrometheusFault(
            f"{way.name} does not speak Prometheus' API: its answer is not JSON as it should be."
        ) from error


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
