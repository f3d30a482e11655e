"""The curve of a log: iterations and rates of its training lines."""

import pytest

from k8sbench.model.log_format import LogFormat
from k8sbench.reader.measuring.recorded import curve
from tests.unit.model.plans import plan


def test_a_curve_counts_iterations_through_epochs_and_scales_rates_to_the_job() -> None:
    line = (
        "2026-03-02 10:00:20,000 - mmseg - INFO - {}/80]\tlr: 9.9e-03, eta: 0:01:00,"
        " time: {}, data_time: 0.010, memory: 11000, decode.loss_ce: 1.0000, loss: {}\n"
    )
    first = line.format("Epoch [1][50", "0.500", "1.5000")
    lines = [first, "other\n", line.format("Epoch [2][20", "0.250", "1.0000"), first]
    found = curve(plan("1x8", batch_size=4, log="mmseg"), lines)
    assert found.iterations == (50, 100, 50), "the last one was resumed from a checkpoint"
    assert found.rates == (64.0, 128.0, 64.0)  # 8 GPUs × 4 pictures
    counted_on = [
        line.format("Iter [50", "0.5", "1.5000"),
        line.format("Iter [20", "0.5", "1.0000"),
    ]
    assert curve(plan("1x8", log="mmseg"), counted_on).iterations == (50, 20)


@pytest.mark.parametrize(
    ("printed", "iterations"),
    [
        ([(1, 50), (2, 20), (2, 60)], (50, 100, 140)),
        ([(1, 50), (2, 100), (2, 150)], (50, 100, 150)),
    ],
)
def test_a_curve_of_a_declared_format_counts_as_its_lines_do(
    printed: list[tuple[int, int]], iterations: tuple[int, ...]
) -> None:
    record = r"epoch (?P<epoch>\d+) step (?P<iteration>\d+)/(?P<total>\d+) (?P<rate>\S+)"
    form = LogFormat(name="own", unit="images/s", per="job", record=record)
    lines = [f"epoch {epoch} step {step}/80 64.5\n" for epoch, step in printed]
    assert curve(plan("1x8", log=form), lines).iterations == iterations
