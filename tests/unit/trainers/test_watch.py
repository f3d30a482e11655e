"""The silent rank of a job that hangs."""

from collections.abc import Mapping

import pytest

from k8sbench.trainers.parts import watch
from k8sbench.trainers.parts.watch import Sign

NOW = 10_000.0
HANGING = watch.LIMIT + 1
ENDING = f": no rank has done anything for {watch.LIMIT:g} s"


def sign(position: int, *, still: float = HANGING, stopped: bool = False, ago: float = 0.5) -> Sign:
    return Sign(position, f"in step {position}", still, stopped, NOW - ago)


def test_a_job_is_alive_while_one_of_its_ranks_is() -> None:
    """The others wait for an evaluation or a checkpoint that takes long."""
    signs = {0: sign(7, still=5 * watch.LIMIT), 1: sign(6, still=1.0)}
    assert watch.silent(signs, 2, (), NOW, watch.LIMIT) is None


@pytest.mark.parametrize(
    ("signs", "ranks", "silent", "sentence"),
    [
        ({0: sign(7), 1: sign(6)}, 2, [1], "rank 1 of 2 hangs in step 6"),
        ({0: sign(6), 1: sign(7)}, 2, [0], "rank 0 of 2 hangs in step 6"),
        (
            {0: sign(7), 1: sign(7, stopped=True)},
            2,
            [1],
            "rank 1 of 2 is stopped (SIGSTOP) in step 7",
        ),
        ({0: sign(7), 2: sign(6)}, 4, [1, 3], "rank 1 of 4 (and 1 more) has not come"),
        (
            {0: sign(7), 1: sign(7, still=0.0, ago=HANGING)},
            2,
            [1],
            "rank 1 of 2 has fallen silent with its pod in step 7",
        ),
        ({0: sign(7), 1: sign(7)}, 2, [0, 1], "rank 0 of 2 (and 1 more) hangs in step 7"),
        ({0: sign(3)}, 1, [0], "rank 0 of 1 hangs in step 3"),
    ],
)
def test_the_silent_rank_is_named_and_not_the_one_that_waits(
    signs: Mapping[int, Sign], ranks: int, silent: list[int], sentence: str
) -> None:
    assert watch.silent(signs, ranks, (), NOW, watch.LIMIT) == (silent, sentence + ENDING)


def test_a_rank_that_has_ended_is_not_missed() -> None:
    found = watch.silent({0: sign(7)}, 2, {1}, NOW, watch.LIMIT)
    assert found == ([0], "rank 0 of 2 hangs in step 7" + ENDING)


def test_a_rank_that_lost_its_watch_is_named_unless_another_is_behind() -> None:
    signs = {0: sign(7), 2: sign(7)}
    found = watch.silent(signs, 3, (), NOW, watch.LIMIT, [1])
    assert found == ([1], "rank 1 of 3 has lost its watch, and hangs or is gone" + ENDING)
    behind = watch.silent({0: sign(7), 2: sign(6)}, 3, (), NOW, watch.LIMIT, [1])
    assert behind == ([2], "rank 2 of 3 hangs in step 6" + ENDING)
    stopped = {0: sign(7), 2: sign(7, stopped=True)}
    found = watch.silent(stopped, 3, (), NOW, watch.LIMIT, [1])
    assert found == ([2], "rank 2 of 3 is stopped (SIGSTOP) in step 7" + ENDING)
