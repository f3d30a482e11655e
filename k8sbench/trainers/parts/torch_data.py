"""Batches for PyTorch, from the sources that `samples` describes, and from files."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from k8sbench.trainers.parts import file_samples
from k8sbench.trainers.parts.file_samples import At, Read, Reader
from k8sbench.trainers.parts.samples import Batches, Decoded, Normalise, Samples, shares
from k8sbench.trainers.parts.torch_session import Session

Sample = tuple[Tensor, Tensor]


def source(
    samples: Samples[Tensor], session: Session, normalise: Normalise | None = None
) -> Iterator[Sample]:
    """Batches on the device, without end, from the synthetic source that the settings name."""
    if session.settings.data == "synthetic":
        return _fixed(samples, session)
    return _loaded(samples, session, normalise)


def _fixed(samples: Samples[Tensor], session: Session) -> Iterator[Sample]:
    numbers = next(shares(session.place, session.settings.batch_size))
    inputs, targets = zip(*map(samples.ready, numbers), strict=True)
    return itertools.repeat(on_device(torch.stack(inputs), torch.stack(targets), session))


def _loaded(
    samples: Samples[Tensor], session: Session, normalise: Normalise | None
) -> Iterator[Sample]:
    loader: DataLoader[Sample] = DataLoader(
        Decoded(samples),
        batch_sampler=Batches(session.place, session.settings.batch_size),
        num_workers=session.settings.workers,
        pin_memory=session.on_gpu,
    )
    for inputs, targets in loader:
        yield on_device(inputs, targets, session, normalise)


def files(
    reader: Reader, batches: Iterable[list[At]], session: Session
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


def _collate(samples: Sequence[Read]) -> tuple[Tensor, Tensor, str]:
    inputs, targets, note = file_samples.collate(samples)
    return torch.from_numpy(inputs), torch.from_numpy(targets), note


def on_device(
    inputs: Tensor, targets: Tensor, session: Session, normalise: Normalise | None = None
) -> Sample:
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
