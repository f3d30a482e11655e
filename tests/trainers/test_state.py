"""A run that goes on from a checkpoint computes what it would have computed: the same bits."""

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

pytestmark = pytest.mark.tier("frameworks")
STEPS, SAVED_AT = 7, 3
Losses = list[float]


def batch(step: int) -> Any:
    return np.random.default_rng(step).standard_normal((6, 3, 8, 8), dtype=np.float32)


class Seeds:
    """A session as far as it seeds: what the trainers call before each step."""

    def __init__(self, seed: Callable[[int], object], rank: int = 0) -> None:
        self.place, self.by = Place(rank, rank, 2), seed

    def seed(self, offset: int = 0) -> None:
        self.by(11 + offset)

    def seed_step(self, step: int) -> None:
        Session.seed_step(self, step)  # type: ignore[arg-type]


class TorchRun:
    """Convolution, norm, dropout, classifier; rates by group, as TSM has them."""

    def __init__(self, amp: bool, fused: bool = False) -> None:
        import torch
        from torch import nn

        self.torch = torch
        torch.manual_seed(torch.seed() % 1000)  # not the run's before
        self.model = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5)),
            *(nn.Flatten(), nn.Linear(288, 4)),
        )
        weights = list(self.model.parameters())
        groups: list[Any] = [{"params": weights[:3]}, {"params": weights[3:], "lr_mult": 5.0}]
        self.optimizer = torch.optim.SGD(
            groups, lr=0.1, momentum=0.9, weight_decay=1e-3, fused=fused or None
        )
        # 2 is reached within the run, so that the scale changes on both sides of the checkpoint.
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2, enabled=amp)
        self.session = Seeds(torch.manual_seed)

    def begin_as(self, other: TorchRun) -> None:
        self.model.load_state_dict(other.model.state_dict())

    def step(self, number: int) -> float:
        self.session.seed_step(number)
        for group in self.optimizer.param_groups:
            group["lr"] = 0.1 / (1 + number) * group.get("lr_mult", 1.0)
        loss = self.model(self.torch.from_numpy(batch(number))).square().mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return float(loss)

    def numbers(self) -> dict[str, Any]:
        return {name: each.numpy() for name, each in self.model.state_dict().items()}

    def parts(self) -> dict[str, Any]:
        return {"model": self.model, "optimizer": self.optimizer, "scaler": self.scaler}

    def state(self) -> Any:
        from k8sbench.trainers.parts import torch_state

        return torch_state


class PaddleRun:
    """The same beside a layer of which each rank has its own part, and one slope for all."""

    def __init__(self, fused: bool = False) -> None:
        import_paddle()
        import paddle
        from paddle import nn

        self.paddle = paddle
        self.model = nn.Sequential(
            *(nn.Conv2D(3, 8, 3, bias_attr=False), nn.BatchNorm2D(8), nn.PReLU(), nn.Dropout(0.5)),
            *(nn.Flatten(), nn.Linear(288, 4)),
        )
        self.sharded = nn.Linear(4, 5)
        self.optimizer = paddle.optimizer.Momentum(
            learning_rate=0.1,
            momentum=0.9,
            weight_decay=1e-3,
            parameters=[*self.model.parameters(), *self.sharded.parameters()],
            use_multi_tensor=fused,
        )
        self.scaler = paddle.amp.GradScaler(enable=False)
        self.session = Seeds(paddle.seed)

    def begin_as(self, other: PaddleRun) -> None:
        self.model.set_state_dict({n: each.numpy() for n, each in other.model.state_dict().items()})
        self.sharded.set_state_dict(
            {name: each.numpy() for name, each in other.sharded.state_dict().items()}
        )

    def step(self, number: int) -> float:
        self.session.seed_step(number)
        self.optimizer.set_lr(0.1 / (1 + number))
        loss = self.sharded(self.model(self.paddle.to_tensor(batch(number)))).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return float(loss)

    def numbers(self) -> dict[str, Any]:
        layers = {"model": self.model, "sharded": self.sharded}
        return {
            f"{kind}.{name}": each.numpy()
            for kind, layer in layers.items()
            for name, each in layer.state_dict().items()
        }

    def parts(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "scaler": self.scaler,
            "sharded": self.sharded,
        }

    def state(self) -> Any:
        from k8sbench.trainers.parts import paddle_state

        return paddle_state


RUNS: dict[str, Callable[[], Any]] = {
    "torch": lambda: TorchRun(amp=False),
    "torch, scaled": lambda: TorchRun(amp=True),
    "torch, fused": lambda: TorchRun(amp=False, fused=True),
    "paddle": PaddleRun,
    "paddle, fused": lambda: PaddleRun(fused=True),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", RUNS)
def test_a_run_goes_on_to_the_same_bits(kind: str, tmp_path: pathlib.Path) -> None:
    whole = RUNS[kind]()
    state = whole.state()
    losses: Losses = []
    for step in range(STEPS):
        if step == SAVED_AT:
            state.save(tmp_path, first=True, **whole.parts())
        losses.append(whole.step(step))
    assert len({*losses}) == STEPS

    # Built anew, in a process that has drawn other numbers and counted other layers.
    later = RUNS[kind]()
    state.restore(tmp_path, tmp_path, **later.parts())
    assert [later.step(step) for step in range(SAVED_AT, STEPS)] == losses[SAVED_AT:]
    assert later.scaler.state_dict() == whole.scaler.state_dict()
    for name, numbers in whole.numbers().items():
        np.testing.assert_array_equal(later.numbers()[name], numbers, err_msg=name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["torch", "paddle"])
def test_the_state_of_before_the_first_step_is_one_too(kind: str, tmp_path: pathlib.Path) -> None:
    first, second = RUNS[kind](), RUNS[kind]()
    first.state().save(tmp_path, first=True, **first.parts())
    second.state().restore(tmp_path, tmp_path, **second.parts())
    assert [first.step(step) for step in range(2)] == [second.step(step) for step in range(2)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["torch", "paddle"])
def test_each_rank_has_its_own_statistics_and_part(kind: str, tmp_path: pathlib.Path) -> None:
    runs = [RUNS[kind](), RUNS[kind]()]
    state = runs[0].state()
    runs[1].begin_as(runs[0])
    for rank, run in enumerate(runs):
        run.step(rank)  # other samples
        (tmp_path / str(rank)).mkdir()
        state.save(tmp_path / str(rank), first=rank == 0, **run.parts())
    later = RUNS[kind]()
    state.restore(tmp_path / "0", tmp_path / "1", **later.parts())
    own = ("running_mean", "running_var", "num_batches_tracked", "_mean", "_variance", "sharded.")
    for name, numbers in later.numbers().items():
        of_ranks = [run.numbers()[name] for run in runs]
        expected = of_ranks[any(part in name for part in own)]
        np.testing.assert_array_equal(numbers, expected, err_msg=name)
        assert "num_batches" in name or not np.array_equal(*of_ranks), name


@pytest.mark.filterwarnings("ignore")
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


@pytest.mark.filterwarnings("ignore")
def test_paddles_scaler_goes_on_where_it_was(tmp_path: pathlib.Path) -> None:
    run, scaler = PaddleRun(), Scaler()
    parts = {**run.parts(), "scaler": scaler}
    run.state().save(tmp_path, first=True, **parts)
    run.state().restore(tmp_path, tmp_path, **parts)
    assert scaler.loaded == Scaler.held
    assert type(scaler.loaded["incr_count"]) is int


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["torch", "paddle"])
def test_nothing_in_a_state_is_executed(kind: str, tmp_path: pathlib.Path) -> None:
    run = RUNS[kind]()
    state = run.state()
    state.save(tmp_path, first=True, **run.parts())
    bomb = b"cos\nsystem\n(S'touch " + str(tmp_path / "executed").encode() + b"'\ntR."
    (tmp_path / state.COMMON).write_bytes(bomb)
    with pytest.raises((pickle.UnpicklingError, ValueError)):
        state.restore(tmp_path, tmp_path, **run.parts())
    assert not (tmp_path / "executed").exists()
