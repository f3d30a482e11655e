"""Durations (``90s``, ``15m``, ``1h30m``), dates and polling intervals.

Other time limits stand next to the function that waits.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable

from k8sbench.model.errors import UsageError
from k8sbench.model.plain_text import ABSENT

Clock = Callable[[], float]
"""The port for the time: Unix seconds."""
LOOK_SECONDS = 0.25
"""Polling interval of this process's own state.

A request to stop, the clock, a thread's end.
"""
FILE_SECONDS = 0.5
"""Polling interval of files and records of other local processes."""
SERVER_SECONDS = 2.0
"""Interval between requests to a server for changes."""
SAVE_SECONDS = 40
"""Seconds between SIGTERM and SIGKILL for trainers with checkpoints.

They take 25 s at most to save, and launchers allow 30 s.
"""

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
EXAMPLES = "90s, 15m, 2h, 1h30m or 3d"
_PART = re.compile(rf"([0-9]{{1,9}}(?:\.[0-9]{{1,3}})?)([{''.join(UNITS)}])")
_LENGTH = re.compile(rf"(?:{_PART.pattern})+")


def parse_duration(text: str) -> float | None:
    """Read a duration in seconds; None if the text is not one.

    The unit is required: 30 could mean seconds or minutes.
    """
    text = text.strip()
    if not _LENGTH.fullmatch(text):
        return None
    return sum(float(number) * UNITS[unit] for number, unit in _PART.findall(text))


def duration(seconds: float | None) -> str:
    """Write a duration in at most two units; ``–`` for None.

    ``45s``, ``3m12s``, ``2d4h``.

    Below ten seconds one decimal is kept (``0.4s``). A negative duration (a clock that was set
    back) is ``0s``.
    """
    if seconds is None or math.isnan(seconds):
        return ABSENT
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f}".removesuffix(".0") + "s"
    if math.isinf(seconds):
        return "∞"
    whole = round(seconds)
    for unit, smaller in (("d", "h"), ("h", "m"), ("m", "s")):
        size = int(UNITS[unit])
        if whole >= size:
            smaller_units = whole % size // int(UNITS[smaller])
            return f"{whole // size}{unit}" + (f"{smaller_units}{smaller}" if smaller_units else "")
    return f"{whole}s"


def utc(at: float) -> str:
    """Write a time as RFC 3339 in UTC: ``2026-11-20T08:15:30Z``."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def minute(at: float) -> str:
    """Write a time for people, to the minute: ``2026-11-20 08:15 UTC``."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def parse_since(text: str, *, now: float) -> float:
    """Read ``--since``: a duration before now (``2h``) or a date.

    Dates are ISO 8601; without a zone they are UTC, as all times that k8sbench prints.
    """
    length = parse_duration(text)
    if length is not None:
        return now - length
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return moment.timestamp()
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"--since {text!r} is neither a length of time nor a date.",
            f"Write {EXAMPLES}; or 2026-11-20, 2026-11-20T08:15:30Z.",
        ) from error
