"""What a checkpoint holds of a run beside what `test_train_mode` and `test_resume` go on from."""

from __future__ import annotations

import pathlib
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from k8sbench.trainers.parts.events import Place
from k8sbench.trainers.parts.session import Session
from tests.trainers.paddle_runs import import_paddle

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore")]


def by_torch() -> tuple[Any, dict[str, Any]]:
    """The framework's module of states, and what it saves."""
    import torch

    from k8sbench.trainers.parts import torch_state

    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    return torch_state, {"model": model, "optimizer": optimizer, "scaler": scaler}


def by_paddle() -> tuple[Any, dict[str, Any]]:
    """The same."""
    import_paddle()
    import paddle

    from k8sbench.trainers.parts import paddle_state

    model = paddle.nn.Linear(3, 2)
    optimizer = paddle.optimizer.Momentum(parameters=model.parameters())
    scaler = paddle.amp.GradScaler(enable=False)
    return paddle_state, {"model": model, "optimizer": optimizer, "scaler": scaler}


class Seeds:
    """A session as far as it seeds: what the trainers call before each step."""

    def __init__(self, seed: Callable[[int], object], rank: int) -> None:
        self.place, self.by = Place(rank, rank, 2), seed

    def seed(self, offset: int = 0) -> None:
        self.by(11 + offset)

    def seed_step(self, step: int) -> None:
        Session.seed_step(self, step)  # type: ignore[arg-type]


def test_ranks_and_steps_drop_out_other_units() -> None:
    import torch

    drawn = set()
    for rank in range(2):
        for step in range(3):
            Seeds(torch.manual_seed, rank).seed_step(step)
            drawn.add(tuple(torch.rand(4).tolist()))
    assert len(drawn) == 6


class Scaler:
    """Paddle's scaler where there is a GPU; on a CPU it switches itself off."""

    held: ClassVar = {"scale": np.array([2.0**14], np.float32), "incr_ratio": 2.0, "incr_count": 37}

    def state_dict(self) -> dict[str, Any]:
        return self.held

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loaded = state

    def is_enable(self) -> bool:
        return True


def test_paddles_scaler_goes_on_where_it_was(tmp_path: pathlib.Path) -> None:
    state, parts = by_paddle()
    scaler = parts["scaler"] = Scaler()
    state.save(tmp_path, first=True, **parts)
    state.restore(tmp_path, tmp_path, **parts)
    assert scaler.loaded == Scaler.held
    assert type(scaler.loaded["incr_count"]) is int


@pytest.mark.parametrize("of", [by_torch, by_paddle])
def test_nothing_in_a_state_is_executed(
    of: Callable[[], tuple[Any, dict[str, Any]]], tmp_path: pathlib.Path
) -> None:
    state, parts = of()
    state.save(tmp_path, first=True, **parts)
    state.restore(tmp_path, tmp_path, **parts)  # also before the first step
    bomb = b"cos\nsystem\n(S'touch " + str(tmp_path / "executed").encode() + b"'\ntR."
    (tmp_path / state.COMMON).write_bytes(bomb)
    with pytest.raises((pickle.UnpicklingError, ValueError)):
        state.restore(tmp_path, tmp_path, **parts)
    assert not (tmp_path / "executed").exists()
