"""Which lines the expressions of a declared format match."""

from __future__ import annotations

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


def test_each_key_of_a_format_has_its_expression() -> None:
    declared = LogFormat(
        name="own", unit="x", per="job", record=RECORD, facts=(r"(?P<gpus>\d+) GPUs",)
    )
    assert [each.name for each in expressions.expressions(declared)] == ["record", "facts[0]"]
