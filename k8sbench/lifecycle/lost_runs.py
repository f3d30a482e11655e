"""Lost runs: local runs whose process is gone without a last word.

A process that is killed cannot record its own end. Whoever reads the store therefore checks first
if the processes of unfinished local runs still run. Clocks and processes come in as arguments.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec

from k8sbench.model import times
from k8sbench.model.errors import StoreError
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Owner, Run
from k8sbench.ports import RunFilter, Store

Alive = Callable[[Owner], bool | None]
"""Checks if a process still runs; returns None if unknown here."""
OWNER_KILLED = "owner-killed"


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
    end = lost(run, store.last_written_at(run.run_id), now=now)
    try:
        return store.move(run.run_id, end)
    except StoreError:
        return msgspec.structs.replace(run, history=(*run.history, end))


def lost(run: Run, last_written_at: float | None, *, now: float) -> Transition:
    """Build the final transition of a run whose process is gone."""
    owner = run.owner
    assert owner is not None
    latest = run.history[-1]
    # Its end left no trace of its own: it came after the last thing that was written.
    at = min(max(latest.at, last_written_at or latest.at), max(now, latest.at))
    rest = (
        "nothing of the run had reported yet."
        if latest.phase is Phase.CREATED
        else "its processes were ended with it; what it printed until then is kept, see:"
        f" k8sbench logs {run.run_id}"
    )
    cause = (
        f"k8sbench (pid {owner.pid} on {owner.host}) ended at {times.utc(at)} or soon after, while"
        f" the run was {latest.phase}, without a last word (killed, the machine went down, or the"
        f" disk was full); {rest}"
    )
    return Transition(phase=Phase.LOST, at=at, cause=cause, cause_id=OWNER_KILLED)
