"""Which samples a rank trains on, whatever the framework.

A data set is an object with two methods: `ready(index)` gives a sample as the model takes it,
`decoded(index)` gives one as a worker would have it after decoding a file, passed through the
training augmentations. `synthetic` makes one fixed batch of ready samples and keeps it on the
device; `synthetic-host` has loader processes make a new batch each step, so that the cost of the
loader and of the copy to the device can be seen. A source of real files is a third kind that
yields the same pairs.

Sample numbers are global: rank r of w has the samples r·b … r·b + b − 1 of a global batch, so that
any number of ranks trains on the same samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

from k8sbench.trainers.parts.events import Place

T_co = TypeVar("T_co", covariant=True)


class Samples(Protocol[T_co]):
    """A data set: pairs of an input and its target, by global number."""

    def ready(self, index: int) -> tuple[T_co, T_co]:
        """A fixed sample as the model takes it; images are [channels, height, width]."""

    def decoded(self, index: int) -> tuple[T_co, T_co]:
        """A sample made as a loader process makes it: decoded, augmented, normalised."""


def shares(place: Place, batch_size: int) -> Iterator[range]:
    """The sample numbers of one rank's batches, step after step, without end."""
    for step in itertools.count():
        first = (step * place.world_size + place.rank) * batch_size
        yield range(first, first + batch_size)


class Decoded:
    """A data set as both frameworks' loaders take it: decoded samples by their number."""

    def __init__(self, samples: Samples[Any]) -> None:
        self.samples = samples

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.samples.decoded(index)


class Batches:
    """A batch sampler as both frameworks' loaders take it: one rank's :func:`shares`."""

    def __init__(self, place: Place, batch_size: int) -> None:
        self.place = place
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[list[int]]:
        return map(list, shares(self.place, self.batch_size))
