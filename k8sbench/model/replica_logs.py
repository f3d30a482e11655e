"""The logs of a job's replicas: their lines, their positions, and their names in a run's folder."""

from __future__ import annotations

import msgspec


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of one replica's output."""

    replica: str
    """``master-0``, ``worker-1``."""
    at: float
    """Unix seconds at which it was received."""
    text: str
    """Text of the line without the line end."""


class LogMark(msgspec.Struct, frozen=True):
    """Position in a replica's log up to which it is archived.

    The last archived lines identify the position. Time stamps are kept to the microsecond. Several
    lines may have the same stamp, and a line may have an earlier stamp than the line before: two
    threads print, or the node's clock was set back.
    """

    at: float
    """Time stamp of the last line, Unix seconds."""
    lines: int
    """Number of adjacent lines with this stamp at the archive's end."""
    texts: bytes = b""
    """CRC-32 of the last lines' texts, four bytes each, newest last.

    At most 64 lines. Empty: unknown, and the stamp alone counts.
    """


def log_name(replica: str, *, pod: int = 1, restarts: int = 0) -> str:
    """Return the name of a container's log; a replica of an observed job has one per attempt.

    ``pod`` is the number of the pod among the replica's, from 1.
    """
    of_pod = f"{replica}.pod-{pod}" if pod > 1 else replica
    return f"{of_pod}.restart-{restarts}" if restarts else of_pod


def log_of_pod(name: str) -> str:
    """Return the name of a pod's log, given that of a container's log."""
    return name.partition(".restart-")[0]


def replica_of_log(name: str) -> str:
    """Return the replica of a log by the log's name."""
    return name.partition(".")[0]
