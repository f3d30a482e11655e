"""Lengths of time as people type them: ``90s``, ``15m``, ``2h``, ``3d``, ``1h30m``."""

from __future__ import annotations

import re

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
