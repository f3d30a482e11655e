"""Run states, and which of them are final.

The adapters map the words of other systems (Kubernetes conditions, exit codes of processes) to
these states through one table each.
"""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from k8sbench.model.masking import mask_fields

Moment = Annotated[float, msgspec.Meta(ge=-62_000_000_000, le=253_000_000_000)]
"""Unix seconds within the years 5 to 9987, which dates can show."""


class Phase(enum.StrEnum):
    """State of a run. The first is Created, recorded before any request."""

    CREATED = "Created"
    QUEUED = "Queued"
    PENDING = "Pending"
    PULLING = "Pulling"
    STARTING = "Starting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    LOST = "Lost"

    def __init__(self, text: str) -> None:
        self.final = text in {"Succeeded", "Failed", "Cancelled", "Lost"}
        """True if the run cannot change any more."""


LOGS_BEING_READ = "logs-being-read"
"""Cause id of an ended job whose logs are still being read. No error."""
LOGS_INCOMPLETE = "logs-incomplete"
"""Cause id of an ended job whose logs cannot be read now.

The job stays on the cluster with its pods, to be collected later.
"""

TIMEOUT, WAIT_TIMEOUT = "timeout", "wait-timeout"
LIMITS = frozenset({TIMEOUT, WAIT_TIMEOUT})
"""Cause ids of runs that took longer than their limit, or waited longer for their start."""

RESTARTING = "restarting"
"""Cause id of a run between a failed attempt and the next."""


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """One change of state: when, and in one sentence why."""

    phase: Phase
    """The job's state, one of the phases."""
    at: Moment
    """Unix seconds."""
    cause: str
    """Cause in one sentence; for a failure with replica and exit code."""
    cause_id: str | None = None
    """Stable id of the cause; None if the state needs no diagnosis."""
    action: str | None = None
    """Action for the user, one sentence; None without one."""
    unrecoverable: bool = False
    """True for a waiting job that cannot start without an action."""
    job_uid: str | None = None
    """uid of the attempt's job, from the answer to its creation; else None."""

    def __post_init__(self) -> None:
        # It may quote a log or an event, and stands in stores of versions that did not mask it.
        mask_fields(self, "cause", "action")


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True):
    """State of one replica of a job."""

    replica: str
    """``master-0``, ``worker-1``."""
    phase: Phase
    """Its state, one of the phases."""
    node: str | None = None
    """Node of the pod; None if not scheduled."""
    restarts: int = 0
    """Restarts of the container."""
    exit_code: int | None = None
    """Exit code of the program; None while it runs."""
    detail: str = ""
    """Reason or sentence why it does not run, or how it ended."""
    image: str | None = None
    """Digest of the running image (``sha256:…``); None if unknown."""

    def __post_init__(self) -> None:
        mask_fields(self, "detail")
