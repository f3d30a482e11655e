"""PyTorch's trainers by their command lines, in FP32 and in mixed precision."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence

import pytest

from tests.gpu import LONG
from tests.trainers import operation_types
from tests.trainers.checks import (
    MATCHED,
    SIZES,
    learns,
    length,
    loaders_feed_a_gpu,
    options_change_no_loss,
    stated,
)
from tests.trainers.runs import Event, Job, alone, events, in_turn, losses
from tests.trainers.torch_checks import TRAINERS, upstreams_waits, waits

pytestmark = pytest.mark.timeout(2 * LONG)

STEPS = 40
# Rates at which the whole networks learn four samples by heart, and what share of the first loss
# stays. ResNet-50's smoothed labels leave a loss of 0.5 to a perfect network.
LEARNING = {
    "deeplabv3p_pytorch": (("--lr", "0.1"), 0.5),
    "resnet50": (("--lr", "0.01"), 0.35),
    "tsm": (("--lr", "0.0005"), 0.25),
}


@functools.cache
def run(trainer: str, amp: str) -> str:
    """What a trainer prints that takes its few samples again and again."""
    rates, _ = LEARNING[trainer]
    options = ("--device", "cuda", *length(STEPS), "--amp-dtype", amp)
    words = ["-m", f"k8sbench.trainers.{trainer}", *options, *SIZES[trainer], *rates]
    return alone(words, timeout=LONG)


@pytest.mark.parametrize("amp", ["none", "fp16"])
@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_trainer_overfits_four_samples_and_tells_its_story(trainer: str, amp: str) -> None:
    factor = LEARNING[trainer][1]
    learns(run(trainer, amp), trainer, steps=STEPS, factor=factor, device="cuda", amp=amp)


def test_deeplab_computes_in_the_types_that_it_states() -> None:
    words = ("deeplabv3p_pytorch", *SIZES["deeplabv3p_pytorch"], "--device", "cuda")
    short = ("--batch-size", "4", "--warmup", "0", "--iterations", "1", "--amp-dtype", "fp16")
    text = alone(["-c", operation_types.PROGRAM, *words, *short], timeout=LONG)
    assert stated(events(text))["types"] == json.loads(text.splitlines()[-1]) == MATCHED


def test_a_gradient_scaler_is_at_work_in_fp16() -> None:
    assert "train.grad_scale : 128.00000" in run("resnet50", "fp16")
    assert "train.grad_scale : 1.00000" in run("resnet50", "none")


def test_the_host_waits_for_the_device_as_often_as_upstream_and_no_more() -> None:
    """Waits that PyTorch itself finds, whoever asks for them; it does not count those by name."""
    for (trainer, amp), steps in waits("cuda", timeout=LONG).items():
        reads, asked = upstreams_waits(trainer, amp)
        for taken in steps:
            told = taken.get("reads"), taken.get("waits", 0), taken.get("device", 0)
            assert told == (reads, asked, reads), (trainer, amp)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_an_option_of_speed_changes_no_loss_and_is_reported(trainer: str) -> None:
    def each(jobs: Sequence[Job]) -> list[list[Event]]:
        words = [(*job, "--device", "cuda") for job in jobs]
        return [found for (found,) in in_turn(words, 1, timeout=LONG)]

    both = ("--channels-last", "--fused-optimizer")
    variants = [("--channels-last",), ("--fused-optimizer",), both, ("--no-cudnn-benchmark",)]
    options_change_no_loss(trainer, variants, each)


def test_a_compiled_model_gives_the_losses_of_a_plain_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = str(tmp_path_factory.mktemp("compiled"))
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, folder)
    three = ("--warmup", "0", "--iterations", "3", "--log-interval", "1", "--batch-size", "2")
    shared = ("--device", "cuda", "--frozen-norm", *three, *SIZES["resnet50"], "--lr", "1e-5")
    plain, compiled = in_turn(
        [("resnet50", *shared), ("resnet50", *shared, "--compile")], 1, timeout=1.8 * LONG
    )
    assert compiled[0][0]["options"] == {**plain[0][0]["options"], "compile": True}
    assert losses(compiled[0]) == pytest.approx(losses(plain[0]), rel=1e-3)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_loader_processes_feed_a_gpu(trainer: str) -> None:
    loaders_feed_a_gpu(trainer, timeout=LONG)
