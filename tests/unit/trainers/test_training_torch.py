"""A trainer that does not learn is not a benchmark: each overfits a handful of fixed samples.

Tiny pictures and narrow networks, upstream's loop: loss, optimizer, precision and lines are those
of a full run.
"""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from tests.unit.trainers.torch_runs import Event, events, losses, narrow, only, output, run

__all__ = ["narrow"]  # a fixture
pytestmark = pytest.mark.tier("frameworks")

TINY = {
    "deeplabv3p_pytorch": (
        *("--crop", "32x32", "--classes", "4", "--lr", "0.1"),
        *("--schedule-steps", "1000"),
    ),
    "resnet50": ("--input-size", "32", "--classes", "10", "--lr", "0.05"),
    "tsm": ("--input-size", "32", "--classes", "10", "--segments", "4", "--lr", "0.0005"),
}
# Steps, and the share of the first loss that the last one stays below. ResNet-50's smoothed labels
# leave a loss of 0.5 to a perfect network.
LEARNING = {"deeplabv3p_pytorch": (14, 0.5), "resnet50": (14, 0.4), "tsm": (20, 0.25)}
FAMILIES = {
    "deeplabv3p_pytorch": r"[\d-]+ [\d:,]+ - mmseg - INFO - Iter \[\d+/\d+\]\tlr: \d\.\d{3}e-\d\d, "
    r"eta: \d+:\d\d:\d\d, time: (?P<seconds>\d+\.\d{3}), data_time: \d+\.\d{3}, "
    r"decode\.loss_seg: \d+\.\d{4}, decode\.acc_seg: \d+\.\d{4}, aux\.loss_seg: \d+\.\d{4}, "
    r"aux\.acc_seg: \d+\.\d{4}, loss: \d+\.\d{4}",
    "resnet50": r"DLL [\d-]+ [\d:.]+ - Epoch: 0 Iteration: \d+  train\.loss : \d+\.\d{5} None "
    r"train\.compute_ips : \d+\.\d\d images/s train\.total_ips : (?P<rate>\d+\.\d\d) images/s "
    r"train\.lr : [\d.e-]+  train\.grad_scale : \d+\.\d{5} None",
    "tsm": r"Epoch: \[0\]\[\d+/\d+\], lr: \d\.\d{5}\tTime (?P<seconds>\d+\.\d{3}) \(\d+\.\d{3}\)\t"
    r"Data \d+\.\d{3} \(\d+\.\d{3}\)\tLoss \d+\.\d{4} \(\d+\.\d{4}\)\t"
    r"Prec@1 \d+\.\d{3} \(\d+\.\d{3}\)\tPrec@5 \d+\.\d{3} \(\d+\.\d{3}\)",
}


@pytest.mark.parametrize("amp", ["none", "bf16"])
@pytest.mark.parametrize("trainer", TINY)
def test_a_trainer_overfits_four_samples_and_tells_its_story(
    trainer: str, amp: str, narrow: None, capfd: pytest.CaptureFixture[str]
) -> None:
    steps, factor = LEARNING[trainer]
    length = ("--warmup", "1", "--iterations", str(steps - 1), "--log-interval", "1")
    options = ("--batch-size", "4", "--seed", "5", "--amp-dtype", amp)
    text = output(capfd, trainer, *TINY[trainer], *length, *options)
    found = events(text)

    trained = losses(found)
    assert len(trained) == steps
    assert trained[-1] < factor * trained[0], trained

    assert text.startswith('K8SBENCH {"event": "start"')
    names = [event["event"] for event in found]
    assert names == ["start", "environment", *["step"] * steps, "rank", "summary"]
    start, summary = found[0], found[-1]
    asked = ("fp32", None, "fp32") if amp == "none" else ("amp", "bf16", "amp")
    assert (start["precision"], start["amp_dtype"], start["precision_effective"]) == asked
    assert (start["seed"], start["batch_size_per_gpu"], start["global_batch"]) == (5, 4, 4)
    assert (summary["steps"], summary["status"]) == (steps, "finished")
    assert (summary["sync_bn"], summary["max_memory_mib"]) == (False, None)
    assert summary["precision_effective"] == start["precision_effective"]
    assert summary["final_loss"] == trained[-1]
    window = summary["window"]
    measured = [step["seconds"] for step in only(found, "step")[1:]]
    assert (window["first_step"], window["last_step"]) == (2, steps)
    assert window["samples"] == 4 * (steps - 1)
    assert window["seconds"] == pytest.approx(math.fsum(measured), abs=1e-6)
    assert only(found, "rank")[0]["steps"] == steps - 1

    printed = [line for line in text.splitlines() if not line.startswith("K8SBENCH ")]
    for line, step in zip(printed, only(found, "step"), strict=True):
        match = re.fullmatch(FAMILIES[trainer], line)
        assert match is not None, line
        told = match.groupdict()
        assert step["samples_per_second"] == pytest.approx(4 / step["seconds"])
        if "rate" in told:
            assert float(told["rate"]) == pytest.approx(step["samples_per_second"], abs=0.006)
        else:
            assert float(told["seconds"]) == pytest.approx(step["seconds"], abs=0.0006)


def test_fp16_uses_a_gradient_scaler(narrow: None, capfd: pytest.CaptureFixture[str]) -> None:
    """On a CPU half precision is slow, but it takes the same way through the scaler."""
    tiny = ("--input-size", "8", "--classes", "4", "--batch-size", "2")
    text = output(
        capfd, "resnet50", *tiny, "--warmup", "0", "--iterations", "1", "--amp-dtype", "fp16"
    )
    assert "train.grad_scale : 128.00000" in text


def test_loader_processes_feed_a_run_and_their_wait_is_told(
    narrow: None,
    capfd: pytest.CaptureFixture[str],
) -> None:
    options = ("--batch-size", "2", "--warmup", "1", "--iterations", "2")
    found = run(
        capfd,
        "resnet50",
        *TINY["resnet50"],
        *options,
        "--data",
        "synthetic-host",
        "--workers",
        "1",
    )
    assert only(found, "start")[0]["data"] == "synthetic-host"
    for step in only(found, "step"):
        assert 0 < step["data_seconds"] < step["seconds"]


@pytest.mark.parametrize("option", ["--channels-last", "--fused-optimizer"])
def test_an_option_of_speed_changes_no_loss(
    option: str, narrow: None, capfd: pytest.CaptureFixture[str]
) -> None:
    plain_options = (
        *TINY["resnet50"],
        *("--batch-size", "4", "--warmup", "0", "--iterations", "1", "--log-interval", "1"),
    )
    plain = run(capfd, "resnet50", *plain_options, "--frozen-norm")
    fast = run(capfd, "resnet50", *plain_options, "--frozen-norm", option)
    name = option.removeprefix("--").replace("-", "_")
    assert only(fast, "start")[0]["options"][name] is True
    assert losses(fast) == pytest.approx(losses(plain), rel=1e-4)


def test_a_batch_too_small_for_batch_norm_is_refused_before_the_run_says_a_word(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from k8sbench.trainers.parts import loop

    def refuse(message: str) -> None:
        raise SystemExit(message)

    monkeypatch.setattr(loop, "refuse", refuse)
    with pytest.raises(SystemExit, match="--batch-size must be at least 2"):
        run(capfd, "deeplabv3p_pytorch", *TINY["deeplabv3p_pytorch"], "--batch-size", "1")
    assert capfd.readouterr().out == ""


def toy(capfd: pytest.CaptureFixture[str], *argv: str, **work: Any) -> list[Event]:
    """Train one linear layer on two tiny pictures through the whole loop."""
    from torch import nn

    from k8sbench.trainers.data.pictures_torch import Pictures
    from k8sbench.trainers.parts import lines, schedules, settings, torch_loop

    def losses(model: nn.Module, images: Any, labels: Any) -> dict[str, Any]:
        return {"loss": nn.functional.cross_entropy(model(images), labels)}

    defaults = settings.Defaults(benchmark="toy", recipes=("v",), batch_size=2)
    options = ["--warmup", "0", "--iterations", "4", "--log-interval", "1", "--device", "cpu"]
    described: dict[str, Any] = {
        "unit": "images",
        "model": lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4)),
        "samples": Pictures(8, 4, seed=0),
        "losses": losses,
        "groups": lambda model: model.parameters(),
        "momentum": 0.9,
        "weight_decay": 0.0,
        "schedule": schedules.constant(0.1),
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
    amp: str, kind: str, capfd: pytest.CaptureFixture[str]
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


def test_gradients_are_unscaled_before_they_are_clipped(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Clipped while scaled by 512, they would be next to nothing after unscaling."""
    plain = losses(toy(capfd, clip_norm=1.0))
    scaled = losses(toy(capfd, "--amp-dtype", "fp16", clip_norm=1.0, static_scale=512.0))
    unclipped = losses(toy(capfd))
    assert scaled == pytest.approx(plain, rel=0.01)
    assert unclipped != pytest.approx(plain, rel=0.05)


def test_each_parameter_group_learns_at_its_own_rate(capfd: pytest.CaptureFixture[str]) -> None:
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


def test_a_loss_that_is_not_a_number_is_told_as_such(capfd: pytest.CaptureFixture[str]) -> None:
    from k8sbench.trainers.parts import schedules

    found = toy(capfd, schedule=schedules.constant(1e38))
    assert losses(found)[-1] == "nan"
    assert only(found, "summary")[0]["final_loss"] == "nan"


def test_an_evaluation_is_an_event_and_marks_the_record_that_holds_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def accuracy(_: object, model: Any) -> dict[str, float]:
        assert not model.training
        return {"top1": 0.5}

    found = toy(capfd, evaluate=accuracy, evaluate_every=2)
    told = [(event["step"], event["top1"]) for event in only(found, "evaluation")]
    assert told == [(2, 0.5), (4, 0.5)]
    holds = [step.get("holds") for step in only(found, "step")]
    assert holds == [None, None, ["evaluation"], None]
    assert only(found, "summary")[0]["parameters"] == 3 * 8 * 8 * 4 + 4
