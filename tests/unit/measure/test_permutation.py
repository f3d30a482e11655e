"""The permutation test of two sides, held against dealing in every way by hand.

How often it errs is in :mod:`.test_compare_rates`, which docs/compare.md states.
"""

import itertools
import math
import random
import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.measure.group import permutation
from k8sbench.measure.group.permutation import TwoSides

SIDES = st.lists(st.integers(1, 9).map(float), min_size=1, max_size=5)


def means(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the exact permutation p of the mean logarithms' difference."""
    logs = [math.log(value) for value in (*a, *b)]
    places = range(len(logs))
    seen = statistics.fmean(logs[len(a) :])
    dealt = [
        statistics.fmean(logs[place] for place in chosen)
        for chosen in itertools.combinations(places, len(b))
    ]
    below = sum(mean <= seen + 1e-9 for mean in dealt)
    above = sum(mean >= seen - 1e-9 for mean in dealt)
    return min(1.0, 2 * min(below, above) / len(dealt))


@given(SIDES, SIDES)
def test_p_is_the_share_of_all_ways_to_deal_the_values(a: list[float], b: list[float]) -> None:
    assert TwoSides(a, b).p == pytest.approx(means(a, b), abs=1e-12)


@given(SIDES, SIDES)
def test_swapping_the_sides_turns_only_the_direction(a: list[float], b: list[float]) -> None:
    one, two = TwoSides(a, b), TwoSides(b, a)
    assert (one.p, one.t_squared) == pytest.approx((two.p, two.t_squared))
    assert one.direction == -two.direction


def test_four_runs_on_each_side_are_the_fewest_that_show_anything() -> None:
    assert permutation.fewest() == 4
    for n, m, able in ((3, 3, False), (4, 4, True), (3, 5, True), (2, 7, False), (1, 30, False)):
        case = TwoSides([100.0 + i / 9 for i in range(n)], [50.0 + i / 9 for i in range(m)])
        assert case.p == pytest.approx(case.least_p)
        assert (permutation.adjusted([case])[0] <= permutation.ALPHA) is able


def test_of_more_runs_than_can_be_dealt_in_every_way_some_ways_are_drawn() -> None:
    draw = random.Random(3)
    a, b = ([100 + draw.gauss(0, 1) for _ in range(60)] for _ in range(2))
    alike, apart = TwoSides(a, b), TwoSides(a, [0.98 * value for value in b])
    assert alike.p == TwoSides(a, b).p, "the same ways each time"
    assert alike.p > 0.05
    assert apart.p == pytest.approx(2 / (1 + permutation.DRAWN))


def test_equal_values_on_a_side_are_no_hindrance() -> None:
    same = TwoSides([5.0] * 5, [5.0] * 5)
    assert (same.p, same.direction, same.t_squared) == (1.0, 0, 0.0)
    assert same.chance_of(0.0) == 1.0
    other = TwoSides([5.0] * 5, [4.0] * 4)
    assert (other.direction, other.t_squared) == (-1, math.inf)
    assert [p <= permutation.ALPHA for p in permutation.adjusted([same, other])] == [False, True]


def test_a_lopsided_case_does_not_raise_the_p_of_the_others() -> None:
    lopsided = TwoSides([103.0, 100.0, 140.0], [105.0, 103.0, 103.0, 101.0, 100.0])
    other = TwoSides([100.0, 101.0, 102.0, 103.0, 104.0], [101.0, 102.0, 103.0, 104.0, 105.0])
    assert other.t_squared < lopsided.t_squared
    first, second = permutation.adjusted([lopsided, other])
    assert other.p < second < first == lopsided.p
