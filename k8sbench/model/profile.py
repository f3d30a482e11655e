"""The grid of a run's profile, figures over a range of iterations, and the curve of a log.

The points of the grid are each iteration up to 16, then eight to each doubling: 18, 20, …, 32, 36,
…, 64, 72, …. Profiles of runs of any length therefore have their points in common. A range counts
from the run's own first iteration, so that trainings that go on from a checkpoint are compared.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import msgspec

STEADY = 1.02
"""Speeds of the last and the first third of a range whose ratio is larger follow a schedule.

In 1,030 public runs of one program the last quarter takes 2.6 times as long as the first.
"""
OCTAVE_BITS = 3
"""Logarithm to base 2 of the points of an octave."""


def next_point(iteration: int) -> int:
    """Return the first point of the grid after an iteration."""
    spacing_bits = max(iteration.bit_length() - 1 - OCTAVE_BITS, 0)
    return ((iteration >> spacing_bits) + 1) << spacing_bits


class IterationRange(msgspec.Struct, frozen=True, kw_only=True):
    """The iterations over which the runs of a case are compared."""

    begin: int
    """Iterations before the range."""
    end: int
    """Last iteration of the range."""
    planned: str | None = None
    """Planned length that its runs have in common, ``1000 iterations``; None without one."""

    @property
    def length(self) -> int:
        """Number of iterations."""
        return self.end - self.begin

    @property
    def text(self) -> str:
        """``10+278``, as a window is written; ``10+278 of 1000 iterations`` with a plan."""
        of_plan = "" if self.planned is None else f" of {self.planned}"
        return f"{self.begin}+{self.length}{of_plan}"


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a run's measurement that gives figures over ranges of iterations."""

    warmup: int
    """Iterations of its own warm-up."""
    end: int
    """Iterations that its log covers, warm-up included."""
    planned: str | None = None
    """Planned length as its log states it, ``1000 iterations``; None if not stated."""
    points: tuple[int, ...] = ()
    """Points of its profile; empty without a profile. Other columns have an item for each."""
    seconds: tuple[float, ...] = ()
    """Time up to each point, s."""
    amounts: tuple[float, ...] = ()
    """Samples or tokens of the job up to each point, as the throughput counts them."""

    def is_whole(self, over: IterationRange) -> bool:
        """True if the range is the run's own window."""
        return (self.warmup, self.end) == (over.begin, over.end)

    def covers(self, over: IterationRange) -> int:
        """Return the number of iterations of the range that the run has."""
        return max(0, min(self.end, over.end) - over.begin)

    def is_too_short(self, over: IterationRange) -> bool:
        """True if the run covers less than half of the range."""
        return 2 * self.covers(over) < over.length

    def rate_over(self, over: IterationRange, own: float) -> float | None:
        """Return the rate over the part of the range that the run covers.

        ``own`` is the rate of the run's own window. Else it is between the first and the last
        point of its profile within the range. None if the run is too short, if its speed follows a
        schedule of another length, or if its profile has no such points.
        """
        if self.is_whole(over):
            return own
        if self.is_too_short(over) or self.follows_other_schedule(over):
            return None
        begin, end = self._inside(over.begin, over.end)
        seconds = self._between(self.seconds, begin, end)
        amount = self._between(self.amounts, begin, end)
        if seconds is None or amount is None or 2 * (end - begin) < over.length:
            return None
        return _rate(amount, seconds)

    def follows_other_schedule(self, over: IterationRange) -> bool:
        """True if its speed or batch changes in the range, and its planned length may be another.

        A schedule may go by the share of the run: then equal iterations of runs of other lengths
        are not equal work.
        """
        if self.is_whole(over) or (over.planned is not None and self.planned == over.planned):
            return False
        end = min(over.end, self.end)
        third = (end - over.begin) // 3
        parts = (over.begin, over.begin + third), (end - third, end)
        for sums in (self.seconds, self.amounts):
            first, last = (self._per_iteration(sums, *part) for part in parts)
            if first and last and not 1 / STEADY <= last / first <= STEADY:
                return True
        return False

    def consumed(self, over: IterationRange) -> float | None:
        """Return the samples or tokens of an iteration of the range; None if not known."""
        return self._per_iteration(self.amounts, over.begin, min(over.end, self.end))

    def _per_iteration(self, sums: Sequence[float], begin: int, end: int) -> float | None:
        begin, end = self._inside(begin, end)
        amount = self._between(sums, begin, end)
        return None if amount is None else amount / (end - begin)

    def _inside(self, begin: int, end: int) -> tuple[int, int]:
        """Return the first and the last point of the profile within two iterations."""
        first, last = bisect_left(self.points, begin), bisect_right(self.points, end)
        if begin and first < len(self.points):
            begin = self.points[first]
        return begin, self.points[last - 1] if last else 0

    def _between(self, sums: Sequence[float], begin: int, end: int) -> float | None:
        """Return a sum between two points; None without iterations between them."""
        if begin >= end:
            return None
        return sums[bisect_left(self.points, end)] - (
            sums[bisect_left(self.points, begin)] if begin else 0.0
        )


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Training lines of a run, in log order; both have equal length."""

    iterations: tuple[int, ...]
    """Counted through all epochs."""
    rates: tuple[float | None, ...]
    """Samples per second of the whole job."""


def _rate(amount: float, seconds: float) -> float | None:
    return None if seconds <= 0 else amount / seconds
