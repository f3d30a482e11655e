"""--weights: what a file holds is in the model before its first step, on both frameworks."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from k8sbench.trainers.parts import weights
from tests.trainers import paddle_runs, torch_runs
from tests.trainers.either_checks import noted_runs
from tests.trainers.torch_runs import Captured, only, refuse

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]

SHORT = ("--warmup", "0", "--iterations", "1", "--batch-size", "2", "--lr", "0", "--frozen-norm")
TRAINERS = {
    "resnet50": (torch_runs, "torch_loop", ("--input-size", "32", "--classes", "10")),
    "deeplabv3p_paddle": (paddle_runs, "paddle_loop", ("--crop", "32x64")),
}


def named(state: dict[str, Any]) -> dict[str, Any]:
    """The tensors of a model that start weights have, by their names in a file."""
    keys = {name: weights.neutral(name, len(each.shape)) for name, each in state.items()}
    return {key: state[name] for name, key in keys.items() if key is not None}


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_run_begins_with_the_files_weights_and_says_so(
    trainer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    runs, name, small = TRAINERS[trainer]
    if runs is paddle_runs:
        paddle_runs.import_paddle()
    exec(runs.NARROW, {"put": monkeypatch.setattr})
    made = noted_runs(monkeypatch, importlib.import_module(f"k8sbench.trainers.parts.{name}"))
    plain = runs.run(capfd, trainer, *SHORT, *small)
    assert not only(plain, "weights")
    told = {
        key: np.full(list(each.shape), 0.125 if "running" not in key else 1.0, np.float32)
        for key, each in named(made[0].bare.state_dict()).items()
    }
    file = tmp_path / "start.npz"
    np.savez(file, **told)
    found = runs.run(capfd, trainer, *SHORT, *small, "--weights", str(file))
    (event,) = only(found, "weights")
    assert (event["file"], event["loaded"]) == ("start.npz", len(told))
    assert event["digest"] == weights.digest(file)
    for key, each in named(made[1].bare.state_dict()).items():
        assert np.array_equal(each.detach().numpy(), told[key]), key
    assert found[-1]["final_loss"] != plain[-1]["final_loss"]


def test_weights_that_do_not_fit_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    from k8sbench.trainers.parts import loop

    exec(torch_runs.NARROW, {"put": monkeypatch.setattr})
    monkeypatch.setattr(loop, "refuse", refuse)
    file = tmp_path / "start.npz"
    np.savez(file, **{"stem.conv.weight": np.zeros((1, 1, 1, 1), np.float32)})
    small = TRAINERS["resnet50"][2]
    with pytest.raises(SystemExit, match=r"--weights: the weights in .* are not of this model"):
        torch_runs.run(capfd, "resnet50", *SHORT, *small, "--weights", str(file))
