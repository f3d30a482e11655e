"""The port ``MetricSource`` over NVML, the driver's library, for runs of this machine.

A thread for each run that is followed asks, once a second, of the GPUs that its replicas were given
as its ``local.json`` says, so that any process of this machine may do it. What was read is kept in
memory. Until a run is followed nothing is loaded and nothing started.
"""

from __future__ import annotations

import contextlib
import platform
import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.adapters.local.launch import MARK
from k8sbench.model.gpu_metrics import (
    METRICS,
    Fetched,
    Gpu,
    Series,
    SeriesQuery,
    Shared,
    SourceName,
)
from k8sbench.model.run import Run
from k8sbench.ports import MetricSource

EVERY = 1.0
"""Seconds between two samples."""
MOST = 86_400
"""Samples of one metric of one GPU that are kept, the latest: those of a day."""
FIRST_SECONDS = 10.0
"""For the first samples of a run, after it was followed: a driver may take seconds to start."""
_METRICS = tuple(metric for metric in METRICS if metric.nvml)
_VERSIONED = {"nvmlDeviceGetMemoryInfo_v2": ("nvmlDeviceGetMemoryInfo", "nvmlMemory_v2")}
"""Call → the name that nvidia-ml-py has for all of its versions, and for this version."""
_NOT_FOLLOWED = "NVML was not read: it is read only while k8sbench follows the run."


class NvmlSource(MetricSource):
    """GPU metrics read from the driver of this machine while runs are followed."""

    name: SourceName = "nvml"

    def __init__(self, folder: Callable[[str], Path]) -> None:
        """``folder`` gives a run's folder of artifacts."""
        self._folder = folder
        self._followed: dict[str, _Followed] = {}

    def follow(self, run: Run, nodes: Collection[str]) -> None:  # noqa: ARG002
        """Ask the driver of the run's GPUs from now on, in a thread."""
        if run.run_id not in self._followed:
            followed = self._followed[run.run_id] = _Followed(run.run_id)
            # A daemon: a driver that hangs must not keep the program.
            work = threading.Thread(target=followed.sample, args=(self._folder,), daemon=True)
            work.name = self.name
            work.start()

    def release(self, run_id: str) -> None:
        """Ask no more for this run."""
        if (followed := self._followed.get(run_id)) is not None:
            followed.over.set()

    def fetch(self, wanted: SeriesQuery) -> Fetched:
        """Return what was read since the window began, or why that is nothing."""
        # Imported when the first run is measured.
        from k8sbench.measure.run.trainer_series import of_nvml

        followed = self._followed.get(wanted.run_id)
        if followed is None:
            return Fetched(source=self.name, missing={"*": _NOT_FOLLOWED})
        followed.has_begun.wait(FIRST_SECONDS)
        with followed.lock:
            series = [item for gpu in followed.gpus for item in gpu.series(wanted.start)]
            shared = [item for gpu in followed.gpus for item in gpu.shared(wanted)]
            refused: dict[str, str] = {}
            for gpu in followed.gpus:
                refused |= gpu.refused
            why = followed.why or "No sample was taken within the window."
        fetched = of_nvml(self.name, series, why)
        missing = {name: refused.get(name, why) for name, why in fetched.missing.items()}
        return msgspec.structs.replace(fetched, missing=missing, shared=tuple(shared))

    def close(self) -> None:
        """End the threads."""
        for run_id in self._followed:
            self.release(run_id)


class _Followed:
    """A run, and what was read of its GPUs."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.lock = threading.Lock()
        """Of what is read."""
        self.over = threading.Event()
        self.has_begun = threading.Event()
        """Set when there are samples, or ``why`` there are none."""
        self.why = ""
        self.gpus: list[_Readings] = []

    def sample(self, folder: Callable[[str], Path]) -> None:
        """Read until the run is over."""
        try:
            import pynvml

            from k8sbench.adapters.local import record

            given = record.gpus_of(folder(self.run_id))
            pynvml.nvmlInit()
            try:
                self.gpus = [
                    _Readings(
                        pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid),
                        Gpu(
                            node=platform.node(),
                            index=str(gpu.index),
                            uuid=gpu.uuid,
                            model=gpu.model,
                            pod=replica,
                        ),
                    )
                    for replica, gpus in given.items()
                    for gpu in gpus
                ]
                self._sample(pynvml)
            finally:
                pynvml.nvmlShutdown()
        except Exception as error:  # the run goes on, whatever becomes of its GPU metrics
            self.why = f"{error}."
        finally:
            self.has_begun.set()

    def _sample(self, nvml: Any) -> None:
        due = time.monotonic()
        while not self.over.wait(max(0.0, due - time.monotonic())):
            for gpu in self.gpus:
                at, values = time.time(), gpu.ask(nvml, self.run_id)
                with self.lock:
                    gpu.keep(at, values)
            self.has_begun.set()
            due = max(due + EVERY, time.monotonic())


class _Readings:
    """What was read of one GPU."""

    def __init__(self, handle: Any, gpu: Gpu) -> None:
        self._handle, self._gpu = handle, gpu
        self._samples = {metric.id: (array("d"), array("d")) for metric in _METRICS}
        """By metric: times and values."""
        self.refused: dict[str, str] = {}
        """By metric: what the driver said instead."""
        self._users: dict[int, str | None] = {}
        """The processes that compute on it; see :func:`user`."""
        self._others: dict[str, tuple[float, float]] = {}
        """Of those that are not the run's: when they were seen first and last."""

    def ask(self, nvml: Any, run_id: str) -> dict[str, float]:
        """Ask for all metrics; of each the first call counts that driver and GPU have."""
        answers = {}
        for metric in _METRICS:
            for field in metric.nvml:
                call, _, member = field.name.partition(".")
                name, version = _VERSIONED.get(call, (call, None))
                takes = field.takes if version is None else (getattr(nvml, version),)
                try:
                    answer = getattr(nvml, name)(self._handle, *takes)
                except nvml.NVMLError as error:
                    self.refused[metric.id] = f"The driver answers: {error}."
                    continue
                if isinstance(answer, list):
                    known, pids = self._users, [process.pid for process in answer]
                    self._users = {
                        pid: known[pid] if pid in known else user(pid, run_id) for pid in pids
                    }
                    answer = len(pids)
                value = getattr(answer, member) if member else answer
                answers[metric.id] = field.factor * value
                break
        return answers

    def keep(self, at: float, values: dict[str, float]) -> None:
        """Keep the answers, and who else was there."""
        for metric, value in values.items():
            for kept, number in zip(self._samples[metric], (at, value), strict=True):
                kept.append(number)
                del kept[:-MOST]
        users = set(self._users.values())
        # In a container the numbers may be those of another namespace: then none is the run's.
        if "" in users:
            for other in filter(None, users):
                self._others[other] = self._others.get(other, (at, at))[0], at

    def series(self, start: float) -> Iterator[Series]:
        """Yield the samples since then."""
        for metric, (at, values) in self._samples.items():
            if (first := bisect_left(at, start)) < len(at):
                yield Series(
                    metric=metric,
                    gpu=self._gpu,
                    source=NvmlSource.name,
                    at=tuple(at[first:]),
                    values=tuple(values[first:]),
                    every=EVERY,
                )

    def shared(self, wanted: SeriesQuery) -> Iterator[Shared]:
        """Yield who else used it within the window."""
        for other, (first, last) in self._others.items():
            if first <= wanted.end and last >= wanted.start:
                yield Shared(gpu=self._gpu, other=other)


def user(pid: int, run_id: str) -> str | None:
    """Name a process; empty for one of the run's, None for one that cannot be seen.

    All of a replica's processes descend from its subreaper, whose environment has the mark.
    """
    import psutil

    try:
        process = psutil.Process(pid)
        for ancestor in (process, *process.parents()):
            with contextlib.suppress(psutil.AccessDenied):  # another user's
                if mark := ancestor.environ().get(MARK):
                    run = mark.partition("/")[0]
                    return "" if run == run_id else f"run {run}"
        return f"{process.name()} (process {pid})"
    except (psutil.Error, OSError):
        return None
