"""The Paddle sides: our trainers as they are, and a plain loop.

The plain loop is what one would write around the same model by hand: no timers, no meters, no log;
the host waits for the device where upstream's programs do, when the loss is read after the step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import paddle
from paddle import nn

from k8sbench.trainers.parts import (
    course,
    lines,
    paddle_data,
    paddle_loop,
    paddle_session,
    schedules,
    settings,
)
from k8sbench.trainers.parts.paddle_loop import Work
from k8sbench.trainers.parts.settings import Settings
from tests.bench.sides import taps
from tests.bench.sides.gate import Gate

Batches = Iterator[tuple[Any, Any]]


def ours(gate: Gate, trainer: str, options: Sequence[str]) -> None:
    """Run the trainer's own `main`, whose batches come through the gate."""
    main = taps.main_of(trainer, _noop)
    taps.gated(gate, paddle_data, lambda here: _connect(gate, here.on_gpu), lambda: main(options))


def plain(gate: Gate, trainer: str, options: Sequence[str]) -> None:
    """Run a plain loop around the trainer's model, data and optimizer settings."""
    main = taps.main_of(trainer, _noop)
    work, common = taps.described(paddle_loop, lambda: main(options))
    here = paddle_session.open_session(common)
    here.set_flags(work.flags)
    paddle.seed(common.seed)
    layers = [layer for layer in (work.model(here), work.sharded and work.sharded(here)) if layer]
    for layer in layers:
        layer.train()
    pairs = [work.samples.ready(index) for index in range(common.batch_size)]
    inputs, targets = (paddle.to_tensor(np.stack(each)) for each in zip(*pairs, strict=True))
    if common.channels_last:
        inputs = inputs.transpose([0, 2, 3, 1])
    _connect(gate, here.on_gpu)
    _loop(work, common, layers, gate.stream(itertools.repeat((inputs, targets))))


def _loop(work: Work, common: Settings, layers: Sequence[Any], batches: Batches) -> None:
    schedule = work.schedule(course.plan(common, work.epoch_samples, common.batch_size))
    rate = paddle.optimizer.lr.LambdaDecay(1.0, schedule)
    optimizer = paddle.optimizer.Momentum(
        learning_rate=rate,
        momentum=work.momentum,
        weight_decay=work.weight_decay,
        parameters=[parameter for layer in layers for parameter in layer.parameters()],
    )
    model, sharded = layers[0], layers[1] if len(layers) > 1 else None
    amp = common.amp_dtype is not None
    scaler = paddle.amp.GradScaler(
        enable=amp,
        init_loss_scaling=work.static_scale or work.initial_scale,
        use_dynamic_loss_scaling=work.static_scale is None,
    )
    for inputs, targets in batches:
        with paddle.amp.auto_cast(enable=amp, level="O1", dtype="float16", **work.amp_lists):
            loss = work.losses(model, sharded, inputs, targets)["loss"]
        if amp:
            scaled = scaler.scale(loss)
            scaled.backward()
            scaler.minimize(optimizer, scaled)
        else:
            loss.backward()
            optimizer.step()
        rate.step()
        optimizer.clear_grad()
        loss.numpy()


def _connect(gate: Gate, on_gpu: bool) -> None:
    if on_gpu:
        gate.sync, gate.empty_cache = paddle.device.synchronize, paddle.device.cuda.empty_cache
        gate.peak_memory = lambda: paddle.device.cuda.max_memory_allocated() / 1024 / 1024


class _Zeros:
    """A sample that is one number."""

    def ready(self, _: int) -> tuple[Any, Any]:
        return np.zeros(1, dtype="float32"), np.zeros(1, dtype="float32")

    decoded = ready


def _noop(options: Sequence[str]) -> None:
    """A trainer whose model is one multiplication, with the line of a family."""
    defaults = settings.Defaults(benchmark="no-op", recipes=("paddle",), batch_size=1)
    common, _ = settings.read("no-op", "", defaults, None, options)
    paddle_loop.train(
        Work(
            unit="samples",
            momentum=0.9,
            weight_decay=0.0,
            schedule=lambda _: schedules.poly(0.01, 10**9),
            line=lines.paddleseg,
            model=lambda _: nn.Linear(1, 1),
            samples=_Zeros(),
            losses=lambda model, _, inputs, targets: {"loss": model(inputs).sum()},
        ),
        common,
    )
