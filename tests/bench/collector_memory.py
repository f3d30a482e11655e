"""What a collector's memory does over thousands of runs that it collects; no cluster is needed.

    python tests/bench/collector_memory.py [RUNS]

A cluster is played at our port: twenty jobs go on at a time, each prints and ends, and the next
come. Everything else is real: the store, measuring, the reporter, the metrics. Printed are the peak
memory, and the bytes that each run of the second half has added. Exit code 1 if a limit is missed.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

import msgspec
import psutil

from k8sbench.adapters.store.sql_store import open_store
from k8sbench.app import collect
from k8sbench.app.collector_settings import CollectorSettings
from k8sbench.app.context import run_context
from k8sbench.cli.terminal.progress import Progress
from k8sbench.collector.controller import State
from k8sbench.collector.metrics import Metrics, Observed
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Run
from k8sbench.ports import Collected, FoundJob, JobEvent, LogLine, LogMark, Manifest
from k8sbench.runs import serving
from k8sbench.runs.context import Stop
from tests.unit.runs.played import planned_case

RUNS, AT_ONCE, LINES = 2000, 20, 100
LIMIT, LIMIT_EACH = 300, 4000
"""MB, and bytes for each run of the second half."""


class Played:
    """A cluster whose jobs print and end, twenty at a time; stands at our own port."""

    name, jobs_outlive_us = "kubernetes", True

    def __init__(self, runs: int) -> None:
        self._names = iter(range(runs))
        self._found: dict[str, FoundJob] = {}
        self._events: list[JobEvent] = []
        self.removed = 0

    def jobs(self, run_ids: Collection[str] | None = None) -> Sequence[FoundJob]:
        for number in itertools.islice(self._names, AT_ONCE - len(self._found)):
            plan = self.planned(f"run-{number:06}", f"night-{number:06}")
            self._found[plan.run_id] = FoundJob(
                run_id=plan.run_id, known_plan=plan, created_at=5.0, phase=Phase.RUNNING
            )
        return list(self._found.values())

    def planned(self, run_id: str, set_name: str) -> RunPlan:
        return planned_case("kubernetes").plan(run_id, set_name, 1)

    def lines(self, run: Run) -> Iterator[LogLine]:
        for number in range(LINES):
            text = f"step {number} of many, loss 0.123456789, 123.4 samples/s"
            yield LogLine(replica="master-0", at=time.time(), text=text)

    def resume(self, run: Run, marks: Mapping[str, LogMark]) -> None:
        moved = partial(Transition, cause="Because.")
        event = partial(JobEvent, run_id=run.run_id)
        self._events.append(event(transition=moved(phase=Phase.RUNNING, at=time.time())))
        self._events += [event(line=line) for line in self.lines(run)]
        self._events.append(event(transition=moved(phase=Phase.SUCCEEDED, at=time.time())))

    def wait(self, seconds: float | None) -> Sequence[JobEvent]:
        events, self._events = self._events, []
        return events

    def remove(
        self,
        run_id: str,
        collected: Callable[[], Collected] | None = None,
        *,
        force: bool = False,
    ) -> str | None:
        del self._found[run_id]
        self.removed += 1
        return None

    def create(self, plan: object, manifests: Sequence[Manifest], folder: Path) -> None:
        raise NotImplementedError

    def look(self, run: Run) -> Sequence[JobEvent]:
        return ()

    def printed(self, run: Run) -> Iterator[LogLine]:
        return iter(())

    def cancel(self, run_id: str, cause: str, cause_id: str, *, wait: bool = False) -> None:
        raise NotImplementedError

    def clear(self, run_id: str, attempt: int) -> None:
        raise AssertionError(run_id)

    def release(self, run_id: str) -> None:
        pass

    def close(self) -> None:
        pass


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    cluster, stop, metrics = Played(runs), Stop(), Metrics()
    half: list[int] = []
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stderr(nowhere),
        tempfile.TemporaryDirectory() as folder,
        open_store(folder) as store,
    ):
        place = Location(server="https://cluster.example", namespace="team")
        ticks = itertools.count(0.0, serving.LIST_SECONDS / 10)
        context = msgspec.structs.replace(
            run_context(store, cluster, location=place), clock=lambda: next(ticks)
        )
        metrics.state = State(settings=CollectorSettings(store=folder), is_leader=True)
        reporter = Observed(Progress(time.time), metrics)
        find = partial(collect.pending_runs, context, reporter.note, renumber=True)

        def look(places: Sequence[serving.Serving]) -> None:
            if cluster.removed >= runs // 2 and not half:
                half.append(_now())
            if cluster.removed >= runs:
                stop("Enough.")

        with serving.Serving(find, context, reporter, patient=True) as served:
            serving.serve([served], stop, metrics.closed, look)
            after = _now()
        stored = len(store.ids())
    assert stored == runs
    each = (after - half[0]) / (runs - runs // 2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(
        f"{runs} runs collected, {AT_ONCE} at a time: {peak:.0f} MB at most (limit {LIMIT}),"
        f" {each:.0f} bytes for each of the second half (limit {LIMIT_EACH})"
    )
    return int(peak > LIMIT or each > LIMIT_EACH)


def _now() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


if __name__ == "__main__":
    sys.exit(main())
