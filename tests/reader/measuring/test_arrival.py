"""The times at which lines arrived, beside what the lines say."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.reader.measuring import train_logs
from tests.reader.measuring.arrival import OURS, OWN, arrived, every, steps
from tests.reader.measuring.own_runs import MASTER
from tests.reader.measuring.stamped_logs import EVALUATION, paddleseg
from tests.reader.measuring.support import Lines, ids, measured, run

SEG: dict[str, Any] = {"format": "paddleseg"}
VIDEO: dict[str, Any] = {"format": "paddlevideo", "gpus": 1, "batch_size": 16}
MISMATCH = ["arrival-mismatch"]


def in_bursts(at: Sequence[float], size: int) -> list[float]:
    """Times at which a buffer is written, once it has so many lines."""
    last = len(at) - 1
    return [at[min(number // size * size + size - 1, last)] for number in range(len(at))]


def with_stalls(at: Sequence[float], each: int, seconds: float) -> list[float]:
    """The same, if each Nth line comes so much later."""
    return [moment + number // each * seconds for number, moment in enumerate(at)]


def stepped(seconds: float, taken: float) -> list[str]:
    """Our trainers' log of 40 records that claim ``seconds`` and arrive each ``taken``."""
    start = [line for line in MASTER if '"event": "start"' in line]
    lines = [
        train_logs.event("step", step=number, of=40, steps=1, seconds=seconds, loss=1.0)
        for number in range(1, 41)
    ]
    return [*start, *arrived(lines, every(taken, 40))]


SEG_LINES = [paddleseg(number * 10, 5 * number) for number in range(1, 41)]
EVALUATED = [*SEG_LINES[:20], EVALUATION, *SEG_LINES[20:]]
"""An evaluation that the log states."""
EVALUATED_AT = [*every(5, 20), 101.0, *(200.0 + at for at in every(5, 40)[20:])]
OFTEN = [line for pair in zip(SEG_LINES, [EVALUATION] * 40, strict=True) for line in pair]
ITEMS = [
    EVALUATION
    if number % 12 == 0
    else paddleseg(10 * (number - number // 12), 5 * (number + 5 * (number // 12)), total=2640)
    for number in range(1, 289)
]
"""Eleven lines, 5 s apart, and an evaluation of 30 s."""
BUFFERED = arrived(
    ITEMS,
    in_bursts([5 * (n - n // 12) + n // 12 * 30 for n in range(1, 289)], 4),
)
EPOCHS = [line.replace("epoch: 1,", f"epoch: {n // 10},") for n, line in enumerate(SEG_LINES)]
VIDEO_LINES = [
    f"[03/02 10:{number // 12:02d}:{number % 12 * 5:02d}] epoch:[  1/1  ] train "
    f"step:{number * 20:<4} loss: 6.0 lr: 0.08 top1: 0.0 top5: 0.0 "
    "elapse: 0.150 reader: 0.001 ips: 106.66667 instance/sec."
    for number in range(60)
]

CASES: dict[str, tuple[list[str], dict[str, Any], list[str]]] = {
    # What programs say of themselves.
    "a true word": (arrived(steps(), every(0.08)), OWN, []),
    "4 % slower": (arrived(steps(400), every(0.0832, 400)), OWN, []),
    "12 % slower": (arrived(steps(400), every(0.0896, 400)), OWN, MISMATCH),
    "half as fast": (arrived(steps(), every(0.12)), OWN, MISMATCH),
    "a built-in family": (arrived(run([0.5] * 60), every(7.5)), {}, MISMATCH),
    "as fast as it says": (arrived(run([0.5] * 60), every(5)), {}, []),
    "our trainers": (stepped(0.5, 0.75), OURS, MISMATCH),
    "as fast as they say": (stepped(0.5, 0.5), OURS, []),
    "faster than it says": (arrived(steps(), every(0.04)), OWN, MISMATCH),
    "read from its second half on": (
        arrived(steps(), [max(at, 2.4) for at in every(0.08)]),
        OWN,
        [],
    ),
    # What the stamps can tell.
    "no stamps": (steps(), OWN, []),
    "19 stamps": (arrived(steps(19), every(1.2, 19)), OWN, []),
    "20 stamps": (arrived(steps(20), every(1.2, 20)), OWN, MISMATCH),
    "all lines at once": (arrived(steps(), [1.0] * 60), OWN, []),
    "bursts": (arrived(steps(960), in_bursts(every(0.08, 960), 40)), OWN, []),
    "bursts of a slow program": (
        arrived(steps(960), in_bursts(every(0.12, 960), 40)),
        OWN,
        MISMATCH,
    ),
    "two bursts": (
        arrived(steps(), [at + n / 1000 for n, at in enumerate(in_bursts(every(0.12), 30))]),
        OWN,
        [],
    ),
    "many lines within 0.05 s": (arrived(steps(4000, 1600), every(0.0075, 4000)), OWN, MISMATCH),
    "stamps that go back": (
        arrived(steps(), [*every(0.08, 30), *(at - 3600 for at in every(0.08, 30))]),
        OWN,
        [],
    ),
    # What lies between the lines.
    "a stated evaluation": (arrived(EVALUATED, EVALUATED_AT), SEG, []),
    "as many evaluations as lines": (arrived(OFTEN, every(9, 80)), SEG, []),
    "an end of an epoch": (arrived(EPOCHS, with_stalls(every(5, 40), 10, 60)), SEG, []),
    "a stall that nothing explains": (
        arrived(run([0.5] * 60), with_stalls(every(5), 30, 60)),
        {},
        [],
    ),
    "evaluations that end a burst": (BUFFERED, SEG, []),
    "evaluations that are not declared": (
        arrived(steps(), with_stalls(every(0.08), 10, 3.0)),
        OWN,
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_log_has_the_reasons_of_its_arrival(case: str) -> None:
    lines, known, expected = CASES[case]
    found = measured(Lines(lines), **known)
    assert [name for name in ids(found, "reject") if name in MISMATCH] == expected
    assert [name for name in ids(found, "warn") if name in MISMATCH] == []


def test_both_rates_are_named_in_the_unit_of_the_figure() -> None:
    (reason,) = measured(arrived(steps(), every(0.12)), **OWN).reasons
    assert "100.00 images/s" in reason.sentence
    assert "66.67 images/s" in reason.sentence
    assert [place.line for place in reason.evidence] == [2, 60]


def test_what_a_program_need_not_know_of_itself_is_a_warning() -> None:
    # Single steps, of which a line stands for twenty.
    found = measured(arrived(VIDEO_LINES, every(5)), **VIDEO)
    assert (found.verdict, [name for name in ids(found) if name in MISMATCH]) == ("valid", MISMATCH)


def test_times_that_our_trainers_leave_out_are_no_training() -> None:
    lines = list(train_logs.attempt())
    stamped = arrived((line.text for line in lines), [line.at - train_logs.START for line in lines])
    assert ids(measured(stamped, **OURS)) == []


@pytest.mark.parametrize(
    ("others", "severity"), [(0.5, None), (0.42, "warn"), (0.3, "reject"), (0.8, "warn")]
)
def test_printed_steps_that_claim_too_much_for_those_between_are_remarked(
    others: float, severity: str | None
) -> None:
    """Each tenth step has a line, and takes 0.5 s."""
    lines = [f"iter {step}: loss 2.0000, time 500.00ms, mfu 10.00%" for step in range(0, 800, 10)]
    at = [1 + number * (0.5 + 9 * others) for number in range(80)]
    head = ["tokens per iteration will be: 98,304"]
    found = measured([*head, *arrived(lines, at)], format="nanogpt", gpus=8, batch_size=None)
    of_arrival = [each.severity for each in found.reasons if each.id in MISMATCH]
    assert of_arrival == ([] if severity is None else [severity])
