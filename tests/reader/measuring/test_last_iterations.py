"""Lines that print the mean of the last few iterations, as mmengine's do."""

import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from k8sbench.model.log_format import FAMILY_NAMES
from k8sbench.model.measurement import Measurement
from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.measuring import measure
from tests.reader.measuring.support import Lines, ids, lines_of, measured, run
from tests.unit.presence import present

BEGAN = datetime.datetime(2023, 6, 14, 10, tzinfo=datetime.UTC)


def logged(
    seconds: Iterable[float], *, every: int, printed: float, form: str = "%Y/%m/%d %H:%M:%S"
) -> Iterator[str]:
    """Training lines that are ``seconds`` apart."""
    at = BEGAN
    for number, each in enumerate(seconds, 1):
        at += datetime.timedelta(seconds=each)
        stamp = f"{at.strftime(form)} - mmengine - INFO - " if form else ""
        yield (
            f"{stamp}Iter(train) [{number * every:4}/2000]  lr: 9.9e-03  eta: 0:10:00  "
            f"time: {printed:.4f}  data_time: 0.0040  memory: 3774  loss: 0.2364"
        )


def mmengine(lines: Iterable[str], **known: Any) -> Measurement:
    return measured(lines, **{"format": "mmengine", "batch_size": 8} | known)


@pytest.mark.parametrize("form", ["%Y/%m/%d %H:%M:%S", "%m/%d %H:%M:%S"])
def test_the_stamps_tell_the_time_of_iterations_that_no_line_is_of(form: str) -> None:
    """8 samples; 50 iterations in 24 s; the last ten took 0.4 s each."""
    found = mmengine(logged([24.0] * 20, every=50, printed=0.4, form=form), warmup=50)
    assert (found.verdict, found.estimator) == ("valid", "time_weighted")
    assert found.iterations == 950
    assert found.rate == pytest.approx(8 * 950 / (19 * 24))
    figures = present(found.throughput)
    assert figures.printed_steps == figures.median == pytest.approx(8 / 0.4)
    assert "sampled-steps" in ids(found, "warn")


def test_without_stamps_the_headline_is_of_the_printed_iterations_and_says_so() -> None:
    found = mmengine(logged([24.0] * 20, every=50, printed=0.4, form=""), warmup=50)
    assert (found.estimator, found.iterations) == ("printed_steps", 190)
    assert present(found.throughput).printed_steps == pytest.approx(20.0)
    (said,) = (each for each in found.reasons if each.id == "sampled-steps")
    assert "40 of 50" in said.sentence
    assert "printed ones alone" in said.sentence


@pytest.mark.parametrize(
    "events",
    [
        ["Iter(val) [500/500]    aAcc: 89.1700  mIoU: 68.7000  data_time: 0.0016  time: 0.0300"],
        ["Saving checkpoint at 500 iterations"],
    ],
    ids=["an evaluation", "a checkpoint"],
)
def test_the_stamps_tell_nothing_where_something_else_lies_between(events: Sequence[str]) -> None:
    """15 s more at 500 and 1500; only the next record's last ten count."""
    times = [20.0 + 15.0 * (number in {10, 30}) for number in range(40)]
    lines = list(logged(times, every=50, printed=0.4))
    for index in (30, 10):
        lines[index:index] = [f"2023/06/14 10:03:35 - mmengine - INFO - {each}" for each in events]
    found = mmengine(lines, warmup=50)
    assert (found.verdict, found.iterations) == ("valid", 37 * 50 + 2 * 10)
    assert found.rate == pytest.approx(8 * 1870 / (37 * 20 + 2 * 4))
    # From 100 to 2000 iterations by the stamps, whatever lies between.
    assert present(found.throughput).timestamps == pytest.approx(8 * 1900 / (38 * 20 + 2 * 15))


def overlapping(
    times: Sequence[float], *, every: int, size: int, epoch: int, json: bool = False
) -> Iterator[str]:
    """Lines with means of ``size`` steps; evaluations of 4 s."""
    yield f"log_processor = dict(by_epoch=True, window_size={size})"
    for step in range(1, len(times) + 1):
        number, inner = divmod(step - 1, epoch)
        if inner == 0 and number:
            evaluated = f"Epoch(val) [{number}][5/5]    coco/bbox_mAP: 0.5000  data_time: 0.0600"
            yield '{"coco/bbox_mAP": 0.5, "time": 0.1, "step": 1}' if json else evaluated
        if (inner + 1) % every:
            continue
        at = BEGAN + datetime.timedelta(seconds=sum(times[:step]) + 4 * number)
        last = times[max(step - size, 0) : step]
        mean = sum(last) / len(last)
        if json:
            yield f'{{"time": {mean}, "epoch": {number + 1}, "iter": {step}, "step": {step}}}'
            continue
        yield (
            f"{at:%Y/%m/%d %H:%M:%S} - mmengine - INFO - Epoch(train)  [{number + 1}]"
            f"[{inner + 1}/{epoch}]  lr: 0.1  time: {mean:.4f}  data_time: 0.0100  loss: 1.0000"
        )


def slow_starts(count: int, epoch: int) -> list[float]:
    """Steps of 0.5 s and of 3 s at the start of each epoch."""
    return [3.0 if step % epoch == 0 else 0.5 for step in range(count)]


@pytest.mark.parametrize("json", [False, True], ids=["stamps", "JSON"])
@pytest.mark.parametrize(
    ("every", "size", "epoch"), [(1, 50, 20), (10, 50, 100), (5, 10, 15), (10, 50, 25), (1, 7, 13)]
)
def test_the_times_of_overlapping_means_are_exact(
    every: int, size: int, epoch: int, json: bool
) -> None:
    """Each line's beginning is another line's end, in any epoch."""
    times = slow_starts(20 * epoch, epoch)
    lines = list(overlapping(times, every=every, size=size, epoch=epoch, json=json))
    found = mmengine(lines, warmup=2 * epoch)
    window = present(found.window)
    first, last = window.first_iteration - 1, window.last_iteration
    assert (found.verdict, first <= 3 * epoch, found.iterations) == ("valid", True, last - first)
    assert found.rate == pytest.approx(8 * (last - first) / sum(times[first:last]), rel=1e-4)


@pytest.mark.parametrize(
    ("every", "size", "epoch"), [(7, 20, 23), (20, 50, 73), (10, 50, 33), (5, 50, 17), (7, 10, 130)]
)
def test_where_no_line_is_as_far_back_stamps_fill_in(every: int, size: int, epoch: int) -> None:
    """Between two lines without an evaluation steps are even, which gives the time before."""
    times = slow_starts(20 * epoch, epoch)
    lines = list(overlapping(times, every=every, size=size, epoch=epoch))
    found = mmengine(lines, warmup=20)
    assert found.verdict == "valid"
    # What the last epoch has after its last line is in none.
    assert found.rate == pytest.approx(8 * len(times[20:]) / sum(times[20:]), rel=0.02)


def test_lines_whose_time_does_not_follow_are_left_out_and_named() -> None:
    """Without stamps, of two epochs of 30 only the last 50 iterations add up."""
    times = slow_starts(600, 30)
    lines = list(overlapping(times, every=30, size=50, epoch=30, json=True))
    found = mmengine(lines, warmup=30)
    assert (found.verdict, found.iterations) == ("valid", 450)
    (said,) = (each for each in found.reasons if each.id == "sampled-steps")
    assert "leave out 80 of 530" in said.sentence


def by_epoch(interval: str, *steps: int) -> list[str]:
    """Ten epochs of 137 iterations, each with an evaluation."""
    head = ["default_hooks = dict(", f"    logger=dict(interval={interval}, type='L'))"]
    lines = head * bool(interval)
    for epoch in range(10):
        for step in steps:
            at = BEGAN + datetime.timedelta(seconds=40 * epoch + 0.2 * step)
            lines.append(
                f"{at:%Y/%m/%d %H:%M:%S} - mmengine - INFO - Epoch(train)  [{epoch + 1}]"
                f"[{step}/137]  lr: 1e-02  time: 0.2000  data_time: 0.0100  loss: 1.0000"
            )
        lines.append(f"{at:%Y/%m/%d %H:%M:%S} - mmengine - INFO - Epoch(val) [{epoch + 1}][9/9]  ")
    return lines


def test_a_line_at_the_end_of_an_epoch_is_no_shorter_interval() -> None:
    """With ``ignore_last=False``."""
    found = mmengine(by_epoch("", 100, 137), warmup=20)
    assert found.verdict == "valid"
    assert found.rate == pytest.approx(40.0, rel=0.05)  # by stamps of whole seconds
    (said,) = (each for each in found.reasons if each.id == "sampled-steps")
    assert "90 of 100 are in none" in said.sentence
    # The same of mmcv.
    lines = [
        f"Epoch [{epoch}][{step}/130]\tlr: 1e-02, time: 0.500, data_time: 0.010, loss: 1.0000"
        for epoch in range(1, 6)
        for step in (50, 100, 130)
    ]
    whole = measured(lines, warmup=20)
    assert (whole.verdict, whole.iterations, whole.rate) == ("valid", 600, 8.0)
    assert ids(measured([*lines[:7], *lines[8:]], warmup=20), "reject") == ["iterations-missing"]


def test_a_damaged_line_of_iteration_0_covers_nothing() -> None:
    lines = lines_of("mmengine_epochs.log")
    damaged = next(n for n, line in enumerate(lines) if "Epoch(train)  [3][ 50/120]" in line)
    lines[damaged] = lines[damaged].replace("[3][ 50/120]", "[3][0/120]")
    assert "iterations-missing" in ids(mmengine(lines, warmup=20), "reject")


@pytest.mark.parametrize(
    ("lines", "family"),
    [
        (lines_of("mmengine_scalars.json"), "mmengine"),
        (lines_of("mmseg.log.json"), "mmseg"),
        (lines_of("mmengine_iterations.log"), "mmengine"),
        (lines_of("mmengine_epochs.log"), "mmengine"),
        (lines_of("mmseg_evaluation.log"), "mmseg"),
        (run([0.5] * 20), "mmseg"),
    ],
    ids=["JSON", "JSON of mmcv", "by iteration", "by epoch", "mmsegmentation", "lines alone"],
)
def test_mmengine_and_mmcv_are_told_apart(lines: list[str], family: str) -> None:
    any_family = [Expectation(format=name, gpus=2, batch_size=4) for name in FAMILY_NAMES]
    assert measure([Lines(lines)], any_family).format == family
