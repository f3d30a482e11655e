"""Text as tokens, in the files that nanoGPT and others write: DIR/train.bin and DIR/val.bin.

The second may be missing, since nothing evaluates on it. A file is one stream of token numbers,
uint16 in little-endian order, without a header. A sample is a sequence of a fixed length; its
targets are the same tokens and the one after them, shifted by one. Sequences lie side by side, so
that an epoch has each token once.
"""

from __future__ import annotations

import functools
import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from k8sbench.trainers.data import decoding
from k8sbench.trainers.parts import samples
from k8sbench.trainers.parts.samples import Array, BrokenSample, DataError, Files

VOCABULARY, LENGTH = 50_257, 1024  # of GPT-2
# Sequences of GPT-2's length in OpenWebText as nanoGPT prepares it: 9,035,582,198 and 4,434,897
# tokens (data/openwebtext/readme.md at 0f0c5d93).
SAMPLES = {"train": 8_823_810, "val": 4_330}
HEAD = 64  # tokens that tell the width of numbers
HIGH = 3  # the largest high half of a token in four bytes: vocabularies end below 262,144


@dataclass(frozen=True)
class Sequences:
    """The sequences of a file."""

    path: Path
    length: int
    vocabulary: int
    count: int

    def __len__(self) -> int:
        return self.count

    @functools.cached_property
    def file(self) -> io.FileIO:
        """The open file.

        A map of it would end the process with SIGBUS once the file is cut.
        """
        return io.FileIO(self.path)

    def sample(self, number: int, random: np.random.Generator) -> tuple[Array, Array]:
        """Tokens and the ones that follow them, int64 [length]; raises `BrokenSample`."""
        del random
        wanted = 2 * (self.length + 1)
        try:
            data = os.pread(self.file.fileno(), wanted, 2 * number * self.length)
        except OSError as error:
            raise BrokenSample(str(self.path), f"sequence {number}: {error.strerror}") from None
        if len(data) < wanted:
            why = f"the file ends before sequence {number}: it was cut after the run began"
            raise BrokenSample(str(self.path), why)
        tokens = np.frombuffer(data, "<u2").astype(np.int64)
        if (most := int(tokens.max())) >= self.vocabulary:
            why = f"token {most} in sequence {number}; the model knows {self.vocabulary}"
            raise BrokenSample(str(self.path), why)
        return tokens[:-1], tokens[1:]


def open_set(folder: Path, *, length: int = LENGTH, vocabulary: int = VOCABULARY) -> Files:
    """The data set in `folder`; raises `DataError`."""
    parts = {}
    listed = []
    for name in SAMPLES:
        path = folder / f"{name}.bin"
        parts[name] = Sequences(path, length, vocabulary, 0)
        if name == "val" and not path.exists():
            continue
        try:
            size = samples.length(path)
            with path.open("rb") as file:
                head = np.frombuffer(file.read(2 * HEAD), "<u2", min(size // 2, HEAD))
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}") from None
        if size % 2 or size < 2 * (length + 1):
            what = f"{size} bytes are no tokens of two bytes each, of which it takes {length + 1}"
            raise DataError(f"{path}: {what} or more")
        if len(head) == HEAD and head[1::2].max() <= HIGH < head[::2].max():
            what = "each second token is next to 0, as in a file of four bytes each"
            raise DataError(f"{path}: {what}; write the tokens as uint16")
        parts[name] = Sequences(path, length, vocabulary, (size // 2 - 1) // length)
        listed.append(f"{name}.bin {size}\n".encode())
    return Files("tokens", parts["train"], parts["val"], decoding.digest(listed))


@dataclass(frozen=True)
class Drawn:
    """Synthetic tokens, all equally probable."""

    length: int
    vocabulary: int
    seed: int

    def ready(self, index: int) -> tuple[Array, Array]:
        """Sample `index`."""
        random = np.random.default_rng((self.seed, index))
        tokens = random.integers(self.vocabulary, size=self.length + 1)
        return tokens[:-1], tokens[1:]

    decoded = ready
