"""Lost runs: local runs whose process is gone without a last word.

A process that is killed cannot record its own end. Whoever reads the store therefore checks first
if the processes of unfinished local runs still run. Clocks and processes come in as arguments.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec

from k8sbench.model.errors import StoreError
from k8sbench.model.run import Owner, Run
from k8sbench.ports import RunFilter, Store

Alive = Callable[[Owner], bool | None]
"""Checks if a process still runs; returns None if unknown here."""


def reconcile(store: Store, *, alive: Alive, now: float) -> dict[str, Run]:
    """Mark local runs as lost if their process is gone.

    Returns the changed runs by id. Runs on a cluster go on without their process, and processes of
    other machines cannot be checked from here, so neither is changed. In a read-only store nothing
    is recorded; the returned runs have the state that would be recorded.
    """
    changed: dict[str, Run] = {}
    for run in store.runs(RunFilter(unfinished=True)):
        owner = run.owner if run.plan.backend == "local" else None
        if owner is not None and alive(owner) is False:
            changed[run.run_id] = _closed(store, run, now=now)
    return changed


def _closed(store: Store, run: Run, *, now: float) -> Run:
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
