"""``store reindex --measure``: what measurements lack is made from the archived logs of their runs.

A measurement of k8sbench gets its profile alone: figures, verdict and reasons stay as they were
recorded. One that another program made is replaced as a whole. Each run is recorded once it is
measured, so that a process that is killed goes on where it was.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from k8sbench.adapters import measuring
from k8sbench.app import run_contexts, stores
from k8sbench.lifecycle import run_artifacts
from k8sbench.lifecycle.context import Note
from k8sbench.model import rules
from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.measurement import Measurement
from k8sbench.model.plain_text import share
from k8sbench.model.run import Run
from k8sbench.store import exchange, log_archive
from k8sbench.store.sql_store import SqlStore

SHOWN_SECONDS = 5.0
"""Interval of lines of progress."""


class MeasuredLogs(msgspec.Struct, kw_only=True):
    """Outcome of measuring archived logs."""

    profiles: int = 0
    """Runs whose measurement got its profile, or the reason why the log gives none."""
    replaced: int = 0
    """Runs whose measurement was another program's."""
    without_logs: int = 0
    """Runs that lack either, and have no log."""
    failed: dict[str, str] = {}
    """Run id → why its logs could not be measured; nothing of it was changed."""


def measure_logs(where: str | None, note: Note) -> MeasuredLogs:
    """Measure the archived logs of runs that lack a profile, or whose measurement is another's.

    Raises :class:`~k8sbench.model.errors.StoreError` if the store cannot be written.
    """
    outcome = MeasuredLogs(failed={})
    with stores.open_writable(where, create=False, note=note) as store:
        wanted = [run_id for run_id in store.ids() if _lacks(store.read_run(run_id))]
        shown_at = time.monotonic()
        for number, run_id in enumerate(wanted):
            if time.monotonic() - shown_at >= SHOWN_SECONDS:
                shown_at = time.monotonic()
                note(f"measuring archived logs: {share(number, len(wanted), 'run')}")
            try:
                with exchange.claim_run(store, run_id):
                    _measure(store, run_id, outcome)
            except UsageError as error:
                outcome.failed[run_id] = str(error)
    return outcome


def _lacks(run: Run | None) -> bool:
    """Return True if the logs of a run may complete or replace its measurement."""
    if run is None or run.measurement is None or not run.phase.final:
        return False
    found = run.measurement
    if found.measured_by is not None:
        return True
    return not (found.has_profile_or_reason or _nothing_measured(found))


def _nothing_measured(found: Measurement) -> str | None:
    """Return why logs gave no measurement; None if they did."""
    reasons = (each for each in found.reasons if each.id == rules.NOTHING_MEASURED.id)
    return next((reason.sentence for reason in reasons), None)


def _measure(store: SqlStore, run_id: str, outcome: MeasuredLogs) -> None:
    """Measure the logs of a run that this process has claimed, and record what comes of it."""
    run = store.run(run_id)
    kept = run.measurement
    if kept is None or not _lacks(run):
        return  # another process has measured it meanwhile
    logs = _logs(store, run)
    if not logs:
        outcome.without_logs += 1
        return
    gaps = run_artifacts.read_gaps(store, run_id)
    task = run_contexts.measuring_task(store, (), run, gaps, logs)
    try:
        found = measuring.measured_apart(task)
    except StoreError as error:
        outcome.failed[run_id] = error.message
        return
    if (why := _nothing_measured(found)) is not None:
        outcome.failed[run_id] = why
    elif kept.measured_by is None:
        store.save_measurement(run_id, kept.with_profile_of(found))
        outcome.profiles += 1
    else:
        store.save_measurement(run_id, found)
        outcome.replaced += 1


def _logs(store: SqlStore, run: Run) -> list[Path]:
    """Return the archived logs of a run, in the order in which they are measured."""
    logs = store.log_files(run.run_id)
    return logs if run.facts.job is None else log_archive.sort_by_attempt(logs)
