"""Samples for the loaders of both frameworks: which, in what order, and broken ones.

What a rank trains on in a step follows from the step's number, the seed and the size of the data
set alone, so that a resumed run needs nothing of the loader that it had before. Imports no
framework.
"""

from __future__ import annotations

import importlib
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from k8sbench.trainers.parts.events import Journal, Place
from k8sbench.trainers.parts.samples import (
    Array,
    BrokenSample,
    DataError,
    Files,
    Normalise,
    Part,
    Samples,
    shares,
)
from k8sbench.trainers.parts.settings import Settings, refuse

At = tuple[int, int]  # epoch and number of a sample
Batch = tuple[Array, Array, str]  # inputs, targets and a note


def opener(name: str, **options: Any) -> Callable[[Path], Files]:
    """What opens a folder as the data set of that name, whose module needs Pillow."""

    def opened(folder: Path) -> Files:
        module: Any = importlib.import_module(f"k8sbench.trainers.data.{name}")
        files: Files = module.open_set(folder, **options)
        return files

    return opened


def opened(
    opener: Callable[[Path], Files] | None, settings: Settings, global_batch: int
) -> Files | None:
    """The data set that the settings name; None if that is synthetic. Ends the process where there
    is none that one could train on.
    """
    if not settings.real_data:
        return None
    assert opener is not None, "every trainer that has --data reads files"
    try:
        files = opener(Path(settings.data))
    except DataError as error:
        refuse(f"--data {settings.data}: {error}")
    if len(files.training) < global_batch:
        refuse(
            f"--data {settings.data} has {len(files.training)} samples to train on, fewer than the "
            f"global batch of {global_batch}; train on fewer ranks or by a smaller --batch-size"
        )
    return files


@dataclass(frozen=True)
class TrainingBatches:
    """A batch sampler: one rank's part of each global batch from step number `done` + 1 on.

    An epoch is one permutation of the numbers, less those that do not fill a global batch.
    """

    samples: int
    batch_size: int
    place: Place
    seed: int
    done: int = 0

    def __iter__(self) -> Iterator[list[At]]:
        global_batch = self.batch_size * self.place.world_size
        steps = self.samples // global_batch
        epoch, step = divmod(self.done, steps)
        while True:
            # The last number is none of a sample: so no sample's state is that of the order.
            random = np.random.default_rng((self.seed, epoch, self.samples))
            order = random.permutation(self.samples)
            for first in range(step * global_batch, steps * global_batch, global_batch):
                mine = first + self.place.rank * self.batch_size
                yield [(epoch, int(number)) for number in order[mine : mine + self.batch_size]]
            epoch, step = epoch + 1, 0


@dataclass(frozen=True)
class ValidationBatches:
    """A batch sampler: one rank's share of all samples, each of which one rank has once."""

    samples: int
    batch_size: int
    place: Place

    def __iter__(self) -> Iterator[list[At]]:
        mine = range(self.place.rank, self.samples, self.place.world_size)
        for first in range(0, len(mine), self.batch_size):
            yield [(0, number) for number in mine[first : first + self.batch_size]]


@dataclass(frozen=True)
class Read:
    """A sample, or None where it and what could take its place are broken."""

    number: int
    pair: tuple[Array, Array] | None
    broken: tuple[tuple[int, str, str], ...]  # number, path and reason


@dataclass(frozen=True)
class Reader:
    """A part of a data set as both frameworks' loaders take it.

    In place of a broken sample the next number is tried, at most `tries` in all.
    """

    part: Part
    seed: int
    tries: int = 1

    def __getitem__(self, at: At) -> Read:
        epoch, first = at
        broken: list[tuple[int, str, str]] = []
        for again in range(min(self.tries, len(self.part))):
            number = (first + again) % len(self.part)
            random = np.random.default_rng((self.seed, epoch, number))
            try:
                return Read(number, self.part.sample(number, random), tuple(broken))
            except BrokenSample as error:
                broken.append((number, error.path, error.why))
        return Read(first, None, tuple(broken))


class Decoded:
    """A synthetic data set as both frameworks' loaders take it."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def __getitem__(self, number: int) -> Read:
        return Read(number, self.samples.decoded(number), ())


def source(
    samples: Samples, session: Any, data: Any, normalise: Normalise | None = None
) -> Iterator[tuple[Any, Any]]:
    """Batches on the device, without end, from the synthetic source that the settings name.

    `session` is a `session.Session`, and `data` its framework's module of loaders.
    """
    numbers = shares(session.place, session.settings.batch_size)
    if session.settings.data == "synthetic":
        columns = zip(*map(samples.ready, next(numbers)), strict=True)
        inputs, targets = (data.tensor(np.stack(column)) for column in columns)
        return itertools.repeat(data.on_device(inputs, targets, session))
    batches = data.files(Decoded(samples), map(list, numbers), session)
    return (data.on_device(inputs, targets, session, normalise) for inputs, targets, _ in batches)


def collate(samples: Sequence[Read]) -> Batch:
    """One batch: inputs and targets of the whole samples (of no use if there is none), and a note
    of their numbers and of the broken ones, for a :class:`Ledger`.
    """
    pairs = [sample.pair for sample in samples if sample.pair is not None]
    if not pairs:
        nothing = np.zeros((1, 3, 1, 1), np.uint8)  # Paddle carries no empty arrays
        return nothing, nothing, note(samples)
    inputs, targets = zip(*pairs, strict=True)
    return np.stack(inputs), np.stack(targets), note(samples)


def note(samples: Sequence[Read]) -> str:
    """The numbers of a batch's samples, and its broken ones, for a :class:`Ledger`."""
    numbers = [sample.number for sample in samples if sample.pair is not None]
    return json.dumps([numbers, [reason for sample in samples for reason in sample.broken]])


class Ledger:
    """The broken samples of one rank, each named once however often it is met. More of them than
    the limit end the process with exit code 1.
    """

    def __init__(self, files: Files, journal: Journal) -> None:
        self._journal = journal
        self._limit = journal.settings.broken_limit
        self._first = {"train": 0, "val": len(files.training)}
        self._samples = len(files.training) + len(files.validation)
        self._found: set[int] = set()  # by number, those of the validation part after the others

    def read(self, part: str, note: str, *, wanted: int = 0) -> list[int]:
        """The numbers of a batch's samples; each broken one that is new is named by an event.

        Fewer samples than `wanted` also end the run: none could take the place of a broken one.
        """
        numbers, broken = json.loads(note)
        for number, path, why in broken:
            known = len(self._found)
            self._found.add(self._first[part] + number)
            if len(self._found) > known:
                told = {"part": part, "path": path, "why": why, "count": len(self._found)}
                self._journal.timed("broken", {"rank": self._journal.place.rank, **told})
                self._check(len(self._found))
        if len(numbers) < wanted:
            refuse("no sample of the training part can be read; look at the data", passing=True)
        return list(numbers)

    def total(self, summed: Callable[[Array], Array]) -> int:
        """How many all ranks have found, each once; `summed` sums an array over the ranks."""
        if not summed(np.array([float(len(self._found))]))[0]:
            return 0
        marks = np.zeros(self._samples)
        marks[list(self._found)] = 1
        count = int(np.count_nonzero(summed(marks)))
        self._check(count)
        return count

    def _check(self, count: int) -> None:
        if count > self._limit:
            refuse(
                f"{count} samples cannot be read, more than --broken-limit {self._limit}; the "
                "events named broken tell which",
                passing=True,
            )
