"""``watch``: follow a run to its end, whoever follows it besides."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from k8sbench.adapters.clock import steady
from k8sbench.app import connections, context, lookup, metric_sources, results, stores
from k8sbench.app.results import Rows
from k8sbench.lifecycle import collecting
from k8sbench.lifecycle.context import Reporter, Stop
from k8sbench.lifecycle.gathering import Gathering, is_owed
from k8sbench.lifecycle.live import LiveMetrics
from k8sbench.model.errors import Interrupted, StoreError, UsageError
from k8sbench.model.phase import Phase
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run
from k8sbench.ports import JobEvent, LogLine, Store
from k8sbench.report import group_words

if TYPE_CHECKING:
    from k8sbench.adapters.store.run_logs import LogTail
    from k8sbench.adapters.store.sql_store import SqlStore

LOOK_SECONDS = 0.5
"""Interval of reading the record of a run that another process follows."""


def watch(
    text: str,
    where: str | None,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
    *,
    keep: bool = False,
    wait: bool = False,
    prometheus: str = metric_sources.AUTO,
) -> Rows:
    """Follow the run with this id prefix, and make its row."""
    with stores.to_write(where) as store:
        run = lookup.run_of(store, text, access)
        run = follow(
            *(store, run, access, reporter, stop), keep=keep, wait=wait, prometheus=prometheus
        )
        return results.rows(store, [run], reporter.note)


def look(
    text: str,
    where: str | None,
    access: ClusterAccess,
    note: stores.Note,
    stop: Stop,
    show: Callable[[LiveMetrics], None],
    *,
    prometheus: str = metric_sources.AUTO,
) -> None:
    """Show a run's GPUs until it has ended; nobody else who follows it notices.

    A run on a cluster is read from there, one of this machine from its record and archived logs.
    """
    with stores.to_read(where, note) as store, contextlib.ExitStack() as stack:
        run, _ = lookup.look_up(store, text, access)
        if run.plan.device == "cpu":
            raise UsageError(f"Run {run.run_id} is on CPUs; it has no GPUs.", "Leave --gpu out.")
        if run.phase.final:
            return
        api, clock = None, steady
        wait: Callable[[float], Sequence[JobEvent]]
        if run.plan.backend == "kubernetes":
            cluster = stack.enter_context(connections.cluster_of(run, access, note))
            api, clock, wait = cluster.api, cluster.api.time, cluster.wait
            cluster.resume(run, {})
        else:
            wait = stack.enter_context(contextlib.closing(_Recorded(store, run.run_id))).wait
        metrics = LiveMetrics(run, metric_sources.found(prometheus, api, store), clock)
        with stop:
            metrics.follow(wait, stop, note, show)
        if stop.cause is not None:
            raise _interrupted(stop, run.run_id, metrics.live.phase)


def follow(
    store: SqlStore,
    run: Run,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
    *,
    keep: bool = False,
    wait: bool = False,
    prometheus: str = metric_sources.NONE,
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
                with context.of_run(
                    *(store, run, access, reporter.note), keep=keep, prometheus=prometheus
                ) as here:
                    gathering, is_ours = Gathering(here, reporter), True
                    result = collecting.collect(
                        *([run], here, reporter, stop),
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
    if is_owed(run) and not is_ours:
        reporter.note(
            f"The GPU metrics of {run.run_id} are not recorded yet."
            f" See them later with: k8sbench results {run.run_id}"
        )
    if stop.cause is not None and not run.is_closed:
        raise _interrupted(stop, run.run_id, run.phase)
    if stop.cause is not None:
        reporter.note(f"{stop.cause}")
    return run


def _watch_record(store: SqlStore, run: Run, reporter: Reporter, stop: Stop) -> Run:
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
        is_complete = run.is_closed and not (on_cluster and is_owed(run))
        if is_complete or stop.cause is not None or _is_left_unmeasured(run):
            return run
        if on_cluster and store.claims.claim(run.run_id):
            return store.run(run.run_id)
        time.sleep(LOOK_SECONDS)
        # Of a local run that also shows when its process is gone.
        run = context.find(store, run.run_id)


def _is_left_unmeasured(run: Run) -> bool:
    """Return True if a finished local run lost its measuring process."""
    owner = run.owner if run.plan.backend == "local" else None
    is_over = run.phase.final and not run.is_closed
    return is_over and owner is not None and context.alive()(owner) is False


def _interrupted(stop: Stop, run_id: str, phase: Phase) -> Interrupted:
    return Interrupted(
        f"{stop.cause}: {run_id} goes on; it is {phase}.",
        f"Come back with: k8sbench watch {run_id}",
    )


class _Recorded:
    """Reads a run of this machine from its record and its archived logs."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store, self._run_id = store, run_id
        self._tails: dict[Path, LogTail] = {}

    def wait(self, seconds: float) -> list[JobEvent]:
        """Return what is new of it after some seconds."""
        from k8sbench.adapters.store.run_logs import LogTail

        time.sleep(seconds)
        run = context.find(self._store, self._run_id)
        events = [JobEvent(run_id=run.run_id, transition=run.history[-1])]
        for path in self._store.log_files(run.run_id):
            if path not in self._tails:
                self._tails[path] = LogTail(path)
            tail = self._tails[path]
            for at, text in tail.lines():
                line = LogLine(replica=tail.replica, at=at, text=text.decode("utf-8", "replace"))
                events.append(JobEvent(run_id=run.run_id, line=line))
        return events

    def close(self) -> None:
        """Close the files."""
        for tail in self._tails.values():
            tail.close()
