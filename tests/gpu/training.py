"""Short trainings on the GPUs of this machine."""

from __future__ import annotations

import functools

from tests.gpu import LONG
from tests.trainers.checks import SIZES, length
from tests.trainers.runs import alone

STEPS = 40
# Rates at which the whole networks learn four samples by heart, and what share of the first loss
# stays. ResNet-50's smoothed labels leave a loss of 0.5 to a perfect network.
LEARNING = {
    "deeplabv3p_pytorch": (("--lr", "0.1"), 0.5),
    "resnet50": (("--lr", "0.01"), 0.35),
    "tsm": (("--lr", "0.0005"), 0.25),
    "gpt": (("--lr", "0.1"), 0.25),
}


@functools.cache
def run(trainer: str, amp: str) -> str:
    """Return the output of a trainer that repeats a few samples."""
    rates, _ = LEARNING[trainer]
    options = ("--device", "cuda", *length(STEPS), "--amp-dtype", amp)
    words = ["-m", f"k8sbench.trainers.{trainer}", *options, *SIZES[trainer], *rates]
    return alone(words, timeout=LONG)
