"""Servers on the loopback address that answer in some way, with or without TLS."""

import contextlib
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.connection import connect

Act = Callable[[socket.socket], None]
VERSION = b'{"gitVersion": "v1.33.1"}'


def answer(status: int = 200, body: bytes = VERSION, **headers: str) -> bytes:
    """Write an answer; ``_`` in the name of a header is a hyphen."""
    lines = [f"HTTP/1.1 {status} Reason", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def saying(text: bytes) -> Act:
    """Read something, and say something."""

    def act(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(text)

    return act


@contextlib.contextmanager
def serving(
    *acts: Act, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> Iterator[str]:
    """Serve connections by the acts in turn; the last act repeats.

    Returns host and port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    door = socket.create_server((host, 0), family=family)

    def run() -> None:
        rest = list(acts)
        while True:
            act = rest.pop(0) if len(rest) > 1 else rest[0]
            try:
                plain, _ = door.accept()
            except OSError:
                return
            # The client breaks connections as it likes.
            with contextlib.suppress(OSError):
                connection = plain if tls is None else tls.wrap_socket(plain, server_side=True)
                with connection:
                    act(connection)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"{f'[{host}]' if ':' in host else host}:{door.getsockname()[1]}"
    finally:
        door.shutdown(socket.SHUT_RDWR)
        door.close()
        thread.join()


def kubeconfig(
    path: Path, server: str, user: Mapping[str, Any] = {"token": "t"}, **cluster: Any
) -> Path:
    """Write a kubeconfig of one context."""
    config = {
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "c", "user": "ann"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "ann", "user": user}],
    }
    path.write_text(json.dumps(config))
    return path


@contextlib.contextmanager
def reached(
    folder: Path, server: str, user: Mapping[str, Any] = {"token": "t"}, **cluster: Any
) -> Iterator[Api]:
    """Reach a server by a kubeconfig of one context."""
    path = kubeconfig(folder / "config", server, user, **cluster)
    with contextlib.closing(connect(kubeconfig=str(path), environ={})) as api:
        yield api


_AUTHORITY = """[ca]
default_ca=own
[own]
database=index
new_certs_dir=.
rand_serial=yes
default_md=sha256
policy=who
x509_extensions=what
[who]
commonName=supplied
[what]
basicConstraints=critical,CA:TRUE
subjectAltName=IP:127.0.0.1
"""


def certificate(folder: Path, begins: str, ends: str) -> tuple[Path, Path]:
    """Make a certificate that signs itself, and its key; times as ``20260101000000Z``."""
    folder.mkdir()
    (folder / "index").touch()
    (folder / "ca.cnf").write_text(_AUTHORITY)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem")
    dates = ("-startdate", begins, "-enddate", ends)
    files = ("-keyfile", "key.pem", "-in", "request.pem", "-out", "certificate.pem")
    for words in (
        ("req", *key, "-subj", "/CN=lab", "-out", "request.pem"),
        ("ca", "-batch", "-notext", "-config", "ca.cnf", "-selfsign", *dates, *files),
    ):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
    return folder / "certificate.pem", folder / "key.pem"


def tls_of(pair: tuple[Path, Path]) -> ssl.SSLContext:
    """Make the TLS of a server with a certificate and a key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    return context
