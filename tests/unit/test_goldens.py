"""Golden files differ whenever what they hold does."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit import goldens

ROWS = st.dictionaries(
    st.sampled_from(["first", "second", "third"]),
    st.dictionaries(st.sampled_from(["a", "b", "of.a", "of.b", "of.c.a"]), st.integers(0, 1)),
)


@given(ROWS, ROWS)
def test_other_rows_differ(some: dict[str, goldens.Row], other: dict[str, goldens.Row]) -> None:
    same = list(some.items()) == list(other.items())
    assert (goldens.table(some.items()) == goldens.table(other.items())) == same
