"""A proxy between a client and the API server, which tests cut, block and mute.

It carries bytes and understands none: TLS goes through it end to end. On the loopback address, for
which the API server's certificate is good, too.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit


class Wire:
    """Forwards connections to one server."""

    def __init__(self, server: str, *, connect: bool = False) -> None:
        parts = urlsplit(server)
        self._target = (parts.hostname or "", parts.port or 443)
        self._connect = connect
        self._door = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._door.getsockname())
        self.connections = 0
        """How many were made so far."""
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()
        self._mute = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break all connections; new ones can be made."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Break all connections, and each new one at once, until the end of the block."""
        self._open.clear()
        self.cut()
        try:
            yield
        finally:
            self._open.set()

    @contextlib.contextmanager
    def mute(self) -> Iterator[None]:
        """Forward nothing in either direction, and break nothing, until the end of the block.

        What is sent meanwhile is lost, so the connections of that time are dead.
        """
        self._mute = True
        try:
            yield
        finally:
            self._mute = False

    def close(self) -> None:
        """Remove it."""
        self._door.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            self.connections += 1
            if not self._open.is_set():
                client.close()
                continue
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            if self._connect:
                request = b""
                while b"\r\n\r\n" not in request:
                    if not (data := client.recv(4096)):
                        return
                    request += data
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with socket.create_connection(self._target) as server:
                with self._lock:
                    self._pairs.append((client, server))
                while True:
                    ready, _, _ = select.select([client, server], [], [])
                    for end in ready:
                        data = end.recv(1 << 16)
                        if not data:
                            return
                        if not self._mute:
                            (server if end is client else client).sendall(data)


@contextlib.contextmanager
def between(kubeconfig: Path) -> Iterator[tuple[Wire, Path]]:
    """Put a wire before the server of a kubeconfig; returns it and a kubeconfig that uses it."""
    config = json.loads(kubeconfig.read_text())
    (cluster,) = config["clusters"]
    wire = Wire(cluster["cluster"]["server"])
    cluster["cluster"]["server"] = f"https://{wire.address}"
    path = kubeconfig.with_suffix(".wired")
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    try:
        yield wire, path
    finally:
        wire.close()
