"""Taking over what a collector has of a run whose job is gone: state, figure and files."""

from __future__ import annotations

from pathlib import Path

from k8sbench.app import collectors, connections
from k8sbench.model.errors import BenchError
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run


def collected_elsewhere(access: ClusterAccess, run: Run, folder: Path) -> Run | None:
    """Return what the collector has of a run, and copy its files into a folder.

    None: it has nothing whole, or cannot be reached.
    """
    there = connections.access_to(run.location, access)
    if not connections.configured(there):
        return None
    try:
        theirs = collectors.run(there, run.run_id, lambda _: None)
        if theirs is None or not theirs.is_closed:
            return None
        collectors.Copies(there, run.run_id, folder).take("logs", "gpu")
    except (BenchError, OSError):
        return None
    return theirs
