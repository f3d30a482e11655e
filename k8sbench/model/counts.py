"""Counts in sentences, and the placeholder for missing values."""

from __future__ import annotations

ABSENT = "–"
"""A cell without a value. Never 0, never empty."""


def counted(number: int, noun: str, verbs: tuple[str, str] | None = None) -> str:
    """Write a count: ``1 run``, ``2 processes``.

    ``verbs`` are the singular and the plural.
    """
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    text = f"{number} {noun if number == 1 else plural}"
    return text if verbs is None else f"{text} {verbs[number != 1]}"
