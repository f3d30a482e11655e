"""What is known of the machine that a rank runs on.

Facts for the `environment` event: what cannot be learned is None. Nothing is run to find them
(images may lack nvidia-smi); NVML is asked only if its Python module is there. Beside them two
switches of NVIDIA's libraries that no framework has: TF32 for all of them, and NCCL's own log.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# What only the framework can tell; a session fills in what it knows.
FRAMEWORK_FIELDS = (
    "framework_version",
    "backend",
    "world_size",
    "local_world_size",
    "threads",
    "cuda",
    "cudnn",
    "nccl",
    "transport",
    "gpu_model",
    "gpu_index",
    "gpu_uuid",
    "gpu_memory_mib",
    "gpu_compute_capability",
)

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
    # Topology: how the GPU hangs together with others, and with the processors.
    "nvlinks",
    "numa_node",
    "throttle_reasons",
)
NVLINKS = 36  # the most that NVML counts of one GPU


# The same bits under NVML's new name and its old one, which drivers before 535 have alone.
CLOCK_REASONS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
)


def describe() -> dict[str, object]:
    """Host, Python, processor and limits; every other field of the event, not yet known."""
    return {
        **dict.fromkeys((*FRAMEWORK_FIELDS, *GPU_FIELDS)),
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "memlock_ulimit": _memlock(),
        "pod": os.environ.get("POD_NAME") or None,
        "node": os.environ.get("NODE_NAME") or None,
    }


def gpu(pci_bus_id: str | None, uuid: str | None) -> dict[str, object]:
    """What NVML tells of one GPU, found by its PCI address or, where that is not NVML's own (as in
    some virtual machines), by its UUID; None wherever it does not answer.
    """
    facts: dict[str, object] = dict.fromkeys(GPU_FIELDS)
    facts["driver"] = _driver_from_proc()
    if pci_bus_id is not None:
        facts["numa_node"] = _numa_node(pci_bus_id)
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
        device = None
        if pci_bus_id is not None:
            device = ask(pynvml.nvmlDeviceGetHandleByPciBusId, pci_bus_id.encode())
        if device is None and uuid is not None:
            named = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
            device = ask(pynvml.nvmlDeviceGetHandleByUUID, named.encode())
        if device is None:
            return facts
        ecc = ask(pynvml.nvmlDeviceGetEccMode, device)
        limit = ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, device)
        sm, memory = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
        links = range(NVLINKS)
        facts |= {
            "ecc": bool(ecc[0]) if ecc is not None else None,
            "clock_sm_mhz": ask(pynvml.nvmlDeviceGetClockInfo, device, sm),
            "clock_sm_max_mhz": ask(pynvml.nvmlDeviceGetMaxClockInfo, device, sm),
            "clock_memory_mhz": ask(pynvml.nvmlDeviceGetClockInfo, device, memory),
            "clock_memory_max_mhz": ask(pynvml.nvmlDeviceGetMaxClockInfo, device, memory),
            "power_limit_w": limit / 1000 if limit is not None else None,
            "pcie_generation": ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, device),
            "pcie_width": ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth, device),
            "nvlinks": _nvlinks([ask(pynvml.nvmlDeviceGetNvLinkState, device, i) for i in links]),
            "throttle_reasons": _first(
                ask(getattr(pynvml, name), device)
                for name in CLOCK_REASONS
                if hasattr(pynvml, name)
            ),
        }
    finally:
        ask(pynvml.nvmlShutdown)
    return facts


def steer_tf32(allowed: bool) -> None:
    """Say it to all of NVIDIA's libraries; to be called before a framework loads them.

    The variable overrules every framework's own switch: left to the environment, a run could
    claim what it does not do.
    """
    if allowed:
        os.environ.pop("NVIDIA_TF32_OVERRIDE", None)
    else:
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"


def ask_nccl_for_its_transport() -> Path | None:
    """Let NCCL write what it chose to a file of its own, unless the user steers its log."""
    if "NCCL_DEBUG" in os.environ or "NCCL_DEBUG_FILE" in os.environ:
        return None
    path = Path(tempfile.gettempdir()) / f"k8sbench-nccl-{os.getpid()}.log"
    if not os.access(path.parent, os.W_OK):
        return None
    os.environ.update(
        NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET,ENV", NCCL_DEBUG_FILE=str(path)
    )
    return path


def nccl_transport(log: Path | None) -> str | None:
    """The network that NCCL says it uses ("IB", "Socket", a plug-in's name); None if it does not.

    It is the one between nodes; NVLink or shared memory carry what stays inside one. To be called
    once NCCL has connected; the log is removed.
    """
    if log is None:
        return None
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
        log.unlink()
    except OSError:
        return None
    told = re.search(r"Using network (\S.*)", text)
    return told[1].strip() if told else None


def _first(answers: Iterator[Any]) -> Any:
    """The first that is one."""
    return next((answer for answer in answers if answer is not None), None)


def _nvlinks(states: list[int | None]) -> int | None:
    """The number of active links; None where NVML knows of none at all."""
    told = [state for state in states if state is not None]
    return sum(told) if told else None


def _numa_node(pci_bus_id: str) -> int | None:
    """The kernel's number of the memory that is nearest; it says -1 where there is only one."""
    domain, _, rest = pci_bus_id.lower().partition(":")
    path = Path("/sys/bus/pci/devices") / f"{domain[-4:]}:{rest}" / "numa_node"
    try:
        node = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


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
