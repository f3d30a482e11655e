"""Measuring logs of declared formats: what they read, and expressions that are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from k8sbench.model.errors import InputError
from k8sbench.model.measurement import ESTIMATORS, Measurement
from k8sbench.model.spec import LogFormat
from tests.unit.measure.support import ids
from tests.unit.measure.support import measured as measured_by

LINES = [f"step {step} loss 2.5 ips 64.5" for step in range(1, 11)]
SUMMARY = "done: 64.0 img/s"
PATTERNS: dict[str, Any] = {
    "record": r"step (?P<iteration>\S+) loss (?P<loss>\S+) ips (?P<rate>\S+)",
    "summary": r"done: (?P<rate>\S+) img/s",
}


def measured(lines: list[str], **changes: Any) -> Measurement:
    declared = LogFormat(name="mine", unit="images", per="job", **(PATTERNS | changes))
    return measured_by(lines, format=declared, batch_size=None)


def test_a_record_that_matches_nothing_beside_a_summary_that_does_is_an_error() -> None:
    with pytest.raises(InputError, match="training lines matches no line") as caught:
        measured([*LINES, SUMMARY], record=r"Step (?P<iteration>\d+) (?P<rate>\d+)")
    assert "train.log:11" in caught.value.message
    alone = measured([*LINES, SUMMARY], record=None)
    assert (alone.rate, ids(alone)) == (64.0, ["summary-only"])
    # Each estimator that such a log has no figure by says so.
    assert alone.throughput is not None
    figures = {f"throughput.{name}": getattr(alone.throughput, name) for name in ESTIMATORS}
    assert {name for name, figure in figures.items() if figure is None} == {
        name for name in alone.missing if name.startswith("throughput.")
    }


@pytest.mark.parametrize("line", ["step (?P<iteration>\\S+) .* ips (?P<rate>\\S+)", None])
def test_steps_per_second_become_samples_by_the_batch_of_the_job(line: str | None) -> None:
    """16 images per GPU on 4 GPUs: 64 images a step."""
    form = LogFormat(**{**PATTERNS, "record": line}, name="mine", unit="steps/s", per="job")
    lines = [f"step {step} loss 2.5 ips 4.5" for step in range(1, 31)] if line else []
    found = measured_by([*lines, "done: 4.5 img/s"], format=form, gpus=4, batch_size=16)
    assert found.rate == pytest.approx(288.0)
    without = measured_by([*lines, "done: 4.5 img/s"], format=form, gpus=4, batch_size=None)
    assert (without.rate, "batch-unknown" in ids(without, "reject")) == (None, True)


def test_the_seconds_of_a_whole_run_are_those_of_one_step_of_the_job() -> None:
    """64 images per GPU in steps of 0.25 s on 4 GPUs."""
    declared = LogFormat(
        name="mine", unit="images", per="job", summary=r"done: (?P<step_seconds>\S+) s/step"
    )
    found = measured_by(["done: 0.25 s/step"], format=declared, gpus=4, batch_size=64)
    assert (found.verdict, found.rate, ids(found)) == ("valid", 1024.0, ["summary-only"])
    without = measured_by(["done: 0.25 s/step"], format=declared, gpus=4, batch_size=None)
    assert (without.rate, ids(without, "reject")) == (None, ["batch-unknown"])


def test_a_whole_runs_rate_and_seconds_per_step_are_not_compared() -> None:
    """Without the batch they have nothing to do with each other, and the window's figure counts."""
    seconds = r"step (?P<iteration>\S+) loss (?P<loss>\S+) ips (?P<step_seconds>\S+)"
    found = measured_by(
        [*LINES, SUMMARY],
        format=LogFormat(name="mine", unit="images", per="job", **(PATTERNS | {"record": seconds})),
    )
    assert found.rate == pytest.approx(4 / 64.5)
    assert ids(found) == []
    found = measured([*LINES, "done: 64.0 img/s"], summary=r"done: (?P<step_seconds>\S+) img/s")
    assert (found.rate, ids(found)) == (64.5, [])


@pytest.mark.parametrize("text", ["1,356.8", "950.1k", "n/a"])
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


def test_an_expression_with_a_repetition_within_another_reads_a_long_line_to_its_end() -> None:
    """Python's re tries every way to divide the line, which takes for ever."""
    record = r"(a+)+ (?P<iteration>\d+) (?P<rate>\S+)$"
    ends = [f"{'a' * 4000} {step} 5.0" for step in range(1, 11)]
    found = measured([*("a" * 4000 for _ in range(100)), *ends], record=record)
    assert found.records == 10
    assert found.rate == pytest.approx(5.0)


def test_letters_of_any_language_and_bytes_that_are_none_are_read() -> None:
    record = r"(?i)(?P<iteration>\d+) Länge (?P<loss>\S+) 吞吐 (?P<rate>[\d.]+)$"
    lines = [f"{step} LÄNGE 2.5 吞吐 64.5" for step in range(1, 5)]
    lines += [f"\udcff 图 {step} länge 2.5 吞吐 64.5" for step in range(5, 11)]
    found = measured(lines, record=record)
    assert found.records == 10
    assert found.rate == pytest.approx(64.5)
