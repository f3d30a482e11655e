# ruff: noqa: D102 - the base class describes its methods
"""One rank of a Paddle job: its place, device, precision, peers and training step.

The same code runs with gloo on CPUs and NCCL on GPUs, under `paddle_launch` and alone.
Importing this module imports paddle, whose thread count and TF32 switch are read from the
environment at that moment: `before_import` must have run. Nothing about speed is switched on in
silence, and what had no effect is not claimed: Paddle's AMP does nothing on a CPU, so there
`precision_effective` is fp32, whatever was asked for.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from paddle import _C_ops, distributed, nn
from paddle.base import core

from k8sbench.trainers.parts import ending, loop, machine, session, watch
from k8sbench.trainers.parts.events import HALF, RankPlace
from k8sbench.trainers.parts.samples import Array, Normalise, collate
from k8sbench.trainers.parts.settings import Settings, refuse
from k8sbench.trainers.parts.weights import Arrays

# Rank, local rank and world size, as paddle.distributed.launch names them.
MOMENTUM = "{}_velocity_0"  # of a parameter: the only accumulator of Paddle's Momentum
PLACE_NAMES = ("PADDLE_TRAINER_ID", "PADDLE_RANK_IN_NODE", "PADDLE_TRAINERS_NUM")


@dataclass(frozen=True)
class Batches:
    """Batches on the host with their notes, as often as they are asked for.

    `reader` gives the samples of `batches` of numbers.
    """

    reader: Any
    batches: Iterable[Any]
    workers: int

    def __iter__(self) -> Iterator[tuple[Any, Any, str]]:
        loader = paddle.io.DataLoader(
            self.reader,
            batch_sampler=self.batches,
            num_workers=self.workers,
            return_list=True,
            worker_init_fn=_in_loader,
            collate_fn=collate,
        )
        iterator = iter(loader)
        try:
            yield from iterator
        finally:
            # Batches on their way lie in /dev/shm, and stay there unless this is called: Paddle
            # leaves it to the interpreter's clean-up, which never reaches an iterator with threads
            # of its own.
            iterator._try_shutdown_all()


ROUNDS = itertools.count(1)  # Paddle has one store and one process group in a process


class _Store:
    """Paddle's store of keys, with signals blocked during its calls."""

    def __init__(self, host: str, port: int, is_first: bool) -> None:
        with _unsignalled():  # its thread, too
            self.of_paddle = core.TCPStore(host, port, is_first, 0, int(watch.LIMIT))

    def add(self, key: str, number: int) -> int:
        with _unsignalled():
            return int(self.of_paddle.add(key, number))

    def set(self, key: str, value: str) -> None:
        with _unsignalled():
            self.of_paddle.set(key, value)

    def get(self, key: str) -> bytes:
        with _unsignalled():
            return bytes(self.of_paddle.get(key))


_store = functools.cache(_Store)


@contextlib.contextmanager
def _unsignalled() -> Iterator[None]:
    """Let other threads of this process take signals."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_loader(_: int) -> None:
    watch.note_loader()
    ending.outlive_signals()


class PaddleSession(session.Session):
    """One rank of a Paddle job."""

    framework = "paddle"
    version = paddle.__version__
    distributed = distributed

    def __init__(self, settings: Settings, place: RankPlace, index: int | None) -> None:
        super().__init__(settings, place, index)
        self.rounds = ROUNDS
        self.amp_lists: dict[str, Any] = {}  # a trainer's own additions to Paddle's lists
        self._amp = settings.amp_dtype is not None
        with warnings.catch_warnings():
            # Paddle leaves AMP off where it cannot, and warns.
            warnings.simplefilter("ignore")
            self._amp = self.precision_effective == "amp"

    @property
    def layout(self) -> str:
        """The layout of images and of the model."""
        return "NHWC" if self.settings.channels_last else "NCHW"

    @property
    def meeting_point(self) -> tuple[str, int]:
        host, _, port = os.environ["PADDLE_MASTER"].rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def store(self) -> Any:
        return _store(*self.meeting_point, self.place.first)

    def gather(self, words: str | None = None) -> None:
        super().gather(words)
        if self.backend == "gloo":
            self.wait_by_store()  # Paddle's gloo gives up after 30 s, and takes no other limit

    def meet(self) -> None:
        # A launcher guesses from the machine; the device that this run uses is what counts. Without
        # a launcher no variable names it, and Paddle would put every rank on the first one.
        os.environ["PADDLE_DISTRI_BACKEND"] = str(self.backend)
        if self.on_gpu:
            os.environ["FLAGS_selected_gpus"] = str(self.index)  # noqa: SIM112 - Paddle's spelling
        core.create_or_get_global_tcp_store = lambda: self.store.of_paddle
        distributed.init_parallel_env()
        self.wait_for_all()  # NCCL connects at its first collective

    def close(self) -> None:
        self.wait_for_all()  # rank 0 must not remove the meeting point before the others leave
        self.backend = None

    def seed(self, offset: int = 0) -> None:
        """Seed what draws random numbers on this rank."""
        paddle.seed(self.settings.seed + offset)
        np.random.seed(self.settings.seed + offset)

    def set_flags(self, flags: Mapping[str, object]) -> dict[str, object]:
        """Set Paddle's own switches on a GPU; returns those that this build has."""
        if not self.on_gpu:
            return {}
        known = {name: value for name, value in flags.items() if name in set(core.globals().keys())}
        paddle.set_flags(known)
        return known

    def sync(self) -> None:
        if self.on_gpu:
            paddle.device.synchronize()

    def prepare(self, model: Any, *, sync_bn: bool, **ddp: Any) -> tuple[Any, bool]:
        synced = self.synchronises(sync_bn)
        if synced:
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        if self.place.world_size > 1 and not self.sums_at_once:
            self.gather()
            model = paddle.DataParallel(model, **ddp)
        return model, synced

    @paddle.no_grad()  # else Paddle refuses to change a gradient where it is
    def average(self, gradients: list[Any]) -> None:
        flat = self.mean(paddle.concat([gradient.flatten() for gradient in gradients]))
        parts = paddle.split(flat, [gradient.size for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            paddle.assign(part.reshape(gradient.shape), gradient)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        if not self._amp or self.settings.amp_dtype is None:
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[Any] = paddle.amp.auto_cast(
            enable=True, level="O1", dtype=HALF[self.settings.amp_dtype], **self.amp_lists
        )
        return context

    @property
    def scales(self) -> bool:
        """True if gradients are scaled: in fp16 only."""
        return self._amp and self.settings.amp_dtype == "fp16"

    def scaler(self, initial: float) -> Any:
        """Adaptive gradient scaler; without effect unless in fp16."""
        return paddle.amp.GradScaler(
            enable=self.scales,
            init_loss_scaling=initial,
            # What it did until Paddle 2.5, when upstream's figures were taken.
            incr_every_n_steps=1000,
            decr_every_n_nan_or_inf=2,
        )

    def row(self, values: Iterable[Any]) -> Any:
        return paddle.stack([value.detach().astype("float32") for value in values])

    def ones(self, length: int) -> Any:
        return paddle.ones([length], dtype="float32")

    def inference(self) -> contextlib.AbstractContextManager[object]:
        context: contextlib.AbstractContextManager[object] = paddle.no_grad()
        return context

    def exact(self, values: Any) -> Any:
        return paddle.to_tensor(values).astype("float64")

    def array(self, values: Any) -> Array:
        array: Array = values.numpy()
        return array

    def saved(self, path: Path) -> dict[str, Any]:
        with path.open("rb") as file:
            found: dict[str, Any] = Arrays(file, encoding="latin1").load()
            return found

    def put(self, tensor: Any, values: Array) -> None:
        tensor.set_value(values)

    def trained(self, layer: Any) -> dict[str, Any]:
        return {name: each for name, each in layer.named_parameters() if not each.stop_gradient}

    def statistics(self, layer: Any) -> dict[str, Any]:
        # Paddle counts them among parameters, too.
        return {name: each for name, each in layer.state_dict().items() if each.stop_gradient}

    def momenta(self, optimizer: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
        # Those that were put are arrays until the optimizer's next step. Paddle 2 keeps them apart;
        # Paddle 3 has them in its state, too.
        state = optimizer._accumulators_holder | optimizer.state_dict()
        names = {name: MOMENTUM.format(each.name) for name, each in parameters.items()}
        held = {name: state[theirs] for name, theirs in names.items() if theirs in state}
        return {name: paddle.to_tensor(values) for name, values in held.items()}

    def put_momenta(self, optimizer: Any, momenta: Sequence[tuple[Any, Array]]) -> None:
        # Paddle's names count the layers of a process: they are none to be saved by.
        optimizer.set_state_dict({MOMENTUM.format(each.name): values for each, values in momenta})

    def put_gradient(self, parameter: Any, values: Array) -> None:
        parameter.grad = paddle.to_tensor(values)

    def tensor(self, values: Array) -> Any:
        return paddle.to_tensor(values)

    def loader(self, reader: Any, batches: Iterable[Any]) -> Batches:
        return Batches(reader, batches, self.settings.workers)

    def on_device(
        self, inputs: Any, targets: Any, normalise: Normalise | None = None
    ) -> tuple[Any, Any]:
        if inputs.dtype == paddle.uint8 and normalise is not None:
            mean, deviation = _constants(normalise)
            inputs = (inputs.astype("float32") - mean) / deviation
        if self.layout == "NHWC" and inputs.ndim == 4:
            inputs = inputs.transpose([0, 2, 3, 1])
        return inputs, targets.astype("int64")

    def memory_mib(self) -> float | None:
        if not self.on_gpu:
            return None
        return float(paddle.device.cuda.max_memory_allocated(self.index) / session.MIB)

    def reset_peak_memory(self) -> None:
        pass  # Paddle 2.6 has no call for it

    def libraries(self) -> dict[str, object]:
        cudnn = paddle.get_cudnn_version() if self.on_gpu else None
        return {
            "framework_version": self.version,
            "local_world_size": int(os.environ.get("PADDLE_LOCAL_SIZE", "0")) or None,
            "threads": int(os.environ.get("OMP_NUM_THREADS", "1")),
            "cuda": paddle.version.cuda() if paddle.is_compiled_with_cuda() else None,
            "cudnn": str(cudnn) if cudnn else None,
            "nccl": _nccl_version() if self.on_gpu else None,
        }

    def gpu(self) -> tuple[Any, str | None, str | None]:
        properties = paddle.device.cuda.get_device_properties(self.index)
        return properties, *machine.cuda_identity(self.index or 0)


@functools.cache
def _constants(normalise: Normalise) -> tuple[Any, ...]:
    return tuple(
        paddle.to_tensor(triple, dtype="float32").reshape([-1, 1, 1]) for triple in normalise
    )


def open_session(settings: Settings) -> PaddleSession:
    """Find this rank's place and device and set the switches; contacts no peer yet."""
    _end_by_signals()
    # Printed once per rank of every run with batch norm in evaluation mode or in training.
    warnings.filterwarnings("ignore", message="When training, we now always track global mean")
    place = RankPlace.from_environment(names=PLACE_NAMES)
    gpus = paddle.device.cuda.device_count() if paddle.is_compiled_with_cuda() else 0
    if settings.device == "auto" and os.environ.get("PADDLE_DISTRI_BACKEND") == "gloo":
        gpus = 0  # the launcher found none, or they were hidden from it
    given = os.environ.get("FLAGS_selected_gpus")  # noqa: SIM112 - the launcher's spelling
    own = int(given.split(",")[0]) if given else place.local_rank
    index = session.gpu_of(settings, place, gpus, "Paddle", own)
    paddle.set_device("cpu" if index is None else f"gpu:{index}")
    if index is not None:
        paddle.set_flags({"FLAGS_cudnn_exhaustive_search": settings.cudnn_benchmark})
        for switch in ("set_cublas_switch", "set_cudnn_switch"):  # of the GPU wheel only
            getattr(core, switch, lambda _: None)(settings.tf32)
    return PaddleSession(settings, place, index)


def _end_by_signals() -> None:
    """Let SIGTERM end this process, whatever it is doing.

    Importing paddle has put its own handlers in place; and while it waits for its peers it holds
    the interpreter's lock, so that no handler and no thread in Python could run.
    """
    paddle.disable_signal_handler()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _nccl_version() -> str | None:
    number = getattr(core, "nccl_version", lambda: 0)()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number > 9999 else None


def count_parameters(layer: Any, *, statistics: bool = False) -> int:
    """Trained parameters; with batch norm's statistics, which Paddle also calls so, if asked."""
    counted = [parameter for parameter in layer.parameters() if parameter.trainable or statistics]
    return sum(int(np.prod(parameter.shape)) for parameter in counted)


def run(work: loop.Work, settings: Settings, train: Callable[[PaddleRun], None]) -> None:
    """Run one rank from its start line to its last; `train` takes the steps."""
    here = open_session(settings)
    if work.sharded is not None and here.scales and here.place.world_size > 1:
        # An overflow in one rank's shard would make that rank alone leave out its step.
        refuse("--amp-dtype fp16 with a sharded layer runs on one rank only; use bf16 or none")
    with here:
        options = dict(work.options(here))
        if flags := here.set_flags(work.flags):
            options["flags"] = flags
        journal, files = loop.begin(work, here, options)
        train(PaddleRun(work, here, journal, files))


class PaddleRun(loop.Run[PaddleSession]):
    """A run of Paddle."""

    norms = (nn.BatchNorm1D, nn.BatchNorm2D, nn.SyncBatchNorm)
    dropouts = (nn.Dropout, nn.Dropout2D)

    def count_parameters(self) -> int:
        return count_parameters(self.bare, statistics=self.work.statistics_are_parameters)

    def prepare(self) -> None:
        work, here = self.work, self.here
        here.amp_lists = dict(work.amp_lists)
        if work.sharded is not None:
            self.sharded = work.sharded(here)
        self.train_mode()
        layers: Sequence[Any] = [self.model] if self.sharded is None else [self.model, self.sharded]
        self.optimizer = paddle.optimizer.Momentum(
            learning_rate=self.schedule(0),
            momentum=work.momentum,
            weight_decay=work.weight_decay,
            parameters=[parameter for layer in layers for parameter in layer.parameters()],
            use_multi_tensor=here.settings.fused_optimizer,
        )
        self.scaler = here.scaler(work.initial_scale)
        if work.static_scale is not None and here.scales:
            scale = paddle.to_tensor([work.static_scale], dtype="float32")
            # As the scaler's own; what it finds is not asked for.
            unscale = _C_ops.check_finite_and_unscale_
            self.scaler = loop.FixedScaler(scale, self.bare.parameters(), unscale)

    def layers(self) -> Any:
        return self.model.sublayers()

    def set_rate(self, lr: float) -> None:
        self.optimizer.set_lr(lr)
