"""Options of speed: the losses are the published settings', alone and together as ``fast``."""

import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from k8sbench.model.speed_options import FAST_OPTIONS, trainer_arguments
from tests.trainers import runs
from tests.trainers.checks import STEEP, run
from tests.trainers.runs import Captured, Event, losses, of

pytestmark = [
    pytest.mark.tier("frameworks"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]

STEPS = 5
TRAINERS = [name for name, options in FAST_OPTIONS.items() if options]
# Batch norm is frozen: over the few pixels of this size it makes much of a rounding.
SHARED = (
    *("--warmup", "0", "--iterations", str(STEPS), "--log-interval", "1"),
    *("--batch-size", "2", "--frozen-norm"),
)


class Ran(NamedTuple):
    """A run of a few steps."""

    events: list[Event]
    graphs: int
    """Number of those captured of its model."""


Runs = Callable[..., Ran]
"""Trainer and options → its run."""


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, ...], Ran]:
    """The runs so far: several tests compare theirs with the same one."""
    return {}


@pytest.fixture
def trained(
    known: dict[tuple[str, ...], Ran], capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> Runs:
    """Runs a trainer, once with the same options.

    A model's graphs are captured, one per mode, and run uncompiled: their compilation takes minutes
    and a compiler.
    """
    from torch import nn

    graphs: list[Any] = []
    compile_ = nn.Module.compile

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(nn.Module, "compile", lambda model: compile_(model, backend=backend))

    def train(trainer: str, *options: str) -> Ran:
        if runs.FRAMEWORKS[trainer] == "paddle":
            runs.import_paddle()
        words = (*STEEP[trainer], *SHARED, *options)
        if (trainer, *words) not in known:
            graphs.clear()
            found = run(capfd, trainer, *words)
            known[trainer, *words] = Ran(found, len(graphs))
        return known[trainer, *words]

    return train


def fast(trainer: str) -> tuple[str, ...]:
    """The options that ``fast`` stands for."""
    return tuple(trainer_arguments(dict.fromkeys(FAST_OPTIONS[trainer], True)))


def distance(one: list[float], other: list[float]) -> float:
    """Mean distance of the losses of equal steps."""
    return statistics.fmean(abs(a - b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("trainer", "precision"),
    [*((name, "none") for name in TRAINERS), ("gpt", "bf16"), ("deeplabv3p_pytorch", "bf16")],
)
def test_fast_trains_as_published_within_the_noise_of_the_seed(
    trainer: str, precision: str, trained: Runs
) -> None:
    amp = () if precision == "none" else ("--amp-dtype", precision)
    published, other, faster = (
        losses(trained(trainer, *amp, *more).events)
        for more in ((), ("--seed", "1"), fast(trainer))
    )
    assert len(published) == STEPS
    assert published[0] != published[-1]
    assert distance(published, faster) < distance(published, other) / 10


@pytest.mark.parametrize("trainer", of("pytorch"))
def test_a_compiled_model_gives_the_losses_of_a_plain_one(trainer: str, trained: Runs) -> None:
    """With the other options of ``fast``, whose run is there already: a capture takes seconds."""
    without = tuple(option for option in fast(trainer) if option != "--compile")
    plain, compiled = trained(trainer, *without), trained(trainer, *fast(trainer))
    assert (plain.graphs, compiled.graphs) == (0, 1)
    before, after = (each.events[0]["options"] for each in (plain, compiled))
    assert before["compile"] is False
    assert after == {**before, "compile": True}
    assert losses(compiled.events) == pytest.approx(losses(plain.events), rel=1e-6)


@pytest.mark.parametrize("trainer", ["deeplabv3p_pytorch", "resnet50", "tsm", "deeplabv3p_paddle"])
def test_an_option_of_speed_changes_no_loss_and_is_reported(trainer: str, trained: Runs) -> None:
    without_effect = ("--no-cudnn-benchmark", "--tf32") if trainer in of("pytorch") else ()
    options = ("--channels-last", *without_effect, "--fused-optimizer")
    plain, other = trained(trainer).events, trained(trainer, *options).events
    before, after = plain[0]["options"], other[0]["options"]
    switched = {option.lstrip("-").removeprefix("no-").replace("-", "_") for option in options}
    assert {name for name in after if after[name] != before[name]} == switched
    assert losses(other) == pytest.approx(losses(plain), rel=1e-3)
