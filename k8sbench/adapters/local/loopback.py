"""Holds a free port of the loopback address for a job, from the choice to the job's end.

A port that is only looked up may be taken before the job binds it seconds later. So a socket of
ours stays bound to it and never listens. The kernel gives a port that is held so to nobody who
asks for any free one, in this process or another; and it lets the job bind and listen on it,
because both sides set SO_REUSEADDR (torch's TCPStore and Python's HTTP server, which Paddle's
launcher uses, do).
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

from k8sbench.adapters.local.manifest import LOOPBACK

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@contextlib.contextmanager
def held_port() -> Iterator[int]:
    """Give a port that nobody else is given as long as this is open; OSError if none is free."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((LOOPBACK, 0))
        yield holder.getsockname()[1]


def first_ephemeral_port() -> int:
    """Return the lowest port that the kernel hands out by itself; 0 where that is unknown."""
    try:
        return int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0
