"""The states of a run, and which of them are final.

The words of other systems (Kubernetes conditions, exit codes of processes) become these through
one table each, in the adapter that meets them.
"""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

Moment = Annotated[float, msgspec.Meta(ge=-62_000_000_000, le=253_000_000_000)]
"""Unix seconds, within the years 5 and 9987: others cannot be shown as dates."""


class Phase(enum.StrEnum):
    """State of a run. A run starts as Created, recorded before anything else happens."""

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

    @property
    def final(self) -> bool:
        """Whether the run can change no more."""
        return self in FINAL


FINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED, Phase.LOST})


LOGS_BEING_READ = "logs-being-read"
"""Cause id of a run that waits for its logs when its job has ended; nothing is wrong."""
LOGS_INCOMPLETE = "logs-incomplete"
"""Cause id of a run that is left alone because logs cannot be read now: its job has ended, stays on
the cluster with its pods, and is to be collected."""

RESTARTING = "restarting"
"""Cause id of a run whose attempt has ended, and whose job is to be created again."""


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """One change of state: when, and in one sentence why."""

    phase: Phase
    """The job's state, one of the phases."""
    at: Moment
    """Unix seconds."""
    cause: str
    """One sentence; for a failure it names the replica and the exit code."""
    cause_id: str | None = None
    """Stable id of the cause; None where the state needs no diagnosis."""
    action: str | None = None
    """What the user can do about it, one sentence; None where there is nothing to do."""
    unrecoverable: bool = False
    """Of a job that waits: its condition cannot be met without an action."""
    job_uid: str | None = None
    """With the answer to its creation: the uid of the attempt's job; None where that is unknown."""


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True):
    """State of one replica of a job."""

    replica: str
    """``master-0``, ``worker-1``."""
    phase: Phase
    """Its state, one of the phases."""
    node: str | None = None
    """The node that it is on; None while it has none."""
    restarts: int = 0
    """Of its container."""
    exit_code: int | None = None
    """Of its program; None while it runs."""
    detail: str = ""
    """Why it is not running, or how it ended: a reason or a sentence."""
    image: str | None = None
    """Digest of the image that it runs (``sha256:…``); None where that is not known."""
