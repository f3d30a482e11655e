"""The exact test of the rank sum of two sides (Wilcoxon, Mann and Whitney), for ``history``.

Of all ways to deal the observations to two sides of these sizes, in how many are the sides at least
as far apart? All are counted, none sampled. Counts are coefficients of polynomials, which one long
integer holds: exact, and fast enough for the many tests of a history.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence


def rank_sum(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p of two sides, of at least one observation each."""
    every = sorted([*a, *b])
    doubled = {value: _doubled_rank(every, value) for value in every}
    # The smaller side: both have the same answer, and this one is found sooner.
    few = a if len(a) <= len(b) else b
    ranks = tuple(doubled[value] for value in every)
    middle = len(few) * (len(every) + 1)
    seen = abs(sum(doubled[value] for value in few) - middle)
    sums = _sums(ranks, len(few))
    beyond = sum(count for total, count in sums if abs(total - middle) >= seen)
    return beyond / math.comb(len(every), len(few))


def _doubled_rank(every: Sequence[float], value: float) -> int:
    """Twice the middle of the places that equal values share: a whole number."""
    first = every.index(value)
    return 2 * first + every.count(value) + 1


@functools.lru_cache(maxsize=64)
def _sums(ranks: tuple[int, ...], size: int) -> tuple[tuple[int, int], ...]:
    """Each sum that ``size`` of the ranks can have, and in how many ways."""
    width = math.comb(len(ranks), size).bit_length()
    ways = [1] + [0] * size
    for rank in ranks:
        for chosen in range(size, 0, -1):
            ways[chosen] += ways[chosen - 1] << (rank * width)
    digits = f"{ways[size]:b}"
    counts = []
    for place, end in enumerate(range(len(digits), 0, -width)):
        count = int(digits[max(0, end - width) : end], 2)
        if count:
            counts.append((place, count))
    return tuple(counts)
