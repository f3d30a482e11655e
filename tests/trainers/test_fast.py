"""``--speed-option fast``: the losses of the published settings, within the seed's noise."""

import statistics
from typing import Any

import pytest

from k8sbench.model.speed_options import FAST_OPTIONS, trainer_arguments
from tests.trainers import runs
from tests.trainers.checks import STEEP, run
from tests.trainers.runs import Captured, losses

pytestmark = [
    pytest.mark.tier("frameworks"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]

STEPS = 20
TRAINERS = [name for name, options in FAST_OPTIONS.items() if options]


@pytest.fixture
def captured_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture the model's graphs and run them uncompiled: compiling takes minutes."""
    from torch import nn

    compile_ = nn.Module.compile

    def backend(graph: Any, _: Any) -> Any:
        return graph.forward

    monkeypatch.setattr(nn.Module, "compile", lambda model: compile_(model, backend=backend))


def distance(one: list[float], other: list[float]) -> float:
    """Mean distance of the losses of equal steps."""
    return statistics.fmean(abs(a - b) for a, b in zip(one, other, strict=True))


@pytest.mark.usefixtures("captured_graphs")
@pytest.mark.parametrize(
    ("trainer", "precision"),
    [*((name, "none") for name in TRAINERS), ("gpt", "bf16"), ("deeplabv3p_pytorch", "bf16")],
)
def test_fast_trains_as_published_within_the_noise_of_the_seed(
    trainer: str, precision: str, capfd: Captured
) -> None:
    """Batch norm is frozen: over the few pixels of this size it makes much of a rounding."""
    if runs.FRAMEWORKS[trainer] == "paddle":
        runs.import_paddle()

    def trained(*options: str) -> list[float]:
        length = ("--warmup", "0", "--iterations", str(STEPS), "--log-interval", "1")
        shared = ("--batch-size", "2", "--device", "cpu", "--threads", "1", "--frozen-norm")
        words = (*STEEP[trainer], *length, *shared, "--amp-dtype", precision, *options)
        found = losses(run(capfd, trainer, *words))
        assert len(found) == STEPS
        return found

    fast = tuple(trainer_arguments(dict.fromkeys(FAST_OPTIONS[trainer], True)))
    published = trained()
    noise = distance(published, trained("--seed", "1"))
    assert published[0] != published[-1]
    assert distance(published, trained(*fast)) < noise / 10
