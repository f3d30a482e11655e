"""What the steps of trainers ask of a GPU: types, flags, layouts, waits, copies and memory."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest

from tests.trainers.checks import SIZES, sums_up
from tests.trainers.runs import (
    END,
    Event,
    Job,
    in_turn,
    only,
    ranks,
)
from tests.trainers.torch_checks import PRECISIONS, TRAINERS, meeting, upstreams_waits

LONG = 240.0
WATCHED = "from tests.harness.cuda_stub import watched\nwatched.watch()\n"
Case = tuple[str, str]
"""A trainer and its precision."""
CASES: list[Case] = list(itertools.product(TRAINERS, PRECISIONS))
# The steps that are looked at, between two records but where upstream has one in each step. In its
# first ten steps PyTorch's data parallelism times itself, for which it waits.
STEPS = {1: slice(2, 4), 2: slice(11, 13)}
LAYOUTS = {case: ["NCHW"] for case in CASES} | {("resnet50", "fp16"): ["NHWC"]}
"""How images and weights lie in memory: NVIDIA's own recipe alone has NHWC, in AMP alone."""
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


def job(trainer: str, amp: str, *options: str, warmup: int = STEPS[1].start) -> Job:
    """A short run on the stub's GPU."""
    interval = 1 if trainer == "resnet50" else 20
    length = f"--warmup {warmup} --iterations 3 --log-interval {interval}".split()
    return (trainer, "--device", "cuda", "--amp-dtype", amp, *length, *options)


def run(jobs: list[Job], world_size: int, **how: bool) -> list[list[list[Event]]]:
    """The events of each job's ranks, with an event `stub` among them."""
    return in_turn(jobs, world_size, before=WATCHED, timeout=LONG, **how)


@functools.cache
def events_of(world_size: int) -> dict[Case, list[list[Event]]]:
    """By case the events of each rank: of one at full size, of two small ones on one GPU."""
    if world_size == 1:
        runs = run([job(*case) for case in CASES], 1, full_size=True)
    else:
        shared, warmup = ("--share-gpu", "--batch-size", "2"), STEPS[2].start
        jobs = [job(*case, *shared, *SIZES[case[0]], warmup=warmup) for case in CASES]
        runs = run(jobs, 2)
    return dict(zip(CASES, runs, strict=True))


def seen_of(case: Case, world_size: int) -> list[dict[str, Any]]:
    """What the stub saw of each rank."""
    return [only(events, "stub")[0] for events in events_of(world_size)[case]]


every_case = pytest.mark.parametrize(("trainer", "amp"), CASES)
on_one_and_two_ranks = pytest.mark.parametrize(
    "world_size", [1, pytest.param(2, marks=pytest.mark.soak)]
)


@every_case
@on_one_and_two_ranks
def test_convolutions_and_products_have_the_types_and_flags_of_the_run(
    trainer: str, amp: str, world_size: int
) -> None:
    """Forward and backward; TF32 is off, although PyTorch's own default for convolutions is on."""
    types = {"none": ["float32"], "fp16": ["float16"]}[amp]
    for seen in seen_of((trainer, amp), world_size):
        assert seen["convolution types"] == types
        assert seen["convolution tf32"] == [False]
        assert seen["benchmark"] == [True]
        assert seen["layouts"] == LAYOUTS[trainer, amp]
        if trainer != "deeplabv3p_pytorch":  # which has no linear layer
            assert (seen["product types"], seen["product tf32"]) == (types, [False])


@every_case
@on_one_and_two_ranks
def test_the_host_waits_for_the_device_as_often_as_upstream_and_no_more(
    trainer: str, amp: str, world_size: int
) -> None:
    """Whoever asks for it: all that the runtime counts in the program's own threads."""
    reads, asked = upstreams_waits(trainer, amp)
    for seen in seen_of((trainer, amp), world_size):
        for taken in seen["steps"][STEPS[world_size]]:
            assert taken["waits"] == reads + asked
            if world_size == 1:  # gloo copies, for it sums up on the host
                assert (taken["in"], taken["out"]) == (0, reads)


@every_case
@on_one_and_two_ranks
def test_no_tensor_of_a_step_is_on_the_host(trainer: str, amp: str, world_size: int) -> None:
    by_gloo = {"aten.copy_.default"} if world_size == 2 else set()
    for seen in seen_of((trainer, amp), world_size):
        assert set(seen.get("operators on the host", ())) <= by_gloo


@every_case
def test_a_run_at_full_size_fits_a_card_of_32_gb(trainer: str, amp: str) -> None:
    ((*_, summary),) = events_of(1)[trainer, amp]
    assert summary["max_memory_mib"] == pytest.approx(MEMORY[trainer, amp], rel=0.03)
    (seen,) = seen_of((trainer, amp), 1)
    assert seen["reserved"] < CARD - LEFT


@pytest.mark.soak
def test_two_ranks_share_the_gpu_over_gloo_and_synchronise_batch_norm_where_upstream_does() -> None:
    for (trainer, _), (first, second) in events_of(2).items():
        assert (first[0]["world_size"], second[0]["rank"]) == (2, 1)
        assert only(first, "environment")[0]["backend"] == "gloo"
        synced = "SyncBatchNorm" if trainer == "deeplabv3p_pytorch" else "BatchNorm"
        assert first[-1]["norm"] == synced


def test_options_of_speed_reach_every_convolution_and_loaders_copy_from_pinned_memory() -> None:
    effects: dict[str, dict[str, list[Any]]] = {
        "--tf32": {"convolution tf32": [True], "product tf32": [True]},
        "--no-cudnn-benchmark": {"benchmark": [False]},
        "--channels-last": {"layouts": ["NHWC"]},
    }
    small = ("--batch-size", "2", *SIZES["resnet50"])
    loaded = job("resnet50", "none", "--data", "synthetic-host", "--workers", "1", *small)
    jobs = [*(job("resnet50", "none", option, *small) for option in effects), loaded]
    *switched, fed = (only(events, "stub")[0] for (events,) in run(jobs, 1))
    for effect, seen in zip(effects.values(), switched, strict=True):
        assert {name: seen[name] for name in effect} == effect
    reads, asked = upstreams_waits("resnet50", "none")
    for taken in fed["steps"][STEPS[1]]:
        assert (taken["in"], taken["pageable"]) == (2, 0)  # pictures and labels
        assert taken["waits"] == reads + asked


def test_ranks_meet_and_sum_up_over_gloo() -> None:
    for rank in meeting("cuda", 2, "--share-gpu", timeout=LONG):
        assert (rank["backend"], rank["sum"], rank["agreed"]) == ("gloo", [3.0] * 8, 7)
    assert sums_up("pytorch", "cuda", "--share-gpu", timeout=LONG)


NORMS = (
    """
import torch
from k8sbench.trainers.parts import settings, torch_session
from k8sbench.trainers.parts.torch_sync_norm import synchronise

defaults = settings.Defaults(benchmark="b", recipes=("v",), batch_size=1, shares_gpu=True)
options = ["--device", "cuda", "--share-gpu"]
here = torch_session.open_session(settings.read("b", "", defaults, None, options)[0])
here.connect()
for of_input, of_norm in (("float64", "float64"), ("float32", "float32"), ("float16", "float32")):
    norm = torch.nn.BatchNorm2d(5, dtype=getattr(torch, of_norm))
    layer = synchronise(torch.nn.Sequential(norm)).to(here.device)
    x = torch.zeros(3, 5, 3, 7, dtype=getattr(torch, of_input), device=here.device)
    y = layer(x.requires_grad_())
    y.backward(torch.ones_like(y))
    print("NORM", y.dtype, x.grad.dtype, norm.weight.grad.dtype)
"""
    + END
)


def test_synchronised_batch_norm_takes_every_type_that_pytorchs_kernels_take() -> None:
    for text in ranks(["-c", NORMS], 2, timeout=LONG):
        lines = [line for line in text.splitlines() if line.startswith("NORM")]
        assert lines == [
            "NORM torch.float64 torch.float64 torch.float64",
            "NORM torch.float32 torch.float32 torch.float32",
            "NORM torch.float16 torch.float16 torch.float32",
        ]
