"""Printed means that overlap, as the time that each line adds."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import NamedTuple

from k8sbench.model.sample import Record, Shape


class Covered(NamedTuple):
    """Iterations, and what they took."""

    iterations: int
    seconds: float
    """Total time of all iterations; per sample, for printed rates."""


NOTHING = Covered(0, 0.0)


class RunningMean:
    """The running mean of one rank, as far as the log has printed it."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.printed = NOTHING
        """Iterations and time of the previous record's mean."""
        self._carried = 0
        """Iterations of the epoch before that the mean covers, too."""
        self._untimed = 0
        """Iterations before the epoch's mean begins.

        Some programs do not time the first step, and print a first line at the second.
        """

    def turn(self, total: int, *, goes_on: bool) -> None:
        """Start an epoch of ``total`` iterations.

        ``goes_on``: it follows the previous epoch in the same run.
        """
        if goes_on and self._shape.carries and self.printed.iterations:
            self._carried = max(total - self._shape.skips, 0)
        else:
            self._carried, self.printed = 0, NOTHING

    def replace(self, record: Record) -> None:
        """Take in a record that leads no further."""
        self.printed = self._cover(record)

    def unroll(self, record: Record, previous: int) -> Covered:
        """Return what a record adds; ``previous`` is the iteration of the epoch's one before."""
        if previous == 0:
            self._untimed = int(self._shape.skips > 0 and record.iteration == 2)
        before = self.printed
        self.printed = self._cover(record)
        if previous - record.mean_begin <= self._shape.skips < record.iteration - record.mean_begin:
            # The mean began anew in between, or here.
            return self.printed
        return Covered(
            self.printed.iterations - before.iterations, self.printed.seconds - before.seconds
        )

    def _cover(self, record: Record) -> Covered:
        iterations, skips = record.iteration - record.mean_begin, self._shape.skips
        if iterations > skips:
            iterations -= skips
        else:
            iterations += self._carried or -self._untimed
        return Covered(iterations, self._shape.time_of_one(record) * iterations)


class LastMeans:
    """The means of one rank's last few iterations.

    The time up to an iteration is that up to so many iterations before and the mean times their
    number, whatever lies between. Times are in the unit of the shape's deciding number.
    """

    def __init__(self, shape: Shape) -> None:
        self._by_rate = shape.is_rate
        self._latest: int | None = None
        """End of the line before, whether its time is known or not."""
        self.exact = True
        """False once a time between two lines was needed."""
        self._begin(0)

    def _begin(self, end: int) -> None:
        self._ends, self._times = array("q", [end]), array("d", [0.0])
        """Iterations up to which the time is known, and that time."""
        self._even = bytearray(1)
        """1 if nothing but training lies between such an iteration and the one before."""
        self._is_even = True

    def unroll(
        self,
        end: int,
        own: Covered,
        passed: float | None,
        *,
        size: int,
        even: bool,
        restart: bool,
    ) -> Covered:
        """Return what a line adds; nothing if its time does not follow.

        The next line whose time does follow then covers it, too. ``own`` is what the line says of
        itself, of its last ``size`` iterations, ``passed`` the time since the line before by the
        clock, if nothing but training lies between. With ``even`` that is so, and steps take about
        the same time.
        """
        if restart or (self._latest is None and end > size):
            # What lies before is not known, or in no line; a restart may forget it.
            self._begin(end)
            self._latest = end
            return own
        pace = own.seconds / own.iterations
        begin = max(end - size, 0)
        last = self._ends[-1]
        (begun, exact), found = self._time_at(begin), NOTHING
        if self._by_rate or self._latest != last or (passed or 0.0) < 0:
            passed = None
        self._is_even &= even
        if begun is not None and (exact or passed is None):
            found = Covered(end - last, begun + (end - begin) * pace - self._times[-1])
        elif passed is not None:
            found = Covered(end - last, passed)
        elif begin >= last:
            found = Covered(end - begin, (end - begin) * pace)
            self._is_even = False
        self._latest = end
        self.exact &= exact or begun is None
        if found.iterations:
            self._ends.append(end)
            self._times.append(self._times[-1] + found.seconds)
            self._even.append(self._is_even)
            self._is_even = True
        return found

    def _time_at(self, iteration: int) -> tuple[float | None, bool]:
        """Time up to an iteration, and whether a line ends there.

        Even steps give it between two lines, too.
        """
        index = bisect_left(self._ends, iteration)
        if index == len(self._ends):
            return None, False
        end, time = self._ends[index], self._times[index]
        if end == iteration:
            return time, True
        if not self._even[index]:
            return None, False
        before, known = self._ends[index - 1], self._times[index - 1]
        return known + (time - known) * (iteration - before) / (end - before), False
