"""One rank of a PyTorch job: its place, device, precision and peers.

The same code runs with gloo on CPUs and NCCL on GPUs, under torchrun (which the training operator
configures through PET_*) and alone. Nothing about speed is switched on in silence: TF32 is off
unless asked for, and what an option really did is in the machine lines.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from k8sbench.trainers.parts import machine
from k8sbench.trainers.parts.events import Place
from k8sbench.trainers.parts.settings import Settings, refuse

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
# A collective that takes longer than this has lost a peer. The first steps of a compiled model
# on many ranks can take some minutes.
COLLECTIVE_TIMEOUT = timedelta(minutes=10)
MIB = 1024 * 1024


class Session:
    """What a trainer needs to know of where it runs; `open` makes one and `close` ends it."""

    def __init__(self, settings: Settings, place: Place, device: torch.device) -> None:
        self.settings = settings
        self.place = place
        self.device = device
        self.backend: str | None = None
        self._nccl_log: Path | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device.type == "cuda"

    @property
    def precision_effective(self) -> str:
        """As asked: PyTorch's autocast has effect on CPUs and on GPUs alike."""
        return self.settings.precision

    @property
    def memory_format(self) -> torch.memory_format:
        """The layout of images and of the model."""
        return torch.channels_last if self.settings.channels_last else torch.contiguous_format

    def connect(self) -> None:
        """Meet the other ranks; returns once all are there. Nothing to do for a rank alone."""
        if self.place.world_size == 1:
            return
        self.backend = "nccl" if self.on_gpu else "gloo"
        if self.on_gpu:
            self._nccl_log = _ask_nccl_for_its_transport()
        with _quiet_stdout():
            dist.init_process_group(
                self.backend,
                timeout=COLLECTIVE_TIMEOUT,
                rank=self.place.rank,
                world_size=self.place.world_size,
                device_id=self.device if self.on_gpu else None,
            )

    def close(self) -> None:
        """Leave the job in order."""
        if self.backend is not None:
            dist.destroy_process_group()
            self.backend = None

    def seed(self, offset: int = 0) -> None:
        """Seed what draws random numbers on this rank."""
        torch.manual_seed(self.settings.seed + offset)

    def sync(self) -> None:
        """Wait until the device has done all it was given."""
        if self.on_gpu:
            torch.cuda.synchronize(self.device)

    def prepare(self, model: nn.Module, *, sync_bn: bool, **ddp: Any) -> tuple[nn.Module, bool]:
        """`model` on the device, compiled and distributed as asked; and whether it has SyncBN.

        SyncBN needs GPUs and more than one rank; elsewhere its place is taken by batch norm, as
        upstream does, and the run says so.
        """
        synced = sync_bn and self.on_gpu and self.place.world_size > 1
        if synced:
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
        model = model.to(self.device)
        if self.settings.channels_last:
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.settings.compile:
            model.compile()
        if self.place.world_size > 1:
            model = nn.parallel.DistributedDataParallel(
                model, device_ids=[self.device.index] if self.on_gpu else None, **ddp
            )
        return model, synced

    def autocast(self) -> contextlib.AbstractContextManager[None]:
        """The context of the forward pass and the loss."""
        if self.settings.amp_dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=DTYPES[self.settings.amp_dtype])

    def scaler(self, initial: float) -> GradScaler:
        """The gradient scaler; one that does nothing unless the run is in fp16."""
        return GradScaler(
            self.device.type, init_scale=initial, enabled=self.settings.amp_dtype == "fp16"
        )

    def mean(self, values: Tensor) -> Tensor:
        """The mean of `values` over the ranks, in place."""
        if self.place.world_size > 1:
            dist.all_reduce(values)
            values /= self.place.world_size
        return values

    def agree(self, number: int) -> int:
        """Rank 0's number, on every rank."""
        if self.place.world_size == 1:
            return number
        held = torch.tensor([number], dtype=torch.int64, device=self.device)
        dist.broadcast(held, 0)
        return int(held.item())

    def memory_mib(self) -> float | None:
        """The most GPU memory that tensors held so far; None without a GPU."""
        return torch.cuda.max_memory_allocated(self.device) / MIB if self.on_gpu else None

    def environment(self) -> dict[str, object]:
        """What is known of this rank's machine and libraries; None where it is not."""
        facts: dict[str, object] = {
            **machine.describe(),
            "framework_version": torch.__version__,
            "backend": self.backend,
            "world_size": self.place.world_size,
            "local_world_size": int(os.environ.get("LOCAL_WORLD_SIZE", "0")) or None,
            "threads": torch.get_num_threads(),
            "cuda": torch.version.cuda,
            "cudnn": None,
            "nccl": None,
            "gpu_model": None,
            "gpu_index": None,
            "gpu_uuid": None,
            "gpu_memory_mib": None,
            "gpu_compute_capability": None,
            # Between nodes; NVLink or shared memory carry what stays inside one.
            "transport": {"gloo": "socket", None: None}.get(self.backend),
        }
        if not self.on_gpu:
            return facts | dict.fromkeys(machine.GPU_FIELDS)
        found = torch.cuda.get_device_properties(self.device)
        cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
        facts |= {
            "cudnn": str(cudnn) if cudnn is not None else None,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),  # type: ignore[no-untyped-call]
            "gpu_model": found.name,
            "gpu_index": self.device.index,
            "gpu_uuid": str(getattr(found, "uuid", "")) or None,
            "gpu_memory_mib": found.total_memory // MIB,
            "gpu_compute_capability": f"{found.major}.{found.minor}",
        }
        if self._nccl_log is not None:
            facts["transport"] = _nccl_transport(self._nccl_log)
        return facts | machine.gpu(_pci_address(found))


def open_session(settings: Settings) -> Session:
    """Find this rank's place and device and set the switches; talks to no peer yet."""
    place = Place.from_environment()
    wanted = settings.device
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    elif wanted == "cuda" and not torch.cuda.is_available():
        refuse("--device cuda, but PyTorch sees no GPU; use --device cpu or mend the driver")
    if wanted == "cuda":
        if place.local_rank >= torch.cuda.device_count():
            refuse(
                f"local rank {place.local_rank} has no GPU: {torch.cuda.device_count()} are "
                "visible; start as many processes per node as there are GPUs"
            )
        device = torch.device("cuda", place.local_rank)
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
    if settings.threads:
        torch.set_num_threads(settings.threads)
    torch.backends.cuda.matmul.allow_tf32 = settings.tf32
    torch.backends.cudnn.allow_tf32 = settings.tf32
    torch.backends.cudnn.benchmark = settings.cudnn_benchmark
    return Session(settings, place, device)


@contextlib.contextmanager
def session(settings: Settings) -> Iterator[Session]:
    """An open session that is closed in order; after an error its peers are not waited for."""
    opened = open_session(settings)
    yield opened
    opened.close()


@contextlib.contextmanager
def _quiet_stdout() -> Iterator[None]:
    """Keep native code off stdout: gloo greets its peers in fragments that cut others' lines."""
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _pci_address(found: Any) -> str | None:
    try:
        return f"{found.pci_domain_id:08x}:{found.pci_bus_id:02x}:{found.pci_device_id:02x}.0"
    except AttributeError:
        return None


def _ask_nccl_for_its_transport() -> Path | None:
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


def _nccl_transport(path: Path) -> str | None:
    """The network that NCCL says it uses ("IB", "Socket", a plug-in); None if it does not say."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        path.unlink()
    except OSError:
        return None
    marker = "Using network "
    _, found, rest = text.partition(marker)
    return rest.split()[0] if found and rest.strip() else None
