"""Counts in sentences, and the sign for a value that there is not."""

from __future__ import annotations

ABSENT = "–"
"""A cell without a value. Never 0, never empty."""


def counted(number: int, noun: str, verbs: tuple[str, str] | None = None) -> str:
    """Write a count: ``1 run``, ``2 processes``; with ``verbs`` also ``1 run is``, ``2 runs are``.

    ``verbs`` are the singular and the plural.
    """
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    text = f"{number} {noun if number == 1 else plural}"
    return text if verbs is None else f"{text} {verbs[number != 1]}"
