"""Parts of the segmentation trainers; imports no framework."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from k8sbench.trainers.parts import settings, steps
from k8sbench.trainers.parts.steps import Course, Schedule

POWER = 0.9
STEPS = 80_000  # of upstream's training, of which --mode throughput measures the first
IGNORE = 255  # the label of pixels that belong to no class

# Two runs in mixed precision may leave different operations in FP32, and then one has more to
# compute than the other. So a model that both frameworks train states its types, and a ratio of the
# two is given only where they are equal. They follow from the frameworks' lists, as
# `tests/trainers/test_arithmetic.py` shows for both.
#
# Of each kind of operation in the forward pass and the loss the type or, where a kind has several,
# the number of operations of each. The shortcuts of 16 blocks are added in half precision, the two
# losses in FP32; two features are resized in half precision, the logits of two heads in FP32.
DEEPLABV3PLUS = {
    "activation": "{half}",
    "add": "16 {half} + 1 float32",
    "concat": "{half}",
    "conv": "{half}",
    "depthwise_conv": "{half}",
    "loss": "float32",
    "norm": "{half}",
    "pool": "{half}",
    "resize": "2 {half} + 2 float32",
}


def add_options(group: argparse._ArgumentGroup) -> None:
    """The trainers' own options."""
    group.add_argument(
        "--crop", type=settings.size, default=(512, 1024), help="HEIGHTxWIDTH (default: 512x1024)"
    )
    group.add_argument(
        "--classes",
        type=settings.whole(2, 255),  # 255 itself marks pixels without a class
        default=19,
        help="default: 19",
    )


def schedule(own: argparse.Namespace, base: float, last: float) -> Callable[[Course], Schedule]:
    """Polynomial decay from `base`, or the requested rate, to `last`."""
    first = base if own.lr is None else own.lr
    return lambda course: steps.poly(
        first, course.steps if course.trains else STEPS, power=POWER, minimum=min(last, first)
    )


def start_values(own: argparse.Namespace) -> dict[str, object]:
    """The own options as the start line has them."""
    return {"crop": "{}x{}".format(*own.crop), "classes": own.classes}
