"""The window of a run, and sums over the records that lie in it."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from k8sbench.measure.run.occurrences import Occurrences
from k8sbench.measure.run.record_batch import RecordBatch
from k8sbench.model.sample import Record, Shape


class CountedSteps(NamedTuple):
    """The iterations that count: those after the first ``warmup``, up to and with ``end``."""

    warmup: int
    end: float
    """``math.inf``: all."""


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
        self._first_stamped: tuple[int, float, int, float, float] | None = None
        self._last_stamped: tuple[int, float, int, float, float] | None = None
        """The fields of :class:`Stamped`, which takes longer to make."""
        self.first: Record | None = None
        self.last: Record | None = None
        self.files = ("", "")
        """Those of the first and the last counted record."""
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
            for record, position in zip(records, batch.positions, strict=True):
                self.left_out.add(file, record, position)
        if self.first_iteration is None:
            self.first_iteration = batch.positions[0] - covered[0] + 1
        self.last_iteration = batch.positions[-1]
        if kind.stamped:
            sums = (self.iterations, self.time, self._paused)
            self._last_stamped = (batch.positions[-1], records[-1].stamp or 0.0, *sums)
            self._first_stamped = self._first_stamped or self._last_stamped
            taken = [
                record.taken - record.stamp for record in records if record.taken and record.stamp
            ]
            self.delays.extend(taken)
        if not kind.takes_time:
            # The last digit of a running mean is more than the record's time. What it lacks the
            # next one has: the sums need both, and it has no rate of its own.
            for record, position in zip(records, batch.positions, strict=True):
                self.coarse.add(file, record, position)
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
        self.files = (self.files[0] or file, file)
        self.first = self.first or records[0]
        self.last = records[-1]

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
    def begun(self) -> bool:
        """Whether a record was counted that carries a stamp."""
        return self._first_stamped is not None

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
        return Stamped(*self._first_stamped), Stamped(*self._last_stamped)

    @property
    def stamps(self) -> tuple[float | None, float | None]:
        """When the window began, as far as a stamp shows, and when it ended."""
        first, last = self._first_stamped, self._last_stamped
        began = self.began if self.began is not None else first and first[1]
        return began, last and last[1]
