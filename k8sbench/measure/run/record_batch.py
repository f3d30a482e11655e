"""Records that follow each other and are alike: sums over many at once take half the time."""

from __future__ import annotations

from typing import NamedTuple

from k8sbench.model.sample import Record


class BatchKind(NamedTuple):
    """What the records of a batch have in common."""

    file: str
    counts: bool = False
    """Whether all that they cover lies in the window."""
    steady: bool = False
    """Whether nothing but training lies in their time."""
    compares: bool = False
    """Whether nothing but they lies between their stamps, too."""
    stamped: bool = False
    takes_time: bool = False
    """Whether their times are positive."""

    @property
    def is_ordinary(self) -> bool:
        """Whether nothing is odd about them, so that the next record may be like them."""
        return self.counts and self.steady and self.takes_time and self.compares == self.stamped


class RecordBatch(NamedTuple):
    """Some records that lead further, in columns."""

    kind: BatchKind
    records: tuple[Record, ...]
    positions: tuple[int, ...]
    distances: tuple[int, ...]
    """Iterations since the record before."""
    covered: tuple[int, ...]
    times: tuple[float, ...]
    """Of all iterations that each covers, in the unit of the shape's deciding number."""
    passed: tuple[float, ...]
    """Seconds since the record before by the stamps, where the kind compares them."""
