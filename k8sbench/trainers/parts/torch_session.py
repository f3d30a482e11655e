# ruff: noqa: D102 - the base class describes its methods
"""One rank of a PyTorch job: its place, device, precision, peers and training step.

The same code runs with gloo on CPUs and NCCL on GPUs, under torchrun (which the training operator
configures through PET_*) and alone. Nothing about speed is switched on in silence: TF32 is off
unless asked for, and what an option really did is in the machine lines.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.utils.data import DataLoader

from k8sbench.trainers.parts import ending, loop, session, watch
from k8sbench.trainers.parts.events import RankPlace
from k8sbench.trainers.parts.samples import Array, Normalise, Read, collate
from k8sbench.trainers.parts.settings import Settings, refuse

MOMENTUM = "momentum_buffer"  # as torch.optim.SGD calls it
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
# Of a collective: `watch` ends a job that hangs, and knows a hanging rank from a slow one.
NO_LIMIT = timedelta(days=7)


class TorchSession(session.Session):
    """One rank of a PyTorch job."""

    framework = "pytorch"
    version = torch.__version__
    distributed = dist

    def __init__(self, settings: Settings, place: RankPlace, index: int | None) -> None:
        super().__init__(settings, place, index)
        self.device = torch.device("cpu" if index is None else f"cuda:{index}")

    @property
    def meeting_point(self) -> tuple[str, int]:
        return os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])

    @functools.cached_property
    def store(self) -> dist.TCPStore:
        by_launcher = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        return dist.TCPStore(
            *self.meeting_point,
            is_master=self.place.first and not by_launcher,
            timeout=timedelta(seconds=watch.LIMIT),
            wait_for_workers=False,
        )

    def meet(self) -> None:
        by_nccl = self.backend == "nccl"
        with contextlib.nullcontext() if by_nccl else _quiet_stdout():
            dist.init_process_group(
                self.backend,
                timeout=NO_LIMIT,
                store=self.store,
                rank=self.place.rank,
                world_size=self.place.world_size,
                device_id=self.device if by_nccl else None,  # so that NCCL connects now
            )

    def close(self) -> None:
        if self.backend is not None:
            dist.destroy_process_group()
            self.backend = None

    def seed(self, offset: int = 0) -> None:
        """Seed what draws random numbers on this rank."""
        torch.manual_seed(self.settings.seed + offset)

    def sync(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize(self.device)

    def prepare(self, model: nn.Module, *, sync_bn: bool, **ddp: Any) -> tuple[nn.Module, bool]:
        synced = self.synchronises(sync_bn)
        if synced:
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        model = model.to(self.device)
        if self.settings.channels_last:
            model = model.to(memory_format=torch.channels_last)
        shards = ddp.pop("shards", None)
        if shards is not None and self.place.world_size > 1:
            self._shard(model, shards(model))
            return model, synced
        if self.settings.compile:
            model.compile()
        if self.place.world_size > 1 and not self.sums_at_once:
            model = nn.parallel.DistributedDataParallel(
                model, device_ids=[self.device.index] if self.on_gpu else None, **ddp
            )
        return model, synced

    def _shard(self, model: nn.Module, layers: Iterable[nn.Module]) -> None:
        """Share a model's state among the ranks.

        They gather one of its `layers` at a time, and what is left once in a step. Gradients are
        averaged in FP32.
        """
        half = self.settings.amp_dtype
        policy = MixedPrecisionPolicy(
            param_dtype=DTYPES[half] if half else None, reduce_dtype=torch.float32
        )
        for layer in layers:
            if self.settings.compile:  # the layer alone: what gathers it is not compiled
                layer.forward = torch.compile(layer.forward)
            fully_shard(layer, mp_policy=policy)
        fully_shard(model, mp_policy=policy)

    def average(self, gradients: list[Tensor]) -> None:
        flat = self.mean(torch.cat([gradient.flatten() for gradient in gradients]))
        parts = flat.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def autocast(self) -> contextlib.AbstractContextManager[None]:
        if self.settings.amp_dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=DTYPES[self.settings.amp_dtype])

    def scaler(self, initial: float) -> GradScaler:
        """Adaptive gradient scaler; without effect unless in fp16."""
        return GradScaler(
            self.device.type,
            init_scale=initial,
            enabled=self.settings.amp_dtype == "fp16",
        )

    def row(self, values: Iterable[Tensor]) -> Tensor:
        return torch.stack([value.detach().float() for value in values])

    def ones(self, length: int) -> Tensor:
        return torch.ones(length, device=self.device)

    @contextlib.contextmanager
    def inference(self) -> Iterator[None]:
        compiled = self.settings.compile
        stance = torch.compiler.set_stance("force_eager") if compiled else contextlib.nullcontext()
        with torch.no_grad(), stance:
            yield

    def exact(self, values: Any) -> Tensor:
        return torch.as_tensor(values, dtype=torch.float64, device=self.device)

    def array(self, values: Tensor) -> Array:
        array: Array = values.detach().cpu().numpy()
        return array

    def saved(self, path: Path) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = torch.load(path, map_location="cpu", weights_only=True)
        tensors = found.get("state_dict", found).items()
        return {name: each.float().numpy() for name, each in tensors if isinstance(each, Tensor)}

    @torch.no_grad()
    def put(self, tensor: Any, values: Array) -> None:
        tensor.copy_(torch.from_numpy(values))

    def trained(self, layer: nn.Module) -> dict[str, Any]:
        return dict(layer.named_parameters())

    def statistics(self, layer: nn.Module) -> dict[str, Any]:
        return dict(layer.named_buffers())

    def momenta(self, optimizer: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
        held = {name: optimizer.state[each] for name, each in parameters.items()}
        return {name: each[MOMENTUM] for name, each in held.items() if MOMENTUM in each}

    def put_momenta(self, optimizer: Any, momenta: Sequence[tuple[Any, Array]]) -> None:
        for parameter, values in momenta:
            held = optimizer.state[parameter][MOMENTUM] = torch.empty_like(parameter)
            self.put(held, values)

    def put_gradient(self, parameter: Any, values: Array) -> None:
        parameter.grad = torch.empty_like(parameter)
        self.put(parameter.grad, values)

    def tensor(self, values: Array) -> Tensor:
        return torch.from_numpy(values)

    def loader(self, reader: Any, batches: Iterable[Any]) -> DataLoader[tuple[Tensor, Tensor, str]]:
        return DataLoader(
            reader,
            batch_sampler=batches,
            num_workers=self.settings.workers,
            # To be asked again; each has two batches ready, as upstream's: more fill /dev/shm.
            persistent_workers=self.settings.workers > 0,
            collate_fn=_collate,
            worker_init_fn=_in_loader,
            pin_memory=self.on_gpu,
            generator=torch.Generator(),  # else it would draw from the one that dropout draws from
        )

    def on_device(
        self, inputs: Tensor, targets: Tensor, normalise: Normalise | None = None
    ) -> tuple[Tensor, Tensor]:
        inputs = inputs.to(self.device, non_blocking=True)
        if self.settings.channels_last and inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        if inputs.dtype == torch.uint8 and normalise is not None:
            mean, deviation = _constants(normalise, self.device)
            inputs = (inputs - mean).div_(deviation)
        # Converted there: fewer bytes to copy.
        return inputs, targets.to(self.device, non_blocking=True).long()

    def memory_mib(self) -> float | None:
        if not self.on_gpu:
            return None
        return torch.cuda.max_memory_allocated(self.device) / session.MIB

    def reset_peak_memory(self) -> None:
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats(self.device)

    def libraries(self) -> dict[str, object]:
        cudnn = torch.backends.cudnn.version() if self.on_gpu else None
        return {
            "framework_version": self.version,
            "local_world_size": int(os.environ.get("LOCAL_WORLD_SIZE", "0")) or None,
            "threads": torch.get_num_threads(),
            "cuda": torch.version.cuda,
            "cudnn": str(cudnn) if cudnn is not None else None,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())) if self.on_gpu else None,
        }

    def gpu(self) -> tuple[Any, str | None, str | None]:
        gpu = torch.cuda.get_device_properties(self.device)
        address = f"{gpu.pci_domain_id:08x}:{gpu.pci_bus_id:02x}:{gpu.pci_device_id:02x}.0"
        return gpu, address, str(gpu.uuid)


def _in_loader(_: int) -> None:
    ending.outlive_signals()
    setattr(Queue, "_on_queue_feeder_error", staticmethod(_lost))  # noqa: B010 - not in typeshed


def _lost(error: Exception, _: object) -> None:
    """End a loader process that cannot pass on a batch."""
    sys.stderr.write(f"k8sbench: failed: a loader process cannot pass on a batch: {error}; ")
    sys.stderr.write("give the pool a larger `shm`\n")
    os._exit(1)


def _collate(samples: Sequence[Read]) -> tuple[Tensor, Tensor, str]:
    inputs, targets, note = collate(samples)
    return torch.from_numpy(inputs), torch.from_numpy(targets), note


@functools.cache
def _constants(normalise: Normalise, device: torch.device) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(triple, device=device).view(-1, 1, 1) for triple in normalise)


def open_session(settings: Settings) -> TorchSession:
    """Find this rank's place and device and set the switches; contacts no peer yet."""
    place = RankPlace.from_environment()
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    index = session.gpu_of(settings, place, gpus, "PyTorch", place.local_rank)
    if index is not None:
        torch.cuda.set_device(index)
        if settings.amp_dtype == "bf16" and not torch.cuda.is_bf16_supported(False):
            name = torch.cuda.get_device_name(index)
            refuse(f"--amp-dtype bf16, but {name} has no arithmetic for it; use fp16")
    if settings.threads:
        torch.set_num_threads(settings.threads)
    torch.backends.cuda.matmul.allow_tf32 = settings.tf32
    torch.backends.cudnn.allow_tf32 = settings.tf32
    torch.backends.cudnn.benchmark = settings.cudnn_benchmark
    return TorchSession(settings, place, index)


@contextlib.contextmanager
def _quiet_stdout() -> Iterator[None]:
    """Keep gloo off stdout: it writes fragments that would cut other ranks' lines."""
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def run(work: loop.Work, settings: Settings, train: Callable[[TorchRun], None]) -> None:
    """Run one rank from its start line to its last; `train` takes the steps."""
    with open_session(settings) as here:
        journal, files = loop.begin(work, here, work.options(here))
        train(TorchRun(work, here, journal, files))


class TorchRun(loop.Run[TorchSession]):
    """A run of PyTorch."""

    norms = (nn.modules.batchnorm._BatchNorm,)
    dropouts = (nn.modules.dropout._DropoutNd,)

    def count_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.bare.parameters())

    def prepare(self) -> None:
        work, here = self.work, self.here
        self.train_mode()
        make = work.optimizer or functools.partial(
            torch.optim.SGD, momentum=work.momentum, weight_decay=work.weight_decay
        )
        self.optimizer = make(
            work.groups(self.bare),
            lr=self.schedule(0),
            fused=True if here.settings.fused_optimizer else None,
        )
        self.scaler = here.scaler(work.initial_scale)
        if work.static_scale is not None and self.scaler.is_enabled():
            self.scaler = loop.FixedScaler(
                work.static_scale, self.bare.parameters(), torch._foreach_div_
            )

    def layers(self) -> Any:
        return self.model.modules()

    def gradients_of(self, step: loop.Step) -> contextlib.AbstractContextManager[object]:
        if not isinstance(self.model, FSDPModule):
            return super().gradients_of(step)
        self.model.set_requires_gradient_sync(step.updates)
        return contextlib.nullcontext()

    def set_rate(self, lr: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = lr * group.get("lr_mult", 1.0)
