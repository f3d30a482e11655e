"""DeepLabV3+ on PyTorch with mmsegmentation's model, losses, optimizer and log line.

What differs from upstream: our code, synthetic data, and mixed precision by autocast with a fixed
scale of 512 (mmsegmentation 0.11 kept a half-precision copy of the model at the same scale).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from k8sbench.trainers.parts import ending, lines, schedules, settings

if TYPE_CHECKING:
    from k8sbench.trainers.parts.torch_loop import Outcome

DEFAULTS = settings.Defaults(
    benchmark="deeplabv3p",
    recipes=("mmseg",),
    batch_size=2,
    batch_size_amp=4,
    warmup=20,
    iterations=80,
    log_interval=10,
    workers=2,
)
# configs/_base_/schedules/schedule_80k.py and models/deeplabv3plus_r50-d8.py of mmsegmentation
BASE_LR, LAST_LR, POWER = 0.01, 1e-4, 0.9
MOMENTUM, WEIGHT_DECAY = 0.9, 5e-4
LOSS_SCALE = 512.0


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Train as the arguments say."""
    common, own = settings.read("deeplabv3p_pytorch", __doc__, DEFAULTS, _options, argv)

    from k8sbench.trainers.data.streets_torch import Streets
    from k8sbench.trainers.models import deeplabv3plus_torch
    from k8sbench.trainers.parts import torch_loop

    height, width = own.crop
    base = BASE_LR if own.lr is None else own.lr
    return torch_loop.train(
        torch_loop.Work(
            unit="samples",
            model=lambda: deeplabv3plus_torch.DeepLabV3Plus(own.classes),
            samples=Streets(height, width, own.classes, common.seed),
            losses=deeplabv3plus_torch.losses,
            groups=lambda model: model.parameters(),
            momentum=MOMENTUM,
            weight_decay=WEIGHT_DECAY,
            schedule=schedules.poly(
                base,
                own.schedule_steps or common.warmup + common.iterations,
                power=POWER,
                minimum=min(LAST_LR, base),
            ),
            line=lines.mmseg,
            sync_bn=True,
            norm_batch=2,
            static_scale=LOSS_SCALE,
            ddp={"broadcast_buffers": False},
            frozen_norm=own.frozen_norm,
            options={
                "crop": f"{height}x{width}",
                "classes": own.classes,
                "frozen_norm": own.frozen_norm,
            },
        ),
        common,
    )


def _options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--crop", type=settings.size, default=(512, 1024), help="HEIGHTxWIDTH (default: 512x1024)"
    )
    group.add_argument("--classes", type=settings.whole(2), default=19, help="default: 19")
    group.add_argument(
        "--schedule-steps",
        type=settings.whole(0),
        default=0,
        help="steps over which the learning rate falls (default: 0 = warm-up and measured steps)",
    )
    settings.add_check_options(group)


if __name__ == "__main__":
    ending.run(main)
