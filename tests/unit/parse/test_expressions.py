"""Lines matched by the expressions of a declared format."""

import functools

import pytest

from k8sbench.measure.run import evidence
from k8sbench.model.spec import LogFormat
from k8sbench.parse import declared

RECORD = r"^step (?P<iteration>\d+)/(?P<total>\d+) loss (?P<loss>\S+) (?P<rate>[\d.]+) img/s"
LINE = "step 10/100 loss 0.5 412.7 img/s"


def tried(text: str, record: str = RECORD, *facts: str) -> tuple[int, list[declared.Expression]]:
    log_format = LogFormat(name="own", unit="x", per="job", record=record, facts=facts)
    read, made = declared.matches(
        [text], [(log_format, "pytorch/base")], functools.partial(evidence.place, "a.log")
    )
    return read, made


def test_matched_lines_are_counted_and_the_first_three_shown_with_their_groups() -> None:
    too_long = LINE.replace("0.5", "9" * declared.MAX_LINE)
    lines = [too_long, *(LINE.replace("10/", f"{n}0/") for n in range(1, 6))]
    _, (record,) = tried("\n".join(lines))
    assert (record.variant, record.name, record.matched) == ("pytorch/base", "record", 5)
    assert [place.line for place, _ in record.lines] == [2, 3, 4]
    _, groups = record.lines[2]
    assert groups == {"iteration": "30", "total": "100", "loss": "0.5", "rate": "412.7"}


def reach(text: str, record: str) -> tuple[int, tuple[str, ...]] | None:
    """The number of the farthest line, and its three texts."""
    _, (found,) = tried(text, record)
    assert found.matched == 0
    return found.reach and (found.reach[0].line, found.reach[1])


@pytest.mark.parametrize(
    ("record", "matched", "wanted", "has"),
    [
        # One space too many.
        ("^step (?P<iteration>\\d+)/100  loss", "step␣10/100␣", "␣loss", "loss␣0.5␣412.7␣img/s"),
        ("^step (?P<iteration>\\d+)/100 Loss: ", LINE[:12].replace(" ", "␣"), "Loss:␣", "loss"),
        # A beginning without the + would want a space that is not there.
        ("^step +(?P<iteration>\\d+) */ *100,", "step␣10/100", ",", "␣loss"),
        # A group or a class counts as a whole.
        ("(step|epoch) [0-9]+/[a-z]+", "step␣10/", "[a-z]+", "100"),
        ("loss (?P<loss>[a-z]+)", "step␣10/100␣loss␣", "(?P<loss>[a-z]+)", "0.5"),
        ("g(?P<loss>\\d+)", "step␣10/100␣loss␣0.5␣412.7␣img", "(?P<loss>\\d+)", "/s"),
        # Nothing would match the part before the bar.
        ("^epoch|loss [a-z]", "step␣10/100␣loss␣", "[a-z]", "0.5"),
    ],
)
def test_the_farthest_match_is_shown(record: str, matched: str, wanted: str, has: str) -> None:
    found = reach(f"losses: 5\n{LINE}\nstep 10 of 100\n", record)
    assert found is not None
    number, (end, rest, text) = found
    assert (number, end, rest) == (2, matched, wanted)
    assert text.startswith(has)


def test_no_line_is_shown_where_even_the_beginning_matches_none() -> None:
    assert reach(LINE, "^(?P<iteration>\\d+) of") is None


def test_the_parts_are_cut_and_redacted() -> None:
    line = f"at /home/somebody/train.py {'x' * 50} loss 0.5 and {'more ' * 20}"
    found = reach(line, f"^at .* loss 0.5, and {'y' * 60}")
    assert found is not None
    _, parts = found
    assert max(map(len, parts)) == declared.PART
    found = reach(line, "^at /home/somebody/train.txt")
    assert found is not None
    assert "somebody" not in str(found)
