"""The permutation test of two sides, of one case and of several cases together.

If nothing but chance makes the sides of a case differ, every way to deal its observations to two
sides of their sizes is equally likely. The test counts in how many of them the sides are at least
as far apart as they are, by the difference of their mean logarithms. All ways are counted up to
:data:`MOST`; beyond that some are drawn, the same each time.

Of several cases some differ by chance. Which of them are shown to differ is decided for all of them
together (Westfall and Young, step-down): the statistic of each, Student's *t*, is held against the
largest one that chance gives any of the cases. Chance finds a difference among cases without one in
at most 5 % of the comparisons, and, unlike with Bonferroni's correction, so few runs as show a
difference of one case can show it among many.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Iterator, Sequence

ALPHA = 0.05
"""The p up to which a difference counts as shown."""
MOST = 20_000
"""Ways that are counted: those of 8 and 8 observations are 12,870."""
DRAWN = 2_000
"""Ways that are drawn where there are more."""
PLENTY = 10
"""Runs of a side; where more are needed, the other side has too few."""
SAME = 1e-9
"""Relative difference up to which two throughputs are equal: that of rounding."""


def least_p(a: int, b: int) -> float:
    """Return the smallest p that so many observations can have."""
    return min(1.0, 2 / math.comb(a + b, a))


def fewest() -> int:
    """Return how many observations on each side can have a p of :data:`ALPHA`."""
    return next(n for n in itertools.count(1) if least_p(n, n) <= ALPHA)


class TwoSides:
    """Observations of a case, at least one per side, and their permutations."""

    def __init__(self, a: Sequence[float], b: Sequence[float]) -> None:
        logs = [math.log(value) for value in (*b, *a)]
        mean = statistics.fmean(logs)
        values = [value - mean for value in logs]
        self.least_p = least_p(len(a), len(b))
        self._freedom = len(values) - 2
        self._sum = math.fsum(values[: len(b)])
        # All values together are 0: the sums of one side are those of the other, negated. Of the
        # smaller side far fewer are put together on the way.
        if len(b) <= len(a):
            self._sums = sorted(_sums(values, len(b), self._sum))
        else:
            self._sums = sorted(-dealt for dealt in _sums(values, len(a), -self._sum))
        # The sum that leaves no difference within the sides, squared.
        squares = math.fsum(value * value for value in values)
        self._whole = squares * len(a) * len(b) / len(values)

    @property
    def direction(self) -> int:
        """Sign of the second side's difference: -1 lower, 1 higher, 0 equal."""
        return (self._sum > SAME) - (self._sum < -SAME)

    @property
    def p(self) -> float:
        """Return the two-sided p: twice that of the rarer direction."""
        ways = len(self._sums)
        below = bisect.bisect_right(self._sums, self._sum + SAME)
        above = ways - bisect.bisect_left(self._sums, self._sum - SAME)
        return min(1.0, 2 * min(below, above) / ways)

    @property
    def t_squared(self) -> float:
        """Square of Student's t; infinite where the values of each side are equal."""
        explained = self._sum**2
        if not self.direction or not self._freedom:
            return 0.0
        left = self._whole - explained
        return math.inf if left <= SAME * self._whole else self._freedom * explained / left

    def chance_of(self, t_squared: float) -> float:
        """Return the share of all ways to deal that give at least this statistic."""
        if not t_squared:
            return 1.0
        share = 1.0 if math.isinf(t_squared) else t_squared / (t_squared + self._freedom)
        limit = max(math.sqrt(share * self._whole) - SAME, SAME)
        below = bisect.bisect_right(self._sums, -limit)
        return (below + len(self._sums) - bisect.bisect_left(self._sums, limit)) / len(self._sums)


def adjusted(cases: Sequence[TwoSides]) -> list[float]:
    """Return each case's p corrected for all cases; shown up to :data:`ALPHA`.

    A case with too few observations to ever decide keeps its own.
    """
    # What can never be shown is not tested, and takes nothing from the others.
    able = [n for n, case in enumerate(cases) if case.least_p <= ALPHA]
    able.sort(key=lambda n: -cases[n].t_squared)
    found, before = [case.p for case in cases], 0.0
    for rank, n in enumerate(able):
        others = (cases[m].chance_of(cases[n].t_squared) for m in able[rank:])
        before = max(before, 1 - math.prod(1 - share for share in others))
        found[n] = max(before, found[n])
    return found


def to_decide(count: int) -> int | None:
    """Return how many runs a side needs against ``count``; None: more than :data:`PLENTY`."""
    enough = (n for n in range(1, PLENTY + 1) if least_p(count, n) <= ALPHA)
    return next(enough, None)


def _sums(values: Sequence[float], count: int, seen: float) -> list[float]:
    """Return the sums of all choices of ``count`` values.

    If there are too many, of a sample and ``seen``.
    """
    if math.comb(len(values), count) > MOST:
        return [seen, *_drawn_sums(values, count)]
    sums: list[list[float]] = [[0.0], *([] for _ in range(count))]
    for value in values:
        for size in range(count, 0, -1):
            sums[size] += [dealt + value for dealt in sums[size - 1]]
    return sums[count]


def _drawn_sums(values: Sequence[float], count: int) -> Iterator[float]:
    dealt, state = list(values), 1
    for _ in range(DRAWN):
        for place in range(count):
            # Knuth's generator; its high bits are the random ones.
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            other = place + (state >> 33) % (len(dealt) - place)
            dealt[place], dealt[other] = dealt[other], dealt[place]
        yield math.fsum(dealt[:count])
