"""What Paddle's trainers must do on any device: asked here of a CPU, in `tests/gpu` of a GPU.

A device is named as on the command line: "cpu" or "cuda".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.trainers.either_checks import learned
from tests.trainers.paddle_runs import in_turn
from tests.trainers.torch_checks import FIVE
from tests.trainers.torch_runs import Event, Job, only

SIZES = {
    "deeplabv3p_paddle": ("--crop", "32x32", "--classes", "4"),
    "arcface": ("--size", "32", "--classes", "50"),
}
CROP = SIZES["deeplabv3p_paddle"]
FACES = (*SIZES["arcface"], "--lr", "0.01")
# Options, steps, and the share of the first loss that the last one stays below.
LEARNING: dict[str, tuple[str, Sequence[str], int, float]] = {
    "paddleseg": ("deeplabv3p_paddle", CROP, 40, 0.5),
    "matched": ("deeplabv3p_paddle", (*CROP, "--recipe", "matched", "--lr", "0.1"), 16, 0.5),
    "own head": ("arcface", (*FACES, "--head", "own"), 14, 0.1),
    "dense head": ("arcface", (*FACES, "--head", "dense"), 14, 0.1),
}
PADDLESEG = (
    r"[\d-]+ [\d:]+ \[INFO\]\t\[TRAIN\] epoch: 1, iter: (?P<number>\d+)/\d+, loss: \d+\.\d{4}, "
    r"lr: \d\.\d{6}, batch_cost: \d+\.\d{4}, reader_cost: \d+\.\d{5}, "
    r"ips: (?P<rate>\d+\.\d{4}) samples/sec \| ETA \d\d:\d\d:\d\d"
)
PLSC = (
    r"INFO [\d-]+ [\d:,]+ \S+:\d+\] Pass:0 batch:(?P<number>\d+) lr:\d\.\d{8} loss:\d+\.\d{6} "
    r"qps:(?P<rate>\d+\.\d\d)"
)


def length(steps: int) -> tuple[str, ...]:
    """The options of a run that `learns` can read."""
    each = ("--warmup", "1", "--iterations", str(steps - 1), "--log-interval", "1")
    return (*each, "--batch-size", "4", "--seed", "5")


def learns(
    text: str,
    trainer: str,
    *,
    steps: int,
    factor: float,
    device: str = "cpu",
    precision: str = "fp32",
) -> None:
    """A run of that length: its loss falls below `factor` of the first one, and its lines tell its
    whole story.
    """
    found = learned(text, steps=steps, factor=factor, device=device)
    start, summary = found[0], found[-1]
    assert start["framework"] == "paddle"
    assert (start["precision"], start["precision_effective"]) == (precision, precision)
    assert (summary["max_memory_mib"] is None) == (device == "cpu")

    shape, first = (PLSC, 0) if trainer == "arcface" else (PADDLESEG, 1)
    # Paddle's scaler tells of the steps that it leaves out, on stdout.
    others = ("K8SBENCH ", "Found inf or nan")
    printed = [line for line in text.splitlines() if not line.startswith(others)]
    for number, (line, step) in enumerate(zip(printed, only(found, "step"), strict=True)):
        match = re.fullmatch(shape, line)
        assert match is not None, line
        assert int(match["number"]) == number + first
        waited = step["data_seconds"] if trainer == "arcface" else 0.0
        rate = 4 / (step["seconds"] - waited)
        assert float(match["rate"]) == pytest.approx(rate, abs=0.006)  # two digits, however slow


# Rates at which five steps change the loss but keep it finite: with batch norm frozen at its start
# a network is a steep place. 7 classes: two ranks hold 4 and 3 of them.
STEEP: dict[str, Sequence[str]] = {
    "deeplabv3p_paddle": ("--crop", "32x32", "--classes", "5", "--lr", "0.01"),
    "arcface": ("--size", "16", "--classes", "7", "--lr", "0.001"),
}
# FP32 sums in another order; measured on a CPU: 2e-7 at most. Ranks that do not exchange gradients
# are off by 8e-3, a backbone whose gradients are averaged where they must be summed by 0.15.
FROZEN_TOLERANCE = 1e-5


def on_one_rank(jobs: Sequence[Job], device: str, *, timeout: float = 100.0) -> list[list[Event]]:
    """Five steps of each trainer with four samples; its events."""
    found = in_turn(_five_steps(jobs, device, "4"), 1, timeout=timeout)
    return [each for (each,) in found]


def on_two_ranks(
    jobs: Sequence[Job], device: str, *, before: str = "", timeout: float = 100.0
) -> list[list[list[Event]]]:
    """The same with two samples on each of two ranks; each rank's events."""
    return in_turn(_five_steps(jobs, device, "2"), 2, before=before, timeout=timeout)


def _five_steps(jobs: Sequence[Job], device: str, batch_size: str) -> list[Job]:
    shared = ("--device", device, "--threads", "1", *FIVE, "--batch-size", batch_size)
    return [(name, *shared, *options) for name, *options in jobs]
