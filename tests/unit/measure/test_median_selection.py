"""The exact median without a sorted copy."""

from __future__ import annotations

import collections
import statistics
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.measure.run.tally import median, select

rates = st.floats(min_value=1e-9, max_value=1e12)
# Rates as printed repeat often: few different values are the usual case.
few = st.lists(st.sampled_from([1.0, 2.0, 2.5, 3.0]), min_size=1, max_size=60)


@given(st.one_of(st.lists(rates, min_size=1, max_size=200), few))
def test_it_is_the_median_of_the_sorted_list(values: list[float]) -> None:
    assert median(array("d", values)) == pytest.approx(statistics.median(values), rel=1e-15)


@given(st.one_of(st.lists(rates, min_size=1, max_size=100), few), st.data())
def test_each_place_holds_what_sorting_would_put_there(
    values: list[float], data: st.DataObject
) -> None:
    k = data.draw(st.integers(0, len(values) - 1))
    assert select(array("d", values), k) == sorted(values)[k]


@pytest.mark.parametrize("shape", ["ascending", "descending", "organ pipe", "equal", "two values"])
def test_no_order_of_the_input_is_slow(shape: str) -> None:
    n = 200_000
    values = {
        "ascending": range(n),
        "descending": range(n, 0, -1),
        "organ pipe": [*range(n // 2), *range(n // 2, 0, -1)],
        "equal": [7] * n,
        "two values": [1, 2] * (n // 2),
    }[shape]
    kept = array("d", map(float, values))
    counted = Counting(kept)
    assert select(counted, n // 2) == sorted(kept)[n // 2]
    assert counted.reads < 30 * n


class Counting(collections.UserList[float]):
    """A list that counts how often it is read."""

    reads = 0

    def __getitem__(self, key: Any) -> Any:
        self.reads += 1
        return self.data[key]
