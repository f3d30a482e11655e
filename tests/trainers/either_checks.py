"""What holds for a trainer of either framework, on any device."""

from __future__ import annotations

import importlib
import math
from typing import Any

import pytest

from k8sbench.trainers.parts import settings
from k8sbench.trainers.parts.events import Place
from tests.trainers.paddle_runs import import_paddle
from tests.trainers.torch_runs import Event, alone, events, losses, only

DEFAULTS = settings.Defaults(benchmark="b", recipes=("v",), batch_size=2)

MATCHED = {
    **dict.fromkeys(("activation", "concat", "conv", "depthwise_conv", "norm", "pool"), "float16"),
    "add": "16 float16 + 1 float32",
    "loss": "float32",
    "resize": "2 float16 + 2 float32",
}
"""DeepLabV3+ in fp16 on PyTorch, and on Paddle by its recipe `matched`: the shortcuts of 16 blocks
in half precision and the sum of the losses in FP32; two features resized in half precision and the
logits of two heads in FP32.
"""


def read(*argv: str) -> settings.Settings:
    """Settings of a benchmark that has no options of its own."""
    return settings.read("b", "", DEFAULTS, None, argv)[0]


def part(framework: str, name: str) -> Any:
    """A framework's module of the trainers' parts: its `session` or its `loop`."""
    if framework == "paddle":
        import_paddle()
    prefix = {"pytorch": "torch", "paddle": "paddle"}[framework]
    return importlib.import_module(f"k8sbench.trainers.parts.{prefix}_{name}")


def session(framework: str, gpu: int | None = None, ranks: int = 1, *argv: str) -> Any:
    """The session of the first of some ranks, on a CPU or as if it had a GPU."""
    place = Place(rank=0, local_rank=0, world_size=ranks)
    return part(framework, "session").Session(read(*argv), place, gpu)


def stated(found: list[Event]) -> dict[str, Any]:
    """The arithmetic that a run states; {} where it states none."""
    each = [event["arithmetic"] for event in only(found, "environment") if "arithmetic" in event]
    assert len(each) <= 1
    return each[0] if each else {}


def learned(text: str, *, steps: int, factor: float, device: str) -> list[Event]:
    """The events of a run on four samples with seed 5 and a record per step, whose warm-up is the
    first: its loss falls below `factor` of the first one, and its lines tell its whole story.
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
    assert (start["seed"], start["batch_size_per_gpu"], start["global_batch"]) == (5, 4, 4)
    assert start["device"] == device
    assert (summary["steps"], summary["status"]) == (steps, "finished")
    assert summary["sync_bn"] is False
    assert summary["final_loss"] == trained[-1]
    window = summary["window"]
    measured = [step["seconds"] for step in only(found, "step")[1:]]
    assert (window["first_step"], window["last_step"]) == (2, steps)
    assert window["samples"] == 4 * (steps - 1)
    assert window["seconds"] == pytest.approx(math.fsum(measured), abs=1e-6)
    return found


def loaders_feed_a_gpu(trainer: str, *options: str, timeout: float) -> None:
    """Samples of loader processes reach the GPU, and waiting for them is a part of the step."""
    length = ("--warmup", "1", "--iterations", "3", "--log-interval", "1", "--batch-size", "2")
    source = ("--data", "synthetic-host", "--workers", "2")
    words = ("--device", "cuda", *length, *source, *options)
    found = events(alone(["-m", f"k8sbench.trainers.{trainer}", *words], timeout=timeout))
    assert found[0]["data"] == "synthetic-host"
    for step in only(found, "step"):
        assert 0 < step["data_seconds"] < step["seconds"]


def noted_runs(monkeypatch: pytest.MonkeyPatch, loop: Any) -> list[Any]:
    """The runs of a framework's loop from now on, for what only they themselves know."""
    runs = []
    to_its_end = loop._Run.to_its_end

    def noted(run: Any) -> Any:
        runs.append(run)
        return to_its_end(run)

    monkeypatch.setattr(loop._Run, "to_its_end", noted)
    return runs
