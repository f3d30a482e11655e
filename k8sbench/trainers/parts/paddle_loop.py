"""The training loop of every Paddle trainer.

A trainer describes its `Work`: layers, samples, a loss, an optimizer, a learning rate rule and its
family's log line. The loop does the rest in upstream's order of things: forward, backward,
optimizer step, then the step's values are read, which brings the device to rest once per step, as
PaddleSeg and PLSC do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import paddle
from paddle import nn

from k8sbench.trainers.parts import paddle_data
from k8sbench.trainers.parts.events import Journal
from k8sbench.trainers.parts.lines import Progress
from k8sbench.trainers.parts.paddle_session import Session, count_parameters, session
from k8sbench.trainers.parts.schedules import Schedule
from k8sbench.trainers.parts.settings import Settings
from k8sbench.trainers.parts.steps import Meters, Record, StepPlan, StepTimer, Window

# Paddle's own first scale; it halves itself until gradients are finite.
DYNAMIC_SCALE = 65536.0
NORMS = (nn.BatchNorm1D, nn.BatchNorm2D, nn.SyncBatchNorm)
DROPOUTS = (nn.Dropout, nn.Dropout2D)


@dataclass(frozen=True)
class Work:
    """What makes one trainer different from another."""

    unit: str
    # The data parallel model.
    model: Callable[[Session], Any]
    samples: paddle_data.Samples
    # Of (model, sharded, inputs, targets): scalars in printing order; "loss" is descended.
    losses: Callable[[Any, Any, Any, Any], Mapping[str, Any]]
    momentum: float
    weight_decay: float
    schedule: Schedule
    line: Callable[[Progress], str]
    # A layer of which every rank trains a part of its own, and the size of the whole.
    sharded: Callable[[Session], Any] | None = None
    sharded_parameters: int = 0
    sync_bn: bool = False
    # Whether upstream counts batch norm's statistics among the model's parameters.
    statistics_are_parameters: bool = False
    # Paddle's own switches, as upstream sets them; on GPUs only.
    flags: Mapping[str, object] = field(default_factory=dict)
    # Additions to the lists of operators that AMP takes or leaves, and fp16's first scale.
    amp_lists: Mapping[str, Any] = field(default_factory=dict)
    initial_scale: float = DYNAMIC_SCALE
    record_at: int = 0
    # Batch norm in evaluation mode, no dropout, printed values are means over the ranks: for
    # checks of equality, not for measuring.
    frozen_norm: bool = False
    # Called with the bare model after every `evaluate_every` steps; its values are an event.
    evaluate: Callable[[Session, Any], Mapping[str, float]] | None = None
    evaluate_every: int = 0
    # The trainer's own options, for the start line.
    options: Callable[[Session], Mapping[str, object]] = lambda _: {}


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
        flags = here.set_flags(work.flags)
        journal.start(
            framework="paddle",
            framework_version=paddle.__version__,
            device=here.device_kind,
            precision_effective=here.precision_effective,
            options={**work.options(here), **({"flags": flags} if flags else {})},
        )
        here.connect()
        journal.environment(here.environment())
        return _Run(work, settings, here, journal).to_its_end()


class _Run:
    def __init__(self, work: Work, settings: Settings, here: Session, journal: Journal) -> None:
        self.work, self.here, self.journal = work, here, journal
        here.amp_lists = dict(work.amp_lists)
        here.seed()
        self.bare = work.model(here)
        self.trained = count_parameters(self.bare)
        self.parameters = (
            count_parameters(self.bare, statistics=True)
            if work.statistics_are_parameters
            else self.trained
        )
        self.model, self.sync_bn = here.prepare(self.bare, sync_bn=work.sync_bn)
        self.sharded = work.sharded(here) if work.sharded is not None else None
        self.train_mode()
        layers: Sequence[Any] = [self.model] if self.sharded is None else [self.model, self.sharded]
        self.optimizer = paddle.optimizer.Momentum(
            learning_rate=work.schedule(0),
            momentum=work.momentum,
            weight_decay=work.weight_decay,
            parameters=[parameter for layer in layers for parameter in layer.parameters()],
            use_multi_tensor=settings.fused_optimizer,
        )
        self.scaler = here.scaler(work.initial_scale)
        self.meters = Meters()
        self.last_loss = math.nan
        self.plan = StepPlan(
            warmup=settings.warmup,
            iterations=settings.iterations,
            log_interval=settings.log_interval,
            min_steady_seconds=settings.min_steady_seconds,
            record_at=work.record_at,
        )
        self.timer = StepTimer(self.plan, sync=here.sync)
        here.seed(1 + here.place.rank)  # ranks drop out different units

    def train_mode(self) -> None:
        self.model.train()
        if self.work.frozen_norm:
            freeze_norm(self.model)

    def to_its_end(self) -> Outcome:
        here, timer = self.here, self.timer
        batches = paddle_data.source(self.work.samples, here)
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

    def step(self, inputs: Any, targets: Any, lr: float) -> None:
        self.optimizer.set_lr(lr)
        with self.here.autocast():
            values = self.work.losses(self.model, self.sharded, inputs, targets)
        self.scaler.scale(values["loss"]).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.clear_grad()
        self.read(values)

    def read(self, values: Mapping[str, Any]) -> None:
        held = paddle.stack([value.detach().astype("float32") for value in values.values()])
        if self.work.frozen_norm:
            held = self.here.mean(held)
        for name, number in zip(values, held.tolist(), strict=True):
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
        self.train_mode()
        if self.here.place.first:
            self.journal.event("evaluation", {"step": self.timer.steps, **values})

    def finish(self) -> Outcome:
        here, timer, window = self.here, self.timer, self.timer.window()
        more = {"trained_parameters": self.trained}
        if self.sharded is not None:
            more["sharded_parameters"] = self.work.sharded_parameters
        self.journal.rank(timer.step_seconds, timer.data_seconds)
        here.wait_for_all()  # the summary is the job's last line, after the other ranks' own
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
                more=more,
            )
        return Outcome(self.parameters, window, self.last_loss)


def freeze_norm(model: Any) -> None:
    """Put batch norm and dropout into evaluation mode, and only them."""
    for layer in model.sublayers():
        if isinstance(layer, (*NORMS, *DROPOUTS)):
            layer.eval()
