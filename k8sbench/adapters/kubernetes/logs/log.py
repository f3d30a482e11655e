"""One replica's log: which pod it is of, how far it was read, and what is wrong with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Protocol

from k8sbench.adapters.kubernetes.logs import order
from k8sbench.adapters.kubernetes.logs.text import Line
from k8sbench.ports import LogMark


class Served(Protocol):
    """A log that is read while it arrives; any thread may close it."""

    def chunks(self) -> Iterator[bytes]:
        """Yield its bytes; raises :class:`ApiFault` where the connection breaks."""

    def close(self) -> None:
        """Close it."""


class Log:
    """One replica's log."""

    def __init__(self, run_id: str, replica: str, mark: LogMark | None) -> None:
        self.run_id, self.replica = run_id, replica
        self.pod = self.uid = self.container = ""
        self.urgency, self.restarts = 0, 0
        self.lost_at = order.NEVER
        """When it will be deleted, by the cluster's clock."""
        self.is_over = False
        """Whether its container is known to have ended."""
        self.is_done = False
        """Whether everything that exists of it was handed over."""
        self.is_gone = False
        """Whether its pod was deleted."""
        self.exists = False
        """Whether its node must have it: its container has run, and is not known to be removed."""
        self.is_given_up = False
        """Whether to request it once more, and no more after a failure."""
        self.is_displaced = False
        """Whether a more urgent log needs its stream."""
        self.wake = threading.Event()
        """Set when something has changed, so that another request may help."""
        self.held = threading.Lock()
        """Held while lines are handed over; guards what follows. ``want`` never takes it."""
        self.mark = mark
        self.stream: Served | None = None
        self.turn = 0
        """Incremented when another thread reads it from now on."""
        self.last = "", 0
        """The container of the last line that was read here: its pod's uid, and its restarts."""
        self.is_in_place = False
        """Whether its stream goes on from the mark."""
        self.is_intact = False
        """Whether the last stream went on from the mark and ended without a fault."""
        self.is_new = False
        """Whether what is served next begins after the mark."""
        self.looked_back = mark is not None
        """Whether the log of the previous container was requested."""
        self.gap: str | None = None
        """Why lines are missing before the next one."""
        self.rest: list[Line] = []
        """What the last answer ended with, without a line end."""
        self.why, self.is_node_s_word = "", False
        """The last fault; whether the node itself said so, and not a server on the way to it."""
        self.failing_since: float | None = None
        """When the first request failed since which nothing new was read, monotonic seconds."""
        self.failures, self.tries = 0, 0
        """Requests that failed since then; answers since the last failure."""
        self.whole_at: float | None = None
        """When it was first read to its end after its container ended, monotonic seconds."""
        self.looked_at: LogMark | None = None
        """The mark when a fetch last found less than the stream has read."""
