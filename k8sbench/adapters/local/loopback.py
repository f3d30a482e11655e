"""Holds a free port of the loopback address for a job, from the choice to the job's end.

A port that is only looked up may be taken before the job binds it seconds later. So a socket of
ours stays bound to it and never listens. The kernel gives a port that is held so to nobody who
asks for any free one, in this process or another; and it lets the job bind and listen on it,
because both sides set SO_REUSEADDR (torch's TCPStore and Python's HTTP server, which Paddle's
launcher uses, do).
"""

from __future__ import annotations

import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from k8sbench.adapters.local.manifest import LOOPBACK
from k8sbench.model.errors import JobFailed

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


class HeldPort:
    """A port of the loopback address that nobody else is given as long as this is open."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((LOOPBACK, 0))
        except OSError as wrong:
            self._socket.close()
            raise JobFailed(
                f"No port of {LOOPBACK} is free for the job: {wrong.strerror}.",
                "End what holds so many ports, or bring the loopback link up, and try again.",
            ) from wrong
        self.port: int = self._socket.getsockname()[1]

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        wrong: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def first_ephemeral_port() -> int:
    """Return the lowest port that the kernel hands out by itself; 0 where that is unknown."""
    try:
        return int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0
