"""The grid of profiles, and figures over ranges of iterations."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model.profile import IterationRange, Progress, next_point


def grid(upto: int) -> list[int]:
    """Return the points up to an iteration."""
    points = [1]
    while (point := next_point(points[-1])) <= upto:
        points.append(point)
    return points


def test_the_grid_has_each_iteration_up_to_16_and_then_eight_points_to_an_octave() -> None:
    points = grid(576)
    assert points[:16] == list(range(1, 17))
    assert points[16:24] == [18, 20, 22, 24, 26, 28, 30, 32]
    assert points[-10:] == [256, 288, 320, 352, 384, 416, 448, 480, 512, 576]


@given(st.integers(0, 10**12))
def test_the_next_point_does_not_depend_on_where_one_begins(iteration: int) -> None:
    point = next_point(iteration)
    assert iteration < point <= max(iteration + 1, iteration * 9 / 8 + 1)
    before = max((each for each in range(max(point - 3, 0), point)), default=0)
    assert next_point(before) == point


@given(st.integers(16, 10**9))
def test_an_octave_has_eight_points(point: int) -> None:
    first = next_point(point)
    steps = itertools.accumulate(range(8), lambda each, _: next_point(each), initial=first)
    assert list(steps)[-1] == 2 * first


RUN = Progress(
    warmup=8,
    end=40,
    planned="64 iterations",
    points=(4, 8, 16, 20, 24, 32, 40),
    seconds=(8.0, 12.0, 20.0, 24.0, 28.0, 36.0, 48.0),
    amounts=(16.0, 32.0, 64.0, 80.0, 96.0, 128.0, 160.0),
)
OWN = 3.5
"""The rate of its own window."""
ONE_PLAN = "64 iterations"


def over(begin: int, end: int, planned: str | None = ONE_PLAN) -> IterationRange:
    return IterationRange(begin=begin, end=end, planned=planned)


def test_a_figure_is_between_the_first_and_the_last_point_of_the_range() -> None:
    assert RUN.rate_over(over(8, 32), OWN) == (128 - 32) / (36 - 12)
    assert RUN.rate_over(over(6, 35), OWN) == (128 - 32) / (36 - 12)


def test_a_figure_may_begin_with_the_run() -> None:
    assert RUN.rate_over(over(0, 16), OWN) == 64 / 20


def test_a_range_that_is_the_own_window_has_its_figure() -> None:
    assert RUN.rate_over(over(8, 40), OWN) == OWN


def test_a_run_that_covers_half_of_the_range_has_the_figure_of_that_half() -> None:
    assert RUN.rate_over(over(8, 72), OWN) == (160 - 32) / (48 - 12)
    assert RUN.rate_over(over(8, 73), OWN) is None
    assert RUN.is_too_short(over(8, 73))


@pytest.mark.parametrize(
    ("planned", "is_other"), [(ONE_PLAN, False), ("128 iterations", True), (None, True)]
)
def test_a_speed_that_changes_follows_a_schedule_unless_the_plan_is_the_same(
    planned: str | None, is_other: bool
) -> None:
    """Its last iterations take 1.5 s each, the first ones 1 s."""
    later = over(8, 44, planned)
    assert RUN.follows_other_schedule(later) == is_other
    assert (RUN.rate_over(later, OWN) is None) == is_other
    assert not RUN.follows_other_schedule(over(8, 32, planned))


def test_a_batch_that_grows_follows_a_schedule_too() -> None:
    grown = tuple(amount if point < 24 else 2 * amount for point, amount in POINTS)
    growing = msgspec.structs.replace(RUN, amounts=grown)
    assert growing.follows_other_schedule(over(4, 32, None))


POINTS = list(zip(RUN.points, RUN.amounts, strict=True))


def test_without_a_profile_only_the_own_window_has_a_figure() -> None:
    bare = Progress(warmup=8, end=40)
    assert bare.rate_over(over(8, 40), OWN) == OWN
    assert bare.rate_over(over(8, 32), OWN) is None
