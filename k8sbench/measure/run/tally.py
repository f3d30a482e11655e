"""The window of a run, its records in batches, and sums over those that lie in it."""

from __future__ import annotations

import heapq
import itertools
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from k8sbench.measure.run.evidence import Occurrence, Occurrences
from k8sbench.model.sample import Record, Shape

SORTED_AT_ONCE = 65_536
"""Values for a median."""


class CountedSteps(NamedTuple):
    """The iterations that count: those after the first ``warmup``, up to and with ``end``."""

    warmup: int
    end: float
    """``math.inf``: all."""


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
    """Some records that lead further, in columns: sums over many at once take half the time."""

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

    def lines(self) -> Iterator[Occurrence]:
        """The lines as evidence, in their order."""
        for record, position in zip(self.records, self.positions, strict=True):
            yield Occurrence(self.kind.file, record, position)


class Span(NamedTuple):
    """Iterations that a figure is of, and their time in the unit of the deciding number."""

    first: int
    last: int
    iterations: int
    time: float


class Stamped(NamedTuple):
    """A counted record that carries a stamp, and the sums up to and with it."""

    position: int
    stamp: float
    iterations: int
    time: float
    paused: float
    """Seconds that the records say their times leave out."""


class Tally:
    """Sums over the counted records, in the unit of the shape's deciding number."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.records = 0
        self.iterations = 0
        self.time = 0.0
        self.steady_iterations = 0
        self.steady_time = 0.0
        self.rates = array("d")
        self.factors = array("d")
        """Of records that print a step beside its running mean: the mean step since the record
        before, by that step."""
        self._waiting = 0.0
        self._waiting_time = 0.0
        self.first_iteration: int | None = None
        self.last_iteration: int | None = None
        self._paused = 0.0
        self._first_stamped: Stamped | None = None
        self._last_stamped: Stamped | None = None
        self.first: Occurrence | None = None
        self.last: Occurrence | None = None
        self.began: float | None = None
        """Stamp of the last record before the window."""
        self.delays = array("d")
        """From the time of each record, by its program, until the node took its line."""
        self.left_out = Occurrences()
        """Records that hold more than training."""
        self.coarse = Occurrences()
        """Records that have no positive time."""
        self._epochs: Span | None = None
        """The epochs of which the log states a total, where it prints single steps."""

    def count(self, batch: RecordBatch) -> None:
        """Count records of the window."""
        kind, records = batch.kind, batch.records
        file, covered, times = kind.file, batch.covered, batch.times
        self.iterations += sum(covered)
        self.time = sum(times, self.time)
        self._paused = sum([record.paused for record in records], self._paused)
        if kind.steady:
            self.steady_iterations += sum(covered)
            self.steady_time = sum(times, self.steady_time)
        else:
            for line in batch.lines():
                self.left_out.add(line)
        if self.first_iteration is None:
            self.first_iteration = batch.positions[0] - covered[0] + 1
        self.last_iteration = batch.positions[-1]
        if kind.stamped:
            sums = (self.iterations, self.time, self._paused)
            self._last_stamped = Stamped(batch.positions[-1], records[-1].stamp or 0.0, *sums)
            self._first_stamped = self._first_stamped or self._last_stamped
            taken = [
                record.taken - record.stamp for record in records if record.taken and record.stamp
            ]
            self.delays.extend(taken)
        if not kind.takes_time:
            # The last digit of a running mean is more than the record's time. What it lacks the
            # next one has: the sums need both, and it has no rate of its own.
            for line in batch.lines():
                self.coarse.add(line)
            return
        self.records += len(records)
        rates = [iterations / time for iterations, time in zip(covered, times, strict=True)]
        if self._shape.averaged == "running":
            # A step that is printed beside its running mean has a rate of its own.
            own = [record.seconds for record in records]
            self.factors.extend(
                [1 / (seconds * rate) for seconds, rate in zip(own, rates, strict=True) if seconds]
            )
            rates = [
                1 / seconds if seconds else rate for seconds, rate in zip(own, rates, strict=True)
            ]
        self.rates.extend(rates)
        if kind.steady:
            # An evaluation counts as a wait for the data of the iteration after it.
            waits = [
                (record.waiting * time, time)
                for record, time in zip(records, times, strict=True)
                if record.waiting is not None
            ]
            self._waiting = sum([wait for wait, _ in waits], self._waiting)
            self._waiting_time = sum([time for _, time in waits], self._waiting_time)
        self.first = self.first or Occurrence(file, records[0], batch.positions[0])
        self.last = Occurrence(file, records[-1], batch.positions[-1])

    def extend(self, position: int, covered: int, time: float) -> None:
        """Count iterations after the last record, of which an epoch's total tells."""
        self.iterations += covered
        self.time += time
        self.steady_iterations += covered
        self.steady_time += time
        if self.first_iteration is None:
            self.first_iteration = position - covered + 1
        self.last_iteration = position

    def add_epoch(self, first: int, last: int, time: float) -> None:
        """Count all steps of an epoch, printed or not."""
        known = self._epochs or Span(first, last, 0, 0.0)
        iterations = known.iterations + last - first + 1
        self._epochs = Span(known.first, last, iterations, known.time + time)

    @property
    def all_steps(self) -> bool:
        """Whether a log of single steps states totals of epochs, which the figure is of then."""
        return self._epochs is not None

    @property
    def span(self) -> Span | None:
        """What the time-weighted figure is of; None: nothing lies in the window."""
        if self._epochs is not None:
            return self._epochs
        if self.first_iteration is None or self.last_iteration is None:
            return None
        return Span(self.first_iteration, self.last_iteration, self.iterations, self.time)

    @property
    def waiting(self) -> float | None:
        """Share of the steady time that was spent waiting for data."""
        return self._waiting / self._waiting_time if self._waiting_time else None

    @property
    def stamped(self) -> tuple[Stamped, Stamped] | None:
        """The first and the last record that carry a stamp."""
        if self._first_stamped is None or self._last_stamped is None:
            return None
        return self._first_stamped, self._last_stamped

    @property
    def stamps(self) -> tuple[float | None, float | None]:
        """When the window began, as far as a stamp shows, and when it ended."""
        first, last = self._first_stamped, self._last_stamped
        began = self.began if self.began is not None else first and first.stamp
        return began, last and last.stamp


def median(values: array[float]) -> float:
    """The median of at least one value, exactly.

    Sorted as a whole they would become a list of objects of four times their size.
    """
    count, size = len(values), SORTED_AT_ONCE
    parts = [array("d", sorted(values[begin : begin + size])) for begin in range(0, count, size)]
    middle = [*itertools.islice(heapq.merge(*parts), (count - 1) // 2, count // 2 + 1)]
    return middle[0] + (middle[-1] - middle[0]) / 2
