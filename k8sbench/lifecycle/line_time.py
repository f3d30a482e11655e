"""Ends an expression of a user's own format that takes too long for a line of a run.

Python's regular expressions ask for signals now and then, so a timer ends them. Signals are for the
main thread alone: in another one no such expression is tried on lines that come.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

SECONDS = 0.5
"""For one line, of the time that this process computes: most take less than a thousandth."""


class TooSlow(Exception):
    """The limit was reached."""


def can_be_limited() -> bool:
    """Whether this thread is given signals."""
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise :class:`TooSlow` in the block when it has computed for too long."""

    def strike(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, strike)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
