"""Logs of AIRank's format."""

BEGIN = 1772445600
"""Ten o'clock, when the lines of :func:`run` begin."""


def airank(at: float, what: str) -> str:
    return f"- AI-Rank-log {BEGIN + at:.3f} {what}"
