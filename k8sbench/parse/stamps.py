"""Time stamps of log lines, as Unix seconds.

Logs print no zone, so stamps are read as UTC: only their differences matter.
"""

from __future__ import annotations

import datetime
import functools

DAY = 86400.0
UNDATED_YEAR = 2000
"""Year of stamps without one; a leap year, so every date exists."""
UNDATED_SPAN = 366 * DAY


def seconds(text: str) -> float | None:
    """Read ``2021-05-31 00:01:11,032``, ``2023/07/28 06:42:45`` or ``06/04 09:34:21``.

    None for what is no such time. The fraction may follow a comma or a point.
    """
    minute, _, rest = text.rpartition(":")
    began = _minute(minute)
    if began is None or not "0" <= rest < ":":
        return None
    try:
        return began + float(rest.replace(",", "."))
    except ValueError:
        return None


@functools.lru_cache(maxsize=64)
def _minute(text: str) -> float | None:
    """Read all but the seconds; neighbouring lines share it."""
    date, _, clock = text.partition(" ")
    parts = date.replace("/", "-").split("-")
    try:
        hour, minute = (int(part) for part in clock.split(":"))
        numbers = [int(part) for part in parts]
        if len(numbers) == 2:
            numbers.insert(0, UNDATED_YEAR)
        day = datetime.date(*numbers)
    except (TypeError, ValueError, OverflowError):
        return None
    days = day.toordinal() - datetime.date(1970, 1, 1).toordinal()
    return days * DAY + hour * 3600 + minute * 60


def moment(text: str) -> float | None:
    """Return when the node received a line; None without such a stamp."""
    if text[10:11] != "T":
        return None
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
