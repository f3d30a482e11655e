"""Which lines the expressions of a declared format match, and which they nearly do."""

from __future__ import annotations

import pytest

from k8sbench.model.spec import LogFormat
from k8sbench.parse import expressions
from k8sbench.parse.expressions import Expression

RECORD = r"^step (?P<iteration>\d+)/(?P<total>\d+) loss (?P<loss>\S+) (?P<rate>[\d.]+) img/s"
LINE = "step 10/100 loss 0.5 412.7 img/s"


def tried(pattern: str, *lines: str, name: str = "record") -> Expression:
    found = Expression(name, pattern)
    expressions.explain(["".join(f"{line}\n" for line in lines)], [found])
    return found


def test_matched_lines_are_counted_and_shown_with_their_groups() -> None:
    found = tried(RECORD, "noise", *[LINE.replace("10/", f"{n}0/") for n in range(1, 6)])
    assert found.matched == 5
    assert [line.number for line in found.first] == [2, 3, 4]
    assert found.last is not None
    assert found.last.number == 6
    assert found.last.groups == {
        "iteration": "50",
        "total": "100",
        "loss": "0.5",
        "rate": "412.7",
    }
    assert found.misses == []


SINCE_LOSS = r" (?P<loss>\S+) (?P<rate>[\d.]+) img/s"


@pytest.mark.parametrize(
    ("line", "then", "rest"),
    [
        ("step 10/100 loss=0.5 412.7 img/s", SINCE_LOSS, "=0.5 412.7 img/s"),
        ("step 10/100 loss 0.5 412.7 images/s", "g/s", "ages/s"),
        ("step 10 of 100", r"/(?P<total>\d+) loss" + SINCE_LOSS, " of 100"),
    ],
)
def test_a_near_miss_shows_where_the_line_leaves_the_expression(
    line: str, then: str, rest: str
) -> None:
    (miss,) = tried(RECORD, "Starting", line, "done").misses
    assert (miss.number, miss.then, miss.found) == (2, then, rest)
    assert miss.matches + miss.then == RECORD


def test_the_nearest_lines_are_shown_and_no_more_than_three() -> None:
    far, near = "step 10", "step 10/100 loss=0.5"
    misses = tried(RECORD, far, near, far, near, near, near).misses
    assert [miss.number for miss in misses] == [2, 4, 5]


def test_a_line_that_fits_but_for_its_beginning_is_said_to() -> None:
    (miss,) = tried(RECORD, f"12:00 {LINE}").misses
    assert (miss.matches, miss.then) == ("^", RECORD[1:])


def test_there_are_no_misses_once_a_line_matches() -> None:
    assert tried(RECORD, "step 10/100 loss=0.5", LINE).misses == []
    assert tried(RECORD, "nothing of the kind").misses == []


@pytest.mark.parametrize("pattern", ["#", ".*#", "^"])
def test_an_expression_without_beginnings_has_no_near_misses(pattern: str) -> None:
    assert tried(pattern, "nothing of the kind").misses == []


def test_groups_that_are_no_numbers_are_named() -> None:
    found = tried(r"rate (?P<rate>\S+)", "rate 1,356.8", "rate 12")
    assert [line.unread for line in found.first] == [("rate",), ()]
    assert found.unread == 1
    facts = tried(r"amp: (?P<precision>\w+)", "amp: perhaps", "amp: True", name="facts[0]")
    assert [line.unread for line in facts.first] == [("precision",), ()]


def test_prefixes_are_gone_and_lines_are_numbered_as_in_the_file() -> None:
    found = Expression("record", RECORD)
    text = f"bar\rbar\n[1,0]<stdout>:{LINE}\nlast"
    assert expressions.explain([text], [found]) == 3
    assert [line.number for line in found.first] == [2]


def test_every_beginning_is_an_expression_of_its_own() -> None:
    found = [text for text, _ in expressions.beginnings(r"a|b\d+(?P<x>c)d*")]
    assert found == [r"a", r"a|b", r"a|b\d+", r"a|b\d+(?P<x>c)"]


def test_each_key_of_a_format_has_its_expression() -> None:
    declared = LogFormat(
        name="own", unit="x", per="job", record=RECORD, facts=(r"(?P<gpus>\d+) GPUs",)
    )
    assert [each.name for each in expressions.expressions(declared)] == ["record", "facts[0]"]
