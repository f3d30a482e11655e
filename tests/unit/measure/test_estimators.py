"""Five ways to one figure, each against its definition computed the long way."""

import statistics
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.measure.run import tally
from tests.unit.measure.support import measured, mmseg, run, tsm
from tests.unit.presence import present

# As printed: three digits behind the point.
times = st.lists(st.integers(1, 9000).map(lambda ms: ms / 1000), min_size=5, max_size=40)
shapes = st.tuples(st.integers(1, 64), st.integers(1, 32), st.integers(1, 50))


@given(times, shapes)
def test_interval_means_are_weighted(seconds: list[float], shape: tuple[int, int, int]) -> None:
    batch, gpus, interval = shape
    found = measured(run(seconds, interval=interval), batch_size=batch, gpus=gpus)
    figures = present(found.throughput or found.unverified)
    job = batch * gpus
    rates = [job / each for each in seconds]
    assert figures.time_weighted == pytest.approx(job * len(seconds) / sum(seconds))
    assert figures.time_weighted_steady == pytest.approx(figures.time_weighted)
    assert figures.median == pytest.approx(statistics.median(rates))
    assert figures.arithmetic == pytest.approx(statistics.fmean(rates))


@given(st.lists(st.integers(100, 900), min_size=60, max_size=60))
def test_running_means_are_unrolled_to_the_time_between_records(steps: list[int]) -> None:
    """The mean of each line times its steps, less that of the line before."""
    seconds = [each / 1000 for each in steps]
    shown = range(0, 60, 10)
    means = {s: round(statistics.fmean(seconds[: s + 1]), 3) for s in shown}
    lines = [tsm(0, s, seconds[s], means[s], total=60) for s in shown]
    found = measured(lines, format="tsm", batch_size=16, gpus=2, warmup=0)
    figures = present(found.throughput or found.unverified)
    # The last mean covers everything: it telescopes, whatever the lines between say.
    assert found.iterations == 51
    assert figures.time_weighted == pytest.approx(32 / means[50])
    if found.records == len(lines):
        assert figures.median == pytest.approx(statistics.median(32 / seconds[s] for s in shown))


def test_a_slow_record_weighs_by_its_time_in_one_mean_and_by_its_count_in_the_other() -> None:
    figures = present(measured(run([0.5] * 9 + [5.0]), accept=("below-median",)).throughput)
    assert figures.time_weighted == pytest.approx(400 / 95)
    assert figures.arithmetic == pytest.approx((9 * 8 + 0.8) / 10)
    assert figures.median == pytest.approx(8.0)


def test_the_logs_own_clock_counts_everything_between_two_lines() -> None:
    """Saved checkpoints and evaluations outside the records lie between the stamps."""
    lines = [mmseg(i * 10, 0.5, at=6.0 * i) for i in range(1, 8)]
    figures = present(measured(lines, accept=("clock-mismatch",)).throughput)
    assert figures.timestamps == pytest.approx(60 * 4 / 36)
    assert figures.time_weighted == pytest.approx(8.0)


def test_without_stamps_there_is_no_such_figure_and_the_reason_stands_beside_it() -> None:
    lines = [line.split(" - mmseg - INFO - ")[1] for line in run([0.5] * 6)]
    found = measured(lines)
    assert present(found.throughput).timestamps is None
    assert found.missing["throughput.timestamps"] == "Training lines carry no time stamp."
    assert found.train_wall_s is None
    assert "train_wall_s" in found.missing


def test_stamps_that_tell_no_time_apart_give_no_figure() -> None:
    lines = [mmseg(i, 0.001, at=0) for i in range(1, 8)]
    found = measured(lines, accept=("clock-mismatch",))
    assert present(found.throughput).timestamps is None


def test_a_window_of_nothing_but_such_records_has_no_steady_figure() -> None:
    lines: list[str] = []
    for index, line in enumerate(run([0.5] * 6), 1):
        lines += [f"Saving checkpoint at {index * 10} iterations", line]
    found = measured(lines)
    assert present(found.throughput).time_weighted_steady is None
    assert "time_weighted_steady" in " ".join(found.missing)


@given(st.lists(st.floats(min_value=1e-9, max_value=1e12), min_size=1, max_size=60))
def test_a_median_of_sorted_parts_is_that_of_all_values(values: list[float]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally, "SORTED_AT_ONCE", 7)
        assert tally.median(array("d", values)) == pytest.approx(statistics.median(values), 1e-15)
