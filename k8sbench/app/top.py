"""``top``: what the GPUs of a run do now, and its throughput."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
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
    from k8sbench.ports import Cluster, Store


class TopOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which run, and where its GPU metrics are."""

    run: str
    """Id, or a unique beginning of one."""
    once: bool = False
    """Whether to read the sources once, instead of until the run has ended."""
    prometheus: str = metric_sources.AUTO
    access: ClusterAccess = ClusterAccess()
    store: str | None = None
    """Folder or URL; None: the default place."""


def top(options: TopOptions, note: Note, stop: Stop, show: Callable[[LiveMetrics], None]) -> Run:
    """Show the run's GPUs, once or until it has ended; returns the run as it is then."""
    with stores.to_read(options.store, note) as store:
        run, recorded = lookup.look_up(store, options.run, options.access)
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
        with _opened(store, run, options, note) as (metrics, feed):
            if options.once:
                metrics.take(feed.present(run), note)
                metrics.once(time.sleep)
                show(metrics)
            else:
                with stop:
                    metrics.follow(feed.begun(run), stop, note, show)
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


@contextlib.contextmanager
def _opened(
    store: Store, run: Run, options: TopOptions, note: Note
) -> Iterator[tuple[LiveMetrics, _OnCluster | _Recorded]]:
    """Open the sources of a run's GPU metrics, and what its steps and states are read from."""
    with contextlib.ExitStack() as stack:
        feed: _OnCluster | _Recorded = _Recorded(store)
        api, clock = None, steady
        if run.plan.backend == "kubernetes":
            cluster = stack.enter_context(connections.cluster_of(run, options.access, note))
            api, clock, feed = cluster.api, cluster.api.time, _OnCluster(cluster)
        sources = stack.enter_context(metric_sources.opened(options.prometheus, api, store))
        metrics = LiveMetrics(run, sources, clock)
        stack.callback(metrics.release)
        stack.callback(feed.close)
        yield metrics, feed


class _OnCluster:
    """Reads a run from its cluster, which nobody else who follows it notices."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def present(self, run: Run) -> Iterator[JobEvent]:
        """Yield its state, and then what it has printed."""
        yield from self._cluster.look(run)
        for line in self._cluster.printed(run):
            yield JobEvent(run_id=run.run_id, line=line)

    def begun(self, run: Run) -> Callable[[float], Sequence[JobEvent]]:
        """Begin to read it, its logs from their start."""
        self._cluster.resume(run, {})
        return self._cluster.wait

    def close(self) -> None:
        """Do nothing: who has opened the cluster closes it."""


class _Recorded:
    """Reads a run of this machine from its record and its archived logs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tails: dict[Path, LogTail] = {}

    def present(self, run: Run) -> list[JobEvent]:
        """Return what is new of it since the last call."""
        from k8sbench.adapters.store.run_logs import LogTail

        events = [JobEvent(run_id=run.run_id, transition=run.history[-1])]
        for path in self._store.log_files(run.run_id):
            tail = self._tails.setdefault(path, LogTail(path))
            for at, text in tail.lines():
                line = LogLine(replica=tail.replica, at=at, text=text.decode("utf-8", "replace"))
                events.append(JobEvent(run_id=run.run_id, line=line))
        return events

    def begun(self, run: Run) -> Callable[[float], Sequence[JobEvent]]:
        """Begin to read it."""

        def wait(seconds: float) -> Sequence[JobEvent]:
            time.sleep(seconds)
            return self.present(context.find(self._store, run.run_id))

        return wait

    def close(self) -> None:
        """Close the files."""
        for tail in self._tails.values():
            tail.close()
