"""A log's time stamps beside the times that its lines print."""

import datetime
import re
from collections.abc import Sequence
from typing import Any

import pytest

from k8sbench.model.log_format import LogFormat
from k8sbench.model.measurement import Measurement
from k8sbench.model.sample import TOLERANCE
from k8sbench.reader.families import FAMILIES
from tests.reader.measuring.stamped_logs import (
    BEGIN,
    EVALUATION,
    SEG,
    SEG_LINES,
    dle,
    moment,
    paddleseg,
    set_clock,
)
from tests.reader.measuring.support import figure, ids, measured, mmseg, run
from tests.unit.presence import present

RESUMED = "2026-03-02 11:00:00,000 - mmseg - INFO - resumed from epoch: 0, iter 40"
HOUR = 3600
MISMATCH = ["clock-mismatch"]


def declared(
    stamps: Sequence[str], stamp_format: str, *, per: Any = "job", rate: float = 8.0, **known: Any
) -> Measurement:
    """Lines of ten iterations in a format of one's own."""
    lines = [f"{at} step {i * 10} ips {rate}" for i, at in enumerate(stamps, 1)]
    own = LogFormat(
        name="mine",
        unit="images",
        per=per,
        record=r"(?P<stamp>.*) step (?P<iteration>\d+) ips (?P<rate>\S+)",
        stamp_format=stamp_format,
    )
    return measured(lines, format=own, **known)


def stamps_from(begin: datetime.datetime, step: float, stamp_format: str) -> list[str]:
    at = [begin + datetime.timedelta(seconds=step * i) for i in range(12)]
    return [each.strftime(stamp_format) for each in at]


def by_stamps(seconds: float, count: int = 40) -> list[str]:
    """Return lines of mmsegmentation 5 s apart that state ``seconds`` each."""
    return [mmseg(i * 10, seconds, at=5 * i, total=400) for i in range(1, count + 1)]


TWO, ONE = ({"format": "dle-resnet50", "gpus": gpus, "batch_size": 256 // gpus} for gpus in (2, 1))
LINES = run([0.5] * 30)
STALLED = set_clock(dle([1400.0] * 60, own=0.988), 30, 0.4)
UNSTAMPED = [*LINES[:4], LINES[4].split(" - mmseg - INFO - ")[1], *LINES[5:]]
SHORT = [mmseg(i * 100, 0.011, at=1.14 * i, waiting=0, total=4000) for i in range(1, 41)]
LATE = [line.replace("data_time: 0.010", "data_time: 0.000") for line in run([0.003] * 30)]
PIECE = run([0.5] * 4, total=80)


def paused(seconds: int) -> list[str]:
    """A log with an evaluation, after which the clock is so much further."""
    later = [paddleseg(i * 10, 5 * i + seconds) for i in range(21, 41)]
    return [*SEG_LINES[:20], EVALUATION, *later]


def resumed(at: float) -> list[str]:
    """A run whose second piece begins at a time."""
    return [*PIECE, RESUMED, *run([0.5] * 4, first=40, at=at, total=80)]


CASES: dict[str, tuple[list[str], dict[str, Any], list[str]]] = {
    # Tolerances.
    "a fifth of a per cent": (by_stamps(0.5008), {}, []),
    "two per cent more": (by_stamps(0.51), {}, MISMATCH),
    "0.0114 s printed as 0.011": (SHORT, {}, []),
    "a stall of one rank, whose rates are averaged": (STALLED, TWO, []),
    "a batch of one": (dle([100.0] * 60, batch=1, own=0.99), ONE | {"batch_size": 1}, []),
    "twice the GPUs": (dle([1400.0] * 40, batch=1024), ONE | {"gpus": 8}, MISMATCH),
    "as many GPUs": (dle([1400.0] * 40, batch=1024), ONE | {"gpus": 4}, []),
    "whole seconds": ([paddleseg(i * 10, 5 * i + 0.9, total=110) for i in range(1, 12)], SEG, []),
    "six per cent": ([paddleseg(i * 10, 5.3 * i) for i in range(1, 41)], SEG, MISMATCH),
    "a line without its stamp": (UNSTAMPED, {}, []),
    "3.4 s in stamps of 5 s": (
        [paddleseg(i, i * 0.2358, cost=0.2358, total=16) for i in range(1, 17)],
        SEG,
        [],
    ),
    # What lies between the lines.
    "an evaluation of six seconds": (paused(6), SEG, []),
    "an evaluation of thirty seconds": (paused(30), SEG, []),
    "a first line that took five seconds": (run([5.0, *[0.5] * 8]), {}, ["unsteady"]),
    "a line that took an hour": (run([*[0.5] * 3, 360.5, *[0.5] * 20]), {}, ["unsteady"]),
    "a piece that is resumed an hour later": (resumed(3620), {}, ["restarted"]),
    "a piece by another clock": (resumed(50 - HOUR), {}, ["restarted"]),
    # A clock that was set.
    "an hour back": (set_clock(LINES, 20, -HOUR), {}, MISMATCH),
    "a minute ahead": (set_clock(LINES, 20, 60), {}, MISMATCH),
    "six seconds back": (set_clock(LINES, 20, -6), {}, MISMATCH),
    "an hour back at an evaluation": (set_clock(paused(4), 20, -HOUR), SEG, MISMATCH),
    "back in the warm-up": (set_clock(LINES, 5, -22), {"warmup": 100}, []),
    "back by less than a line may be late": (set_clock(LATE, 20, -0.05), {}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_a_log_has_the_reasons_of_its_clock(case: str) -> None:
    lines, known, expected = CASES[case]
    assert ids(measured(lines, **known)) == expected


ENGINE: dict[str, Any] = {"format": "mmengine", "batch_size": 8}


def engine(count: int = 40) -> list[str]:
    """Lines of 50 iterations of 1 s each."""
    lines = []
    for number in range(1, count + 1):
        at = BEGIN + datetime.timedelta(seconds=50 * number)
        lines.append(
            f"{at:%Y-%m-%d %H:%M:%S} Iter(train) [{50 * number}/2000]  lr: 1e-02  time: 1.0000  "
            "data_time: 0.0100  loss: 1.0000"
        )
    return lines


def with_logger(lines: Sequence[str]) -> list[str]:
    return [
        re.sub(r"^(\d+)-(\d+)-(\d+ \S+) ", r"\1/\2/\3 - mmengine - INFO - ", line) for line in lines
    ]


HOURS: dict[str, tuple[list[str], dict[str, Any], str, int]] = {
    "back": (set_clock(LINES, 20, -HOUR), {}, "set back by 1 hour", 21),
    "back at an evaluation": (set_clock(paused(40), 20, -HOUR), SEG, "set back by 1 hour", 22),
    "forward": (set_clock(LINES, 20, HOUR), {}, "set forward by 1 hour", 21),
    "by a time zone": (set_clock(LINES, 20, 8 * HOUR), {}, "set forward by 8 hours", 21),
    "forward, in the figure": (
        with_logger(set_clock(engine(), 20, HOUR)),
        ENGINE,
        "set forward by 1 hour",
        21,
    ),
}


@pytest.mark.parametrize("case", HOURS)
def test_a_clock_that_was_set_by_hours_is_named_with_its_line(case: str) -> None:
    lines, known, says, number = HOURS[case]
    found = measured(lines, **known)
    (reason,) = (each for each in found.reasons if each.id == "clock-mismatch")
    assert [place.line for place in reason.evidence] == [number]
    assert says in reason.sentence
    assert "--gpus" not in present(reason.action)
    # The printed times give the figure, or the stamps do.
    assert reason.severity == ("reject" if case == "forward, in the figure" else "warn")


FEW = run([0.1] * 12)
RATES = dle([1400.0] * 60)
STEPS: dict[str, tuple[list[str], list[str], dict[str, Any], str]] = {
    "an hour back": (LINES, set_clock(LINES, 20, -HOUR), {}, "warn"),
    "six seconds back": (LINES, set_clock(LINES, 20, -6), {}, "warn"),
    "an hour forward": (LINES, set_clock(LINES, 20, HOUR), {}, "warn"),
    "a second forward": (LINES, set_clock(LINES, 20, 1), {}, "warn"),
    "an hour forward, in rates": (RATES, set_clock(RATES, 30, HOUR), TWO, "warn"),
    "two seconds forward, of a few": (FEW, set_clock(FEW, 8, 2), {}, "reject"),
    # It may be a wait that no line prints.
    "a minute forward": (LINES, set_clock(LINES, 20, 60), {}, "reject"),
    "twice back": (LINES, set_clock(set_clock(LINES, 20, -HOUR), 25, -6), {}, "reject"),
    "back, of other times": (LINES, set_clock(by_stamps(0.51), 20, -HOUR), {}, "reject"),
    "back, after few lines": (LINES, set_clock(LINES[:5], 2, -HOUR), {}, "reject"),
}


@pytest.mark.parametrize("case", STEPS)
def test_a_step_of_the_stamps_does_not_reject_what_the_printed_times_prove(case: str) -> None:
    before, lines, known, severity = STEPS[case]
    found = measured(lines, **known)
    (reason,) = (each for each in found.reasons if each.id == "clock-mismatch")
    assert reason.severity == severity
    if severity == "warn":
        figures = present(found.throughput)
        unset = present(measured(before, **known).throughput)
        assert figures.time_weighted == unset.time_weighted
        assert (figures.timestamps, found.train_wall_s) == (None, None)
        assert "was set" in found.missing["throughput.timestamps"]


def test_an_hour_in_which_nothing_was_trained_rejects_a_figure_by_the_stamps_however_long() -> None:
    """A training of 28 hours."""
    lines = with_logger(set_clock(engine(2000), 1000, HOUR))
    assert ids(measured(lines, **ENGINE), "reject") == MISMATCH
    # Half an hour is no change of a clock.
    stalled = measured(with_logger(set_clock(engine(2000), 1000, HOUR / 2)), **ENGINE)
    assert ids(stalled, "reject") == []


# Stamps without a year or a date.


def test_stamps_without_a_year_go_past_new_year() -> None:
    """PaddleVideo's; its lines are of single steps."""
    lines = [
        f"[{at}] epoch:[  1/50 ] train step:{i * 20:<4} loss: 6.0 lr: 0.08 top1: 0.0 top5: 0.0 "
        "elapse: 0.250 reader: 0.001 ips: 64.00000 instance/sec."
        for i, at in enumerate(stamps_from(moment("2025-12-31 23:59:30"), 5, "%m/%d %H:%M:%S"))
    ]
    found = measured(lines, format="paddlevideo", batch_size=16)
    assert (found.verdict, ids(found), found.train_wall_s) == ("valid", [], 55)
    assert present(found.throughput).timestamps == pytest.approx(64.0)


@pytest.mark.parametrize(
    ("begin", "stamp_format"),
    [("2026-03-02 23:59:30", "%I:%M:%S"), ("2025-12-31 23:59:30", "%m-%d %H:%M:%S")],
)
def test_stamps_of_a_declared_format_begin_anew(begin: str, stamp_format: str) -> None:
    found = declared(stamps_from(moment(begin), 5, stamp_format), stamp_format, batch_size=4)
    assert (found.verdict, ids(found), found.train_wall_s) == ("valid", [], 55)
    assert present(found.throughput).timestamps == pytest.approx(8.0)


# Resolution.


@pytest.mark.parametrize(("seconds", "is_given"), [(4, False), (49, False), (50, True), (55, True)])
def test_stamps_of_whole_seconds_give_a_rate_only_over_a_long_window(
    seconds: int, is_given: bool
) -> None:
    step = seconds / 11
    stamps = stamps_from(moment("2026-03-02 10:00:00"), step, "%Y-%m-%d %H:%M:%S")
    found = declared(stamps, "%Y-%m-%d %H:%M:%S", batch_size=4, rate=round(40 / step, 3))
    assert found.verdict == "valid"
    assert (present(found.throughput).timestamps is not None) == is_given
    assert ("throughput.timestamps" in found.missing) != is_given


def test_stamps_of_milliseconds_give_a_rate_over_four_seconds() -> None:
    found = measured([mmseg(i * 10, 0.05, at=0.5 * i, total=100) for i in range(1, 10)])
    assert present(found.throughput).timestamps is not None


# Evaluations in the window.


def test_only_a_mean_of_the_rates_of_ranks_may_differ_by_more_than_an_unknown_format() -> None:
    shapes = {rule.shape for family in FAMILIES.values() for rule in family.records}
    assert {shape.name for shape in shapes if shape.tolerance > TOLERANCE} == {"dle-resnet50"}


@pytest.mark.parametrize(
    ("factor", "rate", "says"),
    [
        (1000, 8.0, "the stamps are in milliseconds"),
        (1, 0.008, "the printed times are in milliseconds, or the rates in thousands"),
        (1, 8e-6, "the printed times are in microseconds, or the rates in millions"),
        (3, 8.0, "60.00 s"),
    ],
)
def test_a_factor_of_a_thousand_names_the_unit(factor: int, rate: float, says: str) -> None:
    own = LogFormat(
        name="mine",
        unit="images",
        per="job",
        record=r"(?P<stamp>\d+) step (?P<iteration>\d+) ips (?P<rate>\S+)",
    )
    lines = [f"{1700000000 + 5 * factor * i} step {i * 10} ips {rate}" for i in range(1, 14)]
    found = measured(lines, format=own)
    (reason,) = (each for each in found.reasons if each.id == "clock-mismatch")
    assert says in reason.sentence
    assert ("--gpus" in present(reason.action)) == (factor == 3)


@pytest.mark.parametrize(("length", "tokens"), [(None, "1"), (512, "512")])
def test_stamps_that_contradict_rates_in_tokens_say_how_many_a_step_is_of(
    length: int | None, tokens: str
) -> None:
    own = LogFormat(
        name="mine",
        unit="tokens",
        per="job",
        record=r"(?P<stamp>\d+) step (?P<iteration>\d+) tps (?P<rate>\S+)",
        sequence_length=length,
    )
    rate = (length or 1) / 8
    lines = [f"{1700000000 + 5 * i} step {i * 10} tps {rate}" for i in range(1, 14)]
    found = measured(lines, format=own, gpus=1, batch_size=1, unit="tokens/s")
    (reason,) = (each for each in found.reasons if each.id == "clock-mismatch")
    assert re.findall(r"\d+", reason.sentence)[-1] == tokens
    assert "1 tokens" not in reason.sentence


@pytest.mark.parametrize(("off", "reasons"), [(1.0, []), (2.5, MISMATCH)])
def test_the_delays_of_lines_beside_many_evaluations_partly_cancel(
    off: float, reasons: list[str]
) -> None:
    """The log has 60 stretches of 1 s; the stamp at an end of one may be 0.05 s late."""
    lines = []
    for number in range(1, 121):
        at = number * (0.5 + off / 120)
        lines.append(mmseg(10 * number, 0.05, at=at, waiting=0, total=1200))
        if number % 2 == 0:
            lines.append(f"Iter(val) [{10 * number}]\tmIoU: 0.7860, aAcc: 1.0000")
    assert ids(measured(lines)) == reasons


@pytest.mark.parametrize(("rate", "reasons"), [(64.01, []), (16.01, ["clock-mismatch"])])
def test_lines_that_leave_time_out_claim_no_more_than_passed(
    rate: float, reasons: list[str]
) -> None:
    head = ["[2026-03-02 10:00:00,000] [INFO] [config.py:988:print]   train_batch_size ..... 64"]
    lines = [
        f"[2026-03-02 10:{second // 60:02}:{second % 60:02},000] [INFO] [timer.py:199:stop] "
        f"epoch=0/micro_step={4 * second}/global_step={second}, RunningAvgSamplesPerSec={rate}, "
        f"CurrSamplesPerSec={rate}, MemAllocated=4.34GB, MaxMemAllocated=12.81GB"
        for second in range(10, 210, 10)
    ]
    found = measured([*head, *lines], format="deepspeed", gpus=8, batch_size=None)
    assert ids(found, "reject") == reasons


def test_the_steps_of_deepspeed_s_first_generation_are_micro_batches() -> None:
    about = "[2026-03-02 10:00:00,000] [INFO] [config.py:988:print]  "
    head = [f"{about} train_batch_size ..... 64", f"{about} gradient_accumulation_steps .. 4"]
    lines = [
        f"[2026-03-02 10:{second // 60:02}:{second % 60:02},000] [INFO] [timer.py:199:stop] "
        f"0/{4 * second}, RunningAvgSamplesPerSec=64.01, CurrSamplesPerSec=64.01"
        for second in range(10, 210, 10)
    ]
    found = measured([*head, *lines], format="deepspeed", gpus=8, batch_size=None, warmup=40)
    assert (ids(found, "reject"), figure(found, "timestamps")) == ([], 64.0)
