"""What follows for a group from the others: results in their order."""

from __future__ import annotations

from k8sbench.measure.group.grouping import groups
from k8sbench.measure.group.speedup import results
from k8sbench.model.group import Group
from k8sbench.model.spec import BenchmarkSpec
from tests.unit.report.factory import run, smoke


def test_the_catalog_is_not_read_where_it_adds_nothing() -> None:
    def find(_: object) -> BenchmarkSpec:
        raise AssertionError("read in vain")

    results(groups([smoke(1.0), run(None)]), find=find)


def test_results_stand_beside_the_groups_that_they_are_of() -> None:
    made: list[Group] = groups([run(100.0, case="1x1"), run(700.0)])
    assert [result.group for result in results(made)] == made
