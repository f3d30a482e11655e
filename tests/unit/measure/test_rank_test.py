"""The exact tests and the interval of a ratio, held against counting every order by hand."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.measure.group import rank_test

SIDES = st.lists(st.integers(1, 9).map(float), min_size=1, max_size=5)


def counted(a: Sequence[float], b: Sequence[float]) -> float:
    """The two-sided p, by dealing the values in every way."""
    every = [*a, *b]
    order = sorted(every)
    rank = {v: (2 * order.index(v) + order.count(v) + 1) / 2 for v in every}
    middle = len(a) * (len(every) + 1) / 2
    seen = abs(sum(rank[v] for v in a) - middle)
    sums = [sum(rank[v] for v in dealt) for dealt in itertools.combinations(every, len(a))]
    return sum(abs(total - middle) >= seen for total in sums) / len(sums)


@given(SIDES, SIDES)
def test_p_is_the_share_of_all_ways_to_deal_the_values(a: list[float], b: list[float]) -> None:
    assert rank_test.rank_sum(a, b).p == pytest.approx(counted(a, b), abs=1e-12)


@given(SIDES, SIDES)
def test_the_order_of_the_sides_turns_the_direction_and_nothing_else(
    a: list[float], b: list[float]
) -> None:
    one, two = rank_test.rank_sum(a, b), rank_test.rank_sum(b, a)
    assert (one.p, one.least, one.is_apart) == pytest.approx((two.p, two.least, two.is_apart))
    assert one.direction == -two.direction


@pytest.mark.parametrize(
    ("a", "b", "p"),
    [
        # The tables of Mann and Whitney: U = 0 with 3 and 3, 4 and 4, 5 and 5 values.
        ((4, 5, 6), (1, 2, 3), 2 / 20),
        ((5, 6, 7, 8), (1, 2, 3, 4), 2 / 70),
        ((6, 7, 8, 9, 10), (1, 2, 3, 4, 5), 2 / 252),
        # U = 2
        ((3, 5, 6, 7), (1, 2, 4, 3.5), 8 / 70),
        ((7, 7, 7), (7, 7, 7), 1.0),
        ((1,), (2,), 1.0),
    ],
)
def test_known_values(a: tuple[float, ...], b: tuple[float, ...], p: float) -> None:
    found = rank_test.rank_sum(a, b)
    assert found.p == pytest.approx(p)
    # Both orders of the farthest apart, of all ways.
    assert found.least == pytest.approx(2 / math.comb(len(a) + len(b), len(a)))


def test_hundreds_of_runs_are_counted_too() -> None:
    low, high = [float(n) for n in range(100)], [float(n) for n in range(1000, 1100)]
    assert rank_test.rank_sum(low, high).p == pytest.approx(2 / math.comb(200, 100), rel=1e-9)


@pytest.mark.parametrize(
    ("n", "m", "shown"),
    [(1, 1, False), (2, 2, False), (2, 3, False), (3, 3, True), (2, 5, True), (1, 10, False)],
)
def test_sides_that_lie_apart_are_separated_where_chance_does_it_once_in_20(
    n: int, m: int, shown: bool
) -> None:
    found = rank_test.rank_sum([100.0 + i for i in range(n)], [50.0 + i for i in range(m)])
    assert found.is_apart
    assert rank_test.is_shown(found) is rank_test.can_be_shown(found) is shown


def test_from_four_runs_on_each_side_p_decides() -> None:
    # One of ten overlaps: p = 4/252.
    found = rank_test.rank_sum((6, 7, 8, 9, 5), (1, 2, 3, 4, 5.5))
    assert not found.is_apart
    assert found.p == pytest.approx(4 / 252)
    assert rank_test.is_shown(found)
    # Three of three that do not all lie apart are never separated.
    assert not rank_test.is_shown(rank_test.rank_sum((4, 5, 2.5), (1, 2, 3)))
    assert rank_test.fewest() == 4


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 3), (5, 5), (3, 8), (10, 10)])
def test_the_interval_of_the_ratio_covers_as_often_as_it_says(n: int, m: int) -> None:
    draw, hits, tries, coverage = random.Random(n * 100 + m), 0, 2000, 0.0
    for _ in range(tries):
        a = [draw.lognormvariate(0, 0.02) for _ in range(n)]
        b = [0.97 * draw.lognormvariate(0, 0.02) for _ in range(m)]
        found = rank_test.ratio_interval(a, b)
        assert found is not None
        hits, coverage = hits + (found.low <= 0.97 <= found.high), found.coverage
    deviation = math.sqrt(coverage * (1 - coverage) / tries)
    assert abs(hits / tries - coverage) < 4 * deviation
    assert coverage >= (0.95 if n + m >= 10 else 1 - 2 / math.comb(n + m, n) - 1e-9)


def test_the_interval_excludes_1_exactly_where_the_test_says_so() -> None:
    draw = random.Random(7)
    for _ in range(300):
        a = [draw.lognormvariate(0, 0.02) for _ in range(6)]
        b = [draw.lognormvariate(-0.02, 0.02) for _ in range(5)]
        found = rank_test.ratio_interval(a, b)
        assert found is not None
        p = rank_test.rank_sum(a, b).p
        assert (not found.low <= 1 <= found.high) == (p <= 1 - found.coverage + 1e-12)


def test_one_run_on_each_side_has_no_interval() -> None:
    assert rank_test.ratio_interval([1.0], [2.0]) is None
