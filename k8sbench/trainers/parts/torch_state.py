"""What a PyTorch run goes on from, equal to the bit: saved to a folder per rank, and put back.

Rank 0 saves what all ranks have in common: parameters, momentum, the gradient scaler. Each rank
saves its own batch norm statistics, which differ between ranks. Random states are not saved: a
step's dropout is seeded by its number (`Session.seed_step`), as its samples are. The step and the
best value stand in the checkpoint's facts.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from torch import nn

COMMON, OWN = "common.pt", "own.pt"


def save(folder: Path, *, model: nn.Module, optimizer: Any, scaler: Any, first: bool) -> None:
    """Fill this rank's folder of a checkpoint; `first` on rank 0. Raises OSError.

    `model` is the bare one, not as wrapped for data parallelism.
    """
    if first:
        common = {
            "parameters": {
                name: parameter.detach() for name, parameter in model.named_parameters()
            },
            "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(),
        }
        _write(folder / COMMON, common)
    _write(folder / OWN, {"buffers": dict(model.named_buffers())})


def restore(common: Path, own: Path, *, model: nn.Module, optimizer: Any, scaler: Any) -> None:
    """Put back what `save` wrote: `common` is rank 0's folder, `own` this rank's.

    The model is as it was built, on its device. Raises RuntimeError or KeyError where it is
    another.
    """
    state, mine = _read(common / COMMON), _read(own / OWN)
    _fill(dict(model.named_parameters()), state["parameters"])
    _fill(dict(model.named_buffers()), mine["buffers"])
    optimizer.load_state_dict(state["optimizer"])
    if scaler.is_enabled():
        scaler.load_state_dict(state["scaler"])


@torch.no_grad()
def _fill(tensors: dict[str, Any], saved: dict[str, Any]) -> None:
    if tensors.keys() != saved.keys():
        raise KeyError(f"of another model: {min(tensors.keys() ^ saved.keys())}")
    for name, tensor in tensors.items():
        tensor.copy_(saved[name])


def _write(path: Path, state: dict[str, Any]) -> None:
    # By way of memory: PyTorch's own writer hides why a disk takes no more.
    buffer = io.BytesIO()
    torch.save(state, buffer)
    path.write_bytes(buffer.getbuffer())


def _read(path: Path) -> dict[str, Any]:
    # To the host first: the optimizer moves each tensor to its parameter's device.
    return dict(torch.load(path, map_location="cpu", weights_only=True))
