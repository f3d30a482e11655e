"""DeepLabV3+ on PyTorch with mmsegmentation's model, losses, optimizer and log line.

`--data DIR` is Cityscapes, augmented and evaluated as there: whole pictures at a single scale. What
differs from upstream: our code; random weights to begin with, unless `--weights` gives others; and
mixed precision by autocast with a fixed scale of 512 (mmsegmentation 0.11 kept a half-precision
copy of the model at the same scale). As there, the fixed scale is never checked for
overflow, which would bring the device to rest in every step, and the ranks sum all gradients at
once in FP32 after the backward pass: mmcv 1.2.7 halved the model after data parallelism had wrapped
it, whose own sums no longer took place then. `--overlap` sums them during the backward pass.
Synchronised batch norm is the framework's own layer, which waits for the device three times in
each layer and step.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

from k8sbench.trainers.parts import ending, machine, segmentation, settings

DEFAULTS = settings.Defaults(
    benchmark="deeplabv3p",
    recipes=("mmseg",),
    batch_size=2,
    batch_size_amp=4,
    iterations=80,
    workers=2,
    recipe_workers={"mmseg": (2, 4)},  # workers_per_gpu of the two configurations
    speed_options=settings.SPEED_OPTIONS,
    flat_sum_amp=("mmseg",),
    shares_gpu=True,
)
# configs/_base_/schedules/schedule_80k.py and models/deeplabv3plus_r50-d8.py of mmsegmentation
BASE_LR, LAST_LR = 0.01, 1e-4
MOMENTUM, WEIGHT_DECAY = 0.9, 5e-4
LOSS_SCALE = 512.0
POOL_TYPES = {"resize": "1 {half} + 2 float32"}  # of a pooled pixel that is broadcast


def main(argv: Sequence[str] | None = None) -> None:
    """Train with the options in `argv`."""
    read = settings.read("deeplabv3p_pytorch", __doc__, DEFAULTS, _options, argv)
    common, own = read
    machine.before_torch(common)

    import torch

    from k8sbench.trainers.data import cityscapes
    from k8sbench.trainers.models import deeplabv3plus_torch
    from k8sbench.trainers.parts import loop, metrics, torch_session

    augment = partial(cityscapes.mmseg, crop=own.crop)

    def train(run: torch_session.TorchRun) -> None:
        for step in run.steps():
            run.set_rate(step.lr)
            with run.here.autocast():
                losses = deeplabv3plus_torch.losses(run.model, step.inputs, step.targets)
            run.read(run.values(**losses))
            run.scaler.scale(losses["loss"]).backward()
            run.sum_gradients(step)
            run.scaler.step(run.optimizer)
            run.scaler.update()
            run.optimizer.zero_grad()

    torch_session.run(
        loop.Work(
            unit="samples",
            model=lambda _: deeplabv3plus_torch.DeepLabV3Plus(
                own.classes,
                width_divisor=own.width_divisor,
                broadcast_pool=own.broadcast_pool,
            ),
            samples=cityscapes.Scenes(own.crop, own.classes, common.seed, augment),
            files=partial(cityscapes.open_set, augment=augment, classes=own.classes),
            evaluation=lambda _: metrics.score_pixels(
                own.classes, deeplabv3plus_torch.predicted, torch.bincount
            ),
            normalise=cityscapes.MMSEG_NORMALISE,
            momentum=MOMENTUM,
            weight_decay=WEIGHT_DECAY,
            schedule=segmentation.schedule(own, BASE_LR, LAST_LR),
            sync_bn=True,
            amp_types=segmentation.DEEPLABV3PLUS | (POOL_TYPES if own.broadcast_pool else {}),
            norm_batch=2,
            mean_values=True,
            static_scale=LOSS_SCALE,
            ddp={"broadcast_buffers": False},
            options=lambda _: {
                **segmentation.start_values(own),
                "broadcast_pool": own.broadcast_pool,
            },
        ),
        common,
        train,
    )


def _options(group: argparse._ArgumentGroup) -> None:
    segmentation.add_options(group)
    group.add_argument(
        "--broadcast-pool",
        action="store_true",
        help="broadcast the pooled pixel in place of resizing it",
    )


if __name__ == "__main__":
    ending.run(main)
