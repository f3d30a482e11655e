"""Sessions: one rank of a job, in any framework.

Its settings, its place, its device and its peers. Imports no framework.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import itertools
import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from k8sbench.trainers.parts import machine, watch
from k8sbench.trainers.parts.events import Journal, RankPlace
from k8sbench.trainers.parts.samples import Array, Normalise, kept_bytes
from k8sbench.trainers.parts.settings import Settings, refuse

MIB = 1024 * 1024
SHARED = "/dev/shm"  # noqa: S108 - where both frameworks' loaders put batches
WATCH, MET = "k8sbench/watch", "k8sbench/met"  # keys of the store
S = TypeVar("S", bound="Session")


def gpu_of(
    settings: Settings, place: RankPlace, gpus: int, framework: str, index: int
) -> int | None:
    """Return the GPU of a rank among the visible ones; None for CPU."""
    if settings.device == "cpu" or (settings.device == "auto" and not gpus):
        return None
    if not gpus:
        refuse(f"--device cuda, but {framework} sees no GPU; use --device cpu or mend the driver")
    if index >= gpus and not settings.share_gpu:
        refuse(
            f"local rank {place.local_rank} has no GPU: {gpus} are visible; "
            "start as many processes per node as there are GPUs"
        )
    return index % gpus


class Session(abc.ABC):
    """One rank; as a context it leaves the job in order.

    After an error it waits for no peer.
    """

    framework: ClassVar[str]
    version: ClassVar[str]
    distributed: ClassVar[Any]  # the framework's module of collectives

    def __init__(self, settings: Settings, place: RankPlace, index: int | None) -> None:
        self.settings = settings
        self.place = place
        self.index = index  # of the GPU among the visible ones; None: a CPU
        self.on_gpu = index is not None
        self.backend: str | None = None
        self.transport: str | None = None
        self.rounds = itertools.count(1)  # of `wait_by_store`, at one store
        self._kept = 0  # bytes of batches in /dev/shm

    def __enter__(self: S) -> S:
        self.attend()
        return self

    def attend(self) -> None:
        """Let this rank's watch meet that of rank 0, before anything takes long."""
        place = self.place
        leader = ("", 0)
        if not place.first:
            leader = (self.meeting_point[0], self._wait_for_first())
        # Compiling takes minutes, in which there is no sign of life.
        watch.join(place.rank, place.world_size, leader, 3 if self.settings.compile else 1)
        if place.first and place.world_size > 1:
            self.store.set(WATCH, str(watch.port()))

    def _wait_for_first(self) -> int:
        """Return the port of rank 0's watch; ends this rank after `watch.LIMIT`.

        The frameworks' stores wait for twice that, or for 15 minutes whatever they are told.
        """
        deadline = time.monotonic() + watch.LIMIT
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(self.meeting_point, 5.0).close()
                break
            time.sleep(0.1)
        else:
            watch.end_without(0, self.place.world_size)
        try:  # torchrun has the store, and rank 0 may come later or never
            return int(self.store.get(WATCH))
        except RuntimeError:  # by any name
            watch.end_without(0, self.place.world_size)

    @property
    @abc.abstractmethod
    def meeting_point(self) -> tuple[str, int]:
        """Host and port of the job's store."""

    @functools.cached_property
    @abc.abstractmethod
    def store(self) -> Any:
        """The framework's store of keys, which rank 0 or its launcher has."""

    def gather(self, words: str | None = None) -> None:
        """Come to a place where this rank may wait for others; `words` name it."""
        watch.at(words)

    def wait_by_store(self) -> None:
        """Return once every rank has called this, for as long as that takes."""
        calls = next(self.rounds) * self.place.world_size
        began = time.monotonic()
        met = self.store.add(MET, 1)
        while met < calls:
            time.sleep(min((time.monotonic() - began) / 10, 0.05))
            met = self.store.add(MET, 0)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()

    @property
    def precision_effective(self) -> str:
        """Effective precision: "fp32" or "amp".

        "amp" only if a matrix product inside `autocast` comes out in the half type, tried on this
        device before the first line. That proves that the framework's mixed precision has effect
        here, as Paddle's has not on a CPU; not which operations of a model it takes.
        """
        factor = self.ones(1).reshape([1, 1])
        with self.autocast():
            product = factor @ factor
        return "fp32" if product.dtype == factor.dtype else "amp"

    def connect(self) -> None:
        """Join the job's process group; returns once all ranks have."""
        self.wait_by_store()
        # NCCL refuses two ranks on one GPU; gloo takes a GPU's tensors by way of the host.
        if self.on_gpu and not self.settings.share_gpu:
            self.backend = "nccl"
            self.transport = machine.connect_by_nccl(self.meet)
        else:
            self.backend, self.transport = "gloo", "socket"
            self.meet()

    @abc.abstractmethod
    def meet(self) -> None:
        """Connect to the other ranks by the backend."""

    @abc.abstractmethod
    def close(self) -> None:
        """Leave the job in order."""

    @abc.abstractmethod
    def prepare(self, model: Any, *, sync_bn: bool, **ddp: Any) -> tuple[Any, bool]:
        """`model` on the device, distributed as asked; and whether it has SyncBN."""

    @abc.abstractmethod
    def seed(self, offset: int = 0) -> None:
        """Seed what draws random numbers on this rank; `offset` is below 2**31."""

    def seed_step(self, step: int) -> None:
        """Seed the dropout of one step on this rank.

        What follows from the step's number need not be saved to go on from a checkpoint; and the
        state of Paddle's generators can be read, but not set.
        """
        self.seed(int(np.random.default_rng((step, self.place.rank)).integers(2**31)))

    @abc.abstractmethod
    def sync(self) -> None:
        """Wait until the device has finished all work."""

    @abc.abstractmethod
    def row(self, values: Iterable[Any]) -> Any:
        """Scalars of any type as one float32 vector, without gradients."""

    @abc.abstractmethod
    def average(self, gradients: list[Any]) -> None:
        """Replace gradients by their means over the ranks, by one sum of them all."""

    @abc.abstractmethod
    def ones(self, length: int) -> Any:
        """A float32 vector of ones on the device."""

    @abc.abstractmethod
    def inference(self) -> contextlib.AbstractContextManager[object]:
        """The context of an evaluation: no gradients, nothing compiled."""

    @abc.abstractmethod
    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """The context of the forward pass and the loss."""

    @abc.abstractmethod
    def exact(self, values: Any) -> Any:
        """`values`, a tensor of any type or an array, as float64 on the device."""

    @abc.abstractmethod
    def array(self, values: Any) -> Array:
        """A tensor as numpy's array."""

    @abc.abstractmethod
    def saved(self, path: Path) -> dict[str, Any]:
        """Load a file of the framework by names; raises anything if invalid."""

    @abc.abstractmethod
    def put(self, tensor: Any, values: Array) -> None:
        """Set a tensor of a model's state."""

    @abc.abstractmethod
    def trained(self, layer: Any) -> dict[str, Any]:
        """The parameters of a layer that are trained, by their place in it."""

    @abc.abstractmethod
    def statistics(self, layer: Any) -> dict[str, Any]:
        """All tensors of a layer that are not trained: batch norm's statistics."""

    @abc.abstractmethod
    def momenta(self, optimizer: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The momenta that the optimizer has of parameters: none before its first step."""

    def gradients(self, layer: Any) -> dict[str, Any]:
        """The gradients that a layer's parameters have."""
        found = {name: each.grad for name, each in self.trained(layer).items()}
        return {name: gradient for name, gradient in found.items() if gradient is not None}

    @abc.abstractmethod
    def put_gradient(self, parameter: Any, values: Array) -> None:
        """Set the gradient of a parameter that has none."""

    @abc.abstractmethod
    def put_momenta(self, optimizer: Any, momenta: Sequence[tuple[Any, Array]]) -> None:
        """Set the momenta of parameters in an optimizer that has taken no step."""

    def total(self, values: Array) -> Array:
        """The sum of float64 values over the ranks."""
        if self.place.world_size == 1:
            return values
        held = self.exact(values)
        self.gather()
        self.distributed.all_reduce(held)
        return self.array(held)

    @abc.abstractmethod
    def tensor(self, values: Array) -> Any:
        """An array as a tensor, on the host perhaps."""

    def files(self, reader: Any, batches: Iterable[Any]) -> Iterable[tuple[Any, Any, str]]:
        """Yield batches of `reader`, maybe on the host, with notes; repeatable.

        Ends the run if /dev/shm is too small for them.
        """
        self._kept += kept_bytes(reader, batches, self.settings.workers)
        system = os.statvfs(SHARED)
        here = int(str(self.libraries()["local_world_size"] or 1))
        size, free = (count * system.f_frsize for count in (system.f_blocks, system.f_bavail))
        if self._kept * here > size or self._kept > free:
            refuse(
                f"{SHARED} has {size / MIB:.1f} MiB, {free / MIB:.1f} MiB of them free, and the "
                f"loader processes keep up to {self._kept * here / MIB:.1f} MiB of batches there; "
                "give the pool a larger `shm`, or take fewer --workers or a smaller --batch-size"
            )
        return self.loader(reader, batches)

    @abc.abstractmethod
    def loader(self, reader: Any, batches: Iterable[Any]) -> Iterable[tuple[Any, Any, str]]:
        """The framework's loader for `files`."""

    @abc.abstractmethod
    def on_device(
        self, inputs: Any, targets: Any, normalise: Normalise | None = None
    ) -> tuple[Any, Any]:
        """Inputs, normalised if they are bytes, and targets as int64, on the device."""

    @abc.abstractmethod
    def memory_mib(self) -> float | None:
        """The peak GPU memory of all tensors so far; None without a GPU."""

    @abc.abstractmethod
    def reset_peak_memory(self) -> None:
        """Begin `memory_mib` anew.

        While cuDNN tries its algorithms, in the first steps, tensors and workspaces take up to ten
        times what training needs.
        """

    @abc.abstractmethod
    def libraries(self) -> dict[str, object]:
        """Versions of the framework and its libraries, and what the launcher gave this rank."""

    @abc.abstractmethod
    def gpu(self) -> tuple[Any, str | None, str | None]:
        """The GPU's properties, PCI address and UUID."""

    def gpu_names(self) -> tuple[str | None, str | None] | None:
        """The GPU's PCI address and UUID; None without a GPU."""
        return self.gpu()[1:] if self.on_gpu else None

    def wait_for_all(self) -> None:
        """Return once every rank has called this."""
        if self.backend is not None:
            self.gather()
            self.distributed.barrier()

    def synchronises(self, sync_bn: bool) -> bool:
        """True if batch norm is synchronised, given that upstream's is.

        SyncBN needs GPUs and more than one rank; elsewhere batch norm takes its place, as upstream
        does, and the summary reports it.
        """
        return sync_bn and self.on_gpu and self.place.world_size > 1

    def mean(self, values: Any) -> Any:
        """The mean of `values` over the ranks, in place."""
        if self.place.world_size > 1:
            self.gather()
            self.distributed.all_reduce(values)
            values /= self.place.world_size
        return values

    @property
    def sums_at_once(self) -> bool:
        """True if the trainer sums all gradients after the backward pass."""
        return self.place.world_size > 1 and not self.settings.overlap

    def agree(self, number: int) -> int:
        """Rank 0's number, on every rank."""
        return int(self.total(np.array([number * self.place.first], np.float64))[0])

    def all_fine(self, fine: bool) -> bool:
        """True if `fine` is true on every rank; a barrier."""
        return bool((self.mean(self.ones(1) * float(fine)) == 1.0).item())

    def environment(self) -> dict[str, object]:
        """Known facts of this rank's machine and libraries, else None."""
        facts: dict[str, object] = {
            **machine.describe(),
            "backend": self.backend,
            "world_size": self.place.world_size,
            "transport": self.transport,
            **self.libraries(),
        }
        if not self.on_gpu:
            return facts
        model, address, uuid = self.gpu()
        facts |= {
            "gpu_model": model.name,
            "gpu_index": self.index,
            "gpu_uuid": uuid,
            "gpu_memory_mib": model.total_memory // MIB,
            "gpu_compute_capability": f"{model.major}.{model.minor}",
        }
        return facts | machine.gpu(address, uuid)

    def begin(
        self, unit: str, options: Mapping[str, object], per_step: float | None = None
    ) -> Journal:
        """Write the start line, meet the other ranks and write the environment."""
        journal = Journal(self.settings, self.place, unit=unit, per_step=per_step)
        journal.start(
            framework=self.framework,
            framework_version=self.version,
            device="cuda" if self.on_gpu else "cpu",
            precision_effective=self.precision_effective,
            options=options,
        )
        if self.place.world_size > 1:
            self.connect()
        journal.event("environment", {"rank": self.place.rank, **self.environment()})
        return journal
