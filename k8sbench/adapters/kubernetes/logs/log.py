"""One replica's log: which pod it is of, how far it was read, and what is wrong with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Protocol

import msgspec

from k8sbench.adapters.kubernetes.logs import order
from k8sbench.adapters.kubernetes.logs.text import Line
from k8sbench.ports import LogMark


class Served(Protocol):
    """A log that is read while it arrives; any thread may close it."""

    def chunks(self) -> Iterator[bytes]:
        """Yield its bytes; raises :class:`ApiFault` where the connection breaks."""

    def close(self) -> None:
        """Close it."""


class Log(msgspec.Struct, eq=False):
    """One replica's log; thousands are kept, in a fifth of the memory of an ordinary object."""

    run_id: str
    replica: str
    mark: LogMark | None
    pod: str = ""
    uid: str = ""
    container: str = ""
    urgency: int = 0
    restarts: int = 0
    lost_at: float = order.NEVER
    """When it will be deleted, by the cluster's clock."""
    is_over: bool = False
    """Whether its container is known to have ended."""
    is_done: bool = False
    """Whether everything that exists of it was handed over."""
    is_gone: bool = False
    """Whether its pod was deleted."""
    exists: bool = False
    """Whether its node must have it: its container has run, and is not known to be removed."""
    is_given_up: bool = False
    """Whether to request it once more, and no more after a failure."""
    is_displaced: bool = False
    """Whether a more urgent log needs its stream."""
    wake: threading.Event = msgspec.field(default_factory=threading.Event)
    """Set when something has changed, so that another request may help."""
    held: threading.Lock = msgspec.field(default_factory=threading.Lock)
    """Held while lines are handed over; guards what follows. ``want`` never takes it."""
    stream: Served | None = None
    turn: int = 0
    """Incremented when another thread reads it from now on."""
    last: tuple[str, int] = "", 0
    """The container of the last line that was read here: its pod's uid, and its restarts."""
    is_in_place: bool = False
    """Whether its stream goes on from the mark."""
    is_intact: bool = False
    """Whether the last stream went on from the mark and ended without a fault."""
    is_new: bool = False
    """Whether what is served next begins after the mark."""
    looked_back: bool = False
    """Whether the log of the previous container was requested, or nothing of it can be missing."""
    gap: str | None = None
    """Why lines are missing before the next one."""
    rest: list[Line] = []
    """What the last answer ended with, without a line end."""
    why: str = ""
    """The last fault."""
    is_node_s_word: bool = False
    """Whether the node itself named the fault, and not a server on the way to it."""
    failing_since: float | None = None
    """When the first request failed since which nothing new was read, monotonic seconds."""
    failures: int = 0
    """Requests that failed since then."""
    tries: int = 0
    """Answers since the last failure."""
    whole_at: float | None = None
    """When it was first read to its end after its container ended, monotonic seconds."""
    looked_at: LogMark | None = None
    """The mark when a fetch last found less than the stream has read."""
