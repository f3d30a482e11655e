"""The filters of rows: what fits, and what an error says where nothing does."""

from __future__ import annotations

import pytest

from k8sbench.measure.group.grouping import groups
from k8sbench.model.errors import NotFound
from k8sbench.model.group import GroupFilter
from tests.unit.report.factory import run

GROUPS = groups([run(1.0, case="1x8"), run(2.0, case="1x1", framework="paddle")])


@pytest.mark.parametrize(
    ("chosen", "cases"),
    [
        (GroupFilter(), ["1x1", "1x8"]),
        (GroupFilter(case="1x8"), ["1x8"]),
        (GroupFilter(framework="paddle", precision="fp32"), ["1x1"]),
    ],
)
def test_groups_fit_that_have_every_value(chosen: GroupFilter, cases: list[str]) -> None:
    assert sorted(group.key.case for group in chosen.chosen(GROUPS)) == cases


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (GroupFilter(benchmark="resnet"), "of benchmark resnet. Did you mean resnet50?"),
        (GroupFilter(case="9x9"), "of case 9x9. There are: 1x1, 1x8."),
        (GroupFilter(case="1x1", framework="pytorch"), "framework pytorch and case 1x1 together."),
    ],
)
def test_filters_that_nothing_fits_name_the_values_that_there_are(
    chosen: GroupFilter, said: str
) -> None:
    with pytest.raises(NotFound) as raised:
        chosen.chosen(GROUPS)
    assert said in str(raised.value)
    assert raised.value.exit_code == 2
