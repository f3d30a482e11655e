"""The clock of this process, which nobody can set."""

from __future__ import annotations

import time

_BEGAN = time.time() - time.monotonic()


def steady() -> float:
    """Return Unix seconds: the program's start plus the elapsed time.

    A clock that is set during a run, by hand or by NTP, must not end the run or a wait.
    """
    return _BEGAN + time.monotonic()
