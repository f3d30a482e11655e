"""Current GPU metrics and latest step of a run.

The sources are read every few seconds. The process that follows the run is not disturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from k8sbench.lifecycle import gathering
from k8sbench.lifecycle.context import Stop
from k8sbench.lifecycle.live_state import LiveRun
from k8sbench.measure.run import gpu_metrics
from k8sbench.model.gpu_metrics import Fetched
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.ports import Clock, JobEvent, MetricSource

WINDOW_SECONDS = 120.0
"""Oldest age of a displayed sample.

Four times the default interval of exporters.
"""
REFRESH_SECONDS = 5.0
"""Interval between reads of the sources."""
LOOK_SECONDS = 0.5
"""Interval between looks at the run, whose state may change."""


class LiveMetrics:
    """A run, its latest step and its GPUs' latest samples."""

    def __init__(self, run: Run, sources: Sequence[MetricSource], clock: Clock) -> None:
        self.run, self.live, self._sources, self.clock = run, LiveRun(run), sources, clock
        """Clock of the samples and the run's states.

        On a cluster, the cluster's clock.
        """
        self._fetched: Sequence[Fetched] = ()
        """The last answer that had any series, else the last."""
        self._silent: str | None = "Nothing was read yet."
        """Reason for the sources' last empty answer; None if they had samples."""

    def take(self, events: Iterable[JobEvent], note: Callable[[str], None]) -> None:
        """Take in what happened to the run."""
        for event in events:
            self.live.take(event)
            if event.note is not None:
                note(event.note)

    def gpus(self) -> tuple[tuple[gpu_metrics.GpuNow, ...], dict[str, str]]:
        """Return the GPUs with samples, and reasons for missing metrics.

        The GPUs are by replica, the reasons by metric, or under ``*`` for all.
        """
        gpus = gpu_metrics.latest(self._fetched, self.clock())
        if self._silent is not None:
            return gpus, {"*": self._silent}
        return gpus, gpu_metrics.missing(self._fetched, gpus)

    def follow(
        self,
        wait: Callable[[float], Sequence[JobEvent]],
        stop: Stop,
        note: Callable[[str], None],
        show: Callable[[LiveMetrics], None],
    ) -> None:
        """Show the run repeatedly until its end or a stop.

        ``wait`` returns what happened to it within some seconds.
        """
        shown: tuple[Phase, bool] | None = None
        due = float("-inf")
        while stop.cause is None:
            self.take(wait(LOOK_SECONDS), note)
            if self.live.phase.final:
                return
            state = (self.live.phase, self.live.steps() is not None)
            if state != shown or self.clock() >= due:
                self.read()
                show(self)
                shown, due = state, self.clock() + REFRESH_SECONDS

    def read(self) -> None:
        """Ask the sources; an empty answer keeps the earlier samples."""
        if self.live.phase is not Phase.RUNNING:
            return
        end = self.clock()
        nodes = {replica.replica: replica.node for replica in self.live.replicas()}
        uuids = self.live.gpu_uuids()
        wanted = gathering.wanted_of(self.run, nodes, uuids, end - WINDOW_SECONDS, end)
        fetched = gathering.all_fetched(self._sources, wanted)
        self._silent = gpu_metrics.missing(fetched, gpu_metrics.latest(fetched, 0.0)).get("*")
        if self._silent is None or not any(answer.series for answer in self._fetched):
            self._fetched = fetched
