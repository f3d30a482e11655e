"""Paddle's trainers on a GPU that its last public wheel has kernels for."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tests.gpu import LONG, needs
from tests.trainers import runs
from tests.trainers.arcface_checks import agrees_with_the_definition
from tests.trainers.checks import (
    LEARNING,
    SIZES,
    computes_the_same,
    frozen,
    learns,
    length,
    on_ranks,
    sums_up,
)
from tests.trainers.runs import FRAMEWORKS, alone, events, losses, of, only

pytestmark = [
    pytest.mark.timeout(2 * LONG),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]

CASES = [case for case, (trainer, *_) in LEARNING.items() if FRAMEWORKS[trainer] == "paddle"]
# See test_ranks.
FROZEN_TOLERANCE = 2e-4
# Measured on a CPU: ranks with statistics of their own are off by 4e-3 to 9e-3.
TRAINING_TOLERANCE = 5e-4
SYNC_BN = [
    (
        *("deeplabv3p_paddle", "--recipe", "matched", "--crop", "16x16", "--classes", "5"),
        *("--lr", "0.03", "--no-dropout"),
    )
]


@pytest.fixture(scope="module")
def gpu() -> Any:
    """Paddle, set to the first GPU in this process."""
    runs.import_paddle()
    import paddle

    paddle.set_device("gpu:0")
    return paddle


@pytest.fixture
def two_gpus() -> None:
    """Paddle's gloo takes no tensors of a GPU, so two ranks cannot share one."""
    if needs.count("paddle") < 2:
        pytest.skip("one GPU: NCCL takes no two ranks on the same")


@functools.cache
def run(case: str, amp: str) -> str:
    """Return the output of a narrow trainer that repeats a few samples.

    Twice as long as on a CPU, since an adaptive scaler skips its first steps.
    """
    trainer, options, steps, _ = LEARNING[case]
    words = ("--device", "cuda", *SIZES[trainer], *options, *length(2 * steps), "--amp-dtype", amp)
    return alone(runs.program([(trainer, *words)]), timeout=LONG)


@pytest.mark.parametrize("head", ["margin", "own", "dense"])
def test_every_head_agrees_with_the_definition(gpu: Any, head: str) -> None:
    agrees_with_the_definition(head)


@pytest.mark.parametrize("amp", ["none", "fp16"])
@pytest.mark.parametrize("case", CASES)
def test_a_trainer_overfits_four_samples_and_tells_its_story(case: str, amp: str) -> None:
    trainer, _, steps, factor = LEARNING[case]
    learns(run(case, amp), trainer, steps=2 * steps, factor=factor, device="cuda", amp=amp)


def test_mixed_precision_has_effect_on_a_gpu() -> None:
    plain, amped = (losses(events(run("matched", amp))) for amp in ("none", "fp16"))
    assert amped[0] != plain[0]
    assert amped[0] == pytest.approx(plain[0], rel=0.02)


def test_two_ranks_compute_what_one_computes_with_twice_the_batch(two_gpus: None) -> None:
    """Also the fused head, whose shards NCCL ties together."""
    deeplab, arcface, _ = frozen("paddle")
    jobs = [deeplab, (*arcface, "--head", "margin")]
    both = on_ranks(jobs, 2, "cuda", timeout=LONG)
    for (one,), (first, _) in zip(on_ranks(jobs, 1, "cuda", timeout=LONG), both, strict=True):
        assert only(first, "environment")[0]["backend"] == "nccl"
        assert only(first, "environment")[0]["transport"]
        computes_the_same(one, first, FROZEN_TOLERANCE)


def test_synchronised_batch_norm_makes_two_ranks_equal_one(two_gpus: None) -> None:
    ((one,),) = on_ranks(SYNC_BN, 1, "cuda", timeout=LONG)
    ((first, _),) = on_ranks(SYNC_BN, 2, "cuda", timeout=LONG)
    assert (one[-1]["norm"], first[-1]["norm"]) == ("BatchNorm", "SyncBatchNorm")
    computes_the_same(one, first, TRAINING_TOLERANCE)


def test_a_vector_is_summed_up_and_timed(two_gpus: None) -> None:
    found = sums_up("paddle", "cuda", timeout=LONG)
    assert only(found, "environment")[0]["backend"] == "nccl"


def test_a_killed_rank_ends_the_job_and_is_named(two_gpus: None) -> None:
    pytest.importorskip("msgspec", reason="k8sbench itself, which reads the end, needs msgspec")
    from tests.trainers.killed_ranks import a_killed_rank_ends_its_job

    a_killed_rank_ends_its_job("paddle", "--device", "cuda")


@pytest.mark.parametrize("trainer", of("paddle"))
def test_loader_processes_feed_a_gpu(trainer: str) -> None:
    length = ("--warmup", "1", "--iterations", "3", "--log-interval", "1", "--batch-size", "2")
    source = ("--device", "cuda", "--data", "synthetic-host", "--workers", "2")
    words = (*length, *source, *SIZES[trainer])
    found = events(alone(["-m", f"k8sbench.trainers.{trainer}", *words], timeout=LONG))
    assert all(0 < step["data_seconds"] < step["seconds"] for step in only(found, "step"))
    assert found[-1]["status"] == "finished"
