"""What a log says more than once: the batch of each line, and an epoch's lines and its summary."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from k8sbench.measure.run.occurrences import Occurrence
from k8sbench.model.sample import Record

PRODUCT = 0.02
"""Relative difference of the products of rate and seconds of two records of one batch …"""
ROUNDING = 0.002
"""… and what their last digits may add, in seconds."""


class Epoch(msgspec.Struct):
    """The records of the current epoch, for the log's own summary of it."""

    number: int | None
    records: int = 0
    rates: float = 0.0
    last: Record | None = None
    complete: bool = True
    """Whether no record of it is missing."""
    ended: bool = False
    """Whether the log has summed it up; each rank may print that."""


class Products(msgspec.Struct):
    """Rate times seconds of the records that print both: their batch."""

    batch: float | None = None
    """Of the record with the longest iteration, where rounding matters least."""
    _longest: float = 0.0
    _first: float = 0.0
    _other: Occurrence | None = None
    """The record before, if its product is not the first one's."""

    def add(
        self, record: Record, file: str, position: int, rate: float, seconds: float
    ) -> Occurrence | None:
        """Add a record; return the one before it if that is of another batch than the first.

        The last batch of an epoch may be smaller.
        """
        samples = rate * seconds
        if seconds > self._longest:
            self._longest, self.batch = seconds, samples
        other, self._other = self._other, None
        if not self._first:
            self._first = samples
        elif abs(samples - self._first) > (PRODUCT + ROUNDING / seconds) * self._first:
            self._other = Occurrence(file, record, position)
        if other is None or other.record.shape.numbering == "run":
            return other
        return other if other.record.epoch == record.epoch else None

    def fit(self, samples: Sequence[float], seconds: Sequence[float]) -> bool:
        """Whether the products of many records are all the first one's, like that before."""
        slack = (PRODUCT + ROUNDING / max(seconds)) * self._first
        apart = max(max(samples) - self._first, self._first - min(samples))
        return self._other is None and apart <= slack

    def take(self, samples: Sequence[float], seconds: Sequence[float]) -> None:
        """Add the records of products that fit."""
        longest = max(seconds)
        if longest > self._longest:
            self._longest, self.batch = longest, samples[seconds.index(longest)]
