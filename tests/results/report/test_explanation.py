"""Explanations of a figure."""

import pytest

from k8sbench.results.report import explanation
from tests.results.report.factory import changed, measurement, plan
from tests.results.report.pages import window


@pytest.mark.parametrize(("measured", "missing"), [(100, []), (99, [1]), (90, [10])])
def test_iterations_of_the_window_that_no_line_covers_are_counted(
    measured: int, missing: list[int]
) -> None:
    counted = changed(window(), first_iteration=21, last_iteration=120)
    found = measurement(900.0, plan(), window=counted, iterations=measured)
    words = [text.split() for _, text in explanation.of_measurement(found)]
    assert [int(each[2]) for each in words if each[:2] == ["not", "measured:"]] == missing
