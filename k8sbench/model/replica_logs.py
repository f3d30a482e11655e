"""Names of the logs of a job's replicas, in a run's folder."""

from __future__ import annotations


def log_name(replica: str, *, pod: int = 1, restarts: int = 0) -> str:
    """Name the log of a container of a replica of an observed job, whose attempts have one each.

    ``pod`` is the number of the pod among the replica's, from 1.
    """
    of_pod = f"{replica}.pod-{pod}" if pod > 1 else replica
    return f"{of_pod}.restart-{restarts}" if restarts else of_pod


def log_of_pod(name: str) -> str:
    """Return the name of the log of the pod whose container's log has a name."""
    return name.partition(".restart-")[0]


def replica_of_log(name: str) -> str:
    """Return the replica whose log has a name."""
    return name.partition(".")[0]
