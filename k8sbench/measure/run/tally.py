"""The window of a run, and sums over the records that lie in it."""

from __future__ import annotations

import operator
from array import array
from typing import NamedTuple

from k8sbench.measure.run.occurrences import Occurrences
from k8sbench.model.sample import Record, Shape


class Window(NamedTuple):
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
        self._epochs: Span | None = None
        """The epochs of which the log states a total, where it prints single steps."""

    def count(
        self,
        record: Record,
        position: int,
        covered: int,
        time: float,
        *,
        steady: bool,
        file: str = "",
    ) -> None:
        """Count a record of the window; ``steady``: nothing but training lies in its time."""
        self.iterations += covered
        self.time += time
        self._paused += record.paused
        if steady:
            self.steady_iterations += covered
            self.steady_time += time
        if self.first_iteration is None:
            self.first_iteration = position - covered + 1
        self.last_iteration = position
        if record.stamp is not None:
            sums = (self.iterations, self.time, self._paused)
            self._last_stamped = (position, record.stamp, *sums)
            if record.taken is not None:
                self.delays.append(record.taken - record.stamp)
            if self._first_stamped is None:
                self._first_stamped = self._last_stamped
        if time <= 0:
            # The last digit of a running mean is more than the record's time. What it lacks the
            # next one has: the sums need both, and it has no rate of its own.
            return
        self.records += 1
        # A step that is printed beside its running mean has a rate of its own.
        own = record.seconds if self._shape.averaged == "running" else None
        self.rates.append(1 / own if own else covered / time)
        if steady and record.waiting is not None:
            # An evaluation counts as a wait for the data of the iteration after it.
            self._waiting += record.waiting * time
            self._waiting_time += time
        self.files = (self.files[0] or file, file)
        if self.first is None:
            self.first = record
        self.last = record

    def count_together(self, last: Record, position: int, covered: int, times: list[float]) -> None:
        """Count ordinary records, each of so many iterations, after the first that counts."""
        self.iterations += covered * len(times)
        self.time = sum(times, self.time)
        self.steady_iterations += covered * len(times)
        self.steady_time = sum(times, self.steady_time)
        self.last_iteration = position
        if last.stamp is not None:
            sums = (self.iterations, self.time, self._paused)
            self._last_stamped = (position, last.stamp, *sums)
        self.records += len(times)
        self.rates.fromlist([covered / time for time in times])
        self.last = last

    def wait(self, waits: list[float], times: list[float]) -> None:
        """Take the shares of these times that were spent waiting for data."""
        self._waiting = sum(map(operator.mul, waits, times), self._waiting)
        self._waiting_time = sum(times, self._waiting_time)

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
        """Whether a record was counted that has all that a later one may have."""
        return self.first is not None and self._first_stamped is not None

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
