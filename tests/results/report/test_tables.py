"""Tables as text: nothing cut, figures unbroken, footnotes at their cells."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from k8sbench.messages import Note, note
from k8sbench.results.report.noted_tables import Cell, Footnote, Table, absent, markdown, text
from k8sbench.results.report.tables import Column, folded
from tests.results.report.factory import changed
from tests.unit import goldens

COLUMNS = (
    Column(title="case", stays=True),
    Column(title="what"),
    Column(title="rate", right=True, stays=True),
    Column(title="verdict", stays=True),
)


def said(words: str) -> Note:
    return note("name-of", name=words)


def of(head: str, words: str, *runs: str) -> Footnote:
    """Make a footnote of a reason."""
    return Footnote(said=said(words), head=head, runs=runs)


def table(*rows: tuple[Cell | str, ...], title: str | None = None) -> Table:
    return Table(
        title=title,
        columns=COLUMNS,
        rows=tuple(tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in rows),
    )


TWO = table(
    ("1x1", "same", "366.14", "valid"), ("1x8", "same", Cell("2806.66", (said("a note"),)), "valid")
)


VERDICT = Column("verdict", cut=True, states=True)
CUT = Table(
    title=None,
    columns=(Column("name", cut=True), Column("rate", right=True), VERDICT),
    rows=(
        (
            Cell("a" * 30),
            Cell("366.14"),
            Cell("valid; ◀ −7.4 % since day09", (of("odd", "It is odd."),)),
        ),
        (Cell("b"), Cell("1.00"), Cell("valid")),
    ),
)
OPTIONAL = Table(
    title=None,
    columns=(Column("name"), Column("range", optional=1), Column("rate", right=True)),
    rows=((Cell("x" * 10), absent(said("one run")), Cell("366.14")),),
)
STAYS = changed(
    OPTIONAL,
    columns=(Column("name"), Column("range", optional=1, stays=True), Column("rate", right=True)),
)


def noted(*notes: tuple[Note | Footnote, ...], text: str = "1.0") -> Table:
    """Rows of which each has notes."""
    return table(*(("1x1", "a", Cell(text, each), "valid") for each in notes))


def of_run(number: int, peak: str) -> tuple[Footnote, Footnote]:
    """Make what is said of a run of so many GPUs."""
    running = note("mark-still-running", number=number)
    return Footnote(said=running, head="running", runs=(f"run-{number}",)), of("peak", peak)


def quoted(sentence: str, run: str) -> Footnote:
    message = note("finding-quoted", id="odd", text=sentence)
    return Footnote(said=message, head="odd", runs=(run,))


MARKUP = table(
    ("1x1", "a|b <i>*x*`", absent(said("why [not]")), "valid"),
    ("1x8", "a", "2", "valid"),
    title="T",
)
SCENES = {
    "it lines up": text([TWO]),
    "what is equal in all rows stands once above": text([changed(TWO, captioned=True)]),
    "wide letters take two columns": text([table(("飞桨", "a", "1", "x"), ("1x1", *"a1x"))]),
    "a column is cut, and its number of a note stays": text([CUT], width=38),
    "in 34 columns": text([CUT], width=34),
    "optional columns go with their notes": text([OPTIONAL], width=20),
    "but for those that stay": text([STAYS], width=23),
    "a cause is said once, and at most ten are": text(
        [noted(*((of("odd", "First.", *"abc"), of(f"id-{n}", "x")) for n in range(12)), text="–")]
    ),
    "sentences of several runs that differ in one value are one": text(
        [noted(of_run(1, "15.7 TFLOP/s"), of_run(8, "15.7 TFLOP/s"), of_run(32, "125 with AMP"))]
    ),
    "sentences of others are not merged": text(
        [noted((quoted("It is 1.", "a"),), (quoted("It is 2.", "b"),))]
    ),
    "an empty table is none": text([table()]) + markdown([table(title="Nothing")]),
    "Markdown escapes what would be markup": markdown([MARKUP]),
}


def test_tables_are_the_golden_text() -> None:
    parts = [f"# {name}\n{shown}" for name, shown in SCENES.items()]
    goldens.check(Path(__file__).parent / "golden" / "tables.txt", "\n".join(parts))


@given(st.integers(1, 200), st.floats(0.001, 1e6))
def test_no_figure_is_ever_broken(width: int, value: float) -> None:
    figure = f"{value:.2f}"
    made = table(("1x1", "a", figure, "x" * 30), ("1x8", "b", f"{value + 1:.2f}", "y z"))
    assert folded("2810.91 ± 0.3 %", 9) == ["2810.91", "± 0.3 %"]
    assert re.search(rf"(^|\s){re.escape(figure)}(\s|$)", text([made], width=width), re.MULTILINE)


def test_numbered_causes_stand_together_in_their_order_before_those_of_all_rows() -> None:
    every = of("every", "y")
    made = noted((of("first", "x"), every, of("second", "z")), (every, of("third", "w")))
    for shown in (text([made]), markdown([made])):
        lines = re.findall(r"^\\?(?:\[(\d)\] )?(first|second|third|every)\b", shown, re.MULTILINE)
        assert lines == [("1", "first"), ("2", "second"), ("3", "third"), ("", "every")]


def test_the_causes_that_are_left_out_are_counted_in_the_language_of_the_table() -> None:
    many = noted(*((of(f"id-{n}", "x"),) for n in range(14)), text="–")
    command = "k8sbench explain RUN"
    english = text([many]).splitlines()[-1]
    chinese = text([many], lang="zh").splitlines()[-1]
    assert english.startswith("and 5 more causes: ")
    for line in (english, chinese):
        before, named, after = line.partition(command)
        assert (named, re.findall(r"\d+", before + after)) == (command, ["5"])
    assert not re.search("[a-z]", chinese.replace(command, ""))
