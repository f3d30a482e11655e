"""``watch``, ``cancel`` and ``delete``: follow runs to their ends, or end them.

What is wished is recorded before the cluster is asked: without a store that can be written no job
is touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from k8sbench.adapters import processes
from k8sbench.app import connections, lookup, results, stores
from k8sbench.app.context import now, on_cluster
from k8sbench.app.results import Rows
from k8sbench.lifecycle import collecting, owners, requests
from k8sbench.lifecycle.context import Reporter, RunContext, Stop
from k8sbench.lifecycle.gathering import Gathering
from k8sbench.model.errors import (
    BenchError,
    Interrupted,
    OwnedElsewhere,
    StoreError,
    Unreachable,
    UsageError,
    is_refused,
)
from k8sbench.model.phase import Phase
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run, Wish, by_name
from k8sbench.ports import JobEvent, Store
from k8sbench.report import group_words

LOOK_SECONDS = 0.5
"""Interval of reading the record of a run that another process follows."""
CAUSE, CAUSE_ID = "Cancelled by k8sbench cancel.", "cancelled"


def watch(
    text: str,
    where: str | None,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
    *,
    keep: bool = False,
    wait: bool = False,
    prometheus: str = connections.AUTO,
) -> Rows:
    """Follow the run with this id prefix, and make its row."""
    with stores.to_write(where) as store:
        run = lookup.run_of(store, text, access)
        run = follow(
            *(store, run, access, reporter, stop), keep=keep, wait=wait, prometheus=prometheus
        )
        return results.rows(store, [run], reporter.note)


def _opened(
    store: Store,
    run: Run,
    access: ClusterAccess,
    reporter: Reporter,
    *,
    prometheus: str | None = None,
    keep: bool = False,
) -> contextlib.AbstractContextManager[RunContext]:
    """Open the cluster of a run; rejects local runs and other clusters."""
    api = connections.of_run(run, access)
    return on_cluster(
        *(store, api, reporter.note), run=run, access=access, prometheus=prometheus, keep=keep
    )


def follow(
    store: Store,
    run: Run,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
    *,
    keep: bool = False,
    wait: bool = False,
    prometheus: str = connections.NONE,
) -> Run:
    """Follow a run until it is closed.

    If another process follows it, watch its record instead. A run whose logs cannot be read now
    stays open. A pending deletion of its job is tried once. A stop request before the run is closed
    raises :class:`Interrupted`; the run goes on.
    """
    owes = bool(run.wishes)
    is_ours = False
    with stop:
        while (owes or not run.is_closed) and stop.cause is None:
            owes = is_ours = False
            if run.plan.backend == "kubernetes" and store.claims.claim(run.run_id):
                here = _opened(store, run, access, reporter, keep=keep, prometheus=prometheus)
                with here as context:
                    gathering, is_ours = Gathering(context, reporter), True
                    result = collecting.collect(
                        *([run], context, reporter, stop),
                        follow=True,
                        keep=keep,
                        wait=wait,
                        gathering=gathering,
                    )
                    closed = results.with_gpu_metrics(result.closed, gathering, stop, reporter.note)
                for wrong in result.failed.values():
                    if isinstance(wrong, StoreError):
                        raise wrong
                    return store.run(run.run_id)  # left alone, which was reported
                if result.going_on and stop.cause is None:
                    return store.run(run.run_id)  # another store has its job, which was reported
                (run,) = (*closed, *result.going_on, *result.followed)
            else:
                reporter.planned(run)
                run = _watch_record(store, run, reporter, stop)
                if _is_left_unmeasured(run):
                    reporter.note(
                        f"The process of {run.run_id} ended before it had measured the run."
                        f" Resume: {group_words.resuming(run.plan)}"
                    )
                    return run
    if run.owes_gpu_metrics and not is_ours:
        reporter.note(
            f"The GPU metrics of {run.run_id} are not recorded yet."
            f" See them later with: k8sbench results {run.run_id}"
        )
    if stop.cause is not None and not run.is_closed:
        raise _interrupted(stop, run.run_id, run.phase)
    if stop.cause is not None:
        reporter.note(f"{stop.cause}")
    return run


def _watch_record(store: Store, run: Run, reporter: Reporter, stop: Stop) -> Run:
    """Report state changes of a run that another process follows.

    Returns the run when it is closed, when no process follows it any more, or at a stop.
    """
    reported = len(run.history)
    while True:
        for transition in run.history[reported:]:
            reporter.on_event(run, JobEvent(run_id=run.run_id, transition=transition))
        reported = len(run.history)
        on_cluster = run.plan.backend == "kubernetes"
        # Who follows a run on a cluster fetches its GPU metrics after its end.
        is_complete = run.is_closed and not (on_cluster and run.owes_gpu_metrics)
        if is_complete or stop.cause is not None or _is_left_unmeasured(run):
            return run
        if on_cluster and store.claims.claim(run.run_id):
            return store.run(run.run_id)
        time.sleep(LOOK_SECONDS)
        # Of a local run that also shows when its process is gone.
        run = lookup.find(store, run.run_id)


def _is_left_unmeasured(run: Run) -> bool:
    """Return True if a finished local run lost its measuring process."""
    owner = run.owner if run.plan.backend == "local" else None
    is_over = run.phase.final and not run.is_closed
    return is_over and owner is not None and processes.alive(owner) is False


def _interrupted(stop: Stop, run_id: str, phase: Phase) -> Interrupted:
    return Interrupted(
        f"{stop.cause}: {run_id} goes on; it is {phase}.",
        f"Come back with: k8sbench watch {run_id}",
    )


# -- cancel and delete ----------------------------------------------------------------------------


def cancel(
    runs: Sequence[str], where: str | None, access: ClusterAccess, reporter: Reporter, stop: Stop
) -> None:
    """End runs and wait for their ends; skip finished runs."""

    def work(run: Run, ending: _Ending) -> None:
        if run.is_imported:
            connections.check_on_cluster(run)
        if not run.phase.final:
            ending.end(run)
            return
        reporter.note(f"Nothing to cancel: run {run.run_id} is {run.phase}.")
        if run.wishes:
            ending.delete(run)

    wish = Wish(kind="cancel", at=now(), cause=CAUSE, cause_id=CAUSE_ID)
    _each(runs, where, wish, access, reporter, stop, work)


def delete(
    runs: Sequence[str], where: str | None, access: ClusterAccess, reporter: Reporter, stop: Stop
) -> None:
    """Delete the cluster resources of runs; cancel active runs first."""
    wish = by_name(now())

    def work(run: Run, ending: _Ending) -> None:
        if run.plan.backend == "kubernetes":
            run = ending.store.wish(run.run_id, wish)
            if not run.phase.final:
                ending.end(run)
        ending.delete(run)

    _each(runs, where, wish, access, reporter, stop, work)


def _each(
    texts: Sequence[str],
    where: str | None,
    wish: Wish,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
    work: Callable[[Run, _Ending], None],
) -> None:
    """Act on each recorded run; ask the owners of the others."""
    with stores.to_write(where) as store:
        store.check_writable()
        ending = _Ending(store, access, reporter, stop)
        # All are found before the first one is touched.
        found = [lookup.look_up(store, text, access)[0] for text in texts]
        for run_id, run in {run.run_id: run for run in found}.items():
            if run_id in store.ids() or ending.is_left(run, wish):
                work(lookup.run_of(store, run_id, access), ending)
            else:
                reporter.note(f"Run {run_id}: its owner has the request.")


class _Ending(msgspec.Struct):
    """Ends runs of a store, and deletes their jobs."""

    store: Store
    access: ClusterAccess
    reporter: Reporter
    stop: Stop

    def is_left(self, run: Run, wish: Wish) -> bool:
        """Ask a job's owner to act; True if this store is to act instead."""
        with _opened(self.store, run, self.access, self.reporter) as here:
            return self._asked(run.run_id, here, wish)

    def _asked(self, run_id: str, here: RunContext, wish: Wish) -> bool:
        with self.stop:
            return owners.ask(run_id, here, wish, self.stop, self.reporter.note)

    def _follow(self, run: Run) -> Run:
        return follow(self.store, run, self.access, self.reporter, self.stop)

    def end(self, run: Run) -> None:
        """End a run, and wait for its end."""
        if run.plan.backend == "local":
            _end_process(run)
            run = self._follow(run)
        else:
            with self._on_record(run.run_id, "cancel"):
                ended = self._end_job(run)
            if ended is None:
                return
            run = ended
        self.reporter.note(f"Run {run.run_id} is {run.phase}. {run.history[-1].cause}")

    def _end_job(self, run: Run) -> Run | None:
        """End a job on a cluster; None if its owner does so."""
        run_id, store = run.run_id, self.store
        wish = Wish(kind="cancel", at=now(), cause=CAUSE, cause_id=CAUSE_ID)
        run = store.wish(run_id, wish)
        is_ours = store.claims.claim(run_id)
        with _opened(store, run, self.access, self.reporter) as here:
            if not self._asked(run_id, here, wish):
                store.fulfilled(run_id, "cancel")
                self.reporter.note(f"Run {run_id}: its owner has the request, and ends it.")
                return None
            if is_ours:
                closed = collecting.cancel(run, here, self.reporter, self.stop)
                if closed is None:
                    cause = f"{self.stop.cause}: whether {run_id} ends was not waited for."
                    raise Interrupted(cause, f"See: k8sbench status {run_id}")
                return closed
            if owners.job_of(run_id, here) is not None:
                here.cluster.cancel(run_id, CAUSE, CAUSE_ID)
        # The process that follows it archives its logs and closes it.
        return self._follow(run)

    def delete(self, run: Run) -> None:
        """Delete what is left of a run on its cluster."""
        run_id, opened = run.run_id, _opened(self.store, run, self.access, self.reporter)
        with self._on_record(run_id, "delete"), opened as here:
            if not self._asked(run_id, here, by_name(now())):
                self.store.fulfilled(run_id, "delete")
                self.reporter.note(f"Run {run_id}: its owner has the request, and deletes the job.")
                return
            _, why = requests.delete(here, run_id)
        self.reporter.note(
            f"Run {run_id} has nothing on the cluster any more."
            if why is None
            else f"Run {run_id} stays on the cluster: {why}"
        )

    @contextlib.contextmanager
    def _on_record(self, run_id: str, kind: Literal["cancel", "delete"]) -> Iterator[None]:
        """Add to errors that the request is recorded and still pending.

        A refused cancel request is withdrawn instead, with that to delete: the run goes on.
        """
        what = "to be cancelled" if kind == "cancel" else "to be deleted"
        again = f"That {run_id} is {what} is recorded; carry it out with: k8sbench collect {run_id}"
        try:
            yield
        except KeyboardInterrupt as wrong:
            raise Interrupted("Interrupted (Ctrl-C).", again) from wrong
        except StoreError:
            raise
        except BenchError as wrong:
            is_final = isinstance(wrong, OwnedElsewhere) or (kind == "cancel" and is_refused(wrong))
            if isinstance(wrong, Interrupted) or (isinstance(wrong, Unreachable) and not is_final):
                wrong.action = f"{wrong.action} {again}".lstrip()
            elif is_final:
                self.store.fulfilled(run_id, "cancel")
                self.store.fulfilled(run_id, "delete")
            raise


def _end_process(run: Run) -> None:
    owner = run.owner
    if owner is None or not processes.alive(owner):
        host = f" ({owner.host})" if owner is not None else ""
        raise UsageError(f"Run {run.run_id} runs on another machine{host}.", "End it there.")
    os.kill(owner.pid, signal.SIGTERM)
