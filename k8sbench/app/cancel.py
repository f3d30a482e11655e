"""``cancel`` and ``delete``: end runs, and take what they left off the cluster.

What is wished is recorded before the cluster is asked: without a store that can be written no job
is touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from k8sbench.app import connections, context, follow, lookup, stores
from k8sbench.lifecycle import collecting, owners, requests
from k8sbench.lifecycle.context import Reporter, Stop
from k8sbench.model.errors import (
    BenchError,
    Interrupted,
    OwnedElsewhere,
    PlanUnreadable,
    StoreError,
    Unreachable,
    UsageError,
    is_refused,
)
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run, Wish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.app.stores import Note
    from k8sbench.ports import Cluster

CAUSE, CAUSE_ID = "Cancelled by k8sbench cancel.", "cancelled"


def cancel(
    runs: Sequence[str], where: str | None, access: ClusterAccess, reporter: Reporter, stop: Stop
) -> None:
    """End runs and wait for their ends; skip finished runs."""

    def work(store: SqlStore, run: Run) -> None:
        if run.is_imported:
            raise connections.imported_error(run)
        if not run.phase.final:
            _end(store, run, access, reporter, stop)
            return
        reporter.note(f"Nothing to cancel: run {run.run_id} is {run.phase}.")
        if run.wishes:
            _delete(store, run, access, stop, reporter.note)

    wish = Wish(kind="cancel", at=context.now(), cause=CAUSE, cause_id=CAUSE_ID)
    _each(runs, where, access, wish, stop, reporter.note, work)


def delete(
    runs: Sequence[str], where: str | None, access: ClusterAccess, reporter: Reporter, stop: Stop
) -> None:
    """Delete the cluster resources of runs; cancel active runs first."""

    def work(store: SqlStore, run: Run) -> None:
        if run.plan.backend == "kubernetes":
            run = store.wish(run.run_id, requests.by_name(context.now()))
            if not run.phase.final:
                _end(store, run, access, reporter, stop)
        _delete(store, run, access, stop, reporter.note)

    def work_unreadable(run_id: str) -> None:
        with connections.opened(connections.connect(access)) as cluster:
            _note_deleted(run_id, cluster.remove(run_id, force=True), reporter.note)

    wish = requests.by_name(context.now())
    _each(runs, where, access, wish, stop, reporter.note, work, work_unreadable)


def _each(
    texts: Sequence[str],
    where: str | None,
    access: ClusterAccess,
    wish: Wish,
    stop: Stop,
    note: Note,
    work: Callable[[SqlStore, Run], None],
    work_unreadable: Callable[[str], None] | None = None,
) -> None:
    """Do something to each run.

    ``work_unreadable`` is for jobs whose plan cannot be read, which are an error without it.
    """
    with stores.to_write(where) as store:
        store.check_writable()
        for run_id, run in _named(store, texts, access, work_unreadable is not None).items():
            if run is None:
                assert work_unreadable is not None
                work_unreadable(run_id)
            elif run_id in store.ids() or _is_ours(store, run, access, wish, stop, note):
                work(store, lookup.run_of(store, run_id, access))
            else:
                note(f"Run {run_id}: its owner has the request.")


def _named(
    store: SqlStore, texts: Sequence[str], access: ClusterAccess, unreadable: bool
) -> dict[str, Run | None]:
    """Find all runs before the first one is touched.

    With ``unreadable``, a run whose plan cannot be read is None instead of an error.
    """
    runs: dict[str, Run | None] = {}
    for text in texts:
        try:
            run, _ = lookup.look_up(store, text, access)
            runs[run.run_id] = run
        except PlanUnreadable as error:
            if not unreadable:
                raise
            runs[error.run_id] = None
    return runs


def _is_ours(
    store: SqlStore, run: Run, access: ClusterAccess, wish: Wish, stop: Stop, note: Note
) -> bool:
    """Ask the owner of an unrecorded job to act.

    Returns True if this store is to act instead.
    """
    with context.of_run(store, run, access, note) as here, stop:
        return owners.ask(run.run_id, here, wish, stop, note)


def _end(store: SqlStore, run: Run, access: ClusterAccess, reporter: Reporter, stop: Stop) -> None:
    run_id, note = run.run_id, reporter.note
    if run.plan.backend == "local":
        _end_process(run)
        run = follow.follow(store, run, access, reporter, stop)
        note(f"Run {run_id} is {run.phase}. {run.history[-1].cause}")
        return
    wish = Wish(kind="cancel", at=context.now(), cause=CAUSE, cause_id=CAUSE_ID)
    run = store.wish(run_id, wish)
    with _on_record(store, run_id, "cancel"):
        is_ours = store.claims.claim(run_id)
        closed: Run | None = None
        with context.of_run(store, run, access, note) as here:
            _check_label(here.cluster, run_id)
            with stop:
                is_left = owners.ask(run_id, here, wish, stop, note)
            if not is_left:
                store.fulfilled(run_id, "cancel")
                note(f"Run {run_id}: its owner has the request, and ends it.")
                return
            if is_ours:
                closed = collecting.cancel(run, here, reporter, stop)
            elif owners.job_of(run_id, here) is not None:
                here.cluster.cancel(run_id, CAUSE, CAUSE_ID)
        if not is_ours:
            # The process that follows it archives its logs and closes it.
            closed = follow.follow(store, run, access, reporter, stop)
        if closed is None:
            raise Interrupted(
                f"{stop.cause}: whether {run_id} ends was not waited for.",
                f"See: k8sbench status {run_id}",
            )
        run = closed
    note(f"Run {run_id} is {run.phase}. {run.history[-1].cause}")


def _check_label(cluster: Cluster, run_id: str) -> None:
    """Reject a job that has lost its run label.

    Watches select by label, so its end would be missed, and it may belong to someone else.
    """
    from k8sbench.adapters.kubernetes import ownership
    from k8sbench.adapters.kubernetes.cluster import KubernetesCluster

    assert isinstance(cluster, KubernetesCluster)
    _, unlabelled = ownership.look_for(cluster.api, run_id)
    if unlabelled is not None:
        raise UsageError(f"Run {run_id} is not ended: {unlabelled}")


def _delete(store: SqlStore, run: Run, access: ClusterAccess, stop: Stop, note: Note) -> None:
    run_id = run.run_id
    with _on_record(store, run_id, "delete"), context.of_run(store, run, access, note) as here:
        with stop:
            wish = requests.by_name(context.now())
            is_ours = owners.ask(run_id, here, wish, stop, note)
        if not is_ours:
            store.fulfilled(run_id, "delete")
            note(f"Run {run_id}: its owner has the request, and deletes the job.")
            return
        _, why = requests.delete(here, run_id)
    _note_deleted(run_id, why, note)


@contextlib.contextmanager
def _on_record(store: SqlStore, run_id: str, command: str) -> Iterator[None]:
    """Add to errors that the request is recorded and still pending.

    A refused cancel request is withdrawn instead.
    """
    what = "to be cancelled" if command == "cancel" else "to be deleted"
    again = f"That {run_id} is {what} is recorded; carry it out with: k8sbench collect {run_id}"
    try:
        yield
    except Unreachable as wrong:
        if command == "cancel" and is_refused(wrong):
            _take_back(store, run_id)
            raise
        raise Unreachable(wrong.message, f"{wrong.action} {again}".lstrip()) from wrong
    except Interrupted as wrong:
        raise Interrupted(wrong.message, again) from wrong
    except KeyboardInterrupt as wrong:
        raise Interrupted("Interrupted (Ctrl-C).", again) from wrong
    except BenchError as wrong:
        if isinstance(wrong, OwnedElsewhere) or (
            command == "cancel" and not isinstance(wrong, StoreError)
        ):
            _take_back(store, run_id)
        raise


def _take_back(store: SqlStore, run_id: str) -> None:
    """Withdraw the cancel and delete requests of a run.

    The run goes on because the cluster refused to cancel it.
    """
    store.fulfilled(run_id, "cancel")
    store.fulfilled(run_id, "delete")


def _note_deleted(run_id: str, why: str | None, note: Note) -> None:
    note(
        f"Run {run_id} has nothing on the cluster any more."
        if why is None
        else f"Run {run_id} stays on the cluster: {why}"
    )


def _end_process(run: Run) -> None:
    owner, alive = run.owner, context.alive()
    if owner is None or not alive(owner):
        host = f" ({owner.host})" if owner is not None else ""
        raise UsageError(f"Run {run.run_id} runs on another machine{host}.", "End it there.")
    os.kill(owner.pid, signal.SIGTERM)
