"""Checks of both frameworks' trainers, on a CPU here, on GPUs in `tests/gpu`.

A device is named as on the command line: "cpu" or "cuda".
"""

import importlib
import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from k8sbench.trainers import models
from k8sbench.trainers.data.pictures import NORMALISE, Pictures
from k8sbench.trainers.parts import settings
from k8sbench.trainers.parts.events import RankPlace
from k8sbench.trainers.parts.loop import Work
from tests.trainers import runs, toy_training
from tests.trainers.runs import (
    FRAMEWORKS,
    Captured,
    Event,
    Job,
    events,
    in_turn,
    losses,
    of,
    only,
    part,
)

SIZES: dict[str, tuple[str, ...]] = {
    "deeplabv3p_pytorch": ("--crop", "32x32", "--classes", "4"),
    "resnet50": ("--input-size", "32", "--classes", "10"),
    "tsm": ("--input-size", "32", "--classes", "10", "--segments", "4"),
    "gpt": ("--layers", "2", "--vocabulary", "64", "--sequence-length", "16"),
    "deeplabv3p_paddle": ("--crop", "32x32", "--classes", "4"),
    "arcface": ("--size", "32", "--classes", "50", "--lr", "0.01"),
}
# Case → trainer, options, steps, and the share of the first loss that the last one stays below.
# ResNet-50's smoothed labels leave a loss of 0.5 to a perfect network.
LEARNING: dict[str, tuple[str, tuple[str, ...], int, float]] = {
    "mmseg": ("deeplabv3p_pytorch", ("--lr", "0.1"), 14, 0.5),
    "resnet50": ("resnet50", ("--lr", "0.05"), 14, 0.4),
    "tsm": ("tsm", ("--lr", "0.0005"), 20, 0.25),
    "gpt": ("gpt", ("--lr", "4"), 14, 0.5),  # the first 14 of 2,000 steps of its warm-up
    "paddleseg": ("deeplabv3p_paddle", (), 40, 0.5),
    "matched": ("deeplabv3p_paddle", ("--recipe", "matched", "--lr", "0.1"), 16, 0.5),
    "own head": ("arcface", ("--head", "own"), 14, 0.1),
    "dense head": ("arcface", ("--head", "dense"), 14, 0.1),
}
# Rates at which five steps change the loss but keep it finite: a network whose batch norm is frozen
# at its start is a steep place. 7 classes: two ranks hold 4 and 3 of them.
STEEP: dict[str, tuple[str, ...]] = {
    "deeplabv3p_pytorch": ("--crop", "32x32", "--classes", "5", "--lr", "0.5"),
    "resnet50": (*SIZES["resnet50"], "--lr", "1e-5"),
    "tsm": (*SIZES["tsm"], "--lr", "1e-5"),
    "gpt": (*SIZES["gpt"], "--lr", "1"),
    "deeplabv3p_paddle": ("--crop", "32x32", "--classes", "5", "--lr", "0.01"),
    "arcface": ("--size", "16", "--classes", "7", "--lr", "0.001"),
}
SAMPLE = {"gpt": 16}
"""Trainer → tokens of a sample."""
# FP32 sums in another order; measured on a CPU: 1.5e-6 at most. A gradient that is summed instead
# of averaged over the ranks is off by more than 1e-3, a backbone whose gradients are averaged where
# they must be summed by 0.15, ranks that exchange none by 8e-3.
FROZEN_TOLERANCE = 1e-5
MATCHED = {
    **dict.fromkeys(("activation", "concat", "conv", "depthwise_conv", "norm", "pool"), "float16"),
    "add": "16 float16 + 1 float32",
    "loss": "float32",
    "resize": "2 float16 + 2 float32",
}
"""DeepLabV3+ in fp16 on PyTorch, and on Paddle with recipe `matched`.

The shortcuts of 16 blocks are in half precision and the sum of the losses in FP32; two features are
resized in half precision and the logits of two heads in FP32.
"""
DEFAULTS = settings.Defaults(benchmark="b", recipes=("v",), batch_size=2, shares_gpu=True)


def frozen(framework: str) -> list[Job]:
    """Return a job per trainer with frozen batch norm.

    The last one sums all gradients at once.
    """
    jobs = [(trainer, *STEEP[trainer], "--frozen-norm") for trainer in of(framework)]
    return [*jobs, (*jobs[0], "--no-overlap")]


def read(*argv: str) -> settings.Settings:
    """Settings of a benchmark that has no options of its own."""
    return settings.read("b", "", DEFAULTS, None, argv)[0]


NAMES = {"pytorch": "Torch", "paddle": "Paddle"}
"""Framework → how the names of its classes begin."""


def session(framework: str, gpu: int | None = None, ranks: int = 1, *argv: str) -> Any:
    """Return rank 0's session on a CPU, or as if it had a GPU."""
    place = RankPlace(rank=0, local_rank=0, world_size=ranks)
    return getattr(part(framework), f"{NAMES[framework]}Session")(read(*argv), place, gpu)


def model_of(name: str, *arguments: Any, **named: Any) -> Any:
    """A model of the trainers, by module and class."""
    module, _, model = name.partition(".")
    found = importlib.import_module(f"{models.__name__}.{module}")
    return getattr(found, model)(*arguments, **named)


def stated(found: list[Event]) -> dict[str, Any]:
    """The arithmetic that a run states; {} where it states none."""
    each = [event["arithmetic"] for event in only(found, "environment") if "arithmetic" in event]
    assert len(each) <= 1
    return each[0] if each else {}


def length(steps: int) -> tuple[str, ...]:
    """The options of a run that `learns` can read."""
    each = ("--warmup", "1", "--iterations", str(steps - 1), "--log-interval", "1")
    return (*each, "--batch-size", "4", "--seed", "5")


def learns(
    text: str, trainer: str, *, steps: int, factor: float, device: str = "cpu", amp: str = "none"
) -> None:
    """Train so long; the loss falls below `factor` of the first.

    The run's lines are complete.
    """
    found = events(text)
    trained = losses(found)
    assert len(trained) == steps
    assert trained[-1] < factor * trained[0], trained

    assert text.startswith('K8SBENCH {"event": "start"')
    # A GPU is sampled by the clock.
    names = [event["event"] for event in found if event["event"] != "gpu"]
    # In mixed precision DeepLabV3+ has a second environment: its arithmetic.
    second = ["environment"] if stated(found) else []
    assert names == ["start", "environment", *second, *["step"] * steps, "rank", "summary"]
    start, summary = found[0], found[-1]
    assert start["framework"] == FRAMEWORKS[trainer]
    batch = 4 * SAMPLE.get(trainer, 1)
    assert (start["seed"], start["batch_size_per_gpu"], start["global_batch"]) == (5, 4, batch)
    asked = ("fp32", None, "fp32") if amp == "none" else ("amp", amp, "amp")
    assert (start["precision"], start["amp_dtype"], start["precision_effective"]) == asked
    assert summary["precision_effective"] == start["precision_effective"]
    assert (summary["steps"], summary["status"]) == (steps, "finished")
    assert only(found, "rank")[0]["steps"] == steps - 1
    assert summary["sync_bn"] is False
    assert summary["final_loss"] == trained[-1]
    window = summary["window"]
    measured = [step["seconds"] for step in only(found, "step")[1:]]
    assert (window["first_step"], window["last_step"]) == (2, steps)
    assert window["samples"] == batch * (steps - 1)
    assert window["seconds"] == pytest.approx(math.fsum(measured), abs=1e-6)

    for step in only(found, "step"):
        assert step["samples_per_second"] == pytest.approx(batch / step["seconds"])
    tells_its_device(found, device)


OF_A_GPU = {
    "gpu_model": r"\S.*",
    "gpu_uuid": r"(GPU-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "gpu_compute_capability": r"\d+\.\d",
    "cuda": r"\d+\.\d+",
    "cudnn": r"\d+",
    "nccl": r"\d+\.\d+\.\d+.*",
    "driver": r"\d+\.\d+(\.\d+)?",
}
"""Fields of the environment, as texts: known on every GPU."""
NUMBERS = (
    "gpu_memory_mib",
    "clock_sm_mhz",
    "clock_sm_max_mhz",
    "clock_memory_mhz",
    "clock_memory_max_mhz",
)


def tells_its_device(found: Sequence[Event], device: str) -> None:
    """Check the device in the start line and both environment events."""
    start, begun, summary = only(found, "start")[0], only(found, "environment")[0], found[-1]
    assert start["device"] == device
    assert {"rank": 0, **summary["machine"]}.keys() == begun.keys() - {"event"}
    steps = only(found, "step")
    assert steps
    memory = [summary["max_memory_mib"], *(step["memory_mib"] for step in steps)]
    for about in (begun, summary["machine"]):
        if device == "cpu":
            known = {name for name in (*OF_A_GPU, *NUMBERS) if about[name] is not None}
            assert known <= {"cuda"}  # what PyTorch was built with
            continue
        for name, shape in OF_A_GPU.items():
            assert re.fullmatch(shape, str(about[name])), f"{name}: {about[name]}"
        for name in NUMBERS:
            assert about[name] > 0, name
        assert about["gpu_index"] == 0
    if device == "cpu":
        assert set(memory) == {None}
    else:
        assert all(value > 1.0 for value in memory)
        assert memory[0] <= begun["gpu_memory_mib"]


def on_ranks(
    jobs: Sequence[Job], world_size: int, device: str, *options: str, **how: Any
) -> list[list[list[Event]]]:
    """Run five steps of 4 samples per trainer; return events by rank."""
    shared = (
        *("--device", device, "--threads", "1", "--warmup", "0", "--iterations", "5"),
        *("--log-interval", "1", "--batch-size", str(4 // world_size), *options),
    )
    words = [(trainer, *shared, *own) for trainer, *own in jobs]
    return in_turn(words, world_size, **how)


def computes_the_same(
    one: Sequence[Event], first: Sequence[Event], tolerance: float, *, steps: int = 5
) -> None:
    """Compare the losses of the steps on two ranks with one rank's."""
    single, both = losses(one), losses(first)
    assert len(single) == steps
    assert abs(single[4] - single[0]) > 0.01 * single[0], "five steps that change nothing"
    assert both == pytest.approx(single, rel=tolerance)


def sums_up(framework: str, device: str, *options: str, timeout: float = 400.0) -> list[Event]:
    """Two ranks of the all-reduce trainer: rank 0's lines."""
    length = ("--device", device, "--warmup", "1", "--iterations", "2", "--log-interval", "1")
    words = ["-m", "k8sbench.trainers.allreduce", "--framework", framework, *length, *options]
    started = runs.ranks([*words, "--batch-size", "1"], 2, framework, timeout=timeout)
    first, second = map(events, started)
    assert (first[0]["benchmark"], first[0]["unit"]) == ("allreduce", "GB")
    assert (first[0]["framework"], first[0]["device"]) == (framework, device)
    steps = only(first, "step")
    assert [event["step"] for event in steps] == [1, 2, 3]
    # Of two ranks 2(n-1)/n is 1: each step counts the megabyte of its vector.
    for event in steps:
        assert event["samples_per_second"] * event["seconds"] == pytest.approx(0.001, rel=1e-3)
    assert only(first, "summary")[0]["window"]["samples"] == 0.002
    assert not only(second, "step")
    return first


def noted_runs(monkeypatch: pytest.MonkeyPatch, framework: str) -> list[Any]:
    """Record the runs of a framework from now on."""
    runs: list[Any] = []
    kind = getattr(part(framework), f"{NAMES[framework]}Run")
    steps = kind.steps

    def noted(run: Any) -> Any:
        runs.append(run)
        return steps(run)

    monkeypatch.setattr(kind, "steps", noted)
    return runs


def run(capfd: Captured, trainer: str, *options: str) -> list[Event]:
    """Run a narrow trainer here and give its events."""
    return runs.run(capfd, trainer, *options, *runs.narrow(trainer))


def toy(capfd: Captured, framework: str, *argv: str, loss: Any = None, **work: Any) -> list[Event]:
    """Train one linear layer on two tiny pictures through the whole loop."""
    session = part(framework)
    nn = session.nn

    def entropy(model: Any, images: Any, labels: Any) -> Any:
        return nn.functional.cross_entropy(model(images), labels)

    options = ["--warmup", "0", "--iterations", "4", "--log-interval", "1", "--device", "cpu"]
    described: dict[str, Any] = {
        "unit": "images",
        "model": lambda _: nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4)),
        "samples": Pictures(8, 4, seed=0),
        "normalise": NORMALISE,
        "momentum": 0.9,
        "weight_decay": 0.0,
        "schedule": lambda _: lambda _: 0.1,
    }
    capfd.readouterr()
    train = partial(toy_training.take_steps, loss=loss or entropy)
    session.run(Work(**(described | work)), read(*options, *argv), train)
    return events(capfd.readouterr().out)
