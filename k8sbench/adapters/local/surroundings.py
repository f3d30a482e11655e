"""What else uses this machine while a job runs on it: it spoils the job's figures.

Looked for before a job starts, and again and again while it runs, for another one may start after
it. Nothing is hindered: what was found is noted, and kept in the run's folder for its measurement.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.adapters.local.gpus import GPU, VISIBLE
from k8sbench.adapters.local.launch import MARK
from k8sbench.adapters.store import disk
from k8sbench.measure.run import rules
from k8sbench.model.finding import Finding
from k8sbench.model.measurement import SURROUNDINGS

LOAD_SECONDS = 0.25
"""For how long the load is measured, before a job starts."""
BUSY = 0.25
"""The share of all cores from which a machine is busy: replicas have a core each, or more."""
EVERY = 5.0
"""Seconds between two looks while a job runs. Each reads the environments of the user's own
processes, which takes some milliseconds."""

Look = Callable[[str, Sequence[GPU]], Sequence[Finding]]
"""Of a run and its GPUs → what there is beside it."""


def before(run_id: str, gpus: Sequence[GPU]) -> list[Finding]:
    """Look at the machine before a run starts: its load, other runs, processes on its GPUs."""
    others = [*during(run_id, gpus), *gpu_users(run_id, gpus)]
    # They explain the load.
    return others or list(_load())


def during(run_id: str, gpus: Sequence[GPU]) -> list[Finding]:
    """Look for other runs of k8sbench on the same GPUs, or cores."""
    mine = {str(gpu.index) for gpu in gpus}  # as they are listed for replicas
    others = dict.fromkeys(
        other
        for other, theirs in _marked()
        if other != run_id and (mine & theirs if mine else not theirs)
    )
    where = f"on the same {'GPUs' if gpus else 'cores'} of this machine"
    return [rules.MACHINE_SHARED.finding(f"Run {other} ran {where}, too.") for other in others]


class Watched:
    """What was found around one run; each finding is told once, and kept in the run's folder."""

    def __init__(self, run_id: str, gpus: Sequence[GPU], folder: Path, again: Look) -> None:
        self._run_id, self._gpus, self._again = run_id, tuple(gpus), again
        self._path = folder / SURROUNDINGS
        self._reasons: dict[str, Finding] = {}
        """By sentence."""
        self._due = time.monotonic() + EVERY

    def take(self, seen: Sequence[Finding]) -> list[str]:
        """Keep what was found; returns what was not known before."""
        new = {
            finding.sentence: finding for finding in seen if finding.sentence not in self._reasons
        }
        if new:
            self._reasons |= new
            with disk.create(self._path) as file:
                file.write(msgspec.json.encode([*self._reasons.values()]) + b"\n")
        return [*new]

    def look(self) -> list[str]:
        """Look again if it is time to; returns what was not known before."""
        if time.monotonic() < self._due:
            return []
        self._due = time.monotonic() + EVERY
        return self.take(self._again(self._run_id, self._gpus))


def _marked() -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the runs of which this machine has processes that may be seen, and their GPUs."""
    import psutil

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            environ = process.environ()
            if mark := environ.get(MARK):
                listed = environ.get(VISIBLE) or ""
                yield mark.partition("/")[0], frozenset(filter(None, listed.split(",")))


def gpu_users(run_id: str, gpus: Sequence[GPU], library: Any = None) -> Iterator[Finding]:
    """Yield the processes of others that compute on the GPUs now, as the driver tells them."""
    if not gpus:
        return
    if library is None:
        import pynvml

        library = pynvml
    from k8sbench.adapters.metrics.nvml import user

    with contextlib.suppress(library.NVMLError):
        library.nvmlInit()
        try:
            for gpu in gpus:
                handle = library.nvmlDeviceGetHandleByUUID(gpu.uuid)
                for process in library.nvmlDeviceGetComputeRunningProcesses(handle):
                    # In a container the number may be one of another namespace.
                    who = user(process.pid, run_id)
                    who = f"process {process.pid}" if who is None else who
                    if who and not who.startswith("run "):
                        yield rules.GPU_IN_USE.finding(
                            f"{who} used GPU {gpu.index} before the run."
                        )
        finally:
            library.nvmlShutdown()


def _load() -> Iterator[Finding]:
    """Yield that the machine is busy, by what its cores do for others in a short while."""
    import psutil

    cores = psutil.cpu_count() or 1
    ours = time.process_time()
    busy = cores * psutil.cpu_percent(LOAD_SECONDS) / 100
    # This process may be measuring the run before.
    busy -= (time.process_time() - ours) / LOAD_SECONDS
    if busy >= BUSY * cores:
        text = f"Other programs kept {busy:.1f} of {cores} cores busy before the run."
        yield rules.MACHINE_BUSY.finding(text)
