"""Tables as text: nothing is cut, nothing is broken inside a figure, footnotes find their cells."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from k8sbench.report.tables import Cell, Table, absent, markdown, text
from k8sbench.report.text_table import Column, folded
from tests.unit.report.factory import changed

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
        "CASE   WHAT      RATE   VERDICT\n"
        "1x1    same    366.14   valid\n"
        "1x8    same   2806.66   valid [1]\n"
        "\n"
        "[1] RATE: a note\n"
    )


def test_what_is_equal_in_all_rows_stands_once_above_a_table_with_a_caption() -> None:
    assert text([changed(TWO, captioned=True)]).splitlines()[:3] == [
        "what: same",
        "CASE      RATE   VERDICT",
        "1x1     366.14   valid",
    ]


def test_a_column_that_is_cut_keeps_the_row_on_one_line_and_its_numbers_of_notes() -> None:
    verdict = Column("verdict", cut=True, states=True)
    columns = (Column("name", cut=True), Column("rate", right=True), verdict)
    long = Cell("valid; ◀ −7.4 % since day09", ("odd: It is odd.",))
    rows = ((Cell("a" * 30), Cell("366.14"), long), (Cell("b"), Cell("1.00"), Cell("valid")))
    made = [Table(title=None, columns=columns, rows=rows)]
    lines = text(made, width=38).splitlines()
    assert lines[1] == "aaaaaaaaa…  366.14  valid; ◀ −7.4… [1]"
    assert "\naaaaaaa… 366.14 valid; ◀ −7.4… [1]\n" in text(made, width=34)
    assert lines[4] == "[1] odd: It is odd."


def test_optional_columns_are_left_out_with_their_notes_where_there_is_no_room() -> None:
    columns = (Column("name"), Column("range", optional=1), Column("rate", right=True))
    rows = ((Cell("x" * 10), absent("one run"), Cell("366.14")),)
    made = Table(title=None, columns=columns, rows=rows)
    assert "[" not in text([made], width=20)
    stays = changed(made, columns=(columns[0], Column("range", optional=1, stays=True), columns[2]))
    assert text([stays], width=23).startswith("NAME       RANGE   RATE\n")
    assert text([made], width=20).endswith(
        "\n\nRANGE: no room\n    in 20 columns;\n    -o wide has it\n"
    )


def test_a_cause_is_said_once_with_the_number_of_its_rows_and_at_most_ten_are() -> None:
    wrong = [Cell("–", ("odd (3 runs): First.", f"id-{n}: x")) for n in range(12)]
    rows = [("1x1", "a", one, "rejected") for one in wrong]
    lines = text([table(*rows, ("1x2", "a", "1.0", "valid"))]).splitlines()[15:]
    assert lines[0] == "[1] odd: 12 of 13 rows; First."
    assert len(lines) == 10
    assert lines[-1].startswith("and 4 causes more: k8sbench explain")


def test_sentences_that_differ_in_numbers_alone_are_one_with_their_ranges() -> None:
    def row(number: str, peak: str) -> tuple[str, str, Cell, str]:
        notes = (f"gpus-unverified (run-{number}): It says {number} GPUs.", f"peak: {peak}")
        return ("1x1", "a", Cell("1.0", notes), "valid")

    rows = row("1", "15.7 TFLOP/s fp32"), row("8", "15.7 TFLOP/s fp32"), row("32", "125 with AMP")
    *_, gpus, fp32, amp = text([table(*rows)]).splitlines()
    assert gpus == "gpus-unverified: all 3 rows; It says 1–32 GPUs."
    assert fp32 == "[1] peak: 2 of 3 rows; 15.7 TFLOP/s fp32"
    assert amp == "[2] peak: 125 with AMP"


def test_dates_names_and_signed_figures_are_never_a_range() -> None:
    for one, other in (("on 2026-11-01", "on 2026-11-02"), ("−6.9 %", "−7.4 %"), ("v1", "v2")):
        rows = [("1x1", "a", Cell("1", (f"odd: {says}",)), "valid") for says in (one, other)]
        lines = text([table(*rows)]).splitlines()
        assert lines[-2:] == [f"[1] odd: {one}", f"[2] odd: {other}"]


def test_markdown_has_causes_and_escapes_what_would_be_markup() -> None:
    rows = (("1x1", "a|b <i>*x*`", absent("why [not]"), "valid"), ("1x8", "a", "2", "valid"))
    shown = markdown([table(*rows, title="T")])
    assert shown == (
        "**T**\n"
        "\n"
        "| case | what | rate | verdict |\n"
        "| --- | --- | ---: | --- |\n"
        "| 1x1 | a\\|b \\<i>\\*x\\*\\` | – | valid \\[1] |\n"
        "| 1x8 | a | 2 | valid |\n"
        "\n"
        "\\[1] rate: why \\[not]\n"
    )


@given(st.integers(1, 200), st.floats(0.001, 1e6))
def test_no_figure_is_ever_broken(width: int, value: float) -> None:
    figure = f"{value:.2f}"
    made = table(("1x1", "a", figure, "x" * 30), ("1x8", "b", f"{value + 1:.2f}", "y z"))
    assert folded("2810.91 ± 0.3 %", 9) == ["2810.91", "± 0.3 %"]
    assert re.search(rf"(^|\s){re.escape(figure)}(\s|$)", text([made], width=width), re.MULTILINE)
