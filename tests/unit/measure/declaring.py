"""Drafts of declared formats that a person has confirmed."""

import re


def confirmed(text: str, values: dict[str, str]) -> str:
    """Correct and confirm a proposed file, as its user does."""
    for key, value in {"confirmed": "true", **values}.items():
        text, count = re.subn(rf"(?m)^( *{key}:).*$", rf"\1 {value}", text)
        assert count == 1, key
    return text
