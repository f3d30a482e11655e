"""Following a job that somebody else created: its logs are archived, and nothing is changed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import msgspec

from k8sbench.lifecycle.context import Reporter
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.phase import LOGS_INCOMPLETE, Phase, Transition
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap
from k8sbench.ports.cluster import Cluster, JobEvent
from k8sbench.reader.reading import family_in
from k8sbench.store.interface import LogArchive

LOOK_SECONDS = 0.5
"""Longest wait before stop requests are looked at."""
FIRST_LINES = 2048
"""Lines in which the format of a log is looked for."""


class Observation(msgspec.Struct, kw_only=True):
    """A job as it was seen; its run is final once the job has ended."""

    run: Run
    gaps: list[LogGap] = []
    node_facts: list[Mapping[str, str]] = []
    """Facts that the nodes report, of a job that succeeded."""
    images: set[str] = set()
    """Digests of the images that its replicas ran."""
    nodes: dict[str, str | None] = {}
    """Node by replica; None before its pod has one."""
    restarts: dict[str, int] = {}
    """Restarts of containers and replacements of pods that were seen, by replica."""
    is_known: bool = False
    """True once the format of the log is known."""
    lines: list[str] = []
    """First lines of the log, until then."""
    printed_at: float | None = None
    """Unix seconds of the first line of any replica, by its node's clock; None without one."""

    @property
    def is_unreadable(self) -> bool:
        """True if the job has ended, and its logs cannot be read now."""
        return self.run.history[-1].cause_id == LOGS_INCOMPLETE

    def take(self, event: JobEvent) -> None:
        """Add an event to what is known."""
        if event.line is not None:
            known = self.printed_at
            self.printed_at = event.line.at if known is None else min(event.line.at, known)
            self._take_line(event.line.text)
        if event.gap is not None:
            self.gaps.append(event.gap)
        if event.nodes is not None:
            self.node_facts = list(event.nodes.values())
        if event.replica is not None:
            replica = event.replica
            self.nodes[replica.replica] = replica.node or self.nodes.get(replica.replica)
            if replica.node is not None:
                self.restarts[replica.replica] = replica.restarts
            if replica.image is not None:
                self.images.add(replica.image)
        if event.transition is not None:
            history = (*self.run.history, event.transition)
            self.run = msgspec.structs.replace(self.run, history=history)

    def _take_line(self, text: str) -> None:
        """Look for the log's format in its first lines, again when they have doubled."""
        if self.is_known or len(self.lines) >= FIRST_LINES:
            return
        self.lines.append(text)
        count = len(self.lines)
        if count & (count - 1) or (family := family_in(self.lines)) is None:
            return
        self.is_known = True
        unit = family.unit.removesuffix("/s")
        plan = msgspec.structs.replace(self.run.plan, log=family.name, unit=unit)
        self.run = msgspec.structs.replace(self.run, planned=plan)


def follow(
    run: Run, cluster: Cluster, archive: LogArchive, reporter: Reporter, stop: Stop
) -> Observation:
    """Follow a job to its end, or to a stop request; archive what its replicas print."""
    seen = Observation(run=run)
    cluster.resume(run, {})
    with stop:
        while not (seen.run.phase.final or seen.is_unreadable) and stop.cause is None:
            take(cluster.wait(LOOK_SECONDS), {run.run_id: (seen, archive)}, reporter)
    if seen.printed_at is not None:
        seen.run = _started(seen.run, seen.printed_at)
    return seen


def _started(run: Run, at: float) -> Run:
    """Return a run that is Running since the first line of its log, or since before.

    Its job may be observed long after its start.
    """
    created, *_ = run.history
    at = max(at, created.at)
    running = Transition(phase=Phase.RUNNING, at=at, cause="Its log begins.")
    running = next((step for step in run.history if step.phase is Phase.RUNNING), running)
    if running.at < at:
        return run
    others = [step for step in run.history if step is not running]
    before = [step for step in others if step.at <= at and not step.phase.final]
    since = msgspec.structs.replace(running, at=at)
    history = (*before, since, *others[len(before) :])
    return msgspec.structs.replace(run, history=history)


def take(
    events: Sequence[JobEvent],
    jobs: Mapping[str, tuple[Observation, LogArchive]],
    reporter: Reporter,
) -> None:
    """Archive what replicas have printed, then take in the other events; jobs by run id."""
    # Before the end that may follow them.
    for (run_id, replica), lines in itertools.groupby(events, _printed_by):
        if replica is not None and run_id in jobs:
            _, archive = jobs[run_id]
            archive.write(*(event.line for event in lines if event.line is not None))
    for event in events:
        if not event.run_id and event.note is not None:
            reporter.note(event.note)
        elif event.run_id in jobs:
            seen, _ = jobs[event.run_id]
            seen.take(event)
            reporter.on_event(seen.run, event)


def _printed_by(event: JobEvent) -> tuple[str, str | None]:
    return event.run_id, None if event.line is None else event.line.replica
