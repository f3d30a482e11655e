"""Five ways to one figure, each against its definition computed the long way."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reader.measuring.support import measured, run
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
