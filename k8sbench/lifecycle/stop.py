"""Requests to stop."""

from __future__ import annotations

INTERRUPTED = "interrupted"
"""Cause id of runs that a user or the system interrupted."""


class Stop:
    """A request to stop, from the user or the system.

    Active inside its ``with`` block. A subclass connects it to a source of requests, such as
    signals.
    """

    def __init__(self) -> None:
        self.cause: str | None = None

    def __call__(self, cause: str) -> None:
        """Ask for the end; returns at once, and again does nothing."""
        self.cause = self.cause or cause

    def __enter__(self) -> Stop:
        return self

    def __exit__(self, *_: object) -> None:
        pass
