"""The training loop of every PyTorch trainer.

A trainer describes its `Work`: a model, samples, a loss, an optimizer, a learning rate rule and
its family's log line. The loop does the rest in upstream's order of things and brings the device
to rest only where upstream does: where the step's values are read (before the backward pass in
mmsegmentation and TSM, after the step in NVIDIA's ResNet-50) and where a record ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import torch
from torch import Tensor, nn

from k8sbench.trainers.parts import torch_data
from k8sbench.trainers.parts.events import Journal
from k8sbench.trainers.parts.lines import Progress
from k8sbench.trainers.parts.schedules import Schedule
from k8sbench.trainers.parts.settings import Settings, refuse
from k8sbench.trainers.parts.steps import Meters, Record, StepPlan, StepTimer, Window
from k8sbench.trainers.parts.torch_session import Session, session

# PyTorch's own first scale; it halves itself until gradients are finite.
DYNAMIC_SCALE = 65536.0


@dataclass(frozen=True)
class Work:
    """What makes one trainer different from another."""

    unit: str
    model: Callable[[], nn.Module]
    samples: torch_data.Samples
    # Scalars in printing order; the one called "loss" is descended.
    losses: Callable[[nn.Module, Tensor, Tensor], Mapping[str, Tensor]]
    # Parameter groups as torch.optim takes them; a group's "lr_mult" (default 1) multiplies the
    # rate that the schedule gives.
    groups: Callable[[nn.Module], Iterable[Any]]
    momentum: float
    weight_decay: float
    schedule: Schedule
    line: Callable[[Progress], str]
    sync_bn: bool = False
    # The fewest samples that batch norm can take the statistics of: 2 where it sees one pixel.
    norm_batch: int = 1
    clip_norm: float | None = None
    # fp16 only: a fixed scale, or None for one that adapts.
    static_scale: float | None = None
    values_before_backward: bool = True
    # Whether the printed values are means over the ranks (a collective each step) or rank 0's.
    mean_values: bool = True
    sync_each_step: bool = False
    record_at: int = 0
    ddp: Mapping[str, Any] = field(default_factory=dict)
    # Batch norm in evaluation mode and no dropout: for checks of equality, not for measuring.
    frozen_norm: bool = False
    # Called with the bare model after every `evaluate_every` steps; its values are an event.
    evaluate: Callable[[Session, nn.Module], Mapping[str, float]] | None = None
    evaluate_every: int = 0
    # The trainer's own options, for the start line.
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a finished run leaves behind on one rank."""

    parameters: int
    window: Window
    final_loss: float


def train(work: Work, settings: Settings) -> Outcome:
    """Run one rank from its start line to its last."""
    with session(settings) as here:
        journal = Journal(settings, here.place, unit=work.unit)
        journal.start(
            framework="pytorch",
            framework_version=torch.__version__,
            device=here.device.type,
            precision_effective=here.precision_effective,
            options=work.options,
        )
        here.connect()
        journal.environment(here.environment())
        return _Run(work, settings, here, journal).to_its_end()


class _Run:
    def __init__(self, work: Work, settings: Settings, here: Session, journal: Journal) -> None:
        self.work, self.here, self.journal = work, here, journal
        here.seed()
        self.bare = work.model()
        self.parameters = sum(parameter.numel() for parameter in self.bare.parameters())
        self.model, self.sync_bn = here.prepare(self.bare, sync_bn=work.sync_bn, **work.ddp)
        sharing = settings.batch_size * (here.place.world_size if self.sync_bn else 1)
        if sharing < work.norm_batch and not work.frozen_norm:
            refuse(f"--batch-size must be at least {work.norm_batch} here: batch norm needs it")
        self.model.train()
        if work.frozen_norm:
            freeze_norm(self.model)
        self.optimizer = torch.optim.SGD(
            work.groups(self.bare),
            lr=work.schedule(0),
            momentum=work.momentum,
            weight_decay=work.weight_decay,
            fused=True if settings.fused_optimizer else None,
        )
        self.scaler = here.scaler(work.static_scale or DYNAMIC_SCALE)
        self.meters = Meters()
        self.last_loss = math.nan
        self.plan = StepPlan(
            warmup=settings.warmup,
            iterations=settings.iterations,
            log_interval=settings.log_interval,
            min_steady_seconds=settings.min_steady_seconds,
            record_at=work.record_at,
        )
        self.timer = StepTimer(self.plan, sync=here.sync, sync_each_step=work.sync_each_step)
        here.seed(1 + here.place.rank)  # ranks drop out different units

    def to_its_end(self) -> Outcome:
        here, timer = self.here, self.timer
        batches = torch_data.source(self.work.samples, here)
        timer.start()
        while timer.another(here.agree):
            inputs, targets = next(batches)
            timer.data_ready()
            lr = self.work.schedule(timer.steps)
            self.step(inputs, targets, lr)
            record = timer.step_done()
            if record is not None and here.place.first:
                self.report(record, lr)
            if self.work.evaluate_every and timer.steps % self.work.evaluate_every == 0:
                self.evaluate()
        return self.finish()

    def step(self, inputs: Tensor, targets: Tensor, lr: float) -> None:
        work, scaler, optimizer = self.work, self.scaler, self.optimizer
        for group in optimizer.param_groups:
            group["lr"] = lr * group.get("lr_mult", 1.0)
        with self.here.autocast():
            values = work.losses(self.model, inputs, targets)
        if work.values_before_backward:
            self.read(values)
        scaler.scale(values["loss"]).backward()  # type: ignore[no-untyped-call]
        if work.clip_norm is not None:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), work.clip_norm)
        scaler.step(optimizer)
        scaler.update(work.static_scale)
        optimizer.zero_grad()
        if not work.values_before_backward:
            self.here.sync()
            self.read(values)

    def read(self, values: Mapping[str, Tensor]) -> None:
        held = torch.stack([value.detach().float() for value in values.values()])
        if self.work.mean_values:
            held = self.here.mean(held)
        numbers = held.tolist()
        for name, number in zip(values, numbers, strict=True):
            self.meters.add(name, number)
            if name == "loss":
                self.last_loss = number

    def report(self, record: Record, lr: float) -> None:
        readings = self.meters.close()
        memory = self.here.memory_mib()
        self.journal.text(
            self.work.line(
                Progress(
                    at=datetime.now().astimezone(),
                    record=record,
                    batch_size_per_gpu=self.here.settings.batch_size,
                    world_size=self.here.place.world_size,
                    lr=lr,
                    values=readings,
                    memory_mib=memory,
                    grad_scale=self.scaler.get_scale(),
                )
            )
        )
        self.journal.step(record, loss=readings["loss"].mean, lr=lr, memory_mib=memory)

    def evaluate(self) -> None:
        if self.work.evaluate is None:
            return
        self.timer.hold("evaluation")
        self.bare.eval()
        values = self.work.evaluate(self.here, self.bare)
        self.model.train()
        if self.work.frozen_norm:
            freeze_norm(self.model)
        if self.here.place.first:
            self.journal.event("evaluation", {"step": self.timer.steps, **values})

    def finish(self) -> Outcome:
        here, timer, window = self.here, self.timer, self.timer.window()
        self.journal.rank(timer.step_seconds, timer.data_seconds)
        here.agree(0)  # the summary is the job's last line: wait for the other ranks' own
        if here.place.first:
            self.journal.summary(
                self.plan,
                window,
                steps=timer.steps,
                parameters=self.parameters,
                precision_effective=here.precision_effective,
                sync_bn=self.sync_bn,
                final_loss=self.last_loss,
                max_memory_mib=here.memory_mib(),
            )
        return Outcome(self.parameters, window, self.last_loss)


def freeze_norm(model: nn.Module) -> None:
    """Put batch norm and dropout into evaluation mode, and only them."""
    kinds = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
    for module in model.modules():
        if isinstance(module, kinds):
            module.eval()
