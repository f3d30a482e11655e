"""Programs that took over the MetricLogger of torchvision's references."""

import re
from typing import Any

import pytest

from k8sbench.model.measurement import Measurement
from tests.reader.measuring.support import ids, lines_of, measured

RATE = 181 * 32 / 97.5


def of(log: list[str], **expected: Any) -> Measurement:
    """Measure a log by what it states of itself."""
    known: dict[str, Any] = {"format": "torchvision", "gpus": None, "batch_size": None}
    return measured(log, **known | {"warmup": 20} | expected)


def replaced(pattern: str, text: str) -> list[str]:
    """The lines of LLaMA-Adapter in another form."""
    lines = lines_of("metric_logger.log")
    assert any(re.search(pattern, line) for line in lines)
    return [re.sub(pattern, text, line) for line in lines]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"\]  lr: ", "]  eta: 0:00:30  lr: "),
        (r"  closs: ", "  loss: "),
        (r"\[\d\d:\d\d:\d\d\.\d+\] ", ""),
        (r"(\d\d:\d\d:\d\d)\.0+\]", r"\1]"),
        (r"(\[\d+)/105\]", r"\1/unknown]"),
    ],
    ids=["eta of MAE", "loss of MAE", "no stamps", "a whole second", "a stream of data"],
)
def test_the_figure_is_the_same_in_every_form_of_the_line(pattern: str, text: str) -> None:
    found = of(replaced(pattern, text))
    assert (found.verdict, found.gpus, found.batch_size_per_gpu) == ("valid", 8, 4)
    assert found.rate == pytest.approx(RATE, rel=1e-4)


def test_the_stamps_contradict_times_that_are_too_short() -> None:
    halved = [
        re.sub(r"time: (\d\.\d+)", lambda x: f"time: {float(x[1]) / 4:.4f}", line)
        for line in lines_of("metric_logger.log")
    ]
    assert "clock-mismatch" in ids(of(halved), "reject")


def test_lines_after_the_averages_of_their_epoch_are_a_validation() -> None:
    assert of(lines_of("metric_logger.log")).iterations == 181
    # Without the line of the averages nothing tells them from another run.
    assert "two-runs" in ids(of(replaced("Averaged stats:", "Averages:")), "reject")


def test_a_second_run_of_one_epoch_is_no_validation() -> None:
    log = lines_of("metric_logger.log")
    end = next(i for i, line in enumerate(log) if "Averaged stats:" in line)
    later = [re.sub(r"^\[\d\d:", "[11:", line) for line in log[:end]]
    found = of([*log[: end + 1], *later])
    assert ids(found, "reject") == ["two-runs"]


def test_the_batch_of_one_gpu_does_not_tell_the_job_s_where_gpus_share_a_sample() -> None:
    for gpus, reasons in ((1, []), (2, ["batch-mismatch"])):
        log = replaced("accum_iter=2,", f"model_parallel_size={gpus},")
        assert ids(of(log), "reject") == reasons
