"""Contents of a run's logs, before they are judged."""

import pytest

from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.log_facts import LogFacts
from tests.reader.measuring.support import Lines, mmseg

HEAD = ["    samples_per_gpu=4,"]
FIRST = [mmseg(number, at=number) for number in (10, 20)]


@pytest.mark.parametrize(
    ("iterations", "heads"),
    [((10, 20), [len(HEAD) + len(FIRST) + 1]), ((30, 40), [])],
    ids=["they begin anew", "they go on"],
)
def test_a_second_head_is_that_of_another_run_where_the_iterations_go_back(
    iterations: tuple[int, ...], heads: list[int]
) -> None:
    second = [mmseg(number, at=100.0 + number) for number in iterations]
    log = LogFacts([Expectation(format="mmseg", warmup=0)])
    log.read(Lines([*HEAD, *FIRST, *HEAD, *second]))
    assert [place.line for place in log.facts.other_heads] == heads
