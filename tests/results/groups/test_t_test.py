"""Student's t, moderated variances and Holm's correction, held against tables and limma."""

import random
import statistics

import pytest

from k8sbench.results.groups import distributions, t_test
from k8sbench.results.groups.t_test import ALPHA, Estimate


@pytest.mark.parametrize(
    ("freedom", "level", "t"),
    [
        (1, 0.05, 12.7062),
        (4, 0.05, 2.77645),
        (4, 0.01, 4.60409),
        (9, 0.001, 4.78091),
        (30, 0.05, 2.04227),
        (1000, 0.05, 1.96234),
    ],
)
def test_p_and_quantile_are_those_of_students_tables(freedom: int, level: float, t: float) -> None:
    one = Estimate(1.0, freedom)
    assert one.critical(level) == pytest.approx(t, rel=1e-5)
    assert one.p(t) == pytest.approx(level, rel=1e-4)
    assert one.p(-t) == one.p(t)
    assert one.times(4).critical(level) == pytest.approx(2 * t, rel=1e-5)


def test_moderated_variances_are_those_of_smyth() -> None:
    draw = random.Random(4)
    # Variances from a scaled inverse chi-squared prior: 0.01 with 10 degrees of freedom.
    variances = []
    for _ in range(4000):
        own = 0.01 * 10 / draw.gammavariate(5, 2)
        variances.append(own * draw.gammavariate(2, 2) / 4)
    found = t_test.moderated([Estimate(variance, 4) for variance in variances])
    (freedom,) = {round(one.freedom, 6) for one in found}
    assert 9 <= freedom - 4 - 2 <= 12
    least = min(found, key=lambda one: one.variance)
    assert least.variance == pytest.approx((freedom - 6) / freedom * 0.01, rel=0.1)


def test_what_is_usual_is_known_no_better_than_by_all_values() -> None:
    alike = [Estimate(1.0, 4)] * 5
    usual = t_test.usual(alike)
    assert usual is not None
    assert usual.freedom == 20
    unlike = t_test.usual([Estimate(10.0**power, 4) for power in range(5)])
    assert unlike is not None
    assert unlike.freedom < 2, "cases that differ say little of each other"
    assert t_test.usual(alike[:2]) is None


def test_a_built_in_spread_is_worth_two_values() -> None:
    (alone,) = t_test.moderated([Estimate(0.003**2, 4)])
    assert alone.freedom == 6
    assert alone.variance == pytest.approx((4 * 0.003**2 + 2 * 0.001**2) / 6)


def test_holm_orders_the_cases_and_stops_at_the_first_without_a_change() -> None:
    found = t_test.holm([0.04, 0.001, 0.9, 0.02])
    assert [corrected for corrected, _ in found] == pytest.approx([0.08, 0.004, 0.9, 0.06])
    assert [level for _, level in found] == pytest.approx(
        [ALPHA / 3, ALPHA / 4, ALPHA / 3, ALPHA / 3]
    )
    assert t_test.holm([]) == []


def test_the_false_alarms_of_one_test_are_its_level() -> None:
    draw, alarms = random.Random(3), 0
    for _ in range(4000):
        a, b = ([draw.gauss(0, 1) for _ in range(count)] for count in (2, 5))
        within = t_test.pooled([a, b])
        assert within is not None
        apart = statistics.fmean(b) - statistics.fmean(a)
        alarms += within.times(1 / 2 + 1 / 5).p(apart) <= ALPHA
    assert alarms / 4000 == pytest.approx(ALPHA, abs=0.012)


@pytest.mark.parametrize(
    ("x", "first", "second"), [(0.3, -3.5025242, 12.2453646), (2.5, 0.7031566, 0.4903578)]
)
def test_digamma_and_trigamma_are_those_of_tables(x: float, first: float, second: float) -> None:
    assert distributions.digamma(x) == pytest.approx(first, rel=1e-7)
    assert distributions.trigamma(x) == pytest.approx(second, rel=1e-7)
    assert distributions.inverse_trigamma(second) == pytest.approx(x, rel=1e-7)


@pytest.mark.parametrize(
    ("t", "freedom", "score"), [(2.776445, 4, 1.959964), (0.0, 7, 0.0), (-12.7062, 1, -1.959964)]
)
def test_a_normal_score_has_the_p_of_its_t(t: float, freedom: float, score: float) -> None:
    assert distributions.normal_score(t, freedom) == pytest.approx(score, abs=1e-5)
