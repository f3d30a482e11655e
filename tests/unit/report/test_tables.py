"""Tables as text: nothing is cut, nothing is broken inside a figure, footnotes find their cells."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model.plain_text import clean
from k8sbench.report.tables import Cell, Table, absent, markdown, text
from k8sbench.report.text_table import Column, width_of

COLUMNS = (
    Column(title="case", stays=True),
    Column(title="what"),
    Column(title="rate", right=True, stays=True),
    Column(title="verdict", stays=True),
)


def table(*rows: tuple[Cell | str, ...], title: str | None = None) -> Table:
    return Table(
        title=title,
        columns=COLUMNS,
        rows=tuple(tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in rows),
    )


TWO = table(
    ("1x1", "same", "366.14", "valid"), ("1x8", "same", Cell("2806.66", ("a note",)), "valid")
)


def test_a_table_lines_up_and_has_no_trailing_blanks() -> None:
    assert text([TWO]) == (
        "case   what          rate   verdict\n"
        "1x1    same        366.14   valid\n"
        "1x8    same   2806.66 [1]   valid\n"
        "\n"
        "[1] a note\n"
    )


def test_what_is_equal_in_all_rows_is_said_once_where_the_table_does_not_fit() -> None:
    assert text([TWO], width=30) == (
        "In all rows: what: same\n"
        "case         rate  verdict\n"
        "1x1        366.14  valid\n"
        "1x8   2806.66 [1]  valid\n"
        "\n"
        "[1] a note\n"
    )


def test_rows_become_paragraphs_where_even_that_does_not_fit() -> None:
    assert text([TWO], width=20) == (
        "In all rows: what:\n"
        "  same\n"
        "case: 1x1\n"
        "  rate: 366.14\n"
        "  verdict: valid\n"
        "\n"
        "case: 1x8\n"
        "  rate: 2806.66 [1]\n"
        "  verdict: valid\n"
        "\n"
        "[1] a note\n"
    )


def test_the_last_column_is_wrapped_between_words() -> None:
    long = table(("1x1", "a", "1.0", "valid; smoke (CPU): checks the path, not the speed"))
    assert text([long], width=45) == (
        "case  what  rate  verdict\n"
        "1x1   a      1.0  valid; smoke (CPU): checks\n"
        "                  the path, not the speed\n"
    )


def test_equal_notes_share_a_number_over_all_tables() -> None:
    one = table(("1x1", "a", absent("no baseline"), "valid"))
    two = table(("1x1", "a", absent("no baseline"), absent("other")), title="Second")
    shown = text([one, two])
    assert shown.count("– [1]") == 2
    assert shown.endswith("[1] no baseline\n[2] other\n")


def test_an_empty_table_is_no_table() -> None:
    assert text([table()]) == ""
    assert markdown([table(title="Nothing")]) == ""


def test_markdown_has_footnotes_and_escapes_what_would_be_markup() -> None:
    shown = markdown([table(("1x1", "a|b <i>*x*`", absent("why [not]"), "valid"), title="T")])
    assert shown == (
        "**T**\n"
        "\n"
        "| case | what | rate | verdict |\n"
        "| --- | --- | ---: | --- |\n"
        "| 1x1 | a\\|b \\<i>\\*x\\*\\` | –[^1] | valid |\n"
        "\n"
        "[^1]: why \\[not]\n"
    )


def test_wide_letters_take_two_columns() -> None:
    assert width_of("飞桨") == 4
    lines = text([table(("飞桨", "a", "1", "x"), ("1x1", "a", "1", "x"))]).splitlines()
    assert lines[1] == "飞桨   a         1   x"
    assert lines[2] == "1x1    a         1   x"


WORDS = st.text(st.characters(codec="utf-8"), max_size=30)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS), max_size=4), st.integers(1, 120))
def test_no_letter_is_lost_at_any_width(rows: list[tuple[str, ...]], width: int) -> None:
    made = table(*rows)
    shown = re.sub(r"\s", "", text([made], width=width))
    for row in rows:
        for cell in row:
            # Of a cell that is broken, the next column stands between its lines.
            letters = iter(shown)
            assert all(letter in letters for letter in re.sub(r"\s", "", clean(cell)))


@given(st.integers(1, 200), st.floats(0.001, 1e6))
def test_no_figure_is_ever_broken(width: int, value: float) -> None:
    figure = f"{value:.2f}"
    made = table(("1x1", "a", figure, "x" * 30), ("1x8", "b", f"{value + 1:.2f}", "y z"))
    assert re.search(rf"(^|\s){re.escape(figure)}(\s|$)", text([made], width=width), re.MULTILINE)
