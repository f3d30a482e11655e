"""Median, spread and interval of repeats, with small-sample caution."""

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.measure.group.grouping import COVERAGE, interval_ranks, spread

ARCFACE = {
    "1x1": ((397.44, 398.05, 398.98, 397.64, 397.78), 397.78, 397.98),
    "1x4": ((1555.18, 1534.62, 1540.66, 1539.66, 1535.04), 1539.66, 1541.03),
    "1x8": ((2536.04, 2545.3, 2563.28, 2554.13, 2542.14), 2545.3, 2548.18),
    "2x8": ((5950.34, 5953.84, 5982.75, 5961.68, 5934.43), 5953.84, 5956.61),
    "4x8": ((11165.17, 11109.91, 11084.53, 11077.58, 10997.67), 11084.53, 11086.97),
}
RESNET50 = {
    "1x1": ((366.54, 366.27, 365.81, 366.14, 365.51), 366.14, 366.05),
    "1x4": ((1449.08, 1448.06, 1445.03, 1447.61, 1448.58), 1448.06, 1447.67),
    "1x8": ((2806.66, 2833.72, 2800.71, 2808.11, 2803.56), 2806.66, 2810.55),
}


@pytest.mark.parametrize("table", [ARCFACE, RESNET50], ids=["arcface", "resnet50"])
def test_reports_are_reproduced(table: dict[str, tuple[tuple[float, ...], float, float]]) -> None:
    for runs, median, mean in table.values():
        figures = spread(runs)
        assert figures.median == median
        assert figures.mean == pytest.approx(mean, abs=0.006)
        assert (figures.minimum, figures.maximum) == (min(runs), max(runs))
        assert figures.cv == pytest.approx(statistics.stdev(runs) / statistics.fmean(runs))


@pytest.mark.parametrize("count", range(2, 13))
def test_the_coverage_is_that_of_all_ways_to_lie_beside_the_median(count: int) -> None:
    # Of a continuous distribution each run lies below its median with probability ½. The
    # interval [x(k), x(n+1−k)] holds the median unless fewer than k lie on one side.
    rank, coverage = interval_ranks(count)
    holds = sum(
        rank <= sum(below) <= count - rank for below in itertools.product((0, 1), repeat=count)
    )
    assert coverage == pytest.approx(holds / 2**count)
    if count >= 6:
        assert coverage >= COVERAGE
        narrower = sum(
            rank < sum(below) < count - rank for below in itertools.product((0, 1), repeat=count)
        )
        assert narrower / 2**count < COVERAGE or rank == count // 2


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=30))
def test_the_figures_are_ordered_and_the_interval_holds_the_median(rates: list[float]) -> None:
    figures = spread(rates)
    assert figures.minimum <= figures.median <= figures.maximum
    if figures.low is not None and figures.high is not None:
        assert figures.minimum <= figures.low <= figures.median <= figures.high <= figures.maximum
        assert figures.coverage is not None
        assert 0.5 <= figures.coverage < 1
    assert not math.isnan(figures.mean)
    assert spread(list(reversed(rates))) == figures
