"""Samples of a rank: selection, order, broken ones.

A synthetic data set is an object with two methods: `ready(index)` gives a sample as the model takes
it, `decoded(index)` gives one as a worker would have it after decoding a file, passed through the
training augmentations. `synthetic` makes one fixed batch of ready samples and keeps it on the
device; `synthetic-host` has loader processes make a new batch each step, so that the cost of the
loader and of the copy to the device can be seen. A data set in files is a :class:`Files` of two
:class:`Part` objects. What a rank trains on of them in a step follows from the step's number, the
seed and the size of the data set alone, so that a resumed run needs nothing of the loader that it
had before.

Sample numbers are global: rank r of w has the samples r·b … r·b + b − 1 of a global batch, so that
any number of ranks trains on the same samples. Imports no framework.
"""

from __future__ import annotations

import errno
import hashlib
import io
import itertools
import json
import math
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from k8sbench.trainers.parts.events import Journal, RankPlace
from k8sbench.trainers.parts.settings import DATA_SOURCES, Settings, refuse

Array = np.ndarray[Any, np.dtype[Any]]
# Mean and standard deviation of RGB values of 0-255.
Normalise = tuple[tuple[float, ...], tuple[float, ...]]


class Samples(Protocol):
    """A data set: pairs of an input and its target, by global number."""

    def ready(self, index: int) -> tuple[Array, Array]:
        """A fixed sample as the model takes it; images are [channels, height, width]."""

    def decoded(self, index: int) -> tuple[Array, Array]:
        """A sample made as a loader process makes it: decoded and augmented."""


@dataclass(frozen=True)
class Shares:
    """Batch sampler: one rank's part of synthetic samples, without end."""

    place: RankPlace
    batch_size: int

    def __iter__(self) -> Iterator[list[int]]:
        for step in itertools.count():
            first = (step * self.place.world_size + self.place.rank) * self.batch_size
            yield list(range(first, first + self.batch_size))


class DataError(Exception):
    """Unusable data folder: one sentence that names what is missing."""


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
    """Part of a data set in files: training or validation."""

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
    left_out: tuple[str, ...] = ()  # a sentence for each listed sample that no part has


At = tuple[int, int]  # epoch and number of a sample
Batch = tuple[Array, Array, str]  # inputs, targets and a note


def opened(
    opener: Callable[[Path], Files] | None, settings: Settings, place: RankPlace
) -> Files | None:
    """Return the data set of the settings; None for synthetic data."""
    if settings.data in DATA_SOURCES:
        return None
    assert opener is not None, "every trainer that has --data reads files"
    try:
        files = opener(Path(settings.data))
    except DataError as error:
        refuse(f"--data {settings.data}: {error}")
    if files.left_out and place.first:
        first = "; ".join(files.left_out[:3]) + ("; …" if len(files.left_out) > 3 else "")
        text = f"k8sbench: samples left out of {settings.data}: {len(files.left_out)}: {first}"
        print(text, file=sys.stderr, flush=True)
    global_batch = settings.batch_size * place.world_size
    if len(files.training) < global_batch:
        refuse(
            f"--data {settings.data} has {len(files.training)} samples to train on, fewer than the "
            f"global batch of {global_batch}; train on fewer ranks or by a smaller --batch-size"
        )
    return files


@dataclass(frozen=True)
class TrainingBatches:
    """Batch sampler: a rank's part of each global batch after step `done`.

    An epoch is one permutation of the numbers, less those that do not fill a global batch. It is
    computed for the numbers of a batch alone: of 168 million it would take 18 s and 1.7 GiB.
    """

    samples: int
    batch_size: int
    place: RankPlace
    seed: int
    done: int = 0

    def __iter__(self) -> Iterator[list[At]]:
        global_batch = self.batch_size * self.place.world_size
        steps = self.samples // global_batch
        epoch, step = divmod(self.done, steps)
        while True:
            # The last number is none of a sample: so no sample's state is that of the order.
            random = np.random.default_rng((self.seed, epoch, self.samples))
            keys = random.integers(2**64, size=(ROUNDS, 2), dtype=np.uint64)
            for first in range(step * global_batch, steps * global_batch, global_batch):
                mine = first + self.place.rank * self.batch_size
                places = np.arange(mine, mine + self.batch_size, dtype=np.uint64)
                yield [(epoch, int(number)) for number in permuted(places, self.samples, keys)]
            epoch += 1
            step = 0


ROUNDS = 4
_SHIFT = np.uint64(32)
_ODD = np.uint64(0xD6E8FEB86659FD93)  # of degski's 64-bit mixer


def permuted(places: Array, count: int, keys: Array) -> Array:
    """Return the numbers at `places` of a permutation.

    It is of 0 … `count` - 1, chosen by `keys`: a Feistel network. A number is a row and a column of
    a rectangle, and each round shifts the rows by a hash of the column, and then the columns by one
    of the row. A number in the part of the rectangle beyond `count` is permuted again.
    """
    columns = np.uint64(math.isqrt(count - 1) + 1)
    rows = np.uint64(-(-count // int(columns)))
    found = places
    beyond = np.ones(len(places), bool)
    while beyond.any():
        row, column = np.divmod(found[beyond], columns)
        for of_column, of_row in keys:
            row = (row + _hashed(column ^ of_column) % rows) % rows
            column = (column + _hashed(row ^ of_row) % columns) % columns
        found = found.copy()
        found[beyond] = row * columns + column
        beyond = found >= count
    return found


def _hashed(numbers: Array) -> Array:
    for _ in range(2):
        numbers = (numbers ^ (numbers >> _SHIFT)) * _ODD
    return numbers ^ (numbers >> _SHIFT)


@dataclass(frozen=True)
class ValidationBatches:
    """Batch sampler: a rank's share of all samples, without repetition."""

    samples: int
    batch_size: int
    place: RankPlace

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
    samples: Samples, session: Any, normalise: Normalise | None = None
) -> Iterator[tuple[Any, Any]]:
    """Batches on the device, without end, from the synthetic source that the settings name.

    `session` is a `session.Session`.
    """
    shares = Shares(session.place, session.settings.batch_size)
    if session.settings.data == "synthetic":
        columns = zip(*map(samples.ready, next(iter(shares))), strict=True)
        inputs, targets = (session.tensor(np.stack(column)) for column in columns)
        return itertools.repeat(session.on_device(inputs, targets))
    batches = session.files(Decoded(samples), shares)
    return (session.on_device(inputs, targets, normalise) for inputs, targets, _ in batches)


def kept_bytes(reader: Any, batches: Iterable[Any], workers: int) -> int:
    """Most bytes of batches that loader processes keep in /dev/shm.

    All are taken to be as the first. In both frameworks each process has two ready or in work, and
    the trainer holds two.
    """
    first: Sequence[Any] = next(iter(batches), ()) if workers else ()
    pair = reader[first[0]].pair if first else None
    return (2 * workers + 2) * len(first) * sum(part.nbytes for part in pair or ())


def collate(samples: Sequence[Read]) -> Batch:
    """Build a batch with a note of its sample numbers and broken samples.

    Inputs and targets are of the whole samples (of no use if there is none); the note is for a
    :class:`Ledger`.
    """
    whole = [(sample.number, sample.pair) for sample in samples if sample.pair is not None]
    broken = [reason for sample in samples for reason in sample.broken]
    note = json.dumps([[number for number, _ in whole], broken])
    if not whole:
        nothing = np.zeros((1, 3, 1, 1), np.uint8)  # Paddle carries no empty arrays
        return nothing, nothing, note
    inputs, targets = zip(*(pair for _, pair in whole), strict=True)
    return np.stack(inputs), np.stack(targets), note


def _most(limit: str, samples: int) -> int:
    """Return a limit in samples, from a number or a share."""
    number = float(limit.rstrip("%"))
    return int(number * samples / 100 if limit.endswith("%") else number)


class Ledger:
    """Broken samples of one rank, each named once."""

    def __init__(self, files: Files, journal: Journal) -> None:
        self._journal = journal
        self._first = {"train": 0, "val": len(files.training)}
        self._samples = len(files.training) + len(files.validation)
        asked = journal.settings.broken_limit
        limits = [asked] if asked else ["100", "10%"]
        self.limit = min(_most(limit, self._samples) for limit in limits)
        # By number, those of the validation part after the others; an earlier attempt's, too.
        self.found: set[int] = set()

    def read(self, part: str, note: str, *, wanted: int = 0) -> list[int]:
        """Return a batch's sample numbers; report each new broken one.

        Fewer samples than `wanted` also end the run: none could take the place of a broken one.
        """
        numbers, broken = json.loads(note)
        for number, path, why in broken:
            known = len(self.found)
            self.found.add(self._first[part] + number)
            if len(self.found) > known:
                told = {"part": part, "path": path, "why": why, "count": len(self.found)}
                self._journal.timed("broken", {"rank": self._journal.place.rank, **told})
                self._check(len(self.found))
        if len(numbers) < wanted:
            refuse("no sample of the training part can be read; look at the data", passing=True)
        return list(numbers)

    def gather_numbers(self, summed: Callable[[Array], Array]) -> list[int]:
        """Return the numbers of all ranks' broken samples.

        `summed` sums an array over the ranks.
        """
        if not summed(np.array([float(len(self.found))]))[0]:
            return []
        marks = np.zeros(self._samples)
        marks[list(self.found)] = 1
        found: list[int] = np.flatnonzero(summed(marks)).tolist()
        self._check(len(found))
        return found

    def _check(self, count: int) -> None:
        if count > self.limit:
            refuse(
                f"{count} of {self._samples} samples cannot be read, more than the "
                f"limit of {self.limit}; the events named broken tell which"
            )


# -- reading of regular files ----------------------------------------------------------------------
#
# A pipe, a socket or a device is refused: reading it could block for ever.


def _open(path: Path | str) -> io.FileIO:
    """Open a regular file, unbuffered; raises OSError."""
    # An open of a pipe would wait for its writer.
    file = io.FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return file


def length(path: Path | str) -> int:
    """Bytes of a regular file; raises OSError."""
    with _open(path) as file:
        return os.fstat(file.fileno()).st_size


def content(path: Path | str) -> bytes:
    """All bytes of a regular file; raises OSError."""
    with _open(path) as file:
        return file.readall()


def digest(path: Path | str) -> str:
    """SHA-256 of a regular file, hex; raises OSError."""
    with _open(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
