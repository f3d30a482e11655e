"""Exact tests of two sides, and an exact interval of their ratio, for any continuous distribution.

Two sides are compared by the permutation test of their rank sum (Wilcoxon, Mann and Whitney): of
all ways to deal the observations to two sides of these sizes, in how many are the sides at least as
far apart? All are counted, none sampled. Counts are coefficients of polynomials, which one long
integer holds: exact, and fast up to hundreds of observations.

The interval is of the ratio of a value of the second side to one of the first (Moses, Hodges and
Lehmann): two order statistics of all ratios of pairs, by the same counts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from k8sbench.model.compared import Evidence, Interval

ALPHA = 0.05
"""The p up to which a difference counts as shown."""
COVERAGE = 0.95
"""What an interval aims at."""


def rank_sum(a: Sequence[float], b: Sequence[float]) -> Evidence:
    """Test whether two sides, of at least one observation each, differ."""
    every = sorted([*a, *b])
    doubled = {value: _doubled_rank(every, value) for value in every}
    # The smaller side: both have the same answer, and this one is found sooner.
    few = a if len(a) <= len(b) else b
    ranks = tuple(doubled[value] for value in every)
    sums = _sums(ranks, len(few))
    middle = len(few) * (len(every) + 1)
    seen = abs(sum(doubled[value] for value in few) - middle)
    ways = math.comb(len(every), len(few))
    beyond = sum(count for total, count in sums if abs(total - middle) >= seen)
    direction = sum(doubled[v] for v in b) - len(b) * (len(every) + 1)
    return Evidence(
        p=beyond / ways,
        least=2 / ways,
        chance=1 / ways,
        is_apart=max(a) < min(b) or max(b) < min(a),
        direction=(direction > 0) - (direction < 0),
    )


def ratio_interval(a: Sequence[float], b: Sequence[float]) -> Interval | None:
    """Bound the ratio of the second side to the first; None for one observation on each.

    It is the narrowest that covers 95 %, or, where so few cannot reach that, from the least to the
    greatest ratio, with its own coverage.
    """
    if len(a) == len(b) == 1:
        return None
    ratios = sorted(second / first for first in a for second in b)
    ways = math.comb(len(a) + len(b), len(a))
    # Ways in which fewer than ``rank`` of the pairs have a ratio below 1.
    counts = _pairs(min(len(a), len(b)), max(len(a), len(b)))
    rank, tail = 1, counts[0]
    while rank < len(counts) and 1 - 2 * (tail + counts[rank]) / ways >= COVERAGE:
        tail += counts[rank]
        rank += 1
    return Interval(low=ratios[rank - 1], high=ratios[-rank], coverage=1 - 2 * tail / ways)


def fewest() -> int:
    """On each side, how many observations can have a two-sided p of 5 %."""
    return next(n for n in range(1, 20) if 2 / math.comb(2 * n, n) <= ALPHA)


def is_shown(evidence: Evidence) -> bool:
    """Whether the sides are separated.

    That is p ≤ 5 %; where so few cannot reach it, that one side lies wholly below the other, if
    chance does that in this direction at most once in 20.
    """
    if evidence.least <= ALPHA:
        return evidence.p <= ALPHA
    return evidence.is_apart and evidence.chance <= ALPHA


def can_be_shown(evidence: Evidence) -> bool:
    """Whether so many observations can be separated at all."""
    return evidence.chance <= ALPHA


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
    return _coefficients(ways[size], width)


@functools.lru_cache(maxsize=64)
def _pairs(few: int, many: int) -> tuple[int, ...]:
    """In how many orders of two sides so many pairs have the first one's value above the other's.

    By number of pairs, from 0.
    """
    counts = dict(_sums(tuple(range(1, few + many + 1)), few))
    least = few * (few + 1) // 2
    return tuple(counts.get(least + pairs, 0) for pairs in range(few * many + 1))


def _coefficients(packed: int, width: int) -> tuple[tuple[int, int], ...]:
    """Take apart what is packed: place and count of each that is not 0."""
    digits = f"{packed:b}"
    found = []
    for place, end in enumerate(range(len(digits), 0, -width)):
        count = int(digits[max(0, end - width) : end], 2)
        if count:
            found.append((place, count))
    return tuple(found)
