"""Batches for PyTorch, of synthetic samples and of files."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from k8sbench.trainers.parts import file_samples
from k8sbench.trainers.parts.file_samples import Read
from k8sbench.trainers.parts.samples import Array, Normalise
from k8sbench.trainers.parts.torch_session import Session


def files(
    reader: Any, batches: Iterable[Any], session: Session
) -> DataLoader[tuple[Tensor, Tensor, str]]:
    """Batches on the host with their notes; loader processes stay, to be asked again, and each has
    two batches ready, as upstream's: more of them fill /dev/shm.
    """
    return DataLoader(
        reader,
        batch_sampler=batches,
        num_workers=session.settings.workers,
        persistent_workers=session.settings.workers > 0,
        collate_fn=_collate,
        pin_memory=session.on_gpu,
        generator=torch.Generator(),  # else it would draw from the one that dropout draws from
    )


def tensor(values: Array) -> Tensor:
    """An array as a tensor, on the host."""
    return torch.from_numpy(values)


def _collate(samples: Sequence[Read]) -> tuple[Tensor, Tensor, str]:
    inputs, targets, note = file_samples.collate(samples)
    return torch.from_numpy(inputs), torch.from_numpy(targets), note


def on_device(
    inputs: Tensor, targets: Tensor, session: Session, normalise: Normalise | None = None
) -> tuple[Tensor, Tensor]:
    """Inputs, normalised if they are bytes, and targets as int64, on the device."""
    inputs = inputs.to(session.device, non_blocking=True)
    if session.settings.channels_last and inputs.dim() == 4:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    if inputs.dtype == torch.uint8 and normalise is not None:
        mean, deviation = _constants(normalise, session.device)
        inputs = (inputs - mean).div_(deviation)
    # Converted there: fewer bytes to copy.
    return inputs, targets.to(session.device, non_blocking=True).long()


@functools.cache
def _constants(normalise: Normalise, device: torch.device) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(triple, device=device).view(-1, 1, 1) for triple in normalise)
