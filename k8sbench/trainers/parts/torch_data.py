"""Batches for PyTorch, from the sources that `samples` describes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from k8sbench.trainers.parts.samples import Batches, Decoded, Samples, shares
from k8sbench.trainers.parts.torch_session import Session

Sample = tuple[Tensor, Tensor]


def source(samples: Samples[Tensor], session: Session) -> Iterator[Sample]:
    """Batches on the device, without end, from the source that the settings name."""
    made = {"synthetic": _fixed, "synthetic-host": _loaded}[session.settings.data]
    return made(samples, session)


def _fixed(samples: Samples[Tensor], session: Session) -> Iterator[Sample]:
    numbers = next(shares(session.place, session.settings.batch_size))
    inputs, targets = zip(*map(samples.ready, numbers), strict=True)
    return itertools.repeat(_on_device(torch.stack(inputs), torch.stack(targets), session))


def _loaded(samples: Samples[Tensor], session: Session) -> Iterator[Sample]:
    loader: DataLoader[Sample] = DataLoader(
        Decoded(samples),
        batch_sampler=Batches(session.place, session.settings.batch_size),
        num_workers=session.settings.workers,
        pin_memory=session.on_gpu,
    )
    for inputs, targets in loader:
        yield _on_device(inputs, targets, session)


def _on_device(inputs: Tensor, targets: Tensor, session: Session) -> Sample:
    inputs = inputs.to(session.device, non_blocking=True)
    if session.settings.channels_last and inputs.dim() == 4:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    return inputs, targets.to(session.device, non_blocking=True)
