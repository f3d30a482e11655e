"""What a run's GPUs do now, beside its latest step: read from sources every few seconds.

The run is only looked at: who follows it goes on to do so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from k8sbench.lifecycle import gathering
from k8sbench.lifecycle.context import Stop
from k8sbench.lifecycle.live_state import LiveRun, rate_unit
from k8sbench.measure.run import gpu_latest
from k8sbench.measure.run.gpu_latest import GpuNow
from k8sbench.model.errors import Unreachable
from k8sbench.model.gpu_metrics import Fetched
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.ports import Clock, JobEvent, MetricSource

WINDOW_SECONDS = 120.0
"""How old a sample may be: four of the intervals at which exporters take one by default."""
REFRESH_SECONDS = 5.0
"""Between two reads of the sources."""
LOOK_SECONDS = 0.5
"""Between two looks at the run, which may change its state."""
ONCE_LOOKS = 8
"""Further looks, within two seconds, for all sources to have something where they are read once: an
exporter that is read directly is looked for first, and not before it is asked for."""
FIRST_SECONDS = 90.0
"""After the start, for a first sample to come: an exporter's interval, a scrape's, and some."""
ADVICE = {
    "kubernetes": "Install NVIDIA's dcgm-exporter on the GPU nodes and a Prometheus that scrapes"
    " it, or name one with --prometheus URL; k8sbench doctor says what there is.",
    "local": "Install libnvidia-ml.so.1, which comes with NVIDIA's driver (a container has it with"
    " NVIDIA_DRIVER_CAPABILITIES=utility), or name a Prometheus with --prometheus URL.",
}
"""What to do where there is no source, by backend."""


class LatestStep(msgspec.Struct, frozen=True, kw_only=True):
    """The latest training line of a run's first rank."""

    iteration: int
    """Its number."""
    total: int | None
    """How many are planned; None where the line does not say."""
    epoch: int | None
    """The epoch, where iterations are counted within epochs; None otherwise."""
    rate: float | None
    """Samples per second of the whole job; None where the line has none."""
    unit: str
    """Of the rate: ``images/s``, …."""
    at: float
    """When the line came, Unix seconds."""


class RunTop(msgspec.Struct, frozen=True, kw_only=True):
    """What a run and its GPUs do now: ``top -o json``."""

    schema: int = SCHEMA
    """Version of the document."""
    run_id: str
    """The run's id."""
    phase: Phase
    """The present state, one of the phases."""
    cause: str
    """Why it is in that state, one sentence."""
    at: float
    """When this was read."""
    step: LatestStep | None
    """The latest step of the first rank; None before the first."""
    gpus: tuple[GpuNow, ...]
    """The run's GPUs for which a source has samples, in the order of its replicas."""
    missing: dict[str, str]
    """By metric, why no GPU has it; key ``*``: why there is none of any."""


class LiveMetrics:
    """A run, its latest step and its GPUs' latest samples."""

    def __init__(self, run: Run, sources: Sequence[MetricSource], clock: Clock) -> None:
        self.run, self.live, self._sources, self.clock = run, LiveRun(run), sources, clock
        """``clock``: that of the samples and of the run's states, the cluster's on one."""
        self._found: Sequence[Fetched] = ()
        """The last answer that had any series, else the last."""
        self._silent: str | None = "Nothing was read yet."
        """Why the sources had nothing when they were asked last; None where they had something."""
        self._have_all = False
        """Whether each source had something when it was asked last."""
        self._followed = False
        self.reads = 0
        """Answers of the sources so far."""

    def take(self, events: Iterable[JobEvent], note: Callable[[str], None]) -> None:
        """Take in what happened to the run."""
        for event in events:
            self.live.take(event)
            if event.note is not None:
                note(event.note)

    def view(self) -> RunTop:
        """Say what is known now."""
        live, now = self.live, self.clock()
        steps = live.steps()
        last = None if steps is None else steps.last
        gpus = gpu_latest.latest(self._found, self.clock())
        missing = gpu_latest.missing(self._found, gpus)
        if self._silent is not None:
            missing = {"*": self._silent}
        return RunTop(
            run_id=live.run_id,
            phase=live.phase,
            cause=live.state.cause,
            at=now,
            step=last
            and LatestStep(
                iteration=last.iteration,
                total=last.total,
                epoch=last.epoch,
                rate=last.rate,
                unit=rate_unit(live.plan),
                at=last.at,
            ),
            gpus=gpus,
            missing=missing,
        )

    def follow(
        self,
        wait: Callable[[float], Sequence[JobEvent]],
        stop: Stop,
        note: Callable[[str], None],
        show: Callable[[LiveMetrics], None],
    ) -> None:
        """Show the run again and again until it has ended, or at a stop.

        ``wait`` returns what happened to it within some seconds. Raises :class:`Unreachable` where
        no source has anything though there should be samples by now.
        """
        shown: tuple[Phase, bool] | None = None
        due = float("-inf")
        while stop.cause is None:
            self.take(wait(LOOK_SECONDS), note)
            if self.live.phase.final:
                return
            state = (self.live.phase, self.live.steps() is not None)
            if state != shown or self.clock() >= due:
                self._read()
                if self.reads and self.clock() >= self.live.state.at + FIRST_SECONDS:
                    self.check()
                show(self)
                shown, due = state, self.clock() + REFRESH_SECONDS

    def once(self, sleep: Callable[[float], None]) -> None:
        """Read the sources, if the run is running: again for a moment while one has nothing."""
        if self.live.phase is not Phase.RUNNING:
            return
        for look in range(ONCE_LOOKS + 1):
            if look:
                sleep(gathering.LOOK_SECONDS)
            self._read()
            if self._have_all:
                break
        self.check()

    def release(self) -> None:
        """Have the sources take no more samples for this."""
        if self._followed:
            gathering.release(self._sources, self.run.run_id)

    def advice(self) -> str | None:
        """Say what to do where the sources were asked, and never had a sample of any GPU."""
        if not self.reads or self._silent is None or any(one.series for one in self._found):
            return None
        return ADVICE[self.run.plan.backend]

    def check(self) -> None:
        """Raise :class:`Unreachable` where no source ever had a sample of any GPU."""
        if (advice := self.advice()) is not None:
            raise Unreachable(
                f"There are no GPU metrics of {self.run.run_id}. {self._silent}", advice
            )

    def _read(self) -> None:
        """Ask the sources; an answer without anything leaves the samples of the one before."""
        if self.live.phase is not Phase.RUNNING:
            return
        end = self.clock()
        nodes = {one.replica: one.node for one in self.live.replicas()}
        gathering.follow(self._sources, self.run, nodes)
        self._followed = True
        uuids = self.live.gpu_uuids()
        wanted = gathering.wanted_of(self.run, nodes, uuids, end - WINDOW_SECONDS, end)
        found = gathering.all_fetched(self._sources, wanted)
        gpus = gpu_latest.latest(found, 0.0)
        self._have_all = all(one.series for one in found)
        self._silent = gpu_latest.missing(found, gpus).get("*")
        if self._silent is None or not any(one.series for one in self._found):
            self._found = found
        self.reads += 1
