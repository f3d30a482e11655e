"""Golden files differ whenever what they hold does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit import goldens

ROWS = st.dictionaries(
    st.sampled_from(["first", "second", "third"]),
    st.dictionaries(st.sampled_from(["a", "b", "of.a", "of.b", "of.c.a"]), st.integers(0, 1)),
)


@given(ROWS, ROWS)
def test_other_rows_are_another_table(
    some: dict[str, goldens.Row], other: dict[str, goldens.Row]
) -> None:
    same = list(some.items()) == list(other.items())
    assert (goldens.table(some.items()) == goldens.table(other.items())) == same


def test_a_row_is_what_differs_from_the_nearest_before_it() -> None:
    rows: dict[str, goldens.Row] = {
        "whole": {"a": 1, "of.b": 0.1 + 0.2, "of.c": "two words"},
        "other": {"a": 2, "of.b": 5, "of.c": "two words"},
        "near other": {"a": 2},
    }
    assert goldens.table(rows.items()) == (
        "whole:\n  a=1\n  of: b=0.3 c='two words'\n"
        "other, as whole:\n  a=2\n  of: b=5\n"
        "near other:\n  a=2\n"
    )
