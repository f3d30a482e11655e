"""Digests of a log's records, by which copies of a log are found.

A digest is of the first records, as soon as chance cannot explain that those of another run have
it, too: a copy with other stamps, or one that is cut off, has the same.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter

from k8sbench.model.measurement import TIMES_AND_LOSSES
from k8sbench.model.sample import Record

CHANCE = 1e-9
"""Probability of equal values in another run, below which a log is a copy."""


class RecordDigest:
    """The digests of one rank's records, in one pass."""

    def __init__(self) -> None:
        self._printed = hashlib.sha256()
        self._timed = _Digest()
        self._losses = _Digest()

    def add(self, record: Record) -> None:
        """Add a record."""
        if not self._timed.is_certain:
            self._printed.update(record.text.encode("utf-8", "replace"))
            times = (record.seconds, record.mean_seconds, record.rate)
            self._timed.add(times, (record.epoch, record.iteration, record.loss))
        if not self._losses.is_certain:
            self._losses.add(record.loss, (record.epoch, record.iteration))

    def of_records(self) -> str:
        """Return the digest of times and losses; of all as printed where times hardly differ."""
        if self._timed.is_certain:
            return TIMES_AND_LOSSES + self._timed.digest.hexdigest()
        return self._printed.hexdigest()

    def of_losses(self) -> str | None:
        """Return the digest of the losses; None where they hardly differ."""
        return self._losses.digest.hexdigest() if self._losses.is_certain else None


class _Digest:
    """A digest of values until chance cannot explain them."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.is_certain = False
        self._seen: Counter[str] = Counter()
        """Number of times that each value was printed."""
        self._pairs = 0
        """Sum of the squares of these counts."""

    def add(self, value: object, place: object) -> None:
        text = repr(value)
        self.digest.update(f"{place} {text}\n".encode())
        self._pairs += 2 * self._seen[text] + 1
        self._seen[text] += 1
        records = self._seen.total()
        # Two draws of these values are equal with this probability.
        equal = self._pairs / records**2
        self.is_certain = records * math.log(equal) < math.log(CHANCE)
