"""The grid of a run's profile, and figures over a range of iterations.

The points of the grid are each iteration up to 16, then eight to each doubling: 18, 20, …, 32, 36,
…, 64, 72, …. Profiles of runs of any length therefore have their points in common.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from k8sbench.model.measurement import Profile

OCTAVE_BITS = 3
"""Logarithm to base 2 of the points of an octave."""


def next_point(iteration: int) -> int:
    """Return the first point of the grid after an iteration."""
    spacing_bits = max(iteration.bit_length() - 1 - OCTAVE_BITS, 0)
    return ((iteration >> spacing_bits) + 1) << spacing_bits


class RangeFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of a range of iterations, and its rates."""

    iterations: float
    """Iterations of the range that training lines cover."""
    seconds: float
    """Time of these iterations, s."""
    samples: float | None
    """Samples of the job in these iterations; None if the profile has none."""
    tokens: float | None
    """Tokens of the job in these iterations; None if the profile has none."""
    loss: float | None
    """Last loss up to the end of the range; None if none is printed, or it is not a number."""

    @property
    def samples_per_second(self) -> float | None:
        """Samples of the range ÷ its time; None without either."""
        return _rate(self.samples, self.seconds)

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens of the range ÷ its time; None without either."""
        return _rate(self.tokens, self.seconds)


def range_figure(profile: Profile, after: int, upto: int) -> RangeFigure | None:
    """Return the figure of the iterations after ``after``, up to and with ``upto``.

    Both count from the run's own first iteration; ``after`` is 0 for the run's beginning. None
    unless they are points of the profile.
    """
    begin, end = _place(profile, after), _place(profile, upto)
    if begin is None or end is None or after >= upto:
        return None
    return RangeFigure(
        iterations=_between(profile.iterations, begin, end),
        seconds=_between(profile.seconds, begin, end),
        samples=None if profile.samples is None else _between(profile.samples, begin, end),
        tokens=None if profile.tokens is None else _between(profile.tokens, begin, end),
        loss=None if profile.losses is None else profile.losses[end],
    )


_BEGINNING = -1
"""Place of iteration 0, which no profile lists."""


def _place(profile: Profile, point: int) -> int | None:
    """Return the place of a point in the columns; None if the profile lacks it."""
    if point == 0:
        return _BEGINNING
    place = bisect_left(profile.points, point)
    is_there = place < len(profile.points) and profile.points[place] == point
    return place if is_there else None


def _between(sums: Sequence[float], begin: int, end: int) -> float:
    return sums[end] - (0.0 if begin == _BEGINNING else sums[begin])


def _rate(amount: float | None, seconds: float) -> float | None:
    return None if amount is None or seconds <= 0 else amount / seconds
