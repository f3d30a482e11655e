"""Features of one framework: PyTorch's gradients and groups, Paddle's refusal."""

import math
from typing import Any

import pytest

from k8sbench.trainers import tsm
from k8sbench.trainers.data.pictures import Pictures
from tests.trainers.checks import SIZES, run, toy
from tests.trainers.runs import Captured, losses, part, refusal

pytestmark = [
    pytest.mark.tier("frameworks"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]


def test_gradients_are_unscaled_before_they_are_clipped(
    capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clipped while scaled by 16, they would be a sixteenth after unscaling."""
    session = part("pytorch").TorchSession
    scaler = session.scaler
    monkeypatch.setattr(session, "scaler", lambda here, _: scaler(here, 16.0))

    def clipped(norm: float, *options: str) -> list[float]:
        monkeypatch.setattr(tsm, "CLIP_NORM", norm)
        length = ("--batch-size", "2", "--warmup", "0", "--iterations", "3", "--log-interval", "1")
        checks = ("--frozen-norm", "--no-dropout", "--device", "cpu", "--threads", "1")
        shape = (*SIZES["tsm"], "--lr", "0.0001")
        return losses(run(capfd, "tsm", *shape, *length, *checks, *options))

    plain = clipped(0.5)
    assert clipped(0.5, "--amp-dtype", "fp16") == pytest.approx(plain, rel=0.01)
    assert clipped(math.inf) != pytest.approx(plain, rel=0.05)
    assert abs(plain[2] - plain[0]) > 0.02 * plain[0], "three steps that change nothing"


@pytest.mark.parametrize(
    ("options", "work"),
    [
        ((), {}),
        (("--amp-dtype", "fp16"), {}),
        (("--amp-dtype", "fp16"), {"static_scale": 128.0}),
    ],
)
def test_gradients_of_two_batches_change_the_weights_as_those_of_one_twice_as_large(
    options: tuple[str, ...], work: dict[str, Any], capfd: Captured
) -> None:
    from torch import nn

    class Noise(Pictures):
        def decoded(self, index: int) -> Any:
            return self.ready(index)

    def trained(*batch: str, **more: Any) -> tuple[list[float], list[Any]]:
        model: Any = None

        def made(_: Any) -> Any:
            nonlocal model
            model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4))
            return model

        shared = ("--data", "synthetic-host", "--workers", "0", *options, *batch)
        found = toy(
            capfd, "pytorch", *shared, **work, **more, model=made, samples=Noise(8, 4, seed=0)
        )
        return losses(found), [weight.detach().numpy() for weight in model.parameters()]

    each, weights = trained("--batch-size", "2", "--iterations", "8", accumulate=2)
    whole, expected = trained("--batch-size", "4", "--iterations", "4")
    # What is printed is each batch's own loss.
    assert [(a + b) / 2 for a, b in zip(each[::2], each[1::2], strict=True)] == pytest.approx(
        whole, rel=0.01 if options else 1e-5
    )
    for found, told in zip(weights, expected, strict=True):
        assert found == pytest.approx(told, abs=0.002 if "fp16" in options else 1e-5)


def test_each_parameter_group_learns_at_its_own_rate(capfd: Captured) -> None:
    """TSM's classifier learns 5× as fast, its bias 10×; factor 0 freezes."""

    def changes(of_weight: float, of_bias: float) -> tuple[Any, Any]:
        held: list[tuple[Any, Any]] = []

        def groups(model: Any) -> list[dict[str, Any]]:
            both = model[1].weight, model[1].bias
            held.extend((parameter, parameter.detach().clone()) for parameter in both)
            rates = zip(both, (of_weight, of_bias), strict=True)
            return [{"params": [parameter], "lr_mult": rate} for parameter, rate in rates]

        toy(capfd, "pytorch", "--iterations", "1", groups=groups)
        weight, bias = (parameter.detach() - before for parameter, before in held)
        return weight, bias

    weight, bias = changes(1.0, 1.0)
    still, fast = changes(0.0, 10.0)
    assert weight.abs().max() > 0
    assert still.abs().max() == 0
    assert fast.allclose(10.0 * bias, rtol=1e-3)


def test_a_machine_without_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    words = ["-m", "k8sbench.trainers.deeplabv3p_paddle", "--device", "cuda"]
    assert "Paddle sees no GPU" in refusal("paddle", words)
