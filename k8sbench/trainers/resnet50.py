"""ResNet-50 v1.5 on PyTorch with the settings of NVIDIA's DeepLearningExamples.

Recipe `dle` is upstream's own; `report` is what the report of 2020 ran: the same rate by other
words, less momentum, one epoch, a scale that adapts. Published is FP32 with 128 images per GPU,
which is the default for both precisions; upstream's own script for mixed precision has 256
(--batch-size 256). As upstream's, `dle` adds gradients up to a global batch of 2,048 before the
weights change, but only in --mode train: the report's runs, whose speed is compared, did not. What
differs from upstream: our code; the framework's loader and Pillow in place of DALI, see
`data/imagenet.py`; mixed precision by autocast instead of apex, whose fixed scale `dle` keeps and,
as apex, never checks for overflow; data parallelism by PyTorch instead of apex. In mixed precision
images lie as NHWC in `dle`, as in NVIDIA's later configuration, and as NCHW in `report`, as its
logs say. Steps are timed whole: upstream's `total_ips` leaves out its logging.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

from k8sbench.trainers.parts import ending, machine, settings, steps
from k8sbench.trainers.parts.events import RankPlace

DEFAULTS = settings.Defaults(
    benchmark="resnet50",
    recipes=("dle", "report"),
    batch_size=128,
    log_interval=1,
    workers=8,
    shares_gpu=True,
    # configs.yml of DeepLearningExamples (097c7ff9), memory_format. At the report's commit mixed
    # precision was NCHW: its logs say so.
    channels_last_amp=("dle",),
)
IMAGES = 1_281_167  # ImageNet's training set: an epoch, by which the learning rate changes
WEIGHT_DECAY = 1 / 32768
WARMUP_EPOCHS = 8
OPTIMIZER_BATCH = 2048  # --optimizer-batch-size of upstream's scripts for 8 GPUs
ONE_PIXEL = 32  # the largest input of which the last stage sees one pixel
# By recipe: base rate per sample of the global batch, momentum, epochs, loss scale, which is fixed
# and not checked for overflow, as by apex (none: one that adapts).
# dle: resnet50v1.5/training of DeepLearningExamples; report: single_node_train.sh of DLPerf.
RECIPES = {"dle": (0.256 / 256, 0.875, 90, 128.0), "report": (1 / 1000, 0.125, 1, None)}


def main(argv: Sequence[str] | None = None) -> None:
    """Train with the options in `argv`."""
    common, own = settings.read("resnet50", __doc__, DEFAULTS, _options, argv)
    machine.before_torch(common)

    from k8sbench.trainers.data import imagenet
    from k8sbench.trainers.data.pictures import NORMALISE, Pictures
    from k8sbench.trainers.models import resnet_torch
    from k8sbench.trainers.parts import loop, torch_session

    per_sample, momentum, epochs, scale = RECIPES[common.recipe]
    global_batch = common.batch_size * RankPlace.from_environment().world_size
    accumulate = own.accumulate
    if accumulate is None:
        adds_up = common.mode == "train" and common.recipe == "dle"
        accumulate = max(OPTIMIZER_BATCH // global_batch, 1) if adds_up else 1

    def train(run: torch_session.TorchRun) -> None:
        for step in run.steps():
            run.set_rate(step.lr)
            with run.gradients_of(step):
                with run.here.autocast():
                    loss = resnet_torch.loss(run.model(step.inputs), step.targets)
                printed = run.values(loss=loss)
                run.scaler.scale(loss / accumulate).backward()
            run.sum_gradients(step)
            if step.updates:
                run.scaler.step(run.optimizer)
                run.scaler.update()
                run.optimizer.zero_grad()
            run.read(printed)

    torch_session.run(
        loop.Work(
            unit="images",
            model=lambda _: resnet_torch.Classifier(own.classes, width_divisor=own.width_divisor),
            samples=Pictures(own.input_size, own.classes, common.seed),
            files=partial(imagenet.open_set, size=own.input_size, classes=own.classes),
            evaluation=lambda _: resnet_torch.evaluation(common.batch_size),
            normalise=NORMALISE,
            groups=partial(resnet_torch.decayed_and_not, decay=WEIGHT_DECAY),
            momentum=momentum,
            weight_decay=WEIGHT_DECAY,
            schedule=lambda course: steps.warmup_cosine(
                per_sample * global_batch * accumulate if own.lr is None else own.lr,
                warmup=WARMUP_EPOCHS,
                total=course.epochs if course.trains else epochs,
                per=course.epoch_steps,
            ),
            epoch_samples=IMAGES,
            accumulate=accumulate,
            static_scale=scale,
            mean_values=True,
            sync_each_step=True,
            ddp={"broadcast_buffers": False},  # upstream's data parallelism covers parameters only
            norm_batch=2 if own.input_size <= ONE_PIXEL else 1,
            options=lambda _: {
                "input_size": own.input_size,
                "classes": own.classes,
                "accumulate": accumulate,
            },
        ),
        common,
        train,
    )


def _options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--input-size", type=settings.whole(1), default=224, help="default: 224")
    group.add_argument("--classes", type=settings.whole(2), default=1000, help="default: 1000")
    group.add_argument(
        "--accumulate",
        type=settings.whole(1),
        default=None,
        metavar="N",
        help="batches whose gradients are added up before the weights change (default: 1; with "
        f"--mode train and recipe dle as many as {OPTIMIZER_BATCH} samples of all ranks hold)",
    )


if __name__ == "__main__":
    ending.run(main)
