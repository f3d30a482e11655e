"""State of a run: saved to a folder per rank, restored bit by bit.

Rank 0 saves what all ranks have in common: parameters, momentum, the gradient scaler. Each rank
saves its own batch norm statistics, which differ between ranks, and its part of a sharded layer
with that part's momentum. Tensors go by their place in the model. Random states are not saved: a
step's dropout is seeded by its number (`Session.seed_step`), as its samples are. The step and the
best value stand in the checkpoint's facts. Imports no framework.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from k8sbench.trainers.parts.samples import Array
from k8sbench.trainers.parts.session import Session

FORM = 2  # of the files; those of an earlier one are refused
COMMON, OWN = "common.npz", "own.npz"
MOMENTUM = "momentum of "


def save(
    folder: Path, here: Session, *, model: Any, optimizer: Any, scaler: Any, sharded: Any = None
) -> None:
    """Save this rank's state to its folder of a checkpoint.

    Raises OSError, also for values that are not finite. `model` is the bare one, not as wrapped for
    data parallelism; `sharded` the layer of which each rank has a part. There is no momentum before
    the first step.
    """

    def trained(kind: str, layer: Any) -> dict[str, Any]:
        parameters = here.trained(layer)
        momenta = here.momenta(optimizer, parameters)
        return arrays(kind, parameters) | arrays(f"{MOMENTUM}{kind}", momenta)

    def arrays(kind: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
        return {f"{kind}/{name}": here.array(tensor) for name, tensor in tensors.items()}

    if here.place.first:
        scale = {f"scaler/{name}": value for name, value in scaler.state_dict().items()}
        _write(folder / COMMON, trained("model", model) | scale)
    own = arrays("model", here.statistics(model))
    if sharded is not None:
        own |= trained("sharded", sharded)
    _write(folder / OWN, own)


def restore(
    common: Path,
    own: Path,
    here: Session,
    *,
    model: Any,
    optimizer: Any,
    scaler: Any,
    sharded: Any = None,
) -> None:
    """Put back what `save` wrote: `common` is rank 0's folder, `own` this rank's.

    Model and sharded layer are as they were built, on their device, and the optimizer has taken no
    step yet. Raises KeyError, ValueError or RuntimeError where they are others.
    """
    state, mine = _read(common / COMMON), _read(own / OWN)
    parts = [("model", here.trained(model), state), ("model", here.statistics(model), mine)]
    if sharded is not None:
        parts.append(("sharded", here.trained(sharded), mine))
    momenta = []
    for kind, tensors, saved in parts:
        for name, tensor in tensors.items():
            here.put(tensor, saved[f"{kind}/{name}"])
            momentum = saved.get(f"{MOMENTUM}{kind}/{name}")
            if momentum is not None:
                momenta.append((tensor, momentum))
    here.put_momenta(optimizer, momenta)
    scale = {
        name.partition("/")[2]: value if value.ndim else value.item()
        for name, value in state.items()
        if name.startswith("scaler/")
    }
    if scale:
        scaler.load_state_dict(scale)


def _write(path: Path, state: Mapping[str, Any]) -> None:
    for name, values in state.items():
        if not np.isfinite(values).all():  # nothing could go on from that
            raise OSError(None, f"{name} is not finite")
    # By way of memory: zipfile would hide why a disk takes no more.
    buffer = io.BytesIO()
    np.savez(buffer, **state)
    path.write_bytes(buffer.getbuffer())


def _read(path: Path) -> dict[str, Array]:
    with np.load(path, allow_pickle=False) as saved:
        return {name: saved[name] for name in saved.files}
