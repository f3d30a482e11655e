"""``top``: what the GPUs of a run do now, and its throughput."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from k8sbench.adapters.clock import steady
from k8sbench.app import connections, context, lookup, metric_sources, stores
from k8sbench.app.stores import Note
from k8sbench.lifecycle.context import Stop
from k8sbench.lifecycle.live_metrics import LiveMetrics
from k8sbench.model.errors import Interrupted, UsageError
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run
from k8sbench.ports import JobEvent, LogLine

if TYPE_CHECKING:
    from k8sbench.adapters.store.run_logs import LogTail
    from k8sbench.ports import Store


def top(
    text: str,
    where: str | None,
    access: ClusterAccess,
    note: Note,
    stop: Stop,
    show: Callable[[LiveMetrics], None],
    *,
    prometheus: str = metric_sources.AUTO,
) -> Run:
    """Show the run's GPUs until it has ended; returns the run as it is then.

    The run is read from its cluster, which nobody else who follows it notices; one of this machine
    from its record and its archived logs.
    """
    with stores.to_read(where, note) as store, contextlib.ExitStack() as stack:
        run, recorded = lookup.look_up(store, text, access)
        if run.phase.final:
            raise UsageError(
                f"Run {run.run_id} has ended: it is {run.phase}. {run.history[-1].cause}",
                f"See what was measured with: k8sbench results {run.run_id}"
                f" (--plot {run.run_id}.svg draws its GPU metrics)",
            )
        if run.plan.device == "cpu":
            raise UsageError(
                f"Run {run.run_id} is on CPUs; it has no GPUs.",
                f"Follow it with: k8sbench watch {run.run_id}",
            )
        api, clock = None, steady
        wait: Callable[[float], Sequence[JobEvent]]
        if run.plan.backend == "kubernetes":
            cluster = stack.enter_context(connections.cluster_of(run, access, note))
            api, clock, wait = cluster.api, cluster.api.time, cluster.wait
            cluster.resume(run, {})
        else:
            wait = stack.enter_context(contextlib.closing(_Recorded(store, run.run_id))).wait
        sources = stack.enter_context(metric_sources.opened(prometheus, api, store))
        metrics = LiveMetrics(run, sources, clock)
        stack.callback(metrics.release)
        with stop:
            metrics.follow(wait, stop, note, show)
        if stop.cause is not None:
            raise Interrupted(
                f"{stop.cause}: {run.run_id} goes on; it is {metrics.live.phase}.",
                f"Come back with: k8sbench top {run.run_id}",
            )
        # Who follows the run knows its end better than a job that is being deleted shows it.
        kept = context.find(store, run.run_id) if recorded else run
        if kept.phase.final:
            return kept
        return msgspec.structs.replace(run, history=(*run.history, metrics.live.state))


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
            tail = self._tails.setdefault(path, LogTail(path))
            for at, text in tail.lines():
                line = LogLine(replica=tail.replica, at=at, text=text.decode("utf-8", "replace"))
                events.append(JobEvent(run_id=run.run_id, line=line))
        return events

    def close(self) -> None:
        """Close the files."""
        for tail in self._tails.values():
            tail.close()
