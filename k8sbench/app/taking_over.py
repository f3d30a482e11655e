"""Taking over what a collector has of a run whose job is gone: state, figure and files."""

from __future__ import annotations

from pathlib import Path

from k8sbench.app import collectors, connections
from k8sbench.model.errors import BenchError, Unreachable, is_refused
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run


def collected_elsewhere(access: ClusterAccess, run: Run, folder: Path) -> Run | None:
    """Return what the collector has of a run, and copy its files into a folder.

    None: there is no collector that this user may read, or it knows no such run. Raises
    :class:`Unreachable` where it does not answer, or follows the run still.
    """
    there = connections.access_to(run.location, access)
    if not connections.configured(there):
        return None
    try:
        theirs = collectors.run_there(there, run.run_id)
        if theirs is not None and theirs.is_closed:
            collectors.Copies(there, run.run_id, folder).take("logs", "gpu")
    except BenchError as error:
        if is_refused(error):
            return None
        raise
    except OSError as error:
        raise Unreachable(f"Its files cannot be copied: {error.strerror}.", "Try again.") from error
    if theirs is not None and not theirs.is_closed:
        raise Unreachable("The collector follows it still.", "Collect it again later.")
    return theirs
