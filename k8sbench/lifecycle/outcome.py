"""Outcomes: ways in which a process finishes with a run."""

from __future__ import annotations

import enum

import msgspec

from k8sbench.model.run import Run


class OutcomeKind(enum.Enum):
    """Way in which this process finished with a run."""

    CLOSED = "closed"
    """Final, measured and deleted; or its logs cannot be read now."""
    CREATED = "created"
    """The job exists; the run is not followed further."""
    LEFT = "left"
    """The run continues, or its end is unknown; it is not followed."""
    REFUSED = "refused"
    """Its job was not created, or not for certain."""
    OVER_BEFORE = "over-before"
    """It was final when it was found."""
    FOLLOWED_ELSEWHERE = "followed-elsewhere"
    """Another process follows it."""
    PASSED_OVER = "passed-over"
    """Its files cannot be read or written."""


class Outcome(msgspec.Struct, frozen=True):
    """One run, and how this process finished with it."""

    run: Run
    how: OutcomeKind
    error: BaseException | None = None
    """Reason why the job was refused, or the run passed over; else None."""
