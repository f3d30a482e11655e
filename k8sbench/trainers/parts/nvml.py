"""Bindings of NVML, the driver's library, and sampling with it.

Public images of PyTorch and Paddle lack its Python module, but the container runtime puts the
library itself, ``libnvidia-ml.so.1``, into every container that has a GPU. The names and types are
those of nvml.h; a call that a driver does not have, or that a GPU does not support, answers None.
"""

from __future__ import annotations

import ctypes
import threading
import time
from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any, ClassVar

from k8sbench.trainers.parts.events import Journal

LIBRARY = "libnvidia-ml.so.1"
CLOCK_SM, CLOCK_MEMORY = 1, 2  # nvmlClockType_t
_SUCCESS, _INSUFFICIENT_SIZE, _FUNCTION_NOT_FOUND = 0, 7, 13


class _Utilization(ctypes.Structure):
    """nvmlUtilization_t: percent, since the driver last looked."""

    _fields_: ClassVar = [("gpu", c_uint), ("memory", c_uint)]


class _Memory(ctypes.Structure):
    """nvmlMemory_v2_t: bytes; what the driver reserves for itself is not in `used`."""

    _fields_: ClassVar = [
        ("version", c_uint),
        *((name, c_ulonglong) for name in ("total", "reserved", "free", "used")),
    ]

    def __init__(self) -> None:
        super().__init__(version=ctypes.sizeof(self) | 2 << 24)  # NVML_STRUCT_VERSION(Memory, 2)


# What each call of one GPU takes after the GPU, and the type of its answer.
_CALLS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "nvmlDeviceGetEnforcedPowerLimit": ((), c_uint),  # mW
    "nvmlDeviceGetClockInfo": ((c_uint,), c_uint),  # MHz
    "nvmlDeviceGetMaxClockInfo": ((c_uint,), c_uint),
    "nvmlDeviceGetCurrPcieLinkGeneration": ((), c_uint),
    "nvmlDeviceGetCurrPcieLinkWidth": ((), c_uint),
    "nvmlDeviceGetNvLinkState": ((c_uint,), c_int),
    # Its new name, of driver 535 and later, gives the same bits.
    "nvmlDeviceGetCurrentClocksThrottleReasons": ((), c_ulonglong),
    "nvmlDeviceGetUtilizationRates": ((), _Utilization),
    # The second version, of driver 510 and later, tells apart what the driver reserves for itself:
    # 0.3 to 0.6 GiB, which DCGM does not count as used either.
    "nvmlDeviceGetMemoryInfo_v2": ((), _Memory),
    "nvmlDeviceGetPowerUsage": ((), c_uint),  # mW
    "nvmlDeviceGetTotalEnergyConsumption": ((), c_ulonglong),  # mJ since the driver was loaded
    "nvmlDeviceGetTemperature": ((c_uint,), c_uint),  # °C
}


class Nvml:
    """The library, initialized; from :func:`opened`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def driver(self) -> str | None:
        """The driver's version."""
        text = ctypes.create_string_buffer(80)
        ended = self._call("nvmlSystemGetDriverVersion", (c_char_p, c_uint), text, len(text))
        return text.value.decode() if ended else None

    def device(self, pci_bus_id: str | None, uuid: str | None) -> c_void_p | None:
        """Return a GPU by PCI address, else by UUID."""
        named = uuid if uuid is None or uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
        for name, text in (
            ("nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id),
            ("nvmlDeviceGetHandleByUUID", named),
        ):
            device = c_void_p()
            types = c_char_p, POINTER(c_void_p)
            if text is not None and self._call(name, types, text.encode(), byref(device)):
                return device
        return None

    def ask(self, name: str, device: c_void_p, *arguments: int) -> int | None:
        """Call a function of a GPU; ``call.member`` picks a member. NVML's units."""
        call, _, member = name.partition(".")
        taken, kind = _CALLS[call]
        answer = kind()
        types = c_void_p, *taken, POINTER(kind)
        ended = self._call(call, types, device, *arguments, byref(answer))
        return int(getattr(answer, member or "value")) if ended else None

    def switch(self, name: str, device: c_void_p) -> bool | None:
        """True if a switch such as ECC or MIG is on."""
        now = c_int()
        after_reboot = c_int()
        types = c_void_p, POINTER(c_int), POINTER(c_int)
        ended = self._call(name, types, device, byref(now), byref(after_reboot))
        return bool(now.value) if ended else None

    def processes(self, device: c_void_p) -> int | None:
        """Number of processes that compute on a GPU."""
        count = c_uint(0)
        types = (c_void_p, POINTER(c_uint), c_void_p)
        name = "nvmlDeviceGetComputeRunningProcesses_v3"  # of driver 510 and later
        code = self._code(name, types, device, byref(count), None)
        return int(count.value) if code in (_SUCCESS, _INSUFFICIENT_SIZE) else None

    def _call(self, name: str, types: tuple[Any, ...], *arguments: Any) -> bool:
        return self._code(name, types, *arguments) == _SUCCESS

    def _code(self, name: str, types: tuple[Any, ...], *arguments: Any) -> int:
        try:
            function = getattr(self._library, name)
        except AttributeError:  # an older driver
            return _FUNCTION_NOT_FOUND
        function.argtypes, function.restype = types, c_int
        return int(function(*arguments))


def opened() -> Nvml | None:
    """NVML, loaded until this process ends; None without library or driver."""
    try:
        library = ctypes.CDLL(LIBRARY)
        # One that has the name alone would not have this.
        return Nvml(library) if library.nvmlInit_v2() == _SUCCESS else None
    except (OSError, AttributeError):
        return None


# --- what the GPU does while a rank trains: sampled beside the training, once a second -----------
#
# A thread asks NVML, whose calls leave the interpreter to the training, and writes what it has
# every ten seconds as a `gpu` event: lists of equal length by metric, beside the times of the
# samples. The names and units are those of k8sbench's table of GPU metrics. What a GPU does not
# support is null, or not there at all; without a GPU or without NVML there is neither thread nor
# event.

AT_ONCE = 10  # samples of one event

# By metric: the call, what it takes after the GPU, the factor from NVML's unit to the metric's, and
# its decimals.
METRICS: dict[str, tuple[str, tuple[int, ...], float, int]] = {
    "gpu_utilization": ("nvmlDeviceGetUtilizationRates.gpu", (), 0.01, 2),
    "memory_used": ("nvmlDeviceGetMemoryInfo_v2.used", (), 1 / 1024**2, 1),
    "power": ("nvmlDeviceGetPowerUsage", (), 1e-3, 1),
    "energy": ("nvmlDeviceGetTotalEnergyConsumption", (), 1e-3, 1),
    "sm_clock": ("nvmlDeviceGetClockInfo", (CLOCK_SM,), 1, 0),
    "temperature": ("nvmlDeviceGetTemperature", (0,), 1, 0),  # of the GPU: NVML_TEMPERATURE_GPU
    "throttled": ("nvmlDeviceGetCurrentClocksThrottleReasons", (), 1, 0),
}
PROCESSES = "processes"
# Of a GPU that is divided (MIG) NVML gives the whole: the rest is not of this rank's part alone.
OF_EACH_PART = ("sm_clock", "temperature", "throttled")


class Sampler:
    """Samples one GPU from `start` to `stop`."""

    def __init__(self, journal: Journal, *, every: float = 1.0, last_s: float = 2.0) -> None:
        """Sample each `every` s; wait `last_s` for the last sample."""
        self._journal, self._every, self._last_s = journal, every, last_s
        self.thread: threading.Thread | None = None
        """Takes the samples; None without a GPU."""
        self._stopping = threading.Event()
        self._writing = threading.Lock()
        self._at: list[float] = []
        self._values: dict[str, list[float | None]] = {}

    def start(self, names: tuple[str | None, str | None] | None) -> None:
        """Start to sample the GPU of a PCI address and UUID; None: none."""
        if names is None:
            return
        # Here and not in the thread: a loader process that forks meanwhile might hang.
        library = opened()
        device = library.device(*names) if library is not None else None
        if library is None or device is None:
            return
        self.thread = threading.Thread(
            target=self._run, args=(library, device), name="gpu-samples", daemon=True
        )
        self.thread.start()

    def stop(self) -> None:
        """Take the last sample and write what is left."""
        if self.thread is None:
            return
        self._stopping.set()
        self.thread.join(self._last_s)
        self._write()

    def _run(self, library: Nvml, device: c_void_p) -> None:
        divided = library.switch("nvmlDeviceGetMigMode", device)
        names = [name for name in METRICS if not divided or name in OF_EACH_PART]
        due = time.monotonic()
        goes_on = True
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
            due = max(due + self._every, time.monotonic())
            if goes_on:
                self._stopping.wait(due - time.monotonic())

    def _write(self) -> None:
        with self._writing:
            known = {n: v for n, v in self._values.items() if any(x is not None for x in v)}
            if known:
                place = {"rank": self._journal.place.rank, "every": self._every, "at": self._at}
                self._journal.event("gpu", {**place, **known})
            self._at = []
            self._values = {}


def _asked(library: Nvml, device: c_void_p, metric: str) -> float | None:
    call, arguments, factor, decimals = METRICS[metric]
    value = library.ask(call, device, *arguments)
    return round(value * factor, decimals) if value is not None and decimals else value
