"""Local runs whose process is gone."""

from __future__ import annotations

import contextlib

import msgspec

from k8sbench.lifecycle.context import Alive
from k8sbench.model.errors import StoreError
from k8sbench.model.run import Run
from k8sbench.store.interface import RunFilter, Store


def mark_lost_runs(store: Store, *, alive: Alive, now: float) -> dict[str, Run]:
    """Mark local runs as lost if their process is gone.

    A process that is killed cannot record its own end, so whoever reads the store checks first.
    Returns the changed runs by id. Runs on a cluster go on without their process, and processes of
    other machines cannot be checked from here, so neither is changed. In a read-only store nothing
    is recorded; the returned runs have the state that would be recorded.
    """
    changed: dict[str, Run] = {}
    for run in store.runs(RunFilter(unfinished=True)):
        process = run.process if run.plan.backend == "local" else None
        if process is not None and alive(process) is False:
            changed[run.run_id] = mark_lost(store, run, now=now)
    return changed


def mark_lost(store: Store, run: Run, *, now: float) -> Run:
    """Mark a local run whose process is gone; return it as it is then."""
    with contextlib.suppress(StoreError):
        # Only now that the process is gone is its folder final: it may have ended in good order
        # since the row was read, or been killed with its last word in the folder alone.
        run = store.run(run.run_id)
    if run.phase.final:
        return run
    end = run.lost(store.last_written_at(run.run_id), now=now)
    try:
        return store.move(run.run_id, end)
    except StoreError:
        return msgspec.structs.replace(run, history=(*run.history, end))
