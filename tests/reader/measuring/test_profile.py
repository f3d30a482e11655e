"""The profile of a run: sums at the points of a grid, from the lines of its log."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model.measurement import Measurement, Profile
from k8sbench.model.profile import IterationRange, Progress, next_point
from k8sbench.reader.measuring.profile_sums import ProfileSums
from tests.reader.measuring.support import Lines, fixture, measured, mmseg, run
from tests.unit.presence import present


def profile_of(found: Measurement) -> Profile:
    """Return a profile whose columns are of equal length."""
    profile = present(found.profile)
    columns = (profile.iterations, profile.seconds, profile.samples, profile.losses)
    assert {len(column) for column in columns if column is not None} == {len(profile.points)}
    return profile


class Line(NamedTuple):
    """A training line of a log."""

    position: int
    covered: int
    time: float


def lines_at(positions: Sequence[int], paces: Sequence[float]) -> list[Line]:
    """Return lines at these positions that cover all iterations."""
    pairs = itertools.pairwise((0, *positions))
    steps = [end - begin for begin, end in pairs]
    return [
        Line(position, step, step * pace)
        for position, step, pace in zip(positions, steps, paces, strict=False)
    ]


def sums_of(lines: Sequence[Line]) -> ProfileSums:
    """Add lines up."""
    sums = ProfileSums()
    for line in lines:
        sums.add(*line)
    return sums


distances = st.lists(st.integers(1, 40), min_size=1, max_size=60)
paces = st.lists(st.floats(0.01, 10), min_size=60, max_size=60)


@given(distances, paces)
def test_a_rate_between_two_lines_at_points_is_that_of_the_lines_between_them(
    gaps: list[int], pace: list[float]
) -> None:
    lines = lines_at(list(itertools.accumulate(gaps)), pace)
    sums = {point.point: point for point in sums_of(lines).points}
    ends = [line.position for line in lines if line.position in sums]
    for begin, end in itertools.combinations(ends, 2):
        between = [line for line in lines if begin < line.position <= end]
        iterations = sum(line.covered for line in between)
        seconds = sum(line.time for line in between)
        assert sums[end].iterations - sums[begin].iterations == iterations
        assert sums[end].time - sums[begin].time == pytest.approx(seconds)


@given(distances, paces, st.integers(0, 60))
def test_the_profile_of_a_cut_log_is_a_prefix_of_the_whole_ones(
    gaps: list[int], pace: list[float], kept: int
) -> None:
    lines = lines_at(list(itertools.accumulate(gaps)), pace)
    whole, cut = sums_of(lines).points, sums_of(lines[:kept]).points
    assert cut == whole[: len(cut)]
    end = lines[kept - 1].position if 0 < kept <= len(lines) else 0
    later = whole[len(cut) :]
    assert all(point.point > end for point in later) or kept > len(lines)


@given(distances, paces)
def test_a_line_that_covers_more_than_two_points_is_one_itself(
    gaps: list[int], pace: list[float]
) -> None:
    lines = lines_at(list(itertools.accumulate(gaps)), pace)
    expected: list[int] = []
    for line in lines:
        begin = line.position - line.covered
        within: list[int] = []
        while (point := next_point(within[-1] if within else begin)) <= line.position:
            within.append(point)
        expected += within if len(within) <= 2 else [line.position]
    assert [point.point for point in sums_of(lines).points] == expected


def test_between_two_lines_the_profile_is_a_straight_line() -> None:
    found = profile_of(measured(run([0.5] * 30, interval=30)))
    assert found.points[3:8] == (120, 128, 144, 160, 176)
    assert found.seconds == pytest.approx([0.5 * point for point in found.points])
    assert found.iterations == pytest.approx(found.points)
    assert found.samples == pytest.approx([4 * point for point in found.points])


def test_the_warm_up_is_in_the_profile_and_the_window_decides_nothing() -> None:
    lines = run([9.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], interval=1)
    long = measured(lines, warmup=2)
    short = measured(lines, warmup=0)
    assert long.iterations != short.iterations
    assert long.profile == short.profile
    assert profile_of(long).seconds[:3] == (9.0, 9.5, 10.0)


def test_a_run_from_a_checkpoint_counts_from_its_own_first_iteration() -> None:
    times = [0.5 + number / 100 for number in range(40)]
    begun = profile_of(measured(run(times, total=400), warmup=None))
    lines = run(times, first=5000, total=5400)
    resumed = profile_of(measured(["resumed epoch: 1, iter: 5000", *lines], warmup=None))
    assert resumed.points == begun.points
    assert resumed.seconds == pytest.approx(begun.seconds)


def test_iterations_that_ran_twice_count_once() -> None:
    undisturbed = run([0.5] * 40)
    again = [mmseg(10 * number, 0.7, at=500 + number, total=400) for number in range(16, 21)]
    restarted = [*undisturbed[:20], *again, *undisturbed[20:]]
    found = measured(restarted)
    assert profile_of(found).points == profile_of(measured(undisturbed)).points
    assert profile_of(found).seconds == profile_of(measured(undisturbed)).seconds


def test_a_line_that_goes_on_after_a_replay_adds_the_iterations_that_are_new() -> None:
    sums = sums_of([Line(10, 10, 10.0), Line(12, 4, 8.0), Line(13, 1, 3.0)])
    assert [(each.point, each.iterations, each.time) for each in sums.points] == [
        (10, 10.0, 10.0),
        (11, 11.0, 12.0),
        (12, 12.0, 14.0),
        (13, 13.0, 17.0),
    ]


def test_iterations_that_no_line_covers_have_no_time() -> None:
    sums = sums_of([Line(1, 1, 5.0), Line(3, 1, 1.0), Line(4, 1, 1.0)])
    assert [(each.point, each.iterations, each.time) for each in sums.points] == [
        (1, 1, 5.0),
        (2, 1.5, 5.5),
        (3, 2, 6.0),
        (4, 3, 7.0),
    ]


def test_a_loss_is_that_of_the_last_line_up_to_the_point() -> None:
    lines = [mmseg(n, at=n / 2, loss=f"{4 - n / 10:.4f}", total=12) for n in (1, 2, 4, 6, 7, 8)]
    lines += [mmseg(n, at=n / 2, loss="nan", total=12) for n in (9, 10)]
    found = profile_of(measured(lines))
    losses = dict(zip(found.points, present(found.losses), strict=True))
    assert (losses[2], losses[3], losses[4], losses[5]) == (3.8, 3.8, 3.6, 3.6)
    assert (losses[8], losses[9], losses[10]) == (3.2, None, None)


WHOLE_WINDOWS = {
    "k8sbench_master.log": "k8sbench",
    "dle_resnet50_2022.log": "dle-resnet50",
    "llm_c.log": "llm.c",
    "maxtext.log": "maxtext",
    "nemo_1.log": "nemo",
}
"""Logs whose windows begin and end at points, and their families."""


@pytest.mark.parametrize("name", WHOLE_WINDOWS)
def test_over_the_window_the_figure_is_the_headline(name: str) -> None:
    found = measured(
        fixture(name), format=WHOLE_WINDOWS[name], batch_size=None, gpus=None, warmup=None
    )
    window, figures = present(found.window), present(found.throughput or found.unverified)
    profile = profile_of(found)
    begin, end = window.first_iteration - 1, window.last_iteration
    over = IterationRange(begin=begin, end=end, planned="as stated")
    amounts = profile.tokens if figures.unit.startswith("tokens") else profile.samples
    run = Progress(
        warmup=-1,
        end=profile.points[-1],
        planned="as stated",
        points=profile.points,
        seconds=profile.seconds,
        amounts=present(amounts),
    )
    assert run.rate_over(over, 0.0) == pytest.approx(figures.time_weighted)


def test_lines_far_apart_are_the_points() -> None:
    found = profile_of(measured(Lines(run([0.5] * 5, interval=50))))
    assert found.points == (50, 100, 150, 200, 250)


def test_the_last_point_is_the_end_of_the_run() -> None:
    found = profile_of(measured(run([0.5] * 33, interval=10)))
    assert found.points[-2:] == (320, 330)
    assert found.seconds[-1] == pytest.approx(165)


def test_a_log_of_rates_without_a_batch_has_no_profile_and_a_reason() -> None:
    found = measured(fixture("torchtune.log"), format="torchtune", batch_size=None)
    assert found.profile is None
    assert "profile" in found.missing
