"""Lines that are much slower than most, as ``unsteady`` counts them."""

import re
from collections.abc import Sequence

import pytest

from tests.reader.measuring.support import measured, mmseg

STEADY = (0.5, 0.01)
WAITED = (1.6, 1.2)
STALLED = (1.6, 0.01)


def run(lines: Sequence[tuple[float, float]], *, evaluated: Sequence[int] = ()) -> list[str]:
    """Return lines of (seconds, waiting), ``evaluated`` behind those numbers, within their time."""
    made, at = [], 0.0
    for number, (seconds, waiting) in enumerate(lines, 1):
        at += 10 * seconds
        made.append(mmseg(10 * number, seconds, at=at, waiting=waiting, total=10 * len(lines)))
        if number in evaluated:
            made.append(f"Iter(val) [{10 * number}]\tmIoU: 0.7860, aAcc: 1.0000")
    return made


@pytest.mark.parametrize(
    ("lines", "evaluated", "slow", "waited", "events"),
    [
        ([STEADY] * 30 + [WAITED] * 6 + [STALLED] * 4, (), (10, 40), 6, None),
        ([STEADY] * 20 + [WAITED, STEADY] * 5, (20, 22), (5, 30), 3, 2),
        ([STEADY] * 20 + [STALLED] * 4, (), (4, 24), None, None),
        ([STEADY] * 20 + [(0.9, 0.01)] * 8, (), None, None, None),
    ],
)
def test_unsteady_counts_slow_lines_and_tells_evaluations_from_waiting(
    lines: Sequence[tuple[float, float]],
    evaluated: Sequence[int],
    slow: tuple[int, int] | None,
    waited: int | None,
    events: int | None,
) -> None:
    found = measured(run(lines, evaluated=evaluated))
    (reason,) = (each for each in found.reasons if each.id == "unsteady")
    number = re.search(r"(\d+) of (\d+) lines", reason.sentence)
    assert (number and (int(number[1]), int(number[2]))) == slow
    waiting = re.search(r"(\d+) of them waited", reason.sentence)
    assert (waiting and int(waiting[1])) == waited
    held = re.search(r"(\d+) held", reason.sentence)
    assert (held and int(held[1])) == events
    assert all("time: 1.600" in place.text for place in reason.evidence)
    assert bool(reason.evidence) == (slow is not None)


def test_the_share_of_waiting_is_of_lines_without_an_evaluation() -> None:
    """Its time counts as a wait for the data of the line behind it."""
    lines = [(0.5, 0.05)] * 20 + [(1.6, 1.2)] + [(0.5, 0.05)] * 19
    assert measured(run(lines, evaluated=(20,))).data_fraction == pytest.approx(0.1)
