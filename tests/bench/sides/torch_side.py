"""The PyTorch sides: our trainers as they are, and a plain loop per trainer.

A plain loop is what one would write around the same model by hand: no timers, no meters, no log;
the host waits for the device where upstream's program does, and nowhere else.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from k8sbench.trainers.parts import course, lines, schedules, settings, torch_data, torch_loop
from k8sbench.trainers.parts.settings import Settings
from k8sbench.trainers.parts.torch_loop import Work
from tests.bench.sides import taps
from tests.bench.sides.gate import Gate

Batches = Iterator[tuple[Tensor, Tensor]]


def ours(gate: Gate, trainer: str, options: Sequence[str]) -> None:
    """Run the trainer's own `main`, whose batches come through the gate."""
    main = taps.main_of(trainer, _noop)
    taps.gated(gate, torch_data, lambda here: _connect(gate, here.device), lambda: main(options))


def plain(gate: Gate, trainer: str, options: Sequence[str]) -> None:
    """Run a plain loop around the trainer's model, data and optimizer settings."""
    main = taps.main_of(trainer, _noop)
    work, common = taps.described(torch_loop, lambda: main(options))
    _run(gate, work, common, LOOPS[common.recipe])


def _run(gate: Gate, work: Work, common: Settings, loop: Callable[[Plain, Batches], None]) -> None:
    device = torch.device("cuda" if common.device == "cuda" else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = common.cudnn_benchmark
    if common.threads:
        torch.set_num_threads(common.threads)
    torch.manual_seed(common.seed)
    pairs = [work.samples.ready(index) for index in range(common.batch_size)]
    inputs, targets = (torch.stack(each).to(device) for each in zip(*pairs, strict=True))
    made = Plain(work, common, device)
    _connect(gate, device)
    loop(made, gate.stream(itertools.repeat((inputs, targets))))


class Plain:
    """Model, optimizer and, in fp16, scaler; nothing else."""

    def __init__(self, work: Work, common: Settings, device: torch.device) -> None:
        self.work = work
        self.schedule = work.schedule(course.plan(common, work.epoch_samples, common.batch_size))
        self.model = work.model().to(device).train()
        self.optimizer = torch.optim.SGD(
            work.groups(self.model),
            lr=self.schedule(0),
            momentum=work.momentum,
            weight_decay=work.weight_decay,
        )
        self.amp = common.amp_dtype is not None
        self.device = device
        scale = work.static_scale or 65536.0
        self.scaler = GradScaler(device.type, init_scale=scale, enabled=self.amp)

    def forward(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        amp = torch.autocast(self.device.type, torch.float16) if self.amp else _nothing
        with amp:
            return dict(self.work.losses(self.model, inputs, targets))

    def set_rate(self, step: int) -> None:
        rate = self.schedule(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("lr_mult", 1.0)

    def update(self, loss: Tensor, clip: float | None = None) -> None:
        if not self.amp:
            loss.backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(self.model.parameters(), clip)
            self.optimizer.step()
            return
        scale = self.work.static_scale
        if scale is not None:  # as upstream, in good faith
            (loss * scale).backward()
            found = (parameter.grad for parameter in self.model.parameters())
            torch._foreach_div_([gradient for gradient in found if gradient is not None], scale)
            self.optimizer.step()
            return
        self.scaler.scale(loss).backward()
        if clip is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()


_nothing = contextlib.nullcontext()


def mmseg(made: Plain, batches: Batches) -> None:
    """mmsegmentation reads each value of the step before the backward pass."""
    for step, (images, labels) in enumerate(batches):
        made.set_rate(step)
        values = made.forward(images, labels)
        for value in values.values():
            value.item()
        made.optimizer.zero_grad()
        made.update(values["loss"])


def dle(made: Plain, batches: Batches) -> None:
    """NVIDIA's ResNet-50 waits for the device after the step, then reads the loss."""
    for step, (images, labels) in enumerate(batches):
        made.set_rate(step)
        loss = made.forward(images, labels)["loss"]
        made.update(loss)
        made.optimizer.zero_grad()
        if made.device.type == "cuda":
            torch.cuda.synchronize()
        loss.item()


def tsm(made: Plain, batches: Batches) -> None:
    """TSM reads loss and accuracies before the backward pass, and changes its rate by the epoch."""
    for clips, labels in batches:
        values = made.forward(clips, labels)
        for value in values.values():
            value.item()
        made.update(values["loss"], clip=made.work.clip_norm)
        made.optimizer.zero_grad()


LOOPS = {"mmseg": mmseg, "dle": dle, "kinetics": tsm}


def _connect(gate: Gate, device: torch.device) -> None:
    if device.type == "cuda":
        gate.sync, gate.empty_cache = torch.cuda.synchronize, torch.cuda.empty_cache
        gate.peak_memory = lambda: torch.cuda.max_memory_allocated() / 1024 / 1024


class _Zeros:
    """A sample that is one number."""

    def ready(self, _: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(1), torch.zeros(1)

    decoded = ready


def _noop(options: Sequence[str]) -> None:
    """A trainer whose model is one multiplication, with the values and the line of a family."""
    defaults = settings.Defaults(benchmark="no-op", recipes=("mmseg", "dle"), batch_size=1)
    common, _ = settings.read("no-op", "", defaults, None, options)
    many = common.recipe == "mmseg"
    names = ("decode.loss_seg", "decode.acc_seg", "aux.loss_seg", "aux.acc_seg", "loss")

    def losses(model: nn.Module, inputs: Tensor, _: Tensor) -> dict[str, Tensor]:
        loss: Tensor = model(inputs).sum()
        return dict.fromkeys(names, loss) if many else {"loss": loss}

    torch_loop.train(
        Work(
            unit="samples",
            momentum=0.9,
            weight_decay=0.0,
            schedule=lambda _: schedules.poly(0.01, 10**9),
            line=lines.mmseg if many else lines.dle_resnet50,
            model=lambda: nn.Linear(1, 1),
            samples=_Zeros(),
            losses=losses,
            groups=lambda model: model.parameters(),
            values_before_backward=many,
            sync_each_step=not many,
        ),
        common,
    )
