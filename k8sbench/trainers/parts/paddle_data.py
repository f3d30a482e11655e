"""Where a rank's batches come from.

A data set is an object with two methods that give numpy arrays: `ready(index)` a sample as the
model takes it, `decoded(index)` one as a worker would have it after decoding a file, passed
through the training augmentations. `synthetic` makes one fixed batch of ready samples and keeps it
on the device; `synthetic-host` has loader processes make a new batch each step, so that the cost
of the loader and of the copy to the device can be seen. A source of real files is a third kind
that yields the same pairs.

Sample numbers are global: rank r of w has the samples r·b … r·b + b - 1 of a global batch, so that
any number of ranks trains on the same samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import paddle

from k8sbench.trainers.parts.paddle_session import Session

Sample = tuple[Any, Any]


class Samples(Protocol):
    """A data set: pairs of an input and its target, by global number."""

    def ready(self, index: int) -> Sample:
        """A fixed sample as the model takes it; images are [channels, height, width]."""

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
    numbers = _share(session, step=0)
    inputs, targets = zip(*map(samples.ready, numbers), strict=True)
    batch = (
        _in_layout(paddle.to_tensor(np.stack(inputs)), session),
        paddle.to_tensor(np.stack(targets)),
    )
    while True:
        yield batch


def _loaded(samples: Samples, session: Session) -> Iterator[Sample]:
    loader = paddle.io.DataLoader(
        _Decoded(samples),
        batch_sampler=_Batches(session),
        num_workers=session.settings.workers,
        return_list=True,
    )
    for inputs, targets in loader:
        yield _in_layout(inputs, session), targets


def _in_layout(inputs: Any, session: Session) -> Any:
    channels_last = session.layout == "NHWC" and inputs.ndim == 4
    return inputs.transpose([0, 2, 3, 1]) if channels_last else inputs


def _share(session: Session, step: int) -> range:
    size, place = session.settings.batch_size, session.place
    first = (step * place.world_size + place.rank) * size
    return range(first, first + size)


class _Decoded:
    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def __getitem__(self, index: int) -> Sample:
        return self.samples.decoded(index)


class _Batches:
    """One rank's share of an endless run of sample numbers."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __iter__(self) -> Iterator[list[int]]:
        step = 0
        while True:
            yield list(_share(self.session, step))
            step += 1
