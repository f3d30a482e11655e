"""What a Paddle run goes on from, equal to the bit: saved to a folder per rank, and put back.

Rank 0 saves what all ranks have in common: parameters, momentum, the gradient scaler. Each rank
saves its own batch norm statistics, which differ between ranks, and its part of a sharded layer
with that part's momentum. Tensors go by their place in the model, not by Paddle's names, which
count the layers of a process. Random states are not saved: a step's dropout is seeded by its number
(`Session.seed_step`), as its samples are. The step and the best value stand in the checkpoint's
facts.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from k8sbench.trainers.parts.samples import Array

COMMON, OWN = "common.npz", "own.npz"
VELOCITY = "velocity"  # Paddle's name for the only accumulator of its Momentum


def save(
    folder: Path, *, model: Any, optimizer: Any, scaler: Any, first: bool, sharded: Any = None
) -> None:
    """Fill this rank's folder of a checkpoint; `first` on rank 0. Raises OSError.

    `model` is the bare one, not as wrapped for data parallelism; `sharded` the layer of which each
    rank has a part.
    """
    trained = _trained(model)
    if first:
        common = {f"model/{name}": array.numpy() for name, array in trained.items()}
        common |= _momentum("model", trained, optimizer)
        common |= {f"scaler/{name}": value for name, value in scaler.state_dict().items()}
        _write(folder / COMMON, common)
    own = {f"model/{name}": array.numpy() for name, array in _statistics(model).items()}
    if sharded is not None:
        parts = _trained(sharded)
        own |= {f"sharded/{name}": array.numpy() for name, array in parts.items()}
        own |= _momentum("sharded", parts, optimizer)
    _write(folder / OWN, own)


def restore(
    common: Path, own: Path, *, model: Any, optimizer: Any, scaler: Any, sharded: Any = None
) -> None:
    """Put back what `save` wrote: `common` is rank 0's folder, `own` this rank's.

    Model and sharded layer are as they were built, and the optimizer has taken no step yet. Raises
    KeyError or ValueError where they are others.
    """
    state, mine = _read(common / COMMON), _read(own / OWN)
    momentum: dict[str, Array] = {}
    _fill("model", _trained(model), state, momentum)
    _fill("model", _statistics(model), mine, {})
    if sharded is not None:
        _fill("sharded", _trained(sharded), mine, momentum)
    optimizer.set_state_dict(momentum)
    if scaler.is_enable():
        scaler.load_state_dict(
            {
                name.partition("/")[2]: value if value.ndim else value.item()
                for name, value in state.items()
                if name.startswith("scaler/")
            }
        )


def _trained(layer: Any) -> dict[str, Any]:
    return {
        name: parameter
        for name, parameter in layer.named_parameters()
        if not parameter.stop_gradient
    }


def _statistics(layer: Any) -> dict[str, Any]:
    """All that is not trained: batch norm's statistics, which Paddle counts among both kinds."""
    trained = _trained(layer)
    return {name: value for name, value in layer.state_dict().items() if name not in trained}


def _momentum(kind: str, parameters: Mapping[str, Any], optimizer: Any) -> dict[str, Array]:
    """None of it before the first step."""
    state = optimizer.state_dict()
    return {
        f"{kind}@{VELOCITY}/{name}": state[key].numpy()
        for name, parameter in parameters.items()
        if (key := f"{parameter.name}_{VELOCITY}_0") in state
    }


def _fill(
    kind: str, tensors: Mapping[str, Any], saved: Mapping[str, Array], momentum: dict[str, Array]
) -> None:
    for name, tensor in tensors.items():
        tensor.set_value(saved[f"{kind}/{name}"])
        velocity = saved.get(f"{kind}@{VELOCITY}/{name}")
        if velocity is not None:
            momentum[f"{tensor.name}_{VELOCITY}_0"] = velocity


def _write(path: Path, state: Mapping[str, Any]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **state)
    path.write_bytes(buffer.getbuffer())


def _read(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as saved:
        return {name: saved[name] for name in saved.files}
