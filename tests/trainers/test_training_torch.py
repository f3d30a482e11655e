"""A trainer that does not learn is not a benchmark: each overfits a handful of fixed samples.

Tiny pictures and narrow networks, upstream's loop: loss, optimizer, precision and lines are those
of a full run.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
from typing import Any

import pytest

from k8sbench.app import catalog
from tests.trainers.either_checks import noted_runs
from tests.trainers.torch_checks import (
    SIZES,
    STEEP,
    TRAINERS,
    learns,
    options_change_no_loss,
    rounding,
    tells_its_device,
)
from tests.trainers.torch_runs import (
    Captured,
    Event,
    events,
    losses,
    narrow,
    only,
    output,
    run,
)

__all__ = ["narrow"]  # a fixture
pytestmark = pytest.mark.tier("frameworks")

RATES = {
    "deeplabv3p_pytorch": ("--lr", "0.1"),
    "resnet50": ("--lr", "0.05"),
    "tsm": ("--lr", "0.0005"),
}
TINY = {trainer: (*SIZES[trainer], *RATES[trainer]) for trainer in TRAINERS}
# Steps, and the share of the first loss that the last one stays below. ResNet-50's smoothed labels
# leave a loss of 0.5 to a perfect network.
LEARNING = {"deeplabv3p_pytorch": (14, 0.5), "resnet50": (14, 0.4), "tsm": (20, 0.25)}


@pytest.mark.parametrize("amp", ["none", "bf16"])
@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_trainer_overfits_four_samples_and_tells_its_story(
    trainer: str, amp: str, narrow: None, capfd: Captured
) -> None:
    steps, factor = LEARNING[trainer]
    length = ("--warmup", "1", "--iterations", str(steps - 1), "--log-interval", "1")
    options = ("--batch-size", "4", "--seed", "5", "--amp-dtype", amp)
    text = output(capfd, trainer, *TINY[trainer], *length, *options)
    learns(text, trainer, amp=amp, steps=steps, factor=factor)
    tells_its_device(events(text), "cpu")


def test_fp16_uses_a_gradient_scaler(narrow: None, capfd: Captured) -> None:
    """On a CPU half precision is slow, but it takes the same way through the scaler."""
    length = ("--batch-size", "4", "--warmup", "0", "--iterations", "1")
    text = output(capfd, "resnet50", *SIZES["resnet50"], *length, "--amp-dtype", "fp16")
    assert "train.grad_scale : 128.00000" in text


def test_loader_processes_feed_a_run_and_their_wait_is_reported(
    narrow: None, capfd: Captured
) -> None:
    options = ("--batch-size", "2", "--warmup", "1", "--iterations", "2", "--workers", "1")
    found = run(capfd, "resnet50", *TINY["resnet50"], *options, "--data", "synthetic-host")
    assert only(found, "start")[0]["data"] == "synthetic-host"
    for step in only(found, "step"):
        assert 0 < step["data_seconds"] < step["seconds"]
    assert multiprocessing.active_children() == []  # nor what they had in shared memory


def test_an_option_of_speed_changes_no_loss_and_is_reported() -> None:
    without_effect = ("--no-cudnn-benchmark", "--tf32")
    options_change_no_loss("cpu", [("--channels-last", *without_effect), ("--fused-optimizer",)])


def test_options_of_speed_have_their_effect(
    capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from torch import nn

    from k8sbench.trainers.parts import torch_loop

    runs = noted_runs(monkeypatch, torch_loop)

    def model(_: Any) -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    switches = ("--channels-last", "--fused-optimizer", "--no-cudnn-benchmark")
    for options, on in ((("--no-channels-last",), False), (switches, True)):
        toy(capfd, *options, model=model)
        run = runs.pop()
        weight = run.bare[0].weight
        assert weight.is_contiguous(memory_format=torch.channels_last) is on
        assert bool(run.optimizer.defaults["fused"]) is on
        assert torch.backends.cudnn.benchmark is not on


# CI gives each of its workers one core.
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_as_many_loader_processes_are_at_work_as_were_asked_for(capfd: Captured) -> None:
    from torch import nn

    seen = set()

    def losses(model: nn.Module, images: Any, labels: Any) -> dict[str, Any]:
        seen.add(len(multiprocessing.active_children()))
        return {"loss": nn.functional.cross_entropy(model(images), labels)}

    toy(capfd, "--data", "synthetic-host", "--workers", "2", losses=losses)
    assert seen == {2}


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_compiled_model_gives_the_losses_of_a_plain_one(
    trainer: str, narrow: None, capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model's program is caught, in one graph for each of its modes, and run as it is: to make
    code of it takes minutes and a compiler (the next test does so for one layer).
    """
    from torch import nn

    graphs = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compile_ = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", lambda model: compile_(model, backend=backend))
    length = ("--batch-size", "2", "--warmup", "0", "--iterations", "3", "--log-interval", "1")
    options = (*STEEP[trainer], *length, "--frozen-norm")
    plain = run(capfd, trainer, *options)
    compiled = run(capfd, trainer, *options, "--compile")
    assert len(graphs) == 1
    assert plain[0]["options"]["compile"] is False
    assert compiled[0]["options"] == {**plain[0]["options"], "compile": True}
    assert losses(compiled) == pytest.approx(losses(plain), rel=1e-6)


def test_products_are_exact_to_fp32() -> None:
    found = rounding("cpu")
    assert found["matmul"] < 1e-5
    assert found["convolution"] < 1e-5
    assert found["tf32"] is False


def toy(capfd: Captured, *argv: str, **work: Any) -> list[Event]:
    """Train one linear layer on two tiny pictures through the whole loop."""
    from torch import nn

    from k8sbench.trainers.data.pictures import NORMALISE, Pictures
    from k8sbench.trainers.parts import lines, settings, torch_loop

    def losses(model: nn.Module, images: Any, labels: Any) -> dict[str, Any]:
        return {"loss": nn.functional.cross_entropy(model(images), labels)}

    defaults = settings.Defaults(benchmark="toy", recipes=("v",), batch_size=2)
    options = ["--warmup", "0", "--iterations", "4", "--log-interval", "1", "--device", "cpu"]
    described: dict[str, Any] = {
        "unit": "images",
        "model": lambda _: nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4)),
        "samples": Pictures(8, 4, seed=0),
        "normalise": NORMALISE,
        "losses": losses,
        "groups": lambda model: model.parameters(),
        "momentum": 0.9,
        "weight_decay": 0.0,
        "schedule": lambda _: lambda _: 0.1,
        "line": lines.paddleseg,
    }
    capfd.readouterr()
    found, _ = settings.read("toy", "", defaults, None, [*options, *argv])
    torch_loop.train(torch_loop.Work(**(described | work)), found)
    return events(capfd.readouterr().out)


@pytest.mark.parametrize(
    ("amp", "kind"), [("none", "float32"), ("bf16", "bfloat16"), ("fp16", "float16")]
)
def test_the_forward_pass_runs_in_the_precision_asked_for(
    amp: str, kind: str, capfd: Captured
) -> None:
    import torch

    seen = set()

    def losses(model: Any, images: Any, labels: Any) -> dict[str, Any]:
        logits = model(images)
        seen.add(logits.dtype)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        assert loss.dtype is torch.float32
        return {"loss": loss}

    toy(capfd, "--amp-dtype", amp, losses=losses)
    assert seen == {getattr(torch, kind)}


def test_gradients_are_unscaled_before_they_are_clipped(capfd: Captured) -> None:
    """Clipped while scaled by 512, they would be next to nothing after unscaling."""
    plain = losses(toy(capfd, clip_norm=1.0))
    scaled = losses(toy(capfd, "--amp-dtype", "fp16", clip_norm=1.0, static_scale=512.0))
    unclipped = losses(toy(capfd))
    assert scaled == pytest.approx(plain, rel=0.01)
    assert unclipped != pytest.approx(plain, rel=0.05)


@pytest.mark.parametrize(
    ("options", "work"),
    [
        ((), {}),
        ((), {"clip_norm": 0.5}),
        (("--amp-dtype", "fp16"), {}),
        (("--amp-dtype", "fp16"), {"static_scale": 128.0}),
    ],
)
def test_gradients_of_two_batches_change_the_weights_as_those_of_one_twice_as_large(
    options: tuple[str, ...], work: dict[str, Any], capfd: Captured
) -> None:
    from torch import nn

    from k8sbench.trainers.data.pictures import Pictures

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
        found = toy(capfd, *shared, **work, **more, model=made, samples=Noise(8, 4, seed=0))
        return losses(found), [weight.detach().numpy() for weight in model.parameters()]

    each, weights = trained("--batch-size", "2", "--iterations", "8", accumulate=2)
    whole, expected = trained("--batch-size", "4", "--iterations", "4")
    # What is printed is each batch's own loss.
    assert [(a + b) / 2 for a, b in zip(each[::2], each[1::2], strict=True)] == pytest.approx(
        whole, rel=0.01 if options else 1e-5
    )
    for found, told in zip(weights, expected, strict=True):
        assert found == pytest.approx(told, abs=0.002 if "fp16" in options else 1e-5)


def overflowing(capfd: Captured, **work: Any) -> tuple[list[float], list[Any]]:
    """Four steps in fp16 whose second gradients are infinite: the scale after each step, and the
    weights before each and at the end.
    """
    from torch.nn.functional import cross_entropy

    scales: list[float] = []
    weights: list[Any] = []
    model: Any = None

    def losses(given: Any, images: Any, labels: Any) -> dict[str, Any]:
        nonlocal model
        model = given
        weights.append(model[1].weight.detach().clone())
        loss = cross_entropy(model(images), labels)
        return {"loss": loss * (math.inf if len(weights) == 2 else 0.01)}

    def line(progress: Any) -> str:
        scales.append(progress.grad_scale)
        return "a step"

    def rate(step: int) -> float:
        return 0.1 * (step + 1)

    options = ("--amp-dtype", "fp16")
    found = toy(capfd, *options, losses=losses, line=line, schedule=lambda _: rate, **work)
    told = [step["lr"] for step in only(found, "step")]
    assert told == pytest.approx([rate(step) for step in range(4)])
    return scales, [*weights, model[1].weight.detach()]


def test_an_overflow_leaves_its_step_out_and_halves_a_scale_that_adapts(capfd: Captured) -> None:
    found, weights = overflowing(capfd)
    assert found == [65536.0, *[32768.0] * 3]
    kept = [bool((after == before).all()) for before, after in itertools.pairwise(weights)]
    assert kept == [False, True, False, False]


def test_a_fixed_scale_takes_the_step_that_overflows(capfd: Captured) -> None:
    """As mmcv's and apex's: to ask would bring the device to rest."""
    scales, weights = overflowing(capfd, static_scale=512.0)
    assert scales == [512.0] * 4
    finite = [bool(weight.isfinite().all()) for weight in weights]
    assert finite == [True, True, False, False, False]


def test_each_parameter_group_learns_at_its_own_rate(capfd: Captured) -> None:
    """TSM's classifier learns 5 times as fast, its bias 10 times; by 0 it does not learn at all."""

    def changes(of_weight: float, of_bias: float) -> tuple[Any, Any]:
        held: list[tuple[Any, Any]] = []

        def groups(model: Any) -> list[dict[str, Any]]:
            both = model[1].weight, model[1].bias
            held.extend((parameter, parameter.detach().clone()) for parameter in both)
            rates = zip(both, (of_weight, of_bias), strict=True)
            return [{"params": [parameter], "lr_mult": rate} for parameter, rate in rates]

        toy(capfd, "--iterations", "1", groups=groups)
        weight, bias = (parameter.detach() - before for parameter, before in held)
        return weight, bias

    weight, bias = changes(1.0, 1.0)
    still, fast = changes(0.0, 10.0)
    assert weight.abs().max() > 0
    assert still.abs().max() == 0
    assert fast.allclose(10.0 * bias, rtol=1e-3)


@pytest.mark.parametrize(
    ("checked", "training"),
    [
        ((), (True, True)),
        (("--frozen-norm",), (False, False)),
        (("--no-dropout",), (True, False)),
    ],
)
def test_checks_freeze_dropout_and_batch_norm_as_far_as_they_say(
    checked: tuple[str, ...], training: tuple[bool, bool], capfd: Captured
) -> None:
    from torch import nn

    norm, dropout = nn.BatchNorm2d(3), nn.Dropout2d()
    model = nn.Sequential(norm, dropout, nn.Flatten(), nn.Linear(3 * 8 * 8, 4))
    toy(capfd, *checked, model=lambda _: model)
    assert model.training
    assert (norm.training, dropout.training) == training


def test_a_loss_that_is_not_a_number_is_reported_as_such(capfd: Captured) -> None:

    found = toy(capfd, schedule=lambda _: lambda _: 1e38)
    assert losses(found)[-1] == "nan"
    assert only(found, "summary")[0]["final_loss"] == "nan"


@pytest.mark.parametrize("name", ["resnet50", pytest.param("tsm", marks=pytest.mark.soak)])
def test_the_smoke_preset_learns_in_every_step(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = catalog.benchmark(name).spec
    variant = spec.default_variant("pytorch")
    assert variant is not None
    smoke = variant.smoke
    assert smoke is not None
    sizes = [f"--{option}={value}" for option, value in smoke.args.items()]
    length = (f"--warmup={smoke.warmup}", f"--iterations={smoke.iterations}", "--log-interval=1")
    found = losses(run(capfd, name, *sizes, *length, f"--batch-size={smoke.batch_size}"))
    assert len(found) == smoke.iterations + smoke.warmup
    assert min(found) > 0.001, "a loss of 0 leaves nothing to learn"
    assert min(found[-3:]) < found[0] / 2
