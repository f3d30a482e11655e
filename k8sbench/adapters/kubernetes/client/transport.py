"""Connections to the API server: their TLS, their proxy, when they are closed."""

from __future__ import annotations

import os
import socket
import ssl
from typing import Any

import msgspec
import urllib3

from k8sbench.adapters.kubernetes.client import faults
from k8sbench.adapters.kubernetes.client.credentials import Secrets
from k8sbench.adapters.kubernetes.client.faults import ApiFault

CONNECTIONS = 80
"""Kept in the pool: 64 log streams, the watches and other requests."""
_KEEPALIVE = {
    socket.TCP_KEEPIDLE: 20,
    socket.TCP_KEEPINTVL: 10,
    socket.TCP_KEEPCNT: 4,
    socket.TCP_USER_TIMEOUT: 60_000,
}
"""A connection is closed after 60 s without an acknowledgement."""


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """Address of the API server and the way to it."""

    server: str
    verify: bool = True
    server_name: str | None = None
    """Name in the server's certificate, if that is not the host's."""
    proxy: str | None = None


def pool(transport: Transport, secrets: Secrets) -> urllib3.PoolManager:
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
    if transport.proxy is None:
        return urllib3.PoolManager(**options)
    try:
        return urllib3.ProxyManager(transport.proxy, **options)
    except urllib3.exceptions.HTTPError as error:
        raise faults.from_transport(error, transport.proxy) from error


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
