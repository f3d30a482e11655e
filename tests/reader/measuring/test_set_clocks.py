"""A wall clock that is set while lines are written and stamped."""

from collections.abc import Sequence
from typing import Any

import pytest

from k8sbench.model.clock_note import ClockWatch, parse_note
from tests.reader.measuring import train_logs
from tests.reader.measuring.arrival import OURS, OWN, arrived, every, steps
from tests.reader.measuring.own_runs import MASTER
from tests.reader.measuring.stamped_logs import SEG, SEG_LINES, set_clock
from tests.reader.measuring.support import ids, measured, run
from tests.unit.presence import present

NOTE = "[k8sbench: wall clock set by +60.0 s]"
MISMATCH = ["clock-mismatch"]


def noted(lines: Sequence[str], index: int) -> list[str]:
    """The same log with a note before the line at ``index``."""
    return [*lines[:index], NOTE, *lines[index:]]


@pytest.mark.parametrize(
    ("walls", "notes"),
    [
        ([10.0, 11.0, 12.0], [None, None, None]),
        ([10.0, 71.0, 72.0], [None, 60.0, None]),
        ([10.0, 8.5, 9.5], [None, -2.5, None]),
        ([10.0, 11.9, 12.9], [None, None, None]),
        # Small steps that add up.
        ([10.0, 11.6, 13.2], [None, None, 1.2]),
    ],
)
def test_a_change_beside_the_monotonic_clock_is_noted_once(
    walls: Sequence[float], notes: Sequence[float | None]
) -> None:
    watch = ClockWatch()
    found = [watch.note(wall, float(second)) for second, wall in enumerate(walls)]
    assert [None if each is None else parse_note(each) for each in found] == notes


WARM: dict[str, Any] = {"warmup": 100}
CASES: dict[str, tuple[list[str], dict[str, Any], list[str]]] = {
    "a program of one's own": (noted(steps(), 30), OWN, MISMATCH),
    "in stamped lines": (
        arrived(noted(steps(), 30), [*every(0.08, 30), 2.4, *every(0.08)[30:]]),
        OWN,
        MISMATCH,
    ),
    "a built-in family": (noted(SEG_LINES, 20), SEG, MISMATCH),
    "before the first line of the window": (noted(SEG_LINES, 10), SEG | WARM, MISMATCH),
    "in the warm-up": (noted(SEG_LINES, 8), SEG | WARM, []),
    "behind the window": (noted(SEG_LINES, 40), SEG, []),
    "before the head": (noted(run([0.5] * 20), 0), {"warmup": 50}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_a_note_within_the_window_rejects(case: str) -> None:
    lines, known, expected = CASES[case]
    found = measured(lines, **known)
    assert ids(found, "reject") == expected
    if expected:
        assert "+60.0 s" in found.reasons[0].sentence
        assert found.reasons[0].evidence[0].text.endswith(NOTE)


@pytest.mark.parametrize(("seconds", "severity"), [(60.0, "warn"), (20.0, "reject")])
def test_a_noted_step_of_the_stamps_beside_the_printed_times_rejects_nothing(
    seconds: float, severity: str
) -> None:
    found = measured(noted(set_clock(SEG_LINES, 20, seconds), 20), **SEG)
    assert ids(found, severity) == MISMATCH
    assert "+60.0 s" in found.reasons[0].sentence


def ours(*late: float) -> list[str]:
    """Our trainers' log of records of 100 s, whose stamps are so much later."""
    start = [line for line in MASTER if '"event": "start"' in line]
    known = {"of": 300, "steps": 10, "seconds": 100.0, "loss": 1.0}
    at = [train_logs.START + 100.0 * n for n in range(1, 31)]
    return [
        *start,
        *(
            train_logs.event("step", moment + extra, step=10 * number, **known)
            for number, (moment, extra) in enumerate(zip(at, late, strict=True), 1)
        ),
    ]


JUMPS: dict[str, tuple[list[str], list[str]]] = {
    "no step": (ours(*[0.0] * 30), []),
    "1.5 s in 3000 s": (ours(*[0.0] * 15, *[1.5] * 15), MISMATCH),
    "1.5 s back": (ours(*[0.0] * 15, *[-1.5] * 15), MISMATCH),
    "half a second": (ours(*[0.0] * 15, *[0.5] * 15), []),
    "one stamp that is late": (ours(*[0.0] * 15, 3.0, *[0.0] * 14), []),
}


@pytest.mark.parametrize("case", JUMPS)
def test_our_trainers_stamps_are_beside_their_monotonic_times(case: str) -> None:
    lines, expected = JUMPS[case]
    found = measured(lines, **OURS)
    assert [name for name in ids(found) if name in MISMATCH] == expected
    if expected:
        assert "1.5 s" in found.reasons[0].sentence
        assert found.reasons[0].severity == "warn", "their times are of the monotonic clock"
        assert [place.line for place in found.reasons[0].evidence] == [17]


def test_arrival_that_goes_back_rejects_what_the_printed_times_do_not_prove() -> None:
    late = [*every(0.08, 30), *(at - 2 for at in every(0.08)[30:])]
    found = measured(arrived(steps(), late), **OWN)
    assert (ids(found, "reject"), ids(found, "warn")) == ([], MISMATCH)
    assert (
        present(found.throughput).time_weighted
        == present(measured(arrived(steps(), every(0.08)), **OWN).throughput).time_weighted
    )
    odd = arrived([*steps()[:30], steps()[30].replace("100.0", "20.0"), *steps()[31:]], late)
    assert "clock-mismatch" in ids(measured(odd, **OWN), "reject")
    slower = arrived(steps(rate=50.0), late)
    assert "clock-mismatch" in ids(measured(slower, **OWN), "reject")
    # The stamps of two streams may be a little out of order.
    close = arrived(steps(), [at - number % 2 * 0.3 for number, at in enumerate(every(0.08))])
    assert ids(measured(close, **OWN), "reject") == []
