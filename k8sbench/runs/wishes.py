"""Wishes: what a cluster is to be asked for, recorded in the store before it is asked.

The cluster may not answer, its answer may be lost, or the process that asked may be killed. The
wish is then still on record, and whoever collects the run next asks again.
"""

from __future__ import annotations

import contextlib
import hashlib

from k8sbench.model.errors import BenchError, StoreError, Unreachable
from k8sbench.model.run import Run, Wish
from k8sbench.ports import Collected, Store
from k8sbench.runs.context import RunContext

BY_NAME = "deleted-by-name"
"""Cause id of a deletion that a user asked for: other stores that use the job do not keep it."""

NO_ANSWER = frozenset({"api-unreachable", "api-not-trusted", "unauthorized"})
"""Cause ids of errors of a cluster that answers no request at all."""


def left_over(at: float) -> Wish:
    """Return the wish to delete the job of a run that has ended."""
    return Wish(kind="delete", at=at, cause="The run has ended.")


def by_name(at: float) -> Wish:
    """Return the wish of a user to delete a job."""
    return Wish(kind="delete", at=at, cause="Deleted by k8sbench delete.", cause_id=BY_NAME)


def is_by_name(run: Run) -> bool:
    """Whether a user has asked for the deletion of what is left of a run."""
    wish = run.wish("delete")
    return wish is not None and wish.cause_id == BY_NAME


def is_refused(wrong: BenchError) -> bool:
    """Whether a cluster answered that it does not do what was asked: asking again is no use."""
    return not isinstance(wrong, Unreachable) or wrong.cause_id == "forbidden"


def delete(context: RunContext, run_id: str) -> tuple[Run, str | None]:
    """Delete what is left of a run's job, and take the wish back.

    Returns the run, and why its job stays for others or what its deletion waits for, else None.
    """
    run = context.store.run(run_id)
    why = context.cluster.remove(
        run_id, lambda: _collected(context.store, run), force=is_by_name(run)
    )
    if run.wish("delete") is not None:
        # What is deleted and still counts as owed is deleted again, which does no harm.
        with contextlib.suppress(StoreError):
            run = context.store.fulfilled(run_id, "delete")
    return run, why


def _collected(store: Store, run: Run) -> Collected:
    """Say what the store has of a run: its archived logs, and what was measured of them."""
    digest: str | None = None
    with contextlib.suppress(StoreError, OSError):  # they may be on another machine
        if files := store.log_files(run.run_id):
            whole = hashlib.sha256()
            for path in files:
                with path.open("rb") as file:
                    hashlib.file_digest(file, lambda: whole)
            digest = whole.hexdigest()
    measured = run.measurement
    figures = None if measured is None else measured.throughput
    return Collected(
        digest=digest,
        throughput=None if measured is None else measured.rate,
        unit=None if figures is None else figures.unit,
        verdict=None if measured is None else measured.verdict,
    )
