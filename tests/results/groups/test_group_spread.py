"""Median, spread and interval of repeats, with small-sample caution."""

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.results.groups.group_figures import spread
from tests.results.groups.spread import RESNET50
from tests.results.said import text

ARCFACE = {
    "1x1": ((397.44, 398.05, 398.98, 397.64, 397.78), 397.78, 397.98),
    "1x4": ((1555.18, 1534.62, 1540.66, 1539.66, 1535.04), 1539.66, 1541.03),
    "1x8": ((2536.04, 2545.3, 2563.28, 2554.13, 2542.14), 2545.3, 2548.18),
    "2x8": ((5950.34, 5953.84, 5982.75, 5961.68, 5934.43), 5953.84, 5956.61),
    "4x8": ((11165.17, 11109.91, 11084.53, 11077.58, 10997.67), 11084.53, 11086.97),
}


@pytest.mark.parametrize("table", [ARCFACE, RESNET50], ids=["arcface", "resnet50"])
def test_reports_are_reproduced(table: dict[str, tuple[tuple[float, ...], float, float]]) -> None:
    for runs, median, mean in table.values():
        figures = spread(runs)
        assert figures.median == median
        assert figures.mean == pytest.approx(mean, abs=0.006)
        assert (figures.minimum, figures.maximum) == (min(runs), max(runs))
        assert figures.cv == pytest.approx(statistics.stdev(runs) / statistics.fmean(runs))


@pytest.mark.parametrize("count", [2, 3, 5, 12])
def test_of_a_hundred_intervals_ninety_five_hold_the_true_speed(count: int) -> None:
    draw = random.Random(count)
    held = 0
    for _ in range(2000):
        figures = spread([math.exp(draw.gauss(5.0, 0.01)) for _ in range(count)])
        assert figures.low is not None
        assert figures.high is not None
        held += figures.low <= math.exp(5.0) <= figures.high
    assert 0.94 <= held / 2000 <= 0.96


def test_three_runs_have_students_interval() -> None:
    # The t of two degrees of freedom is 4.303, over √3.
    figures = spread([99.0, 100.0, 101.0])
    assert (figures.low, figures.high) == pytest.approx((97.54, 102.51), abs=0.01)


def test_equal_runs_are_no_closer_than_logs_can_tell() -> None:
    figures = spread([100.0, 100.0, 100.0])
    assert (figures.low, figures.high) == pytest.approx((99.876, 100.124), abs=0.001)


def test_one_run_has_no_interval() -> None:
    figures = spread([100.0])
    assert (figures.low, figures.high, figures.cv) == (None, None, None)
    assert text(figures.interval_reason) == "one run only: no spread; use --repeats 5"


def test_the_interval_of_skewed_runs_is_widened_to_their_median() -> None:
    figures = spread([100.0] * 13 + [124.0] * 12)
    assert figures.low == figures.median == 100.0


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=30))
def test_the_figures_are_ordered_and_the_interval_holds_the_median(rates: list[float]) -> None:
    figures = spread(rates)
    assert figures.minimum <= figures.median <= figures.maximum
    assert (figures.low is None) == (figures.high is None) == (len(rates) == 1)
    if figures.low is not None and figures.high is not None:
        assert figures.low <= figures.median <= figures.high
    backwards = spread(list(reversed(rates)))
    assert backwards.low == pytest.approx(figures.low)
    assert backwards.high == pytest.approx(figures.high)
