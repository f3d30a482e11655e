"""``cancel`` and ``delete``: end runs, and take what they left off the cluster."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from k8sbench.app import connections, context, follow, lookup, stores
from k8sbench.app.connections import ClusterAccess
from k8sbench.model.errors import Interrupted, UsageError
from k8sbench.model.run import Run
from k8sbench.runs import collecting
from k8sbench.runs.context import Reporter, Stop
from k8sbench.runs.following import FollowOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.ports import Cluster

CAUSE, CAUSE_ID = "Cancelled by k8sbench cancel.", "cancelled"


def cancel(
    runs: Sequence[str],
    where: str | None,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
) -> None:
    """End runs and wait for their ends; one that is over stays as it is."""
    with stores.to_write(where) as store:
        for run_id in lookup.ids_of(store, runs, access):
            run = store.run(run_id)
            if run.phase.final:
                reporter.note(f"Run {run.run_id} is {run.phase} already.")
                continue
            _end(store, run, access, reporter, stop)


def delete(
    runs: Sequence[str],
    where: str | None,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
) -> None:
    """Delete what runs have left on the cluster; one that goes on is cancelled first."""
    with stores.to_write(where) as store:
        unreadable: set[str] = set()
        for run_id in lookup.ids_of(store, runs, access, unreadable=unreadable):
            if run_id in unreadable:
                with connections.opened(connections.connect(access)) as cluster:
                    _remove(cluster, run_id, reporter)
                continue
            run = store.run(run_id)
            if run.plan.backend == "kubernetes" and not run.phase.final:
                _end(store, run, access, reporter, stop)
            with connections.cluster_of(run, access, reporter.note) as cluster:
                _remove(cluster, run_id, reporter)


def _remove(cluster: Cluster, run_id: str, reporter: Reporter) -> None:
    why = cluster.remove(run_id)
    reporter.note(
        f"Run {run_id} has nothing on the cluster any more."
        if why is None
        else f"Run {run_id} stays on the cluster: {why}"
    )


def _end(store: SqlStore, run: Run, access: ClusterAccess, reporter: Reporter, stop: Stop) -> None:
    run_id, note = run.run_id, reporter.note
    if run.plan.backend == "local":
        _end_process(run)
        run = follow.follow(store, run, access, FollowOptions(), reporter, stop)
    elif store.claims.claim(run_id):
        with connections.cluster_of(run, access, note, store=store) as cluster, stop:
            here = context.run_context(store, cluster, location=run.location)
            closed = collecting.cancel(run, here, reporter, stop, CAUSE, CAUSE_ID)
        if closed is None:
            raise Interrupted(
                f"{stop.cause}: whether {run_id} ends was not waited for.",
                f"See: k8sbench status {run_id}",
            )
        run = closed
    else:
        # The process that follows it archives its logs and closes it.
        with connections.cluster_of(run, access, note) as cluster:
            cluster.cancel(run_id, CAUSE, CAUSE_ID)
        run = follow.follow(store, run, access, FollowOptions(), reporter, stop)
    note(f"Run {run_id} is {run.phase}. {run.history[-1].cause}")


def _end_process(run: Run) -> None:
    owner, alive = run.owner, context.alive()
    if owner is None or not alive(owner):
        host = f" ({owner.host})" if owner is not None else ""
        raise UsageError(f"Run {run.run_id} runs on another machine{host}.", "End it there.")
    os.kill(owner.pid, signal.SIGTERM)
