"""Lasting changes of a series, by the rule in docs/compare.md."""

import pytest

from k8sbench.measure.group import compare
from k8sbench.measure.group.compare import changes
from k8sbench.measure.group.grouping import groups
from k8sbench.model.run import Run
from tests.unit.report.factory import START, repeats, smoke

FLAT = [100.0, 100.3, 99.8, 100.1, 99.9, 100.2, 99.7, 100.4, 100.05, 99.95]


def dropped(share: float, sets: int) -> list[float]:
    return [(1 - share) * value for value in FLAT[:sets]]


@pytest.mark.parametrize(
    "values",
    [
        FLAT,
        [*FLAT, 50.0, *FLAT],  # one odd set
        [*FLAT, *dropped(0.3, 2)],  # two sets are too few
        [*FLAT, *dropped(0.012, 8)],  # less than sets differ by now and then
        [100.0 - 0.1 * n for n in range(10)],  # a slow drift
        [*FLAT[:4], *dropped(0.1, 4)],  # eight sets are too few
        [],
        [1.0],
    ],
    ids=range(8),
)
def test_nothing_is_marked_where_nothing_changed_for_good(values: list[float]) -> None:
    assert changes(values) == []


def sets(levels: list[float], **fields: object) -> list[Run]:
    return [
        one
        for n, level in enumerate(levels)
        for one in repeats(
            (level, level * 1.001, level * 0.999), set_name=f"n{n:02}", at=START + 1e5 * n, **fields
        )
    ]


def test_a_history_has_the_sets_in_the_order_of_their_begin_whatever_their_names() -> None:
    runs = [*sets([*FLAT, *dropped(0.05, 6)]), *repeats([7.0], set_name="a-first", at=START - 9e5)]
    (found,) = compare.history(groups(runs))
    assert [point.group.key.set_name for point in found.points][:2] == ["a-first", "n00"]
    marked = [point.group.key.set_name for point in found.points if point.change is not None]
    assert marked == ["n10"]


def test_a_set_without_a_figure_stands_in_its_place_and_counts_for_nothing() -> None:
    runs = sets([*FLAT, *dropped(0.05, 6)])
    failed = [one for one in runs if one.plan.set_name == "n03"]
    others = [one for one in runs if one.plan.set_name != "n03"]
    lost = repeats([None] * len(failed), set_name="n03", at=START + 3e5)  # type: ignore[list-item]
    (found,) = compare.history(groups([*others, *lost]))
    assert [point.group.key.set_name for point in found.points][3] == "n03"
    assert [p.group.key.set_name for p in found.points if p.change is not None] == ["n10"]


def test_cases_are_series_of_their_own_and_a_new_image_is_none() -> None:
    runs = [*sets(FLAT, case="1x1"), *sets(FLAT[:5], case="1x8")]
    runs += repeats(
        [100.0], set_name="later", case="1x8", image="registry.example/new", at=START + 9e6
    )
    found = compare.history(groups(runs))
    assert [(one.group.key.case, len(one.points)) for one in found] == [("1x1", 10), ("1x8", 6)]


def test_why_nothing_could_be_marked_is_said() -> None:
    (few,) = compare.history(groups(sets(FLAT[:4])))
    assert few.unmarked == "a change takes 10 sets with a figure to be seen; there are 4"
    (small,) = compare.history(groups([smoke(2.0, set_name=f"s{n}") for n in range(12)]))
    assert small.unmarked == "smoke runs are functional tests, not speed measurements"
