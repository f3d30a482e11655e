"""Drafts of declared formats that a person has confirmed."""

import datetime
import re

STARTED = datetime.datetime(2026, 3, 2, 10, tzinfo=datetime.UTC)


def moments(count: int, seconds: float, form: str = "%Y-%m-%d %H:%M:%S") -> list[str]:
    """Stamps some seconds apart."""
    return [
        (STARTED + datetime.timedelta(seconds=n * seconds)).strftime(form) for n in range(count)
    ]


def confirmed(text: str, values: dict[str, str]) -> str:
    """Correct and confirm a proposed file, as its user does."""
    for key, value in {"confirmed": "true", **values}.items():
        text, count = re.subn(rf"(?m)^( *{key}:).*$", rf"\1 {value}", text)
        assert count == 1, key
    return text
