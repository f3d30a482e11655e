"""Seconds since a training began, over all its attempts.

The wall clock may be set at any moment, so each attempt is timed by the monotonic clock. It counts
from the machine's start: between two attempts it counts on where the second one runs on the same
machine. Elsewhere the pause is by the wall clocks of both, as long as they agree.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")
SET_SECONDS = 5.0  # a wall clock that leaves the monotonic one by more was set


def boot_id() -> str | None:
    """Identity of the machine's start; None if it has none."""
    try:
        return BOOT.read_text().strip() or None
    except (OSError, ValueError):
        return None


class Stopwatch:
    """Time since the start.

    NaN where only a wall clock that was set would tell it.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        boot: Callable[[], str | None] = boot_id,
    ) -> None:
        self._monotonic, self._wall, self.boot = monotonic, wall, boot()
        self.origin = monotonic()
        self._ahead = wall() - self.origin
        self._needs_wall = False

    def seconds(self) -> float:
        """Seconds since the start."""
        if self._needs_wall and not self._is_steady():
            return math.nan
        return self._monotonic() - self.origin

    def _is_steady(self) -> bool:
        """True if nobody has set the wall clock in this attempt."""
        return abs(self._wall() - self._monotonic() - self._ahead) < SET_SECONDS

    def state(self) -> dict[str, object]:
        """The state that `resume` needs, as plain JSON."""
        wall = self._wall() if self._is_steady() else math.nan
        now = self._monotonic()
        return {"seconds": self.seconds(), "boot": self.boot, "clock": now, "time": wall}

    def resume(self, state: Mapping[str, object]) -> None:
        """Go on from another attempt's `state`, the pause included."""
        seconds, clock, at = (float(str(state[name])) for name in ("seconds", "clock", "time"))
        now = self._monotonic()
        self._needs_wall = self.boot is None or self.boot != state["boot"]
        pause = self._wall() - at if self._needs_wall else now - clock
        self.origin = now - seconds - (pause if pause >= 0 else math.nan)
