"""Measuring logs of declared formats: what they read, and expressions that are wrong."""

from typing import Any

import pytest

from k8sbench.model.errors import InputError
from k8sbench.model.log_format import LogFormat
from k8sbench.model.measurement import Measurement
from tests.reader.measuring.support import ids
from tests.reader.measuring.support import measured as measured_by

LINES = [f"step {step} loss 2.5 ips 64.5" for step in range(1, 11)]
SUMMARY = "done: 64.0 img/s"
PATTERNS: dict[str, Any] = {
    "record": r"step (?P<iteration>\S+) loss (?P<loss>\S+) ips (?P<rate>\S+)",
    "summary": r"done: (?P<rate>\S+) img/s",
}


def measured(lines: list[str], **changes: Any) -> Measurement:
    declared = LogFormat(name="mine", unit="images", per="job", **(PATTERNS | changes))
    return measured_by(lines, format=declared, batch_size=None)


@pytest.mark.parametrize("line", ["step (?P<iteration>\\S+) .* ips (?P<rate>\\S+)", None])
def test_steps_per_second_become_samples_by_the_batch_of_the_job(line: str | None) -> None:
    """16 images per GPU on 4 GPUs: 64 images a step."""
    patterns: dict[str, Any] = {"record": line, "summary": r"done: (?P<rate>\S+) it/s"}
    form = LogFormat(**patterns, name="mine", unit="steps/s", per="job")
    lines = [f"step {step} loss 2.5 ips 4.5" for step in range(1, 31)] if line else []
    found = measured_by([*lines, "done: 4.5 it/s"], format=form, gpus=4, batch_size=16)
    assert found.rate == pytest.approx(288.0)
    without = measured_by([*lines, "done: 4.5 it/s"], format=form, gpus=4, batch_size=None)
    assert (without.rate, "batch-unverified" in ids(without, "reject")) == (None, True)


@pytest.mark.parametrize("text", ["1,356.8", "950.1x", "n/a"])
def test_rates_that_cannot_be_read_are_an_error_that_names_the_first(text: str) -> None:
    with pytest.raises(InputError, match=f"rate matches '{text}'") as caught:
        measured([line.replace("64.5", text) for line in LINES])
    assert "train.log:1" in caught.value.message
    with pytest.raises(InputError, match=f"rate matches '{text}'"):
        measured([SUMMARY.replace("64.0", text)], record=None)


def test_a_few_that_cannot_be_read_are_named_with_their_line() -> None:
    lines = [*LINES, "step 11 loss 2.5 ips 1,064.5", "step 12 loss 2.5 ips 1,065.5"]
    found = measured(lines)
    assert ids(found, "reject") == ["unread-number"]
    (reason,) = found.reasons
    assert [place.line for place in reason.evidence] == [11]
    # A loss decides nothing.
    found = measured([*LINES, "step 11 loss - ips 64.5"])
    assert (found.verdict, ids(found), found.records) == ("valid", ["unread-number"], 11)


FACTS: dict[str, Any] = {
    "facts": (
        r"GPUs: (?P<gpus>\d+)",
        r"batch: (?P<batch_size>\d+)",
        r"length: (?P<sequence_length>\d+)",
        r"dtype: (?P<precision>\w+)",
        r"device: (?P<gpu_model>\w+)",
    )
}
HEAD = ["GPUs: 8", "batch: 4", "length: 1024", "dtype: bf16", "device: H200"]


@pytest.mark.parametrize(
    ("again", "reasons"),
    [
        (HEAD, []),
        (["GPUs: 16"], ["gpu-count"]),
        (["batch: 8"], ["batch-mismatch"]),
        (["length: 2048"], ["batch-mismatch"]),
        (["dtype: fp32"], ["precision"]),
        (["device: A100"], ["mixed-gpu-model"]),
    ],
)
def test_a_fact_with_two_values_is_rejected(again: list[str], reasons: list[str]) -> None:
    declared = LogFormat(name="mine", unit="images", per="job", **(PATTERNS | FACTS))
    for lines in ([*HEAD, *LINES[:5], *again, *LINES[5:]], [*HEAD, *again, *LINES]):
        found = measured_by(lines, format=declared, gpus=None, batch_size=None)
        assert ids(found, "reject") == reasons


# Epochs


def by_epoch(lines: list[str], **changes: Any) -> Measurement:
    """Ten images a step: 100 images/s after the slow steps."""
    record = r"^epoch (?P<epoch>\d+) step (?P<iteration>\d+)(?:/(?P<total>\d+))? "
    record += r"time (?P<step_seconds>\S+)"
    known: dict[str, Any] = {"name": "mine", "unit": "s/step", "per": "job", "record": record}
    return measured_by(lines, format=LogFormat(**known | changes), batch_size=10, warmup=100)


def window(found: Measurement) -> tuple[str, float | None, int, int]:
    assert found.window is not None
    first, last = found.window.first_iteration, found.window.last_iteration
    return found.verdict, found.rate and round(found.rate, 6), first, last


def test_epochs_of_one_line_each_are_counted_anew() -> None:
    lines = [f"epoch {n} step 20 time {1.0 if n <= 5 else 0.1}" for n in range(1, 20)]
    assert window(by_epoch(lines)) == ("valid", 100.0, 101, 380)


# Evaluations and checkpoints

STAMPED: dict[str, Any] = {
    "name": "mine",
    "unit": "s/step",
    "per": "job",
    "record": r"^(?P<stamp>\S+ \S+) step (?P<iteration>\d+) time (?P<step_seconds>\S+)",
    "stamp_format": "%Y-%m-%d %H:%M:%S",
}


def stamped(*seconds: float, between: str = "", step: int = 50, took: float = 0.4) -> list[str]:
    """Lines some seconds apart, with another line before longer ones."""
    lines, at = [], 0.0
    for number, passed in enumerate(seconds, 1):
        at += passed
        if between and passed > seconds[0]:
            lines.append(between)
        clock = f"10:{int(at) // 60:02d}:{int(at) % 60:02d}"
        lines.append(f"2026-03-02 {clock} step {step * number} time {took:.4f}")
    return lines


def by_stamps(lines: list[str], **changes: Any) -> Measurement:
    return measured_by(lines, format=LogFormat(**STAMPED | changes), batch_size=8, warmup=50)


PAUSED = (20.0, *([20.0] * 4 + [35.0]) * 4)
"""Four evaluations of 15 s beside steps of 0.4 s × 50."""
READS = {"evaluation": r"^val (?P<metric>\w+): (?P<value>\S+)", "checkpoint": "^saved"}


@pytest.mark.parametrize(
    ("line", "said", "metric", "value", "unit"),
    [
        ("val mIoU: 68.7", {}, "mIoU", 68.7, "%"),
        ("val mIoU: 0.687", {}, "mIoU", 0.687, "fraction"),
        ("val mIoU: 0.7", {"metric_unit": "%"}, "mIoU", 0.7, "%"),
        ("val 0.9", {"evaluation": r"^val (?P<value>\S+)", "metric": "top-1"}, "top-1", 0.9, None),
    ],
)
def test_an_evaluation_s_value_is_the_accuracy(
    line: str, said: dict[str, Any], metric: str, value: float, unit: str | None
) -> None:
    found = by_stamps([*stamped(*[20.0] * 8), line], **READS | said)
    assert found.accuracy is not None
    assert (found.accuracy.metric, found.accuracy.final) == (metric, value)
    assert found.accuracy.unit == (unit or "fraction")


def test_an_evaluation_without_a_number_is_one_all_the_same() -> None:
    for line in ("val mIoU: n/a", "evaluating"):
        said = {**READS, "evaluation": f"{READS['evaluation']}|^evaluating"}
        found = by_stamps(stamped(*PAUSED, between=line), **said)
        assert (found.verdict, found.accuracy) == ("valid", None)


# Means of the last few steps


def test_rates_of_the_last_few_steps_are_those_of_the_printed_steps_alone() -> None:
    lines = [line.replace("time 0.4000", "ips 20.0") for line in stamped(*[22.0] * 10)]
    record = STAMPED["record"].replace("time (?P<step_seconds>", "ips (?P<rate>")
    found = by_stamps(lines, averaged="last", last=10, record=record, unit="images/s")
    assert found.rate == pytest.approx(20.0)
    assert (found.estimator, found.iterations) == ("printed_steps", 90)


# Steps that are counted in samples


@pytest.mark.parametrize(
    ("head", "known"),
    [
        ([], {"gpus": 2, "batch_size": 8}),
        (["global batch 16"], {"gpus": 4, "batch_size": None}),
    ],
)
def test_a_step_number_of_samples_becomes_one_of_steps(head: list[str], known: Any) -> None:
    lines = [f"samples {160 * n} of 16000 rate 80.0" for n in range(1, 41)]
    form = LogFormat(
        name="mine",
        unit="samples/s",
        per="job",
        iteration_counts="samples",
        record=r"samples (?P<iteration>\d+) of (?P<total>\d+) rate (?P<rate>\S+)",
        facts=(r"global batch (?P<global_batch>\d+)",),
    )
    found = measured_by([*head, *lines], format=form, warmup=100, **known)
    assert found.window is not None
    assert found.rate == pytest.approx(80.0)
    assert found.iterations == 300
    assert (found.window.first_iteration, found.window.last_iteration) == (101, 400)
    with pytest.raises(InputError, match="samples of a step are not known") as caught:
        measured_by(lines, format=form, gpus=None, batch_size=None)
    assert caught.value.action == "Give --gpus and --batch-size."


def clock_reasons(rate: float, unit: str, record: str) -> list[tuple[str, str]]:
    """Measure 128 ``unit`` a second, by the stamps, of lines that claim another rate."""
    at = "%Y-%m-%d,%H:%M:%S" if "stamp" in record else None
    declared = LogFormat(name="mine", unit=unit, per="job", record=record, stamp_format=at)
    lines = [
        f"2026-03-02,10:{step // 2 // 60:02}:{step // 2 % 60:02} | step {step} at {rate}/s of 64"
        for step in range(10, 410, 10)
    ]
    found = measured_by(lines, format=declared, gpus=1, batch_size=64, unit=f"{unit}/s")
    return [(each.id, each.severity) for each in found.reasons if each.id.startswith("clock")]


RATE = r"step (?P<iteration>\d+) .* (?P<rate>[\d.]+)/s"
REJECTED = [("clock-mismatch", "reject")]


@pytest.mark.parametrize(
    ("rate", "reasons"),
    [(128.0, []), (124.0, []), (115.0, REJECTED), (32.0, REJECTED), (200.0, REJECTED)],
)
@pytest.mark.parametrize("leading", ["", r"^(?P<stamp>\S+) \| "])
def test_a_time_that_lines_begin_with_contradicts_them_declared_or_not(
    leading: str, rate: float, reasons: list[tuple[str, str]]
) -> None:
    assert clock_reasons(rate, "samples", leading + RATE) == reasons


@pytest.mark.parametrize(
    ("rate", "reasons"),
    [(128.0, []), (112.0, [("clocks-apart", "warn")]), (100.0, REJECTED), (140.0, REJECTED)],
)
def test_steps_may_stay_below_a_batch_in_tokens(
    rate: float, reasons: list[tuple[str, str]]
) -> None:
    """A batch of 64 tokens is a limit, unless the lines state how many tokens a step has."""
    assert clock_reasons(rate, "tokens", RATE) == reasons
    exact = clock_reasons(rate, "tokens", RATE + r" of (?P<step_samples>\d+)")
    assert exact == (REJECTED if reasons else [])
