"""The training step of every PyTorch trainer.

It follows upstream's order of things and brings the device to rest only where upstream does: where
the step's values are read (before the backward pass in mmsegmentation and TSM, after the step in
NVIDIA's ResNet-50) and where a record ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from k8sbench.trainers.parts import loop
from k8sbench.trainers.parts.settings import Settings
from k8sbench.trainers.parts.torch_session import Session, open_session

# PyTorch's own first scale; it halves itself until gradients are finite.
DYNAMIC_SCALE = 65536.0


@dataclass(frozen=True, kw_only=True)
class Work(loop.Work):
    """Definition of one PyTorch trainer."""

    # Scalars in printing order; the one called "loss" is descended.
    losses: Callable[[nn.Module, Tensor, Tensor], Mapping[str, Tensor]]
    # Parameter groups as torch.optim takes them; a group's "lr_mult" (default 1) multiplies the
    # rate that the schedule gives.
    groups: Callable[[nn.Module], Iterable[Any]]
    clip_norm: float | None = None
    # Steps whose gradients are averaged before the weights change.
    accumulate: int = 1
    # The trainer's own options, for the start line.
    options: Mapping[str, object] = field(default_factory=dict)


def train(work: Work, settings: Settings) -> None:
    """Run one rank from its start line to its last."""
    with open_session(settings) as here:
        journal, files = loop.begin(work, here, work.options)
        _Run(work, here, journal, files).to_its_end()


class _Run(loop.Loop[Work, Session]):
    norms = (nn.modules.batchnorm._BatchNorm,)
    dropouts = (nn.modules.dropout._DropoutNd,)

    def count_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.bare.parameters())

    def prepare(self) -> None:
        work, here = self.work, self.here
        self.train_mode()
        self.optimizer = torch.optim.SGD(
            work.groups(self.bare),
            lr=self.schedule(0),
            momentum=work.momentum,
            weight_decay=work.weight_decay,
            fused=True if here.settings.fused_optimizer else None,
        )
        self.scaler = here.scaler(work.static_scale or DYNAMIC_SCALE)

    def layers(self) -> Any:
        return self.model.modules()

    def step(self, inputs: Tensor, targets: Tensor, lr: float) -> None:
        work, scaler = self.work, self.scaler
        for group in self.optimizer.param_groups:
            group["lr"] = lr * group.get("lr_mult", 1.0)
        fixed = work.static_scale if scaler.is_enabled() else None
        whole = self.whole(self.timer.steps + 1)
        with contextlib.nullcontext() if whole else self.here.apart(self.model):
            with self.here.autocast():
                values = work.losses(self.model, inputs, targets)
            printed = torch.stack([value.detach().float() for value in values.values()])
            printed = self.mean_over_ranks(printed)
            if work.values_before_backward:
                self.keep(tuple(values), printed.tolist())
            loss = values["loss"]
            if work.accumulate > 1:
                loss = loss / work.accumulate
            (scaler.scale(loss) if fixed is None else loss * fixed).backward()
        if whole:
            if self.here.sums_at_once:
                self.here.average(self.gradients())
            self.descend(fixed)
        if not work.values_before_backward:
            self.keep(tuple(values), printed.tolist())

    def whole(self, step: int) -> bool:
        return step % self.work.accumulate == 0

    def descend(self, fixed: float | None) -> None:
        """Change the weights by the gradients, whose scale is `fixed` or the scaler's."""
        work, scaler, optimizer = self.work, self.scaler, self.optimizer
        if fixed is not None:
            torch._foreach_div_(self.gradients(), fixed)
        if work.clip_norm is not None:
            if fixed is None:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), work.clip_norm)
        if fixed is not None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()
