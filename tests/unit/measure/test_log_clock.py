"""A log's time stamps beside the times that its lines print."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Any

import pytest

from k8sbench.measure.run import log_clock
from k8sbench.measure.run.evidence import Occurrence
from k8sbench.measure.run.expectation import Expectation
from k8sbench.measure.run.measuring import measure
from k8sbench.model.measurement import Measurement
from k8sbench.model.sample import Shape
from k8sbench.model.spec import LogFormat
from tests.unit.measure.support import Block, ids, measured, mmseg, plsc, run
from tests.unit.presence import present

EVALUATION = "2026-03-02 10:01:50 [INFO]\tStart evaluating (total_samples: 500)..."
STEADY = [0.5] * 8
DAY, HOUR = 86400, 3600

moment = datetime.datetime.fromisoformat
BEGIN = moment("2026-03-02 10:00:00")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d([.,]\d+)?")


def set_clock(lines: Sequence[str], index: int, seconds: float) -> list[str]:
    """The same log, if somebody set its clock before the line at ``index``."""

    def shifted(match: re.Match[str]) -> str:
        at = moment(match[0].replace(",", "."))
        text = (at + datetime.timedelta(seconds=seconds)).isoformat(" ", "microseconds")
        if match[1] is None:
            return text[:19]
        return text[: 19 + len(match[1])].replace(".", match[1][0])

    return [*lines[:index], *(_STAMP.sub(shifted, line) for line in lines[index:])]


def dle(rates: Sequence[float], *, batch: int = 256, own: float = 1.0) -> list[str]:
    """Lines of one iteration each; ``own``: printed time ÷ time by the stamps."""
    lines, at = [], 0.0
    for step, rate in enumerate(rates, 1):
        at += batch / rate / own
        stamp = (BEGIN + datetime.timedelta(seconds=at)).isoformat(" ", "microseconds")
        lines.append(
            f"DLL {stamp} - Epoch: 0 Iteration: {step}  train.loss : 7.00000  "
            f"train.total_ips : {rate:.2f} img/s"
        )
    return lines


def paddleseg(iteration: int, at: float, *, cost: float = 0.5, total: int = 400) -> str:
    stamp = (BEGIN + datetime.timedelta(seconds=int(at))).isoformat(" ")
    return (
        f"{stamp} [INFO]\t[TRAIN] epoch: 1, iter: {iteration}/{total}, loss: 1.0, lr: 0.01, "
        f"batch_cost: {cost:.4f}, reader_cost: 0.00100, ips: {4 / cost:.4f} samples/sec | ETA"
    )


def paddlevideo(stamps: Sequence[str]) -> list[str]:
    """Lines of single steps, of which every 20th is printed."""
    return [
        f"[{at}] epoch:[  1/50 ] train step:{i * 20:<4} loss: 6.0 lr: 0.08 top1: 0.0 top5: 0.0 "
        "elapse: 0.250 reader: 0.001 ips: 64.00000 instance/sec."
        for i, at in enumerate(stamps)
    ]


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


# Tolerances.


def test_printed_times_within_what_real_logs_show_are_no_contradiction() -> None:
    times = [0.5008, 0.4992] * 20
    assert ids(measured(run(times))) == []
    by_stamps = [mmseg(i * 10, 0.5008, at=5 * i, total=400) for i in range(1, 41)]
    assert ids(measured(by_stamps)) == []


def test_rounding_of_short_times_is_no_contradiction() -> None:
    """0.0114 s printed as 0.011: four per cent."""
    lines = [mmseg(i * 100, 0.011, at=1.14 * i, waiting=0, total=4000) for i in range(1, 41)]
    assert ids(measured(lines)) == []


@pytest.mark.parametrize("share", [0.98, 1.02])
def test_times_edited_by_two_per_cent_are_rejected(share: float) -> None:
    lines = [mmseg(i * 10, 0.5 * share, at=5 * i, total=400) for i in range(1, 41)]
    found = measured(lines)
    assert ids(found, "reject") == ["clock-mismatch"]
    assert found.reasons[0].sentence == (
        f"39 records say that they took {195 * share:.2f} s; by their time stamps it was 195.00 s."
    )


def test_a_stall_of_one_rank_is_no_contradiction_of_deeplearningexamples() -> None:
    """Its rate is the mean of the ranks' rates: a stall of one is in the stamps, in full."""
    lines = set_clock(dle([1400.0] * 60, own=0.988), 30, 0.4)
    assert ids(measured(lines, format="dle-resnet50", gpus=2, batch_size=128)) == []
    alone = measured(lines, format="dle-resnet50", gpus=1, batch_size=256)
    assert ids(alone, "reject") == ["clock-mismatch"]


@pytest.mark.parametrize("own", [0.95, 1.05])
def test_deeplearningexamples_is_compared_by_its_median_line(own: float) -> None:
    found = measured(dle([1400.0] * 60, own=own), format="dle-resnet50", gpus=2, batch_size=128)
    assert ids(found, "reject") == ["clock-mismatch"]
    assert f"The median record's own time is {100 * own:.1f} %" in found.reasons[0].sentence


@pytest.mark.parametrize(("batch", "own"), [(1, 1.0), (1, 0.99), (2, 1.0)])
def test_the_median_line_of_a_batch_of_one_is_compared_by_its_own_time(
    batch: int, own: float
) -> None:
    lines = dle([100.0] * 60, batch=batch, own=own)
    assert ids(measured(lines, format="dle-resnet50", batch_size=batch)) == []


def test_lines_of_one_stamp_show_no_time_for_their_own() -> None:
    lines = dle([1e9] * 60)
    assert "clock-mismatch" in ids(measured(lines, format="dle-resnet50", batch_size=256))


def test_stamps_in_whole_seconds_may_be_one_second_off_at_either_end_of_a_stretch() -> None:
    lines = [paddleseg(i * 10, 5.0 * i + 0.9, total=110) for i in range(1, 12)]
    assert ids(measured(lines, format="paddleseg")) == []
    off = [paddleseg(i * 10, 5.3 * i) for i in range(1, 41)]
    assert ids(measured(off, format="paddleseg"), "reject") == ["clock-mismatch"]


def test_each_evaluation_begins_a_stretch_of_stamps_in_whole_seconds() -> None:
    """Sixteen lines of 5 s, five of which are 6 s by their stamps."""
    lines, at = [paddleseg(10, 0, total=330)], 0
    for i in range(1, 17):
        lines.append(paddleseg(i * 20, at + 5 + (i <= 5), total=330))
        lines.append(EVALUATION)
        at += 10 + (i <= 5)
        lines.append(paddleseg(i * 20 + 10, at, total=330))
    shorter = [line for line in lines if line != EVALUATION]
    assert "clock-mismatch" not in ids(measured(lines, format="paddleseg"))
    times = [line.replace("batch_cost: 0.5000", "batch_cost: 0.4700") for line in shorter]
    faster = [line.replace("ips: 8.0000", "ips: 8.5106") for line in times]
    assert "clock-mismatch" in ids(measured(faster, format="paddleseg"))


def test_a_line_without_its_stamp_makes_the_next_one_no_later() -> None:
    lines = run(STEADY)
    lines[4] = lines[4].split(" - mmseg - INFO - ")[1]
    assert ids(measured(lines)) == []


# What lies between the lines.


@pytest.mark.parametrize(("seconds", "expected"), [(30, ["clocks-apart"]), (6, [])])
def test_time_between_the_lines_is_remarked_from_a_twentieth_on(
    seconds: int, expected: list[str]
) -> None:
    lines = [paddleseg(i * 10, 5 * i) for i in range(1, 21)]
    lines.append(EVALUATION)
    lines += [paddleseg(i * 10, 5 * i + seconds) for i in range(21, 41)]
    found = measured(lines, format="paddleseg")
    assert (found.verdict, ids(found)) == ("valid", expected)
    if expected:
        assert "its time stamps the log's rate is 86.7 %" in found.reasons[0].sentence


def test_few_seconds_in_stamps_of_whole_seconds_are_no_difference() -> None:
    """3.4 s of iterations are 5 s of stamps."""
    lines = [paddleseg(i, i * 0.2358, cost=0.2358, total=16) for i in range(1, 17)]
    assert ids(measured(lines, format="paddleseg")) == []


def test_totals_of_all_steps_are_held_against_the_stamps_and_not_the_printed_steps() -> None:
    head = "[03/02 10:00:{:02d}] epoch:[  1/50 ] train step:{:<4} loss: 6.0 lr: 0.08 "
    tail = "top1: 0.0 top5: 0.0 elapse: 0.200 reader: 0.001 ips: 80.00000 instance/sec."
    lines = [head.format(5 * i, 20 * i) + tail for i in range(6)]
    assert "clocks-apart" in ids(measured(lines, format="paddlevideo", batch_size=16))
    lines.append(
        "[03/02 10:00:27] END epoch:1  train loss_avg: 3.0 top1_avg: 0.3 top5_avg: 0.6 "
        "elapse_avg: 0.250 reader_avg: 0.000 elapse_sum: 27.500 ips: 64.00000 instance/sec."
    )
    found = measured(lines, format="paddlevideo", batch_size=16)
    assert found.rate == pytest.approx(64.0)
    assert "clocks-apart" not in ids(found)


def test_a_slow_first_line_is_in_both_figures_or_in_none() -> None:
    """The stamps do not show how long the first line took."""
    lines = run([5.0, *[0.5] * 8])
    assert "clocks-apart" not in ids(measured(lines))


def test_plsc_v1_whose_times_leave_the_loader_out_is_remarked() -> None:
    lines = []
    for i in range(12):
        at = BEGIN + datetime.timedelta(seconds=4 * i)
        stamp = at.isoformat(" ", "milliseconds").replace(".", ",")
        lines.append(plsc(i * 10, 400.0, stamp=stamp))
    found = measured(lines, format="plsc", batch_size=128)
    assert (found.verdict, ids(found)) == ("valid", ["clocks-apart"])


# Jumps of the clock.

JUMPS = [-HOUR, HOUR]


@pytest.mark.parametrize("line", [1, 2, 3, 11, 28, 29])
@pytest.mark.parametrize("seconds", JUMPS)
def test_a_jump_is_corrected_wherever_it_lies_and_however_the_log_is_read(
    seconds: int, line: int
) -> None:
    lines = set_clock(run([0.5] * 30), line, seconds)
    expected = Expectation(format="mmseg", gpus=1, batch_size=4, warmup=0)
    for blocks in ([lines], [lines[:2], lines[2:]], [lines[:10], lines[10:20], lines[20:]]):
        found = measure([Block(*blocks)], expected)
        assert (found.verdict, ids(found)) == ("valid", ["clock-jump"])
        assert [place.line for place in found.reasons[0].evidence] == [line + 1]
        assert present(found.throughput).timestamps == pytest.approx(8.0)


def test_a_jump_at_an_evaluation_is_corrected_as_well() -> None:
    lines = [paddleseg(i * 10, 5 * i) for i in range(1, 41)]
    lines.insert(20, EVALUATION)
    found = measured(set_clock(lines, 20, 4 - HOUR), format="paddleseg")
    assert ids(found) == ["clock-jump"]
    assert present(found.throughput).timestamps == pytest.approx(40 * 39 / 199)


@pytest.mark.parametrize(("pause", "known"), [(0, True), (1795, True), (1796, False)])
def test_a_jump_back_may_hide_half_an_hour_between_two_lines(pause: int, known: bool) -> None:
    lines = [paddleseg(i * 10, 5 * i) for i in range(1, 41)]
    lines.insert(20, EVALUATION)
    found = measured(set_clock(lines, 20, pause - HOUR), format="paddleseg")
    assert ids(found)[0] == ("clock-jump" if known else "clock-mismatch")


@pytest.mark.parametrize("seconds", [-5, -4, 0])
def test_an_hour_at_an_evaluation_may_be_the_evaluation_s(seconds: int) -> None:
    lines = [paddleseg(i * 10, 5 * i) for i in range(1, 41)]
    lines.insert(20, EVALUATION)
    found = measured(set_clock(lines, 20, HOUR + seconds), format="paddleseg")
    assert ids(found) == ["clocks-apart"]


@pytest.mark.parametrize("seconds", [-30 * 60, -22, -6, HOUR + 38, 2 * HOUR, -DAY, 60])
def test_a_jump_of_another_size_is_a_contradiction(seconds: int) -> None:
    found = measured(set_clock(run([0.5] * 30), 20, seconds))
    assert ids(found) == ["clock-mismatch"]


def test_a_jump_before_the_window_is_in_no_figure_of_it() -> None:
    honest = measured(run([0.5] * 30), warmup=100)
    found = measured(set_clock(run([0.5] * 30), 5, -HOUR), warmup=100)
    assert ids(found) == ["clock-jump"]
    assert found.throughput == honest.throughput
    assert found.train_wall_s == honest.train_wall_s


@pytest.mark.parametrize("seconds", [-22, 60])
def test_what_the_clock_did_in_the_warm_up_does_not_matter(seconds: int) -> None:
    assert ids(measured(set_clock(run([0.5] * 30), 5, seconds), warmup=100)) == []


def test_a_jump_may_come_with_a_late_line() -> None:
    assert ids(measured(set_clock(run([0.5] * 30), 20, 0.5 - HOUR))) == ["clock-jump"]


def test_a_step_back_by_less_than_a_line_may_be_late_is_none() -> None:
    lines = [line.replace("data_time: 0.010", "data_time: 0.000") for line in run([0.003] * 30)]
    assert ids(measured(set_clock(lines, 20, -0.05))) == []


def test_two_jumps_are_a_contradiction() -> None:
    lines = set_clock(set_clock(run([0.5] * 30), 10, -HOUR), 20, HOUR)
    assert ids(measured(lines), "reject") == ["clock-mismatch"]
    lines = set_clock(set_clock(run([0.5] * 30), 10, -HOUR), 20, -HOUR)
    assert ids(measured(lines), "reject") == ["clock-mismatch"]


def test_a_jump_does_not_excuse_edited_times() -> None:
    edited = [line.replace("time: 0.500", "time: 0.450") for line in run([0.5] * 30)]
    assert ids(measured(set_clock(edited, 20, -HOUR)), "reject") == ["clock-mismatch"]


def test_a_line_that_took_an_hour_by_its_own_time_is_no_jump() -> None:
    times = [0.5, 0.5, 0.5, 360.5, *[0.5] * 20]
    assert ids(measured(run(times))) == ["below-median"]


def test_a_piece_that_is_resumed_an_hour_later_is_no_jump() -> None:
    resumed = "2026-03-02 11:00:00,000 - mmseg - INFO - resumed from epoch: 0, iter 40"
    lines = [*run([0.5] * 4, total=80), resumed, *run([0.5] * 4, first=40, at=3620, total=80)]
    assert ids(measured(lines)) == ["restarted"]
    # Elsewhere, by another clock.
    lines[5:] = run([0.5] * 4, first=40, at=50 - HOUR, total=80)
    assert ids(measured(lines)) == ["restarted"]
    assert ids(measured(set_clock(lines, 5, -2 * DAY)), "reject") == ["clock-mismatch"]


def test_stamps_without_a_year_go_past_new_year() -> None:
    """PaddleVideo's; its lines are of single steps."""
    begin = moment("2025-12-31 23:59:30")
    lines = paddlevideo(stamps_from(begin, 5, "%m/%d %H:%M:%S"))
    found = measured(lines, format="paddlevideo", batch_size=16)
    assert (found.verdict, ids(found)) == ("valid", ["clock-jump"])
    assert present(found.throughput).timestamps == pytest.approx(64.0)
    assert found.train_wall_s == 55


@pytest.mark.parametrize(
    ("begin", "stamp_format", "jump"),
    [
        (moment("2026-03-02 23:59:30"), "%H:%M:%S", "-86400 s"),
        (moment("2026-03-02 23:59:30"), "%I:%M:%S", "-43200 s"),
        (moment("2025-12-31 23:59:30"), "%m-%d %H:%M:%S", "-31536000 s"),
        (moment("2025-12-31 23:59:30"), "%y-%m-%d %H:%M:%S", ""),
    ],
)
def test_stamps_of_a_declared_format_begin_anew(
    begin: datetime.datetime, stamp_format: str, jump: str
) -> None:
    stamps = stamps_from(begin, 5, stamp_format)
    found = declared(stamps, stamp_format, batch_size=4)
    assert (found.verdict, ids(found)) == ("valid", ["clock-jump"] if jump else [])
    assert jump in " ".join(each.sentence for each in found.reasons)
    assert present(found.throughput).timestamps == pytest.approx(8.0)


def test_stamps_without_a_date_may_begin_anew_each_day() -> None:
    stamps = [(BEGIN + datetime.timedelta(hours=5 * i)).strftime("%H:%M:%S.%f") for i in range(40)]
    found = declared(stamps, "%H:%M:%S.%f", batch_size=4, rate=40 / 5 / HOUR)
    assert ids(found) == ["clock-jump"]
    assert "-86400 s (8 times)" in found.reasons[0].sentence
    assert found.train_wall_s == 39 * 5 * HOUR


def test_without_the_batch_a_jump_is_known_by_its_size() -> None:
    stamps = stamps_from(moment("2026-03-02 23:59:30"), 5, "%H:%M:%S")
    found = declared(stamps, "%H:%M:%S", batch_size=None)
    assert ids(found) == ["clock-jump"]
    assert found.train_wall_s == 55


def test_a_jump_of_the_logger_s_clock_is_no_fault_of_ai_rank_s_lines() -> None:
    lines = run([0.5] * 30)
    at = moment("2026-03-02 10:00:00+00:00").timestamp()
    events = [
        f"AI-Rank-log {at + 5 * i:.1f} eval_accuracy:0.5, total_epoch_cnt:{i}" for i in (9, 21)
    ]
    lines[9:9], lines[22:22] = events[:1], events[1:]
    assert ids(measured(lines)) == []
    assert ids(measured(set_clock(lines, 15, -HOUR))) == ["clock-jump"]
    by_hand = [line.replace(str(at)[:6], "166666") for line in lines]
    assert ids(measured(by_hand)) == ["airank-clock"]


# Factors.


OF_JOB, OF_CARD = (Shape(name="", number="rate", per=per) for per in ("job", "card"))


@pytest.mark.parametrize(
    ("ratio", "gpus", "shape", "whole"),
    [
        (8.0, 8, OF_JOB, 8),
        (2.0, 8, OF_JOB, 2),
        (1 / 4, 8, OF_JOB, 4),
        (1 / 8, 1, OF_JOB, 8),
        (1 / 2, 3, OF_JOB, 2),
        (8.0, 8, OF_CARD, 8),
    ],
)
def test_a_factor_of_the_gpus_names_the_likely_cause(
    ratio: float, gpus: int, shape: Shape, whole: int
) -> None:
    said = log_clock.factor(ratio, gpus, shape)
    assert said.startswith(f" The factor is {whole}, with {gpus} GPU")
    assert "check --gpus" in said


@pytest.mark.parametrize(
    ("ratio", "gpus", "shape"),
    [
        *((ratio, 3, OF_JOB) for ratio in (2.0, 1.99, 0.45)),
        *((1.5, 1, OF_JOB), (1.2, 2, OF_JOB), (3.0, 1, OF_JOB), (None, 1, OF_JOB)),
        (2.0, 8, OF_CARD),
        (8.0, 8, Shape(name="", number="seconds")),  # These do not depend on the GPUs.
    ],
)
def test_other_factors_name_no_cause(ratio: float | None, gpus: int, shape: Shape) -> None:
    assert log_clock.factor(ratio, gpus, shape) == ""


def test_a_wrong_number_of_gpus_is_a_contradiction_that_names_the_factor() -> None:
    lines = dle([1400.0] * 40, batch=256 * 4)
    found = measured(lines, format="dle-resnet50", batch_size=256, gpus=8)
    assert ids(found, "reject") == ["clock-mismatch"]
    assert "The factor is 2" in found.reasons[0].sentence
    assert ids(measured(lines, format="dle-resnet50", batch_size=256, gpus=4)) == []


@pytest.mark.parametrize(("per", "rate"), [("card", 64.0), ("job", 8.0)])
def test_a_rate_of_one_card_that_is_declared_as_the_job_s_and_the_other_way_round(
    per: str, rate: float
) -> None:
    stamps = stamps_from(BEGIN, 5, "%Y-%m-%d %H:%M:%S")
    found = declared(stamps, "%Y-%m-%d %H:%M:%S", per=per, rate=rate, gpus=8, batch_size=4)
    assert ids(found, "reject") == ["clock-mismatch"]
    assert "whether the printed rate is one card's or the job's (per)" in found.reasons[0].sentence
    other = "job" if per == "card" else "card"
    right = declared(stamps, "%Y-%m-%d %H:%M:%S", per=other, rate=rate, gpus=8, batch_size=4)
    assert ids(right) == []


def test_a_summary_of_one_card_beside_lines_of_the_job_names_the_factor() -> None:
    own = LogFormat(
        name="mine",
        unit="images",
        per="job",
        record=r"step (?P<iteration>\d+) ips (?P<rate>\S+)",
        summary=r"done: (?P<rate>\S+)",
    )
    lines = [*(f"step {i} ips 64.0" for i in range(1, 9)), "done: 8.0"]
    found = measured(lines, format=own, gpus=8)
    assert ids(found) == ["summary-mismatch"]
    assert "The factor is 8, with 8 GPUs given" in found.reasons[0].sentence
    assert "factor" not in measured(lines, format=own, gpus=3).reasons[0].sentence


# Evaluations in the window.


def test_an_evaluation_is_no_wait_for_data() -> None:
    """mmcv counts it as data_time of the iteration after it."""
    lines = [mmseg(i * 10, 0.5, at=5 * i, total=160) for i in range(1, 9)]
    lines.append("2026-03-02 10:02:00,000 - mmseg - INFO - Iter(val) [90]\tmIoU: 0.5000")
    lines.append(mmseg(100, 10.5, at=150, waiting=10.01, total=160))
    lines += [mmseg(i * 10, 0.5, at=150 + 5 * (i - 10), total=160) for i in range(11, 17)]
    found = measured(lines)
    assert found.data_fraction == pytest.approx(0.02)
    assert "loader-stall" not in ids(found)
    assert present(found.throughput).time_weighted_steady == pytest.approx(8.0)
    assert [place.line for place in present(found.window).left_out] == [10]
    # A loader that really is slow is still seen.
    slow = [line.replace("data_time: 0.010", "data_time: 0.100") for line in lines]
    assert "loader-stall" in ids(measured(slow))


def epochs(second: float = 0.5) -> list[str]:
    return [
        line.replace(f"Iter [{i % 80 + 10}/", f"Epoch [{1 + i // 80}][{i % 80 + 10}/")
        for i in range(0, 160, 10)
        for line in [
            mmseg(
                i % 80 + 10,
                second if i == 80 else 0.5,
                at=5 * (i / 10 + 1) + (90 if i >= 80 else 0),
                total=80,
            )
        ]
    ]


def test_an_evaluation_between_two_epochs_lies_in_no_line_of_mmcv() -> None:
    """Its timer begins anew with each epoch."""
    lines = epochs()
    lines.insert(8, "2026-03-02 10:02:00,000 - mmseg - INFO - Epoch(val) [1][500]\tmIoU: 0.5000")
    found = measured(lines)
    assert (found.records, present(found.window).left_out_count) == (16, 0)
    assert ids(found) == ["clocks-apart"]


def test_evaluations_of_programs_that_time_them_apart_are_in_no_figure() -> None:
    lines = [paddleseg(i * 10, 5 * i) for i in range(1, 21)]
    later = [paddleseg(i * 10, 5 * i + 8) for i in range(21, 41)]
    plain = measured(
        [*lines, *(paddleseg(i * 10, 5 * i) for i in range(21, 41))], format="paddleseg"
    )
    found = measured([*lines, EVALUATION, *later], format="paddleseg")
    assert ids(found) == ids(plain) == []
    assert found.rate == plain.rate
    assert found.data_fraction == plain.data_fraction
    assert present(found.window).left_out_count == 0


# The table.


def test_every_family_whose_times_must_agree_with_its_stamps_has_its_tolerance() -> None:
    from k8sbench.parse.families import FAMILIES

    shapes = {rule.shape for family in FAMILIES.values() for rule in family.records}
    assert set(log_clock.TOLERANCES) == {each.name for each in shapes if each.complete}


@pytest.mark.parametrize(("first", "last", "jumped"), [(2, 3, 1), (3, 9, 0), (2, 9, 1), (4, 9, 0)])
def test_a_jump_belongs_to_the_time_that_ends_with_its_line(
    first: int, last: int, jumped: int
) -> None:
    line: Any = None
    jump = log_clock.Jump(HOUR, Occurrence("log", line, position=3))
    passed = log_clock.ClockReading(jumps=(jump,)).between(first, last, HOUR + 5.0)
    assert passed == 5.0 + HOUR * (1 - jumped)
