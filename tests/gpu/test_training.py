"""PyTorch's trainers by their command lines, in FP32 and in mixed precision."""

from __future__ import annotations

import json

import pytest

from tests.gpu import LONG
from tests.gpu.training import LEARNING, STEPS, run
from tests.harness import children
from tests.trainers import operation_types
from tests.trainers.checks import MATCHED, SIZES, learns, stated
from tests.trainers.runs import alone, events, in_turn, losses
from tests.trainers.torch_checks import TRAINERS

pytestmark = pytest.mark.timeout(2 * LONG)


@pytest.mark.parametrize("amp", ["none", "fp16"])
@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_trainer_overfits_four_samples_and_tells_its_story(trainer: str, amp: str) -> None:
    factor = LEARNING[trainer][1]
    learns(run(trainer, amp), trainer, steps=STEPS, factor=factor, device="cuda", amp=amp)


def test_deeplab_computes_in_the_types_that_it_states() -> None:
    words = ("deeplabv3p_pytorch", *SIZES["deeplabv3p_pytorch"], "--device", "cuda")
    short = ("--batch-size", "4", "--warmup", "0", "--iterations", "1", "--amp-dtype", "fp16")
    text = alone(["-c", children.calling(operation_types.train, *words, *short)], timeout=LONG)
    assert stated(events(text))["types"] == json.loads(text.splitlines()[-1]) == MATCHED


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
