"""The grid of profiles, and figures over ranges of iterations."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model.measurement import Profile
from k8sbench.model.profile import next_point, range_figure


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


PROFILE = Profile(
    points=(8, 16, 32),
    iterations=(8.0, 16.0, 24.0),
    seconds=(8.0, 12.0, 16.0),
    samples=(32.0, 64.0, 96.0),
    tokens=(320.0, 640.0, 960.0),
    losses=(3.0, None, 2.5),
)


def test_a_figure_is_of_the_iterations_between_two_points() -> None:
    found = range_figure(PROFILE, 8, 32)
    assert found is not None
    assert (found.iterations, found.seconds, found.samples, found.tokens) == (16, 8.0, 64, 640)
    assert (found.samples_per_second, found.tokens_per_second) == (8.0, 80.0)
    assert found.loss == 2.5


def test_a_figure_may_begin_with_the_run() -> None:
    found = range_figure(PROFILE, 0, 16)
    assert found is not None
    assert (found.iterations, found.seconds, found.samples_per_second) == (16, 12.0, 64 / 12)
    assert found.loss is None


@pytest.mark.parametrize(("after", "upto"), [(8, 24), (10, 32), (8, 64), (16, 16), (32, 8)])
def test_a_range_without_both_points_or_any_iteration_has_no_figure(after: int, upto: int) -> None:
    assert range_figure(PROFILE, after, upto) is None


def test_what_the_profile_lacks_the_figure_lacks() -> None:
    profile = Profile(points=(8,), iterations=(8.0,), seconds=(0.0,))
    found = range_figure(profile, 0, 8)
    assert found is not None
    assert (found.samples, found.tokens, found.loss) == (None, None, None)
    assert (found.samples_per_second, found.tokens_per_second) == (None, None)
