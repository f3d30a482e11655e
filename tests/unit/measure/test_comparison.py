"""What follows for a group from the others: results in their order, intervals over sets."""

from __future__ import annotations

from typing import Any

import pytest

from k8sbench.measure.group.compare import results
from k8sbench.measure.group.grouping import groups
from k8sbench.model.group import Group
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.model.spec import BenchmarkSpec
from tests.unit.report.factory import V100_32, repeats, run, smoke, throughput


def in_sets(*rates: float, **fields: Any) -> list[Run]:
    return [run(rate, set_name=f"set-{n}", **fields) for n, rate in enumerate(rates)]


def test_three_sets_have_an_interval_of_their_medians() -> None:
    for found in results(groups(in_sets(100.0, 104.0, 101.0))):
        assert found.sets == 3
        assert found.over_sets is not None
        assert (found.over_sets.median, found.over_sets.coverage) == (101.0, 0.75)
        assert (found.over_sets.low, found.over_sets.high) == (100.0, 104.0)


def test_a_set_counts_once_however_many_repeats_it_has() -> None:
    many = repeats([99.0, 100.0, 101.0], set_name="set-many")
    found = results(groups([*in_sets(104.0, 105.0), *many]))[0]
    assert found.over_sets is not None
    assert (found.sets, found.over_sets.median) == (3, 104.0)


@pytest.mark.parametrize(
    "fields",
    [
        {"case": "1x4"},
        {"batch_size": 64},
        {"image": "registry.example/pytorch:2"},
        {"trainers_digest": "f" * 64},
        {"measured": {"gpu_model": V100_32}},
        {"measured": {"throughput": throughput(103.0, time_weighted=None), "estimator": "median"}},
        {"phase": Phase.FAILED, "measured": {"throughput": None, "verdict": "rejected"}},
    ],
)
def test_two_sets_and_something_else_have_no_interval_over_sets(fields: dict[str, Any]) -> None:
    other = run(103.0, set_name="set-other", **fields)
    found = results(groups([*in_sets(100.0, 101.0), other]))
    assert {(r.sets, r.over_sets) for r in found if r.group.key.set_name != "set-other"} == {
        (2, None)
    }


def test_the_catalog_is_not_read_where_it_adds_nothing() -> None:
    def find(_: object) -> BenchmarkSpec:
        raise AssertionError("read in vain")

    results(groups([smoke(1.0), run(None)]), find=find)


def test_results_stand_beside_the_groups_that_they_are_of() -> None:
    made: list[Group] = groups([run(100.0, case="1x1"), run(700.0)])
    assert [result.group for result in results(made)] == made
