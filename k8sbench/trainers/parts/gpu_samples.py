"""What the GPU does while a rank trains: sampled beside the training, once a second.

A thread asks NVML, whose calls leave the interpreter to the training, and writes what it has every
ten seconds as a `gpu` event: lists of equal length by metric, beside the times of the samples. The
names and units are those of k8sbench's table of GPU metrics. What a GPU does not support is null,
or not there at all; without a GPU or without NVML there is neither thread nor event.
"""

from __future__ import annotations

import contextlib
import threading
import time
from ctypes import c_void_p

from k8sbench.trainers.parts import nvml
from k8sbench.trainers.parts.events import Journal

EVERY = 1.0  # seconds
AT_ONCE = 10  # samples of one event
# For the last sample, before the run goes on without it: the driver of a broken GPU may not answer.
LAST_SECONDS = 2.0

# By metric: the calls, of which the first that answers counts, what they take after the GPU, the
# factor from NVML's unit to the metric's, and its decimals.
METRICS: dict[str, tuple[tuple[str, ...], tuple[int, ...], float, int]] = {
    "gpu_utilization": (("nvmlDeviceGetUtilizationRates.gpu",), (), 0.01, 2),
    "memory_used": (nvml.MEMORY_USED, (), 1 / 1024**2, 1),
    "power": (("nvmlDeviceGetPowerUsage",), (), 1e-3, 1),
    "energy": (("nvmlDeviceGetTotalEnergyConsumption",), (), 1e-3, 1),
    "sm_clock": (("nvmlDeviceGetClockInfo",), (nvml.CLOCK_SM,), 1, 0),
    "temperature": (("nvmlDeviceGetTemperature",), (nvml.TEMPERATURE_OF_GPU,), 1, 0),
    "throttled": (nvml.CLOCK_REASONS, (), 1, 0),
}
PROCESSES = "processes"
# Of a GPU that is divided (MIG) NVML gives the whole: the rest is not of this rank's part alone.
OF_EACH_PART = ("sm_clock", "temperature", "throttled")


class Sampler:
    """Samples one GPU from `start` to `stop`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._held = contextlib.ExitStack()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._writing = threading.Lock()
        self._at: list[float] = []
        self._values: dict[str, list[float | None]] = {}

    def start(self, names: tuple[str | None, str | None] | None) -> None:
        """Sample the GPU of this PCI address and UUID from now on; None: there is none."""
        if names is None:
            return
        # Here and not in the thread: a loader process that forks meanwhile might hang.
        library = self._held.enter_context(nvml.opened())
        device = library.device(*names) if library is not None else None
        if library is None or device is None:
            self._held.close()
            return
        self._thread = threading.Thread(
            target=self._run, args=(library, device), name="gpu-samples", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Take the last sample and write what is left."""
        if self._thread is None:
            return
        self._stopping.set()
        self._thread.join(LAST_SECONDS)
        self._write()

    def _run(self, library: nvml.Nvml, device: c_void_p) -> None:
        divided = library.switch("nvmlDeviceGetMigMode", device)
        names = [name for name in METRICS if not divided or name in OF_EACH_PART]
        with self._held:
            due, goes_on = time.monotonic(), True
            while goes_on:
                # Asked to stop during the wait it takes one sample more.
                goes_on = not self._stopping.is_set()
                at = time.time()
                sample: dict[str, float | None] = {
                    name: _asked(library, device, name) for name in names
                }
                if not divided:
                    sample[PROCESSES] = library.processes(device)
                with self._writing:
                    self._at.append(round(at, 3))
                    for name, value in sample.items():
                        self._values.setdefault(name, []).append(value)
                if len(self._at) >= AT_ONCE:
                    self._write()
                due = max(due + EVERY, time.monotonic())
                if goes_on:
                    self._stopping.wait(due - time.monotonic())

    def _write(self) -> None:
        with self._writing:
            known = {n: v for n, v in self._values.items() if any(x is not None for x in v)}
            if known:
                place = {"rank": self._journal.place.rank, "every": EVERY, "at": self._at}
                self._journal.event("gpu", {**place, **known})
            self._at, self._values = [], {}


def _asked(library: nvml.Nvml, device: c_void_p, metric: str) -> float | None:
    calls, arguments, factor, decimals = METRICS[metric]
    value = library.first(calls, device, *arguments)
    return round(value * factor, decimals) if value is not None and decimals else value
