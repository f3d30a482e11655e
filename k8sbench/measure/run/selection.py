"""The median of millions of numbers, exactly, in the memory that they take already.

Sorting would copy an ``array`` of eight bytes each into a list of objects four times that size.
"""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence


def median(values: array[float]) -> float:
    """The median of at least one value. Reorders ``values``."""
    count = len(values)
    upper = select(values, count // 2)
    if count % 2:
        return upper
    # Everything left of the upper middle is at most as large: the lower middle is its maximum.
    lower = max(values[: count // 2])
    return lower if lower == upper else lower + (upper - lower) / 2


def select(values: MutableSequence[float], k: int) -> float:
    """The ``k``-th smallest (from 0), in expected linear time. Reorders ``values`` around it.

    Hoare's FIND. Each pivot is the median of three at places that a fixed sequence picks, so that
    neither an ordered nor any other plain input is slow.
    """
    left, right = 0, len(values) - 1
    state = 1
    while left < right:
        some = []
        for _ in range(3):
            # Knuth's generator; its high bits are the random ones.
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            some.append(values[left + (state >> 33) % (right - left + 1)])
        pivot = sorted(some)[1]
        i, j = left, right
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            right = j
        elif k >= i:
            left = i
        else:
            break
    return values[k]
