"""Where a rank's batches come from.

A data set is an object with two methods: `ready(index)` gives a sample as the model takes it,
`decoded(index)` gives one as a worker would have it after decoding a file and passes it through
the training augmentations. `synthetic` makes one fixed batch of ready samples and keeps it on the
device; `synthetic-host` has loader processes make a new batch each step, so that the cost of the
loader and of the copy to the device can be seen. A source of real files is a third kind that
yields the same pairs.

Sample numbers are global: rank r of w has the samples r·b … r·b + b − 1 of a global batch, so that
any number of ranks trains on the same samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from k8sbench.trainers.parts.torch_session import Session

Sample = tuple[Tensor, Tensor]


class Samples(Protocol):
    """A data set: pairs of an input and its target, by global number."""

    def ready(self, index: int) -> Sample:
        """A fixed sample as the model takes it."""

    def decoded(self, index: int) -> Sample:
        """A sample made as a loader process makes it: decoded, augmented, normalised."""


def source(samples: Samples, session: Session) -> Iterator[Sample]:
    """Batches on the device, without end, from the source that the settings name."""
    kind = session.settings.data
    if kind == "synthetic":
        return _fixed(samples, session)
    if kind == "synthetic-host":
        return _loaded(samples, session)
    raise ValueError(f"no data source is called {kind!r}")


def _fixed(samples: Samples, session: Session) -> Iterator[Sample]:
    size = session.settings.batch_size
    first = session.place.rank * size
    pairs = [samples.ready(index) for index in range(first, first + size)]
    batch = _on_device(
        torch.stack([pair[0] for pair in pairs]), torch.stack([pair[1] for pair in pairs]), session
    )
    return itertools.repeat(batch)


def _loaded(samples: Samples, session: Session) -> Iterator[Sample]:
    settings = session.settings
    loader = DataLoader(
        _Decoded(samples),
        batch_size=settings.batch_size,
        sampler=_Share(session.place.rank, session.place.world_size, settings.batch_size),
        num_workers=settings.workers,
        pin_memory=session.on_gpu,
    )
    for inputs, targets in loader:
        yield _on_device(inputs, targets, session)


def _on_device(inputs: Tensor, targets: Tensor, session: Session) -> Sample:
    inputs = inputs.to(session.device, non_blocking=True)
    if session.settings.channels_last and inputs.dim() == 4:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    return inputs, targets.to(session.device, non_blocking=True)


class _Decoded(Dataset[Sample]):
    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def __getitem__(self, index: int) -> Sample:
        return self.samples.decoded(index)


class _Share(Sampler[int]):
    """One rank's share of an endless run of sample numbers."""

    def __init__(self, rank: int, world_size: int, batch_size: int) -> None:
        self.rank, self.world_size, self.batch_size = rank, world_size, batch_size

    def __iter__(self) -> Iterator[int]:
        first = self.rank * self.batch_size
        while True:
            yield from range(first, first + self.batch_size)
            first += self.world_size * self.batch_size
