"""Facts of the machine of a rank, for the `environment` event.

Unknown facts are None. No program is run to find them (images may lack nvidia-smi); a GPU is
described by the driver's own library. Also three switches of libraries that no framework has:
how threads wait, TF32 for all of NVIDIA's, and NCCL's own log.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from k8sbench.trainers.parts import nvml
from k8sbench.trainers.parts.settings import Settings

# What only the framework knows; a session fills in these fields.
FRAMEWORK_FIELDS = (
    *("framework_version", "backend", "world_size", "local_world_size", "threads", "cuda", "cudnn"),
    *("nccl", "transport", "gpu_model", "gpu_index", "gpu_uuid", "gpu_memory_mib"),
    "gpu_compute_capability",
)

# Facts of a GPU by NVML's calls, and what they take.
ASKED: dict[str, tuple[str, tuple[int, ...]]] = {
    "clock_sm_mhz": ("nvmlDeviceGetClockInfo", (nvml.CLOCK_SM,)),
    "clock_sm_max_mhz": ("nvmlDeviceGetMaxClockInfo", (nvml.CLOCK_SM,)),
    "clock_memory_mhz": ("nvmlDeviceGetClockInfo", (nvml.CLOCK_MEMORY,)),
    "clock_memory_max_mhz": ("nvmlDeviceGetMaxClockInfo", (nvml.CLOCK_MEMORY,)),
    "pcie_generation": ("nvmlDeviceGetCurrPcieLinkGeneration", ()),
    "pcie_width": ("nvmlDeviceGetCurrPcieLinkWidth", ()),
    "throttle_reasons": ("nvmlDeviceGetCurrentClocksThrottleReasons", ()),
}
GPU_FIELDS = ("driver", "ecc", "power_limit_w", "nvlinks", *ASKED)
NVLINKS = 36  # the most that NVML counts of one GPU


def describe() -> dict[str, object]:
    """Host, system and processor; every other field of the event, not yet known."""
    return {
        **dict.fromkeys((*FRAMEWORK_FIELDS, *GPU_FIELDS)),
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        # Of the whole machine, also where a container may use less.
        "ram_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "os": _os_name(),
        "kernel": platform.release(),
        "infiniband": _infiniband(),
        "pod": os.environ.get("POD_NAME") or None,
        "node": os.environ.get("NODE_NAME") or None,
    }


def gpu(pci_bus_id: str | None, uuid: str | None) -> dict[str, object]:
    """The fields of one GPU from NVML; None wherever it does not answer.

    The GPU is found by its PCI address or, where NVML has another (as in some virtual machines), by
    its UUID.
    """
    facts: dict[str, object] = dict.fromkeys(GPU_FIELDS)
    library = nvml.opened()
    if library is None:
        return facts
    facts["driver"] = library.driver()
    device = library.device(pci_bus_id, uuid)
    if device is None:
        return facts
    facts |= {name: library.ask(call, device, *takes) for name, (call, takes) in ASKED.items()}
    limit = library.ask("nvmlDeviceGetEnforcedPowerLimit", device)
    links = [library.ask("nvmlDeviceGetNvLinkState", device, link) for link in range(NVLINKS)]
    known = [state for state in links if state is not None]
    return {
        **facts,
        "ecc": library.switch("nvmlDeviceGetEccMode", device),
        "power_limit_w": limit / 1000 if limit is not None else None,
        "nvlinks": sum(known) if known else None,  # the active ones
    }


def cuda_identity(index: int) -> tuple[str | None, str | None]:
    """PCI address and UUID of a visible GPU, from the driver.

    Of CUDA; Paddle does not give them.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, None
    device = ctypes.c_int()
    address = ctypes.create_string_buffer(32)
    uuid = (ctypes.c_ubyte * 16)()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), index):
        return None, None
    known = driver.cuDeviceGetPCIBusId(address, len(address), device) == 0
    # The second version is a slice's own where a GPU is cut up (MIG); old drivers have the first.
    ask = getattr(driver, "cuDeviceGetUuid_v2", None) or driver.cuDeviceGetUuid
    named = ask(uuid, device) == 0
    return (
        address.value.decode() if known else None,
        str(UUID(bytes=bytes(uuid))) if named else None,
    )


def steer_tf32(allowed: bool) -> None:
    """Set TF32 for all of NVIDIA's libraries; call this before a framework loads them.

    The variable overrides the frameworks' own switches, so a value from outside could contradict
    what the run reports.
    """
    if allowed:
        os.environ.pop("NVIDIA_TF32_OVERRIDE", None)
    else:
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"


def steer_waiting(preset: str) -> None:
    """Let waiting threads of a smoke run sleep.

    Call this before a framework is loaded. They would spin, and on cores that others use, too, a
    step takes a hundred times as long. Of a full run it would change the speed. PyTorch's libgomp
    and Paddle's libiomp5 both read this variable; one that is set already stays, as do
    GOMP_SPINCOUNT and KMP_BLOCKTIME, which have precedence.
    """
    if preset == "smoke":
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def before_torch(settings: Settings) -> None:
    """Set the environment that torch is to find when it is imported."""
    steer_waiting(settings.preset)
    steer_tf32(settings.tf32)


def before_paddle(settings: Settings) -> None:
    """Set the environment that paddle is to find when it is imported.

    Paddle reads its number of threads and CUDA its TF32 switch when they are loaded.
    """
    if settings.threads:
        os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(settings.threads)
    steer_waiting(settings.preset)
    steer_tf32(settings.tf32)


def connect_by_nccl(connect: Callable[[], object]) -> str | None:
    """Call `connect`; return the network that NCCL reports, or None.

    "IB", "Socket" or a plug-in's name: the one between nodes; NVLink or shared memory carry what
    stays inside one. NCCL reports it at NCCL_DEBUG=INFO only, so that it always writes that much,
    into a file. What the user asked for comes to stderr from there, as do warnings and, where
    `connect` fails, all of it. A file that the user names by NCCL_DEBUG_FILE is left alone.
    """
    if os.environ.get("NCCL_DEBUG_FILE"):
        connect()
        return None
    level = os.environ.get("NCCL_DEBUG", "").upper()
    is_shown = level in ("INFO", "TRACE")
    if not is_shown:
        os.environ["NCCL_DEBUG"] = "INFO"
    subsystems = os.environ.get("NCCL_DEBUG_SUBSYS") or "ENV"
    if not subsystems.startswith("^"):  # which begins a list of those that are left out
        os.environ["NCCL_DEBUG_SUBSYS"] = f"{subsystems},INIT,NET"
    log = Path(tempfile.gettempdir()) / f"k8sbench-nccl-{os.getpid()}.log"
    os.environ["NCCL_DEBUG_FILE"] = str(log)
    try:
        connect()
    except BaseException:
        is_shown = True
        raise
    finally:
        if level:
            _move_to_stderr(log)
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        log.unlink(missing_ok=True)
        for line in text.splitlines():
            if is_shown or "NCCL WARN" in line:
                sys.stderr.write(f"{line}\n")  # one by one: all ranks write into one pipe
        sys.stderr.flush()
    match = re.search(r"Using network (\S.*)", text)
    return match[1].strip() if match else None


def _move_to_stderr(log: Path) -> None:
    """Redirect this process's further output to an open file to stderr."""
    for number in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the listing's own is closed by now
            if number.samefile(log):
                os.dup2(2, int(number.name))


def _read(path: str) -> str:
    """Text of a file of the system; empty where it cannot be read."""
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace")
    return ""


def _os_name() -> str | None:
    """Name of the operating system in the image."""
    with contextlib.suppress(OSError):
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    return None


def _infiniband() -> str | None:
    """Names of the InfiniBand and RoCE devices, ``mlx5_0,mlx5_1``."""
    folder = Path("/sys/class/infiniband")
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return ",".join(names) or None


def _cpu_model() -> str | None:
    text = _read("/proc/cpuinfo")
    match = re.search(r"^model name\s*: (.*)", text, re.MULTILINE)
    return match[1].strip() if match else platform.machine() or None
