"""Logs as a container's runtime keeps them, served as the kubelet does."""

from collections.abc import Iterable
from datetime import UTC, datetime

T0 = 1_795_162_530_000_000
"""2026-11-20T08:15:30Z in microseconds."""


def stamp(at: int, *, nanos: int = 0) -> str:
    """Write Unix microseconds as the kubelet does."""
    moment = datetime.fromtimestamp(at // 1_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1_000_000:06d}{nanos:03d}Z"


def served(lines: Iterable[tuple[int, str]]) -> bytes:
    """Serve (microseconds, text) lines of a file."""
    return "".join(f"{stamp(at)} {text}\n" for at, text in lines).encode()
