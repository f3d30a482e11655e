"""TSM ResNet-50 on PyTorch with the settings of temporal-shift-module's Kinetics-400 script.

Upstream's program has one node and FP32 only. This one has, as the report's, AMP, whose gradients
are unscaled before they are clipped, and distributed data parallelism over nodes. The scaler begins
at PyTorch's own 65536 (the report's, by a mistake, at 1). The printed values are rank 0's own, as
upstream's are. What differs besides: our code; random weights to begin with, unless --weights has
ImageNet's, with which upstream begins; clips with broken frames, see `data/kinetics.py`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial

from k8sbench.trainers.parts import ending, machine, settings, steps
from k8sbench.trainers.parts.events import RankPlace

DEFAULTS = settings.Defaults(
    benchmark="tsm",
    recipes=("kinetics",),
    batch_size=16,
    warmup=100,
    iterations=200,
    log_interval=32,
    workers=16,
    shares_gpu=True,
)
CLIPS = 234_584  # Kinetics-400 as the report's checksum line counts it
LR_PER_CARD = 0.0025
LR_EPOCHS = (20, 40)
MOMENTUM, WEIGHT_DECAY = 0.9, 1e-4
CLIP_NORM = 20.0
ONE_PIXEL = 32  # the largest input of which the last stage sees one pixel


def main(argv: Sequence[str] | None = None) -> None:
    """Train with the options in `argv`."""
    common, own = settings.read("tsm", __doc__, DEFAULTS, _options, argv)
    machine.before_torch(common)

    from torch import nn

    from k8sbench.trainers.data import kinetics
    from k8sbench.trainers.data.pictures import NORMALISE, Pictures
    from k8sbench.trainers.models import resnet_torch
    from k8sbench.trainers.parts import loop, torch_session

    ranks = RankPlace.from_environment().world_size
    cards = ranks if own.lr_cards == "all" else int(os.environ.get("LOCAL_WORLD_SIZE", "1"))

    def train(run: torch_session.TorchRun) -> None:
        for step in run.steps():
            run.set_rate(step.lr)
            with run.here.autocast():
                losses = resnet_torch.clip_losses(run.model, step.inputs, step.targets)
            run.read(run.values(**losses))
            run.scaler.scale(losses["loss"]).backward()
            run.sum_gradients(step)
            run.scaler.unscale_(run.optimizer)
            nn.utils.clip_grad_norm_(run.model.parameters(), CLIP_NORM)
            run.scaler.step(run.optimizer)
            run.scaler.update()
            run.optimizer.zero_grad()

    torch_session.run(
        loop.Work(
            unit="clips",
            model=lambda _: resnet_torch.TSM(
                own.classes, own.segments, width_divisor=own.width_divisor
            ),
            samples=Pictures(own.input_size, own.classes, common.seed, own.segments),
            files=partial(
                kinetics.open_set, size=own.input_size, segments=own.segments, classes=own.classes
            ),
            evaluation=lambda _: resnet_torch.evaluation(common.batch_size),
            normalise=NORMALISE,
            groups=partial(resnet_torch.clip_groups, decay=WEIGHT_DECAY),
            momentum=MOMENTUM,
            weight_decay=WEIGHT_DECAY,
            schedule=lambda course: steps.stepped(
                LR_PER_CARD * cards if own.lr is None else own.lr,
                [epoch * course.epoch_steps for epoch in LR_EPOCHS],
            ),
            epoch_samples=CLIPS,
            norm_batch=2 if own.input_size <= ONE_PIXEL and own.segments == 1 else 1,
            options=lambda _: {
                "segments": own.segments,
                "input_size": own.input_size,
                "classes": own.classes,
                "lr_cards": own.lr_cards,
            },
        ),
        common,
        train,
    )


def _options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--segments", type=settings.whole(1), default=8, help="default: 8")
    group.add_argument("--input-size", type=settings.whole(1), default=224, help="default: 224")
    group.add_argument("--classes", type=settings.whole(2), default=400, help="default: 400")
    group.add_argument(
        "--lr-cards",
        choices=("node", "all"),
        default="node",
        help="the GPUs that the learning rate is multiplied by (default: node, as the report's "
        "launcher does)",
    )


if __name__ == "__main__":
    ending.run(main)
