"""The window of a run, and sums over the records that lie in it."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import msgspec

from k8sbench.measure.run.evidence import Occurrence, Occurrences
from k8sbench.model.sample import Shape


class CountedSteps(NamedTuple):
    """The iterations that count: those after the first ``warmup``, up to and with ``end``."""

    warmup: int
    end: float
    """``math.inf``: all."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A record that leads further, and what it covers."""

    line: Occurrence
    distance: int
    """Iterations since the record before."""
    covered: int
    time: float
    """Time of all covered iterations, in the deciding number's unit."""
    printed: tuple[int, float]
    """Iterations that the number on its line is of, and their time."""
    at: float | None
    """Its stamp, on the log's clock."""
    passed: float
    """Seconds since the record before by the stamps; 0 where they do not tell."""
    counts: bool
    """True if all covered iterations lie in the window."""
    steady: bool
    """True if its time holds only training."""
    compares: bool
    """True if only this record lies between the last two stamps."""


class Span(NamedTuple):
    """Iterations of a figure, and their time in the deciding number's unit."""

    first: int
    last: int
    iterations: int
    time: float


class Stamped(msgspec.Struct, frozen=True, gc=False):
    """Counted record with a stamp, and the sums up to it."""

    position: int
    stamp: float
    iterations: int
    time: float
    paused: float
    """Seconds that the records say their times leave out."""

    def seconds_to(self, last: Stamped) -> float:
        """Time up to a later record, without stated pauses."""
        return last.stamp - self.stamp - (last.paused - self.paused)


class Tally:
    """Sums over the counted records, in the unit of the shape's deciding number."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.records = 0
        self.iterations = 0
        self.time = 0.0
        self.printed_iterations = 0
        self.printed_time = 0.0
        self.steady_iterations = 0
        self.steady_time = 0.0
        self.rates = array("d")
        self._waiting = 0.0
        self._waiting_time = 0.0
        self.first_iteration: int | None = None
        self.last_iteration: int | None = None
        self._paused = 0.0
        self.stamped: tuple[Stamped, Stamped] | None = None
        """The first and the last record that carry a stamp."""
        self.first: Occurrence | None = None
        self.last: Occurrence | None = None
        self.began: float | None = None
        """Stamp of the last record before the window."""
        self.left_out = Occurrences()
        """Records that hold more than training."""
        self._epochs: Span | None = None
        """The epochs of which the log states a total, where it prints single steps."""

    def count(self, entry: Entry) -> None:
        """Count a record of the window."""
        line, covered, time = entry.line, entry.covered, entry.time
        record, position = line.record, line.position
        self.iterations += covered
        self.time += time
        printed, own_time = entry.printed
        self.printed_iterations += printed
        self.printed_time += own_time
        self._paused += record.paused
        if entry.steady:
            self.steady_iterations += covered
            self.steady_time += time
        else:
            self.left_out.add(line)
        if self.first_iteration is None:
            self.first_iteration = position - covered + 1
        self.last_iteration = position
        if entry.at is not None:
            last = Stamped(position, entry.at, self.iterations, self.time, self._paused)
            self.stamped = (self.stamped[0] if self.stamped else last, last)
        if own_time <= 0:
            # The last digit of a running mean is more than the record's time. What it lacks the
            # next one has: the sums need both, and it has no rate of its own.
            return
        self.records += 1
        rate = printed / own_time
        if record.seconds and self._shape.averaged == "running":
            # A step that is printed beside its running mean has a rate of its own.
            rate = 1 / record.seconds
        self.rates.append(rate)
        if entry.steady and record.waiting is not None:
            # An evaluation counts as a wait for the data of the iteration after it.
            self._waiting += record.waiting * time
            self._waiting_time += time
        self.last = line
        self.first = self.first or line

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
    def printed_alone(self) -> bool:
        """True if the figure covers no more iterations than the printed numbers."""
        return not self.all_steps and self.iterations <= self.printed_iterations

    @property
    def all_steps(self) -> bool:
        """True if epoch totals cover steps that are not printed."""
        return self._epochs is not None

    @property
    def span(self) -> Span | None:
        """Iterations and time of the time-weighted figure; None without any."""
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
    def stamps(self) -> tuple[float | None, float | None]:
        """Begin and end of the window; None if no stamp shows them."""
        if self.stamped is None:
            return self.began, None
        first, last = self.stamped
        return first.stamp if self.began is None else self.began, last.stamp
