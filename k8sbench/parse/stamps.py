"""Time stamps of log lines as Unix seconds. No zone is ever printed, so all are read as UTC:
differences are right, and that is all they are used for."""

from __future__ import annotations

import datetime
import functools

_DAY = 86400.0
UNDATED_YEAR = 2000
"""Stamps without a year are put into this one; a leap year, so that every date exists."""


def seconds(text: str) -> float | None:
    """Read ``2021-05-31 00:01:11,032``, ``2023/07/28 06:42:45`` or ``06/04 09:34:21``.

    None for what is no such time. The fraction may follow a comma or a point.
    """
    date, _, clock = text.partition(" ")
    day = _day(date)
    if day is None:
        return None
    try:
        return (
            day
            + int(clock[0:2]) * 3600
            + int(clock[3:5]) * 60
            + int(clock[6:8])
            + (float(f"0.{clock[9:]}") if clock[9:] else 0.0)
        )
    except ValueError:
        return None


@functools.lru_cache(maxsize=64)
def _day(text: str) -> float | None:
    parts = text.replace("/", "-").split("-")
    try:
        numbers = [int(part) for part in parts]
        if len(numbers) == 2:
            numbers.insert(0, UNDATED_YEAR)
        day = datetime.date(*numbers)
    except (TypeError, ValueError, OverflowError):
        return None
    return (day.toordinal() - datetime.date(1970, 1, 1).toordinal()) * _DAY
