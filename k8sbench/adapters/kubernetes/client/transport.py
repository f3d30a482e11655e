"""How the API server is reached: connections, their TLS, a proxy on the way."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any

import msgspec

from k8sbench.adapters.kubernetes.client import faults
from k8sbench.adapters.kubernetes.client.credentials import Secrets
from k8sbench.adapters.kubernetes.client.faults import ApiFault

if TYPE_CHECKING:
    import urllib3

CONNECTIONS = 80
"""Kept in the pool: 64 log streams, the watches, and the requests between."""
_GIVE_UP_CONNECTION_S = 60
"""Seconds without an acknowledgement after which a connection is closed."""


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """How the API server is reached."""

    server: str
    verify: bool = True
    server_name: str | None = None
    """Name in the server's certificate, where that is not the host's."""
    proxy: str | None = None


def pool(transport: Transport, secrets: Secrets) -> urllib3.PoolManager:
    """Make the connections of a client; raises :class:`ApiFault` for a certificate of no use."""
    import urllib3

    context = _tls(transport, secrets)
    alive = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            alive.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        milliseconds = _GIVE_UP_CONNECTION_S * 1000
        alive.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds))
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
    if transport.proxy is not None:
        return urllib3.ProxyManager(transport.proxy, **options)
    return urllib3.PoolManager(**options)


def _tls(transport: Transport, secrets: Secrets) -> ssl.SSLContext | None:
    if not transport.server.startswith("https"):
        return None
    authority = secrets.authority
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    except (ssl.SSLError, ValueError) as wrong:
        raise ApiFault(None, faults.CERTIFICATE, f"its certificate authority: {wrong}") from wrong
    if not transport.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if secrets.certificate is not None:
        _load(context, secrets.certificate)
    return context


def _load(context: ssl.SSLContext, certificate: bytes) -> None:
    """Load a client certificate, which OpenSSL takes from a file only."""
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="k8sbench-") as file:
        file.write(certificate)
        file.flush()
        try:
            # A password, so that OpenSSL does not ask the terminal for one.
            context.load_cert_chain(file.name, password="")
        except (ssl.SSLError, ValueError) as wrong:
            raise ApiFault(None, faults.CERTIFICATE, f"our client certificate: {wrong}") from wrong
