"""What is known of the machine that a rank runs on.

Facts for the `environment` event: what cannot be learned is None. Nothing is run to find them
(images may lack nvidia-smi); NVML is asked only if its Python module is there.
"""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path
from typing import Any

# The fields of a GPU that `gpu` fills where NVML answers.
GPU_FIELDS = (
    "driver",
    "ecc",
    "clock_sm_mhz",
    "clock_sm_max_mhz",
    "clock_memory_mhz",
    "clock_memory_max_mhz",
    "power_limit_w",
    "pcie_generation",
    "pcie_width",
    "throttle_reasons",
)


def describe() -> dict[str, object]:
    """Host, Python, processor and limits; no GPU."""
    return {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "memlock_ulimit": _memlock(),
        "pod": os.environ.get("POD_NAME") or None,
        "node": os.environ.get("NODE_NAME") or None,
    }


def gpu(pci_bus_id: str | None) -> dict[str, object]:
    """What NVML tells of one GPU, found by its PCI address; None wherever it does not answer."""
    facts: dict[str, object] = dict.fromkeys(GPU_FIELDS)
    facts["driver"] = _driver_from_proc()
    if pci_bus_id is None:
        return facts
    try:
        import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return facts

    def ask(question: Any, *arguments: Any) -> Any:
        try:
            return question(*arguments)
        except pynvml.NVMLError:
            return None

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return facts
    try:
        facts["driver"] = _text(ask(pynvml.nvmlSystemGetDriverVersion)) or facts["driver"]
        device = ask(pynvml.nvmlDeviceGetHandleByPciBusId, pci_bus_id.encode())
        if device is None:
            return facts
        ecc = ask(pynvml.nvmlDeviceGetEccMode, device)
        limit = ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, device)
        sm, memory = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
        facts |= {
            "ecc": bool(ecc[0]) if ecc is not None else None,
            "clock_sm_mhz": ask(pynvml.nvmlDeviceGetClockInfo, device, sm),
            "clock_sm_max_mhz": ask(pynvml.nvmlDeviceGetMaxClockInfo, device, sm),
            "clock_memory_mhz": ask(pynvml.nvmlDeviceGetClockInfo, device, memory),
            "clock_memory_max_mhz": ask(pynvml.nvmlDeviceGetMaxClockInfo, device, memory),
            "power_limit_w": limit / 1000 if limit is not None else None,
            "pcie_generation": ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, device),
            "pcie_width": ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth, device),
            "throttle_reasons": ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, device),
        }
    finally:
        ask(pynvml.nvmlShutdown)
    return facts


def _text(value: bytes | str | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def _driver_from_proc() -> str | None:
    """The kernel module's version, which is there without any library."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return None
    return next((word for word in words if word[0].isdigit() and word.count(".") >= 1), None)


def _cpu_model() -> str | None:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or None
    for entry in text.splitlines():
        name, _, value = entry.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine() or None


def _memlock() -> int | str | None:
    """`ulimit -l` in KiB; "unlimited" as the shell says it. RDMA needs it large."""
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return "unlimited" if soft == resource.RLIM_INFINITY else soft // 1024
