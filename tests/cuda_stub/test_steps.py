"""GPU use of training steps: types, flags, layouts, waits, copies, memory."""

import functools
import itertools
from typing import Any

import pytest

from tests.trainers.checks import SIZES
from tests.trainers.runs import Event, Job, in_turn, narrow, only
from tests.trainers.torch_checks import PRECISIONS, TRAINERS, upstreams_waits

LONG = 240.0
WATCHED = "from tests.harness.cuda_stub import watched\nwatched.watch()\n"
Case = tuple[str, str]
"""A trainer, and its precision or option."""
PICTURES = [trainer for trainer in TRAINERS if trainer != "gpt"]
CASES: list[Case] = list(itertools.product(PICTURES, PRECISIONS))
# The steps that are looked at, between two records but where upstream has one in each step.
STEPS = slice(2, 4)
LAYOUTS = {case: ["NCHW"] for case in CASES} | {("resnet50", "fp16"): ["NHWC"]}
"""Memory layouts of images and weights; only NVIDIA's AMP recipe has NHWC."""
# Peaks at full size of what tensors hold, in MiB. cuDNN's workspaces come on top of them.
MEMORY = {
    ("deeplabv3p_pytorch", "none"): 7203,
    ("deeplabv3p_pytorch", "fp16"): 7664,
    ("resnet50", "none"): 10797,
    ("resnet50", "fp16"): 5746,
    ("tsm", "none"): 13547,
    ("tsm", "fp16"): 7117,
}
CARD, LEFT = 32 * 2**30, 8 * 2**30
"""Bytes of the card, and what must be left for workspaces and the driver."""


def job(trainer: str, amp: str, *options: str) -> Job:
    """A short run on the stub's GPU."""
    interval = 1 if trainer == "resnet50" else 20
    length = f"--warmup {STEPS.start} --iterations 3 --log-interval {interval}".split()
    return (trainer, "--device", "cuda", "--amp-dtype", amp, *length, *options)


SMALL = ("--batch-size", "2", *SIZES["resnet50"], *narrow("resnet50"))
EFFECTS: dict[str, dict[str, list[Any]]] = {
    "--tf32": {"convolution tf32": [True], "product tf32": [True]},
    "--no-cudnn-benchmark": {"benchmark": [False]},
    "--channels-last": {"layouts": ["NHWC"]},
}
"""Option of speed → what the stub sees of it."""
JOBS: dict[Case, Job] = {
    **{case: job(*case) for case in CASES},
    **{("resnet50", option): job("resnet50", "none", option, *SMALL) for option in EFFECTS},
    ("resnet50", "loader"): job(
        "resnet50", "none", "--data", "synthetic-host", "--workers", "1", *SMALL
    ),
}
"""The cases at full size, and small runs with an option each."""


@functools.cache
def events_of() -> dict[Case, list[Event]]:
    """By case the events of its run, with an event `stub` among them.

    One process has them all: its imports take as long as the runs.
    """
    ran = in_turn([*JOBS.values()], 1, before=WATCHED, full_size=True, timeout=LONG)
    return {case: found for case, (found,) in zip(JOBS, ran, strict=True)}


def seen_of(trainer: str, what: str) -> dict[str, Any]:
    """Return the stub's records of a case."""
    found: dict[str, Any] = only(events_of()[trainer, what], "stub")[0]
    return found


every_case = pytest.mark.parametrize(("trainer", "amp"), CASES)


@every_case
def test_operators_have_the_types_and_flags_of_the_run(trainer: str, amp: str) -> None:
    """Forward and backward; TF32 is off, although PyTorch's own default for convolutions is on."""
    types, seen = {"none": ["float32"], "fp16": ["float16"]}[amp], seen_of(trainer, amp)
    assert seen["convolution types"] == types
    assert seen["convolution tf32"] == [False]
    assert seen["benchmark"] == [True]
    assert seen["layouts"] == LAYOUTS[trainer, amp]
    if trainer != "deeplabv3p_pytorch":  # which has no linear layer
        assert (seen["product types"], seen["product tf32"]) == (types, [False])


@every_case
def test_the_host_waits_for_the_device_as_often_as_upstream(trainer: str, amp: str) -> None:
    """Counts all of the runtime; no tensor is on the host."""
    reads, asked = upstreams_waits(trainer, amp)
    seen = seen_of(trainer, amp)
    for taken in seen["steps"][STEPS]:
        assert (taken["waits"], taken["in"], taken["out"]) == (reads + asked, 0, reads)
    assert not seen.get("operators on the host")


@every_case
def test_a_run_at_full_size_fits_a_card_of_32_gb(trainer: str, amp: str) -> None:
    *_, summary = events_of()[trainer, amp]
    assert summary["max_memory_mib"] == pytest.approx(MEMORY[trainer, amp], rel=0.03)
    assert seen_of(trainer, amp)["reserved"] < CARD - LEFT


def test_options_of_speed_reach_every_convolution_and_loaders_copy_from_pinned_memory() -> None:
    for option, effect in EFFECTS.items():
        seen = seen_of("resnet50", option)
        assert {name: seen[name] for name in effect} == effect
    reads, asked = upstreams_waits("resnet50", "none")
    for taken in seen_of("resnet50", "loader")["steps"][STEPS]:
        assert (taken["in"], taken["pageable"]) == (2, 0)  # pictures and labels
        assert taken["waits"] == reads + asked
