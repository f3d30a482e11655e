"""Each trainer overfits a handful of fixed samples.

Tiny pictures and narrow networks, upstream's loop: loss, optimizer, precision and lines are those
of a full run. `test_training_alone` has what only one framework supports.
"""

import itertools
import math
import multiprocessing
import types
from typing import Any

import pytest

from tests.trainers.checks import LEARNING, SIZES, learns, length, noted_runs, run, toy
from tests.trainers.runs import Captured, events, losses, narrow, of, only, output, part

pytestmark = [
    pytest.mark.tier("frameworks"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]
on_each = pytest.mark.parametrize("framework", ["pytorch", "paddle"])


@pytest.mark.parametrize(
    ("case", "amp"),
    [
        *((case, "none") for case in LEARNING),
        *((case, "bf16") for case in ("mmseg", "resnet50", "tsm", "gpt")),
    ],
)
def test_a_trainer_overfits_four_samples(case: str, amp: str, capfd: Captured) -> None:
    trainer, options, steps, factor = LEARNING[case]
    words = (*SIZES[trainer], *options, *length(steps), "--amp-dtype", amp, *narrow(trainer))
    text = output(capfd, trainer, *words)
    learns(text, trainer, steps=steps, factor=factor, amp=amp)
    if trainer in of("paddle"):
        assert events(text)[0]["framework_version"] == "2.6.2"


@pytest.mark.parametrize("trainer", ["resnet50", "deeplabv3p_paddle", "arcface"])
def test_loader_processes_feed_a_run_and_time_it(trainer: str, capfd: Captured) -> None:
    options = ("--batch-size", "2", "--warmup", "1", "--iterations", "2", "--workers", "1")
    words = (*SIZES[trainer], *options, "--data", "synthetic-host")
    found = run(capfd, trainer, *words)
    assert found[0]["data"] == "synthetic-host"
    steps = only(found, "step")
    assert steps
    assert all(0 < step["data_seconds"] < step["seconds"] for step in steps)
    assert multiprocessing.active_children() == []  # nor what they had in shared memory


@on_each
@pytest.mark.parametrize(
    ("checked", "training"),
    [((), (True, True)), (("--frozen-norm",), (False, False)), (("--no-dropout",), (True, False))],
)
def test_checks_freeze_dropout_and_batch_norm_as_far_as_they_say(
    framework: str, checked: tuple[str, ...], training: tuple[bool, bool], capfd: Captured
) -> None:
    nn = part(framework).nn
    kinds = {"pytorch": ("BatchNorm2d", "Dropout2d"), "paddle": ("BatchNorm2D", "Dropout2D")}
    norm, dropout = (getattr(nn, kind) for kind in kinds[framework])
    norm, dropout = norm(3), dropout()
    model = nn.Sequential(norm, dropout, nn.Flatten(), nn.Linear(3 * 8 * 8, 4))
    found = toy(capfd, framework, *checked, model=lambda _: model)
    assert model.training
    assert (norm.training, dropout.training) == training
    told = {name: found[0]["options"][name] for name in ("frozen_norm", "no_dropout")}
    assert [f"--{name.replace('_', '-')}" for name in told if told[name]] == [*checked]


@on_each
def test_a_loss_that_is_not_a_number_is_reported_as_such(framework: str, capfd: Captured) -> None:
    found = toy(capfd, framework, schedule=lambda _: lambda _: 1e38)
    assert losses(found)[-1] == "nan"
    assert only(found, "summary")[0]["final_loss"] == "nan"


def scaling(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enable loss scaling; make Paddle's scaler believe in a GPU."""
    if framework == "paddle":
        monkeypatch.setattr(part("paddle").PaddleSession, "scales", True)
        from paddle.amp import grad_scaler

        gpu = types.SimpleNamespace(is_gpu_place=lambda: True)
        tracer = types.SimpleNamespace(_expected_place=gpu)
        monkeypatch.setattr(grad_scaler, "_dygraph_tracer", lambda: tracer)


def overflowing(
    framework: str,
    bad: tuple[int, ...],
    capfd: Captured,
    monkeypatch: pytest.MonkeyPatch,
    *options: str,
    **work: Any,
) -> tuple[list[float], list[Any]]:
    """Train five fp16 steps with infinite gradients in the `bad` ones.

    Returns the scale after each step, and the weights before each and at the end.
    """
    scaling(framework, monkeypatch)
    runs = noted_runs(monkeypatch, framework)
    functional = part(framework).nn.functional
    scales: list[float] = []
    weights: list[Any] = []

    def now() -> Any:
        return runs[0].bare[1].weight.detach().numpy().copy()

    def scale() -> float:
        scaler = runs[0].scaler
        return float(scaler._scale.item() if framework == "paddle" else scaler.get_scale())

    def loss(model: Any, images: Any, labels: Any) -> Any:
        weights.append(now())
        scales.append(scale())
        found = functional.cross_entropy(model(images), labels)
        return found * (math.inf if len(weights) in bad else 0.01)

    def rate(step: int) -> float:
        return 0.1 * (step + 1)

    words = ("--iterations", "5", "--amp-dtype", "fp16", *options)
    made = {"loss": loss, "schedule": lambda _: rate, "weight_decay": 1e-2, **work}
    found = toy(capfd, framework, *words, **made)
    told = [step["lr"] for step in only(found, "step")]
    assert told == pytest.approx([rate(step) for step in range(5)])
    return [*scales[1:], scale()], [*weights, now()]


@pytest.mark.parametrize(
    ("framework", "options", "work", "bad", "scales"),
    [
        ("pytorch", (), {}, (2,), [65536.0, *[32768.0] * 4]),
        # Every second overflow halves Paddle's.
        *(
            ("paddle", options, {"initial_scale": 1024.0}, (2, 3), [1024.0] * 2 + [512.0] * 3)
            for options in ((), ("--fused-optimizer",))
        ),
    ],
)
def test_an_overflow_leaves_its_step_out_and_halves_a_scale_that_adapts(
    framework: str,
    options: tuple[str, ...],
    work: dict[str, Any],
    bad: tuple[int, ...],
    scales: list[float],
    capfd: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, weights = overflowing(framework, bad, capfd, monkeypatch, *options, **work)
    assert found == scales
    kept = [bool((after == before).all()) for before, after in itertools.pairwise(weights)]
    assert kept == [step in bad for step in range(1, 6)]
