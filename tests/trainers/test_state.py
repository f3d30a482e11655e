"""Parts of a checkpoint that `test_train_mode` and `test_resume` do not cover."""

import pathlib
import types
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from k8sbench.trainers.parts import checkpoints
from k8sbench.trainers.parts.events import RankPlace
from k8sbench.trainers.parts.session import Session
from tests.trainers.checks import session
from tests.trainers.runs import part

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore")]


def parts(framework: str) -> Any:
    """A run of one rank as far as it is saved."""
    here, model = session(framework), part(framework).nn.Linear(3, 2)
    if framework == "pytorch":
        import torch

        optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scaler: Any = torch.amp.GradScaler("cpu", enabled=False)
    else:
        import paddle

        optimizer = paddle.optimizer.Momentum(parameters=model.parameters())
        scaler = paddle.amp.GradScaler(enable=False)
    return types.SimpleNamespace(
        here=here,
        bare=model,
        optimizer=optimizer,
        scaler=scaler,
        fixed_scale=None,
        sharded=None,
        timer=types.SimpleNamespace(steps=3),
        whole=lambda step: step % 4 == 0,
    )


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_gradients_that_are_added_up_are_saved_until_the_weights_change(
    framework: str, tmp_path: pathlib.Path
) -> None:
    held, later = parts(framework), parts(framework)
    values = np.array([0.5, -2.0], np.float32)
    held.here.put_gradient(held.bare.bias, values)
    checkpoints.save_state(tmp_path, held)
    checkpoints.restore_state(tmp_path, tmp_path, later)
    assert later.bare.bias.grad.numpy().tolist() == [0.5, -2.0]
    assert later.bare.weight.grad is None
    held.timer.steps, later = 4, parts(framework)
    checkpoints.save_state(tmp_path, held)
    checkpoints.restore_state(tmp_path, tmp_path, later)
    assert later.bare.bias.grad is None


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_momenta_that_were_put_are_saved_before_the_next_step(
    framework: str, tmp_path: pathlib.Path
) -> None:
    """As by a training that is cut in the evaluation with which it goes on."""
    held, later = parts(framework), parts(framework)
    values = np.arange(2, dtype=np.float32)
    held.here.put_momenta(held.optimizer, [(held.bare.bias, values)])
    checkpoints.save_state(tmp_path, held)
    checkpoints.restore_state(tmp_path, tmp_path, later)
    (momentum,) = later.here.momenta(later.optimizer, {"bias": later.bare.bias}).values()
    assert later.here.array(momentum).tolist() == values.tolist()


class OfPaddle3:
    """Paddle 3's optimizer as far as it holds momenta: its state has the arrays, too."""

    def __init__(self, held: dict[str, Any]) -> None:
        self._accumulators_holder = held

    def state_dict(self) -> dict[str, Any]:
        return {**self._accumulators_holder}


def test_arrays_in_the_state_of_paddle_3_are_momenta(tmp_path: pathlib.Path) -> None:
    held = parts("paddle")
    momentum = {part("paddle").MOMENTUM.format(held.bare.bias.name): np.ones(2, np.float32)}
    held.optimizer = OfPaddle3(momentum)
    checkpoints.save_state(tmp_path, held)
    with np.load(tmp_path / checkpoints.COMMON) as saved:
        assert saved["momentum of model/bias"].tolist() == [1.0, 1.0]


class Seeds:
    """A session as far as it seeds: what the trainers call before each step."""

    def __init__(self, seed: Callable[[int], object], rank: int) -> None:
        self.place, self.by = RankPlace(rank, rank, 2), seed

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


def test_paddles_scaler_goes_on_where_it_was(tmp_path: pathlib.Path) -> None:
    scaler = Scaler()
    held = parts("paddle")
    held.scaler = scaler
    checkpoints.save_state(tmp_path, held)
    checkpoints.restore_state(tmp_path, tmp_path, held)
    assert scaler.loaded == Scaler.held
    assert type(scaler.loaded["incr_count"]) is int


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_nothing_in_a_state_is_executed(framework: str, tmp_path: pathlib.Path) -> None:
    held = parts(framework)
    checkpoints.save_state(tmp_path, held)
    checkpoints.restore_state(tmp_path, tmp_path, held)  # also before the first step
    bomb = b"cos\nsystem\n(S'touch " + str(tmp_path / "executed").encode() + b"'\ntR."
    (tmp_path / checkpoints.COMMON).write_bytes(bomb)
    with pytest.raises(ValueError, match="pickled"):
        checkpoints.restore_state(tmp_path, tmp_path, held)
    assert not (tmp_path / "executed").exists()
