"""The training step of every Paddle trainer.

Upstream's order of things: forward, backward, optimizer step, then the step's values are read,
which brings the device to rest once per step, as PaddleSeg and PLSC do. A recipe that is PyTorch's
twin reads them where that does, so that the frameworks are compared and not the order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import paddle
from paddle import _C_ops, nn

from k8sbench.trainers.parts import loop
from k8sbench.trainers.parts.paddle_session import (
    Session,
    count_parameters,
    open_session,
)
from k8sbench.trainers.parts.settings import Settings, refuse

# Paddle's own first scale; it halves itself until gradients are finite.
DYNAMIC_SCALE = 65536.0


@dataclass(frozen=True, kw_only=True)
class Work(loop.Work):
    """Definition of one Paddle trainer."""

    # Of (model, sharded, inputs, targets): scalars in printing order; "loss" is descended.
    losses: Callable[[Any, Any, Any, Any], Mapping[str, Any]]
    # A layer of which every rank trains a part of its own.
    sharded: Callable[[Session], Any] | None = None
    # Whether upstream counts batch norm's statistics among the model's parameters.
    statistics_are_parameters: bool = False
    # Paddle's own switches, as upstream sets them; on GPUs only.
    flags: Mapping[str, object] = field(default_factory=dict)
    # Additions to the lists of operators that AMP takes or leaves.
    amp_lists: Mapping[str, Any] = field(default_factory=dict)
    # fp16 only: where a scale that adapts begins.
    initial_scale: float = DYNAMIC_SCALE
    # The trainer's own options, for the start line.
    options: Callable[[Session], Mapping[str, object]] = lambda _: {}


def train(work: Work, settings: Settings) -> None:
    """Run one rank from its start line to its last."""
    with open_session(settings) as here:
        if work.sharded is not None and here.scales and here.place.world_size > 1:
            # An overflow in one rank's shard would make that rank alone leave out its step.
            refuse("--amp-dtype fp16 with a sharded layer runs on one rank only; use bf16 or none")
        options = dict(work.options(here))
        if flags := here.set_flags(work.flags):
            options["flags"] = flags
        journal, files = loop.begin(work, here, options)
        _Run(work, here, journal, files).to_its_end()


class _Run(loop.Loop[Work, Session]):
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
        self.fixed_scale: Any = None
        if here.scales and work.static_scale is not None:
            self.fixed_scale = paddle.to_tensor([work.static_scale], dtype="float32")

    def layers(self) -> Any:
        return self.model.sublayers()

    def step(self, inputs: Any, targets: Any, lr: float) -> None:
        self.optimizer.set_lr(lr)
        with self.here.autocast():
            values = self.work.losses(self.model, self.sharded, inputs, targets)
        if self.work.values_before_backward:
            self.read(values)
        fixed = self.fixed_scale
        loss = values["loss"]
        (self.scaler.scale(loss) if fixed is None else loss * fixed).backward()
        if self.here.sums_at_once:
            with paddle.no_grad():  # else Paddle refuses to change a gradient where it is
                self.here.average(self.gradients())
        if fixed is None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            # One operation for all, as the scaler's own; what it finds is not asked for.
            _C_ops.check_finite_and_unscale_(self.gradients(), fixed)
            self.optimizer.step()
        self.optimizer.clear_grad()
        if not self.work.values_before_backward:
            self.read(values)

    def read(self, values: Mapping[str, Any]) -> None:
        printed = paddle.stack([value.detach().astype("float32") for value in values.values()])
        self.keep(tuple(values), self.mean_over_ranks(printed).tolist())
