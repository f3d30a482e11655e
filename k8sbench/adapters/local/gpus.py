"""GPUs of this machine and their assignment to replicas.

Read through NVML (nvidia-ml-py), which is imported on use. No library, driver or GPU is a normal
answer with a reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from k8sbench.model.errors import UsageError

VISIBLE = "CUDA_VISIBLE_DEVICES"


class GPU(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU."""

    index: int
    """As NVML and nvidia-smi count: by PCI address."""
    uuid: str
    model: str
    """As the driver names it."""


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that a local run may use."""

    gpus: tuple[GPU, ...]
    driver: str | None = None
    """The driver's version; None where there is none."""
    reason: str | None = None
    """Reason for missing GPUs; None if all are here."""


def inventory(environ: Mapping[str, str] | None = None, library: Any = None) -> Inventory:
    """Ask the driver; heeds the user's ``CUDA_VISIBLE_DEVICES``. ``library`` stands for NVML."""
    environ = os.environ if environ is None else environ
    if library is None:
        try:
            import pynvml
        except ImportError:
            return Inventory(gpus=(), reason="nvidia-ml-py is not installed")
        library = pynvml
    try:
        library.nvmlInit()
        try:
            known = _ask(library)
        finally:
            library.nvmlShutdown()
    except library.NVMLError as error:
        return Inventory(gpus=(), reason=f"NVML: {error}")
    return visible(known, environ.get(VISIBLE))


def _ask(library: Any) -> Inventory:
    handles = map(library.nvmlDeviceGetHandleByIndex, range(library.nvmlDeviceGetCount()))
    gpus = tuple(
        GPU(
            index=index,
            uuid=library.nvmlDeviceGetUUID(handle),
            model=library.nvmlDeviceGetName(handle),
        )
        for index, handle in enumerate(handles)
    )
    reason = None if gpus else "the driver knows no GPU"
    return Inventory(gpus=gpus, driver=library.nvmlSystemGetDriverVersion(), reason=reason)


def visible(found: Inventory, wanted: str | None) -> Inventory:
    """Keep what ``CUDA_VISIBLE_DEVICES`` names, in its order, as CUDA reads it.

    Entries are indices or beginnings of UUIDs; the first that names no GPU ends the list.
    """
    if wanted is None or not found.gpus:
        return found
    kept: list[GPU] = []
    for entry in (part.strip() for part in wanted.split(",")):
        gpu = next((gpu for gpu in found.gpus if _is_named(gpu, entry)), None)
        if gpu is None or gpu in kept:
            break
        kept.append(gpu)
    reason = found.reason if kept == list(found.gpus) else f"{VISIBLE} is {wanted!r}"
    return msgspec.structs.replace(found, gpus=tuple(kept), reason=reason)


def _is_named(gpu: GPU, entry: str) -> bool:
    return entry == str(gpu.index) or (entry.startswith("GPU-") and gpu.uuid.startswith(entry))


def assign(
    found: Inventory, replicas: int, each: int, taken: Iterable[GPU] = ()
) -> tuple[tuple[GPU, ...], ...]:
    """Give every replica ``each`` GPUs of its own; raises :class:`UsageError` if they are short."""
    busy = set(taken)
    free = [gpu for gpu in found.gpus if gpu not in busy]
    needed = replicas * each
    if needed > len(free):
        why = f" ({found.reason})" if found.reason else ""
        used = f", {len(found.gpus) - len(free)} of them in use by other runs" if busy else ""
        raise UsageError(
            f"{replicas} replicas × {each} GPUs need {needed} GPUs;"
            f" this machine has {len(found.gpus)}{why}{used}.",
            "Ask for fewer with --replicas and --gpus, or run it on a cluster.",
        )
    return tuple(tuple(free[n * each : (n + 1) * each]) for n in range(replicas))


def listed(gpus: Sequence[GPU]) -> str:
    """Write the value of ``CUDA_VISIBLE_DEVICES`` that names ``gpus``; empty for none.

    By index, with CUDA_DEVICE_ORDER=PCI_BUS_ID: paddle.distributed.launch reads numbers alone.
    """
    return ",".join(str(gpu.index) for gpu in gpus)
