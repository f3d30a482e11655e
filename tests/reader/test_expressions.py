"""Lines matched by the expressions of a declared format."""

import functools

from k8sbench.model.log_format import ExpressionMatches, LogFormat
from k8sbench.reader import declared
from k8sbench.reader.measuring import evidence

RECORD = r"^step (?P<iteration>\d+)/(?P<total>\d+) loss (?P<loss>\S+) (?P<rate>[\d.]+) img/s"
LINE = "step 10/100 loss 0.5 412.7 img/s"


def tried(text: str, record: str = RECORD, *facts: str) -> tuple[int, list[ExpressionMatches]]:
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
