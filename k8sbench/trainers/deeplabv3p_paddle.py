"""DeepLabV3P on Paddle: PaddleSeg's model, or mmsegmentation's for a comparison of equals.

`--recipe paddleseg` is the report's Paddle side: NCHW in FP32 and, as there, NHWC in mixed
precision. `--recipe matched` trains the model, crop, layout, optimizer and losses of the PyTorch
side, in mixed precision in its types, and reads a step's values where that does, so that only the
framework differs (and on several GPUs the layer that synchronises batch norm, which is Paddle's
own). `--data DIR` is Cityscapes, augmented as the recipe's upstream does it, and evaluated on whole
pictures at a single scale. What differs from upstream: our code; random weights to begin with,
unless `--weights` gives others; and mIoU is the mean over the classes that occur, of which
PaddleSeg at the report's commit counts the others as 0 (in Cityscapes all occur).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

if not __package__:  # run as a file: the package's folder is the root of imports, not this one
    sys.path[0] = str(Path(__file__).absolute().parents[2])

from k8sbench.trainers.parts import ending, machine, segmentation, settings

DEFAULTS = settings.Defaults(
    benchmark="deeplabv3p",
    recipes=("paddleseg", "matched"),
    batch_size=2,
    batch_size_amp=4,
    iterations=80,
    workers=8,
    recipe_workers={"matched": (2, 4)},
    speed_options=settings.PADDLE_SPEED_OPTIONS,
    flat_sum_amp=("matched",),
    channels_last_amp=("paddleseg",),  # script/run_fp16.sh; run_fp32.sh says NCHW
)
AUXILIARY_WEIGHT = 0.4
# The benchmark's own switches, beside cuDNN's search for algorithms (script/run_fp32.sh).
FLAGS = {
    "FLAGS_conv_workspace_size_limit": 2000,
    "FLAGS_cudnn_batchnorm_spatial_persistent": True,
}
# PaddleSeg's train.py: what joins Paddle's own lists in fp16, and the scaler's first scale.
# Paddle 2.6 has the resizing on its list already. `matched` runs in half precision what PyTorch
# does: left to Paddle's lists, resizing, depthwise convolutions and what they feed would be FP32,
# and biases would be added in FP32.
AMP_LISTS = {
    "paddleseg": {
        "custom_white_list": {"elementwise_add", "batch_norm", "sync_batch_norm"},
        "custom_black_list": {"bilinear_interp_v2"},
    },
    "matched": {"custom_white_list": {"bilinear_interp_v2", "depthwise_conv2d", "elementwise_add"}},
}
INITIAL_SCALE = 1024.0
MATCHED_SCALE = 512.0  # fixed, as the PyTorch side has it
# (base rate, last rate, weight decay): benchmark/deeplabv3p.yml of PaddleSeg, schedule_80k.py of
# mmsegmentation. Both have momentum 0.9.
RULES = {"paddleseg": (0.01, 0.0, 4e-5), "matched": (0.01, 1e-4, 5e-4)}


def main(argv: Sequence[str] | None = None) -> None:
    """Train with the options in `argv`."""
    read = settings.read("deeplabv3p_paddle", __doc__, DEFAULTS, segmentation.add_options, argv)
    common, own = read
    machine.before_paddle(common)

    import paddle

    from k8sbench.trainers.data import cityscapes
    from k8sbench.trainers.models import deeplab_paddle
    from k8sbench.trainers.parts import loop, metrics, paddle_session

    network: Any = deeplab_paddle.DeepLabV3P
    augmented, normalise = cityscapes.paddleseg, cityscapes.PADDLESEG_NORMALISE
    if common.recipe == "matched":
        network = deeplab_paddle.MmsegDeepLab
        augmented, normalise = cityscapes.mmseg, cityscapes.MMSEG_NORMALISE
    augment = partial(augmented, crop=own.crop)
    layout = "NHWC" if common.channels_last else "NCHW"
    base, last, weight_decay = RULES[common.recipe]
    losses_of = losses(common.recipe, layout)
    # Where the twin on PyTorch reads them, so that the frameworks are compared and not the order.
    reads_early = common.recipe == "matched"

    def train(run: paddle_session.PaddleRun) -> None:
        for step in run.steps():
            run.set_rate(step.lr)
            with run.here.autocast():
                found = losses_of(run.model, step.inputs, step.targets)
            printed = run.values(**found)
            if reads_early:
                run.read(printed)
            run.scaler.scale(found["loss"]).backward()
            run.sum_gradients(step)
            run.scaler.step(run.optimizer)
            run.scaler.update()
            run.optimizer.clear_grad()
            if not reads_early:
                run.read(printed)

    paddle_session.run(
        loop.Work(
            unit="samples",
            model=lambda here: network(
                own.classes, layout=here.layout, width_divisor=own.width_divisor
            ),
            samples=cityscapes.Scenes(own.crop, own.classes, common.seed, augment),
            files=partial(cityscapes.open_set, augment=augment, classes=own.classes),
            evaluation=lambda _: metrics.score_pixels(
                own.classes, predicted(layout), paddle.bincount
            ),
            normalise=normalise,
            momentum=0.9,
            weight_decay=weight_decay,
            schedule=segmentation.schedule(own, base, last),
            sync_bn=True,
            amp_types=segmentation.DEEPLABV3PLUS if common.recipe == "matched" else {},
            norm_batch=2,
            mean_values=common.recipe == "matched",
            statistics_are_parameters=common.recipe == "paddleseg",
            flags=FLAGS,
            amp_lists=AMP_LISTS[common.recipe] if common.amp_dtype is not None else {},
            static_scale=MATCHED_SCALE if common.recipe == "matched" else None,
            initial_scale=INITIAL_SCALE,
            options=lambda _: segmentation.start_values(own),
        ),
        common,
        train,
    )


def predicted(layout: str) -> Callable[[Any, Any], Any]:
    """The class of each pixel, of (model, images): both models resize their logits themselves."""
    return lambda model, images: model(images).argmax(1 if layout == "NCHW" else -1)


def losses(recipe: str, layout: str) -> Callable[[Any, Any, Any], dict[str, Any]]:
    """The recipe's losses of (model, images, labels), for logits in `layout`."""
    import paddle
    from paddle.nn import functional as F

    axis = 1 if layout == "NCHW" else -1

    def each_pixel(logits: Any, labels: Any) -> Any:
        return F.softmax_with_cross_entropy(
            logits, labels.unsqueeze(axis), ignore_index=segmentation.IGNORE, axis=axis
        )

    def paddleseg(model: Any, images: Any, labels: Any) -> dict[str, Any]:
        loss = each_pixel(model(images), labels)
        counted = (labels != segmentation.IGNORE).astype("float32").unsqueeze(axis)
        # The mean over the pixels with a class; the others add 0 already, and upstream masks them.
        return {"loss": (loss * counted).mean() / (counted.mean() + 1e-5)}

    def matched(model: Any, images: Any, labels: Any) -> dict[str, Any]:
        values = {}
        heads = zip(("decode", "aux"), (1.0, AUXILIARY_WEIGHT), model(images), strict=True)
        for name, weight, given in heads:
            # mmsegmentation's mean is over all pixels, also those without a class (which add 0).
            values[f"{name}.loss_seg"] = weight * each_pixel(given, labels).mean()
            _, best = given.detach().topk(1, axis=axis)
            hits = (best.squeeze(axis) == labels).astype("float32")
            values[f"{name}.acc_seg"] = 100.0 * hits.mean()
        with paddle.amp.auto_cast(enable=False):  # which has the addition in half precision
            return {**values, "loss": values["decode.loss_seg"] + values["aux.loss_seg"]}

    return matched if recipe == "matched" else paddleseg


if __name__ == "__main__":
    ending.run(main)
