"""New cases in the place of others, and what is said of them."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from k8sbench.model.compared import Comparison, NewCase
from k8sbench.model.group import Group
from k8sbench.results.groups import comparison, new_cases, selection, sides
from k8sbench.results.report import compared_data, comparing, group_words
from k8sbench.results.report import history as written
from tests.results.groups import nights
from tests.results.groups.grouped import Grouped
from tests.results.said import text
from tests.unit.presence import present


def night(number: int, level: float = 100.0, case: str = "1x8", **key: Any) -> Group:
    """Return the group of a case in one night, with some fields of its key."""
    group = nights.night(number, case, [level])
    return msgspec.structs.replace(group, key=msgspec.structs.replace(group.key, **key))


def changed_at(begin: int, level: float, count: int = 10, **fields: tuple[str, str]) -> list[Group]:
    """Return nights of which some fields change."""
    olds, news = ({name: pair[n] for name, pair in fields.items()} for n in (0, 1))
    return [
        night(n, 100.0 if n < begin else level, **(olds if n < begin else news))
        for n in range(count)
    ]


def new_of(groups: list[Group]) -> NewCase | None:
    """Return what is new of the case of the newest group."""
    known = Grouped(groups)
    line = groups[-1].row.line
    return new_cases.new_cases([line], known).get(line)


def compared(groups: list[Group], a: str, b: str) -> Comparison:
    known = Grouped(groups)
    one, two = (
        sides.Side(name=name, groups=tuple(g for g in groups if g.key.set_name == name), runs={})
        for name in (a, b)
    )
    return new_cases.added(comparison.compare(one, two, earlier=known), known)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"pool": ("a", "b")},
            "new since night-008: pool b; 2.9 % slower than on pool a",
        ),
        (
            {"gpu_model": ("H100", "H200")},
            "new since night-008: GPU model H200; 97.10 samples/s, 100.00 on GPU model H100",
        ),
        (
            {"batch_size": (128, 256)},
            "new since night-008: batch 256; 97.10 samples/s, 100.00 with batch 128",
        ),
        (
            {"options": ("-", "channels-last=True")},
            "new since night-008: options channels-last=True; 2.9 % slower than with no options",
        ),
        (
            {"pool": ("a", "b"), "gpu_model": ("H100", "H200")},
            "new since night-008: pool b, GPU model H200; 97.10 samples/s, 100.00 on pool a, GPU",
        ),
    ],
)
def test_a_field_of_the_case_list_that_changes_is_said_with_both_values(
    fields: dict[str, Any], words: str
) -> None:
    new = present(new_of(changed_at(8, 97.1, **fields)))
    assert text(group_words.new_case(new, "samples/s")).startswith(words)
    assert (new.ratio is None) == bool(new.not_comparable)


def test_it_is_said_until_the_new_series_can_be_judged() -> None:
    def is_new(count: int) -> bool:
        return new_of(changed_at(4, 97.1, count, pool=("a", "b"))) is not None

    assert [count for count in range(1, 12) if is_new(count)] == [5, 6, 7, 8]


def test_a_case_beside_one_that_goes_on_is_in_nobodys_place() -> None:
    both = [night(n, pool=pool) for n in range(6) for pool in ("a", "b") if pool == "a" or n > 3]
    assert new_of(both) is None
    # Nor are the first cases of a store, or those of another case.
    assert new_of([night(n, pool="a") for n in range(3)]) is None
    assert new_of([*(night(n, case="1x1", pool="a") for n in range(5)), night(5, pool="b")]) is None


def test_a_case_that_was_not_measured_any_more_is_not_replaced() -> None:
    def newest(gap: int) -> NewCase | None:
        return new_of([*(night(n, pool="a") for n in range(5)), night(4 + gap, pool="b")])

    assert newest(4) is not None
    assert newest(5) is None
    weekly = [*(night(7 * n, pool="a") for n in range(5)), night(35, pool="b")]
    assert new_of(weekly) is not None


def test_of_several_that_ended_it_is_the_one_that_differs_least_then_the_newest() -> None:
    def place(*ended: Group) -> dict[str, str]:
        new = present(new_of([*ended, night(5, pool="c", batch_size=64)]))
        return {one.name: one.a for one in new.fields}

    near, far = night(3, pool="a", batch_size=64), night(4, pool="b", batch_size=128)
    assert place(near, far) == {"pool": "a"}
    assert place(near, night(4, pool="b", batch_size=64)) == {"pool": "b"}


@pytest.mark.parametrize("drop", [3, 6, 7])
def test_a_drop_that_was_there_before_is_none_of_a_renamed_pool(drop: int) -> None:
    levels = [100.0 if n < drop else 97.0 for n in range(10)]
    groups = [night(n, level, pool="a" if n < 8 else "b") for n, level in enumerate(levels)]
    new = present(new_of(groups))
    assert (new.a, new.b) == (97.0, 97.0)
    words = group_words.new_case(new, "samples/s")
    assert text(words) == "new since night-008: pool b; as fast as on pool a"


def test_a_set_that_differed_once_ends_no_level() -> None:
    levels = [100.0, 100.1, 99.9, 100.0, 100.1, 99.9, 90.0, 100.0, 97.1]
    groups = [night(n, level, pool="a" if n < 8 else "b") for n, level in enumerate(levels)]
    assert present(new_of(groups)).a == pytest.approx(99.95)


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(0.9951, "as fast as on"), (1.0049, "as fast as on"), (0.994, "0.6 % slower than on")],
)
def test_a_difference_below_half_a_percent_is_none(ratio: float, words: str) -> None:
    new = present(new_of(changed_at(8, 100 * ratio, pool=("a", "b"))))
    assert words in text(group_words.new_case(new, "samples/s"))


def test_a_renamed_pool_is_one_line_for_its_cases_that_change_alike() -> None:
    def of_case(case: str, level: float) -> list[Group]:
        return [
            night(n, 100.0 if n < 5 else level, case, pool="a" if n < 5 else "b") for n in range(7)
        ]

    groups = [
        group
        for case, level in (("1x1", 97.9), ("1x8", 97.1), ("2x8", 99.9), ("4x8", 100.3))
        for group in of_case(case, level)
    ]
    for a, b in (("night-004", "night-005"), ("night-005", "night-006")):
        found = compared(groups, a, b)
        lines = [line for line in comparing.text(found).splitlines() if "new since" in line]
        assert len(lines) == 2
        assert lines[0].endswith(": new since night-005: pool b; −2.9 to −2.1 % against pool a.")
        assert lines[1].endswith(": new since night-005: pool b; as fast as on pool a.")
        (first, *_) = compared_data.document(found)["cases"]
        assert first["new"]["fields"] == {"pool": {"a": "a", "b": "b"}}
        assert first["new"]["ratio"] == pytest.approx(0.979)


def test_a_history_has_it_below_the_table() -> None:
    known = Grouped(changed_at(8, 97.1, pool=("a", "b")))
    _, series = selection.histories(known, known.rows)
    (table,) = written.tables([series])
    assert table.notes == ("New since night-008: pool b; 2.9 % slower than on pool a.",)
    one, other = written.document([series, *selection.histories(known, known.rows[:1])])["series"][
        :2
    ]
    assert (one["new"]["since"], other["new"]) == ("night-008", None)


@pytest.mark.parametrize("read", [lambda new: new.a, lambda new: new.b])
def test_its_figures_are_those_of_several_sets(read: Callable[[NewCase], float]) -> None:
    groups = changed_at(6, 100.0, 9, pool=("a", "b"))
    odd = [
        msgspec.structs.replace(group, spread=nights.night(n, "1x8", [50.0]).spread)
        if n in (4, 6)
        else group
        for n, group in enumerate(groups)
    ]
    assert read(present(new_of(odd))) == pytest.approx(100.0)
