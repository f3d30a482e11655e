"""The filters of rows: what fits, and what an error says where nothing does."""

import pytest

from k8sbench.measure.group.grouping import groups
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
