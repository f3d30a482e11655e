"""Time stamps of log lines, as Unix seconds.

Logs print no zone, so stamps are read as UTC: only their differences matter.
"""

from __future__ import annotations

import datetime

DAY = 86400.0
UNDATED_YEAR = 2000
"""Year of stamps without one; a leap year, so every date exists."""
UNDATED_SPAN = 366 * DAY


def seconds(text: str) -> float | None:
    """Read ``2021-05-31 00:01:11,032``, ``2023/07/28 06:42:45`` or ``06/04 09:34:21``.

    None for what is no such time. The fraction may follow a comma or a point.
    """
    date = text.replace("/", "-")
    try:
        if date[2:3] == "-":
            date = f"{UNDATED_YEAR}-{date}"
        if date[16:17] != ":":
            return None
        return datetime.datetime.fromisoformat(date).replace(tzinfo=datetime.UTC).timestamp()
    except ValueError:
        return None


def moment(text: str) -> float | None:
    """Return when the node received a line; None without such a stamp."""
    if text[10:11] != "T":
        return None
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
