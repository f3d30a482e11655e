"""Small trainers on the local cluster, and their processes."""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import psutil

from k8sbench.adapters.local import launch
from k8sbench.adapters.local.cluster import LocalCluster
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.ports.cluster import JobEvent
from tests.unit.local import examples
from tests.waiting import wait_until

PATIENCE = 60.0
"""Seconds until a wait counts as failed. Nothing else is asserted of the time."""
_numbers = itertools.count()


def wait_for(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Look until ``condition`` holds."""
    wait_until(condition, what, patience)


def living(are_meant: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Return the living processes that match, without those that end meanwhile."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and are_meant(process):
                found.append(process)
        except (psutil.Error, ProcessLookupError):  # psutil itself lets the second through
            continue
    return found


def processes_of(run_id: str) -> list[psutil.Process]:
    """All living processes of a run's replicas, by the mark in their environment."""
    return living(lambda each: each.environ().get(launch.MARK, "").startswith(f"{run_id}/"))


class Seen(msgspec.Struct, kw_only=True):
    """Events of a watch."""

    events: list[JobEvent]

    def _all(self, kind: str) -> list[Any]:
        return [found for event in self.events if (found := getattr(event, kind)) is not None]

    @property
    def phases(self) -> list[Phase]:
        return [transition.phase for transition in self._all("transition")]

    @property
    def final(self) -> Transition:
        last = self.events[-1].transition
        assert last is not None
        assert last.phase.final
        return last

    def lines(self, replica: str) -> list[str]:
        return [line.text for line in self._all("line") if line.replica == replica]

    def states(self, replica: str) -> list[Phase]:
        return [state.phase for state in self._all("replica") if state.replica == replica]

    def exit_codes(self) -> dict[str, int | None]:
        states = self._all("replica")
        return {state.replica: state.exit_code for state in states if state.phase.final}


def events(cluster: LocalCluster, run_id: str) -> Iterator[JobEvent]:
    """Yield what happens to one job, up to its final transition."""
    job = cluster.job(run_id)
    while not job.is_over:
        yield from job.read(None)


class Running:
    """One started job."""

    def __init__(self, cluster: LocalCluster, run_id: str, folder: Path) -> None:
        self.cluster, self.run_id, self.folder = cluster, run_id, folder
        self.watch = events(cluster, run_id)
        self.seen = Seen(events=[])

    def until(self, wanted: Callable[[JobEvent], bool]) -> JobEvent:
        """Watch until an event is as wanted."""
        for event in self.watch:
            self.seen.events.append(event)
            if wanted(event):
                return event
        raise AssertionError(f"the watch ended before: {self.seen.events}")

    def until_line(self, text: str, *replicas: str) -> None:
        """Watch until each replica has a line with ``text``, earlier lines included."""
        for replica in replicas or (None,):

            def is_it(event: JobEvent, replica: str | None = replica) -> bool:
                line = event.line
                return line is not None and text in line.text and replica in (None, line.replica)

            if not any(is_it(event) for event in self.seen.events):
                self.until(is_it)

    def to_the_end(self) -> Seen:
        self.seen.events += self.watch
        return self.seen


def run_of(plan: RunPlan) -> Run:
    """Make the record of a run."""
    return Run(planned=plan, created_at=0.0, process=None, history=(), artifacts=None)


class Machine:
    """A local cluster and the folders of its runs."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.cluster = LocalCluster(**settings)
        self.run_ids: list[str] = []

    def start(
        self, trainer: str, /, *words: str, files: Mapping[str, str] | None = None, **changes: Any
    ) -> Running:
        """Start a trainer, given as source text, as a new run's job."""
        run_id = f"little-{os.getpid()}-{next(_numbers)}"
        sources = {"little.py": trainer} | dict(files or {})
        plan = examples.plan(*words, files=sources, **({"run_id": run_id} | changes))
        folder = self.folder / plan.run_id
        folder.mkdir(exist_ok=True)
        self.run_ids.append(plan.run_id)
        self.cluster.create(run_of(plan), examples.rendered(plan, sources), folder)
        return Running(self.cluster, plan.run_id, folder)

    def run(self, trainer: str, /, *words: str, **changes: Any) -> Seen:
        return self.start(trainer, *words, **changes).to_the_end()

    def close(self) -> None:
        self.cluster.close()
        for run_id in self.run_ids:
            assert not processes_of(run_id)


MakeMachine = Callable[..., Machine]
