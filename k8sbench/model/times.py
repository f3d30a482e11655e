"""Times as people type and read them: durations (``90s``, ``15m``, ``1h30m``) and dates.

And how often k8sbench looks at what tells nobody that it has changed; other time limits stand
beside the function that waits, and docs/limits.md lists all of them.
"""

from __future__ import annotations

import datetime
import math
import re

from k8sbench.model.counts import ABSENT
from k8sbench.model.errors import UsageError

LOOK_SECONDS = 0.25
"""Between two looks at this process's own state: a request to stop, the clock, a thread's end."""
FILE_SECONDS = 0.5
"""Between two looks at a file or a record that another process of this machine writes."""
SERVER_SECONDS = 2.0
"""Between two requests to a server for what is new: the API server, a collector."""
SAVE_SECONDS = 40
"""Between SIGTERM and SIGKILL for trainers that keep checkpoints: they take 25 s at most to save,
and launchers leave them 30 s."""

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
EXAMPLES = "90s, 15m, 2h, 1h30m or 3d"
_PART = re.compile(rf"([0-9]{{1,9}}(?:\.[0-9]{{1,3}})?)([{''.join(UNITS)}])")
_LENGTH = re.compile(rf"(?:{_PART.pattern})+")


def seconds(text: str) -> float | None:
    """Read a length of time; None if the text is none.

    A unit is never left out: 30 may be meant as seconds or as minutes.
    """
    text = text.strip()
    if not _LENGTH.fullmatch(text):
        return None
    return sum(float(number) * UNITS[unit] for number, unit in _PART.findall(text))


def duration(seconds: float | None) -> str:
    """Write a duration in two units at most: ``45s``, ``3m12s``, ``2d4h``; ``–`` without one.

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
            rest = whole % size // int(UNITS[smaller])
            return f"{whole // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{whole}s"


def utc(at: float) -> str:
    """Write a time as RFC 3339 in UTC, to the second: ``2026-11-20T08:15:30Z``."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_since(text: str, *, now: float) -> float:
    """Read ``--since``: a length of time back from now (``2h``, ``1d12h``) or a date.

    Dates are ISO 8601; without a zone they are UTC, as all times that k8sbench prints.
    """
    length = seconds(text)
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
