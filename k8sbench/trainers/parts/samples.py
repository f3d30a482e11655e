"""Which samples a rank trains on, whatever the framework.

A data set is an object with two methods: `ready(index)` gives a sample as the model takes it,
`decoded(index)` gives one as a worker would have it after decoding a file, passed through the
training augmentations. `synthetic` makes one fixed batch of ready samples and keeps it on the
device; `synthetic-host` has loader processes make a new batch each step, so that the cost of the
loader and of the copy to the device can be seen. A data set in files is a :class:`Files` of two
:class:`Part` objects.

Sample numbers are global: rank r of w has the samples r·b … r·b + b − 1 of a global batch, so that
any number of ranks trains on the same samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from k8sbench.trainers.parts.events import Place

Array = np.ndarray[Any, np.dtype[Any]]
# Mean and standard deviation of RGB values of 0-255.
Normalise = tuple[tuple[float, ...], tuple[float, ...]]


class Samples(Protocol):
    """A data set: pairs of an input and its target, by global number."""

    def ready(self, index: int) -> tuple[Array, Array]:
        """A fixed sample as the model takes it; images are [channels, height, width]."""

    def decoded(self, index: int) -> tuple[Array, Array]:
        """A sample made as a loader process makes it: decoded and augmented."""


def shares(place: Place, batch_size: int) -> Iterator[range]:
    """The sample numbers of one rank's batches, step after step, without end."""
    for step in itertools.count():
        first = (step * place.world_size + place.rank) * batch_size
        yield range(first, first + batch_size)


class DataError(Exception):
    """A folder that does not hold the data set: one sentence that names what is missing."""


class BrokenSample(Exception):
    """A sample whose file cannot be read or decoded."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why

    def __reduce__(self) -> tuple[Any, ...]:
        # It crosses from a loader process to the trainer.
        return type(self), (self.path, self.why)


class Part(Protocol):
    """One part of a data set in files: that to train on, or that to evaluate on."""

    def __len__(self) -> int:
        """The number of samples."""

    def sample(self, number: int, random: np.random.Generator) -> tuple[Array, Array]:
        """Decode sample `number` (from 0), augmented by `random` where it is to train on.

        An input is uint8 [..., 3, height, width], to be normalised on the device, or float32 of the
        same shape, normalised already. A target is an int64 scalar, or uint8 [height, width] with
        255 for pixels without a class. The same random state gives the same sample. Raises
        :class:`BrokenSample`.
        """


@dataclass(frozen=True)
class Files:
    """A data set in a folder, opened: nothing of a sample is read yet."""

    name: str
    training: Part
    validation: Part
    digest: str  # SHA-256, hex, of the sorted relative paths and sizes of all its samples' files
