"""The time of this process, which goes on evenly whatever happens to this machine's clock."""

from __future__ import annotations

import time

_BEGAN = time.time() - time.monotonic()


def steady() -> float:
    """Return Unix seconds: those of the start of the program, and what has passed since then.

    A clock that is set while a run goes on, by hand or by NTP, must neither end it nor a wait.
    """
    return _BEGAN + time.monotonic()
