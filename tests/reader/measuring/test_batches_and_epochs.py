"""Batch and epochs from a log, and the figures that follow."""

import re
from typing import Any

import pytest

from tests.reader.measuring.support import FIXTURES, ids, measured, run

MISMATCH = "batch-mismatch"


def fixture_text(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


# Batches.


def paddleseg(iteration: int, epoch: int, last: int, rate: float) -> str:
    """A line of PaddleSeg's, of 0.4 s."""
    return (
        f"[TRAIN] epoch: {epoch}, iter: {iteration}/{last}, loss: 1.0000, lr: 0.01, "
        f"batch_cost: 0.4000, reader_cost: 0.00100, ips: {rate:.4f} samples/sec | ETA 00:00:10"
    )


@pytest.mark.parametrize(
    ("rate", "batch"),
    [
        *((10.0, 4), (10.2, 4), (9.8, 4), (10.25, None), (9.75, None), (10.4, None)),
        *((40.8, 16), (40.9, None), (61.0, 24), (61.25, 24), (2.5, 1), (1.0, None)),
    ],
)
def test_rate_times_seconds_is_a_batch_if_nearly_whole(rate: float, batch: int | None) -> None:
    """Within 2 % and a hundredth."""
    lines = [paddleseg(i, 1, 100, rate) for i in range(10, 101, 10)]
    assert measured(lines, format="paddleseg", batch_size=None).batch_size_per_gpu == batch


def test_a_log_that_counts_no_gpu_does_not_state_their_number() -> None:
    text = fixture_text("paddleclas_2020.log")
    of_none = re.sub(r"(PADDLE_TRAINERS_NUM +)8", r"\g<1>0", text)
    assert of_none != text
    found = measured(of_none.splitlines(), format="paddleclas", gpus=None, batch_size=None)
    assert found.gpus == 8  # by the stated batch of the job


@pytest.mark.parametrize(("total", "gpus"), [("256", 8), ("32", 1), ("250", None)])
def test_a_stated_batch_of_the_job_tells_the_gpus(total: str, gpus: int | None) -> None:
    text = fixture_text("paddleclas_2020.log").replace("batch_size : 256", f"batch_size : {total}")
    lines = [line for line in text.splitlines() if "PADDLE_TRAINERS_NUM" not in line]
    known: dict[str, Any] = {"format": "paddleclas", "batch_size": None, "by_user": True}
    if gpus is None:
        with pytest.raises(Exception, match="how many GPUs the job had"):
            measured(lines, gpus=None, **known)
        assert MISMATCH in ids(measured(lines, gpus=8, **known))
        return
    found = measured(lines, gpus=None, **known)
    assert (found.gpus, MISMATCH in ids(found)) == (gpus, False)
    assert "gpus-unverified" not in ids(measured(lines, gpus=gpus, **known))


# Epochs.


def test_a_first_step_that_is_in_no_running_mean_is_in_no_figure() -> None:
    """Lines from step 2 on; the mean restarts at step 5."""
    seconds = [0.0, 3.6, *[0.2] * 28]
    lines = []
    for step in range(1, 30):
        since = seconds[1 : step + 1] if step < 5 else seconds[5 : step + 1]
        lines.append(
            f"2026-03-02 10:00:{int(sum(seconds[: step + 1])):02d} INFO: epoch:0   train "
            f"step:{step} loss:  6.9 lr: 0.1, batch_cost: {sum(since) / len(since):.5f} s, "
            f"reader_cost: 0.00037 s, ips: {20 * len(since) / sum(since):.5f} images/sec."
        )
    accept = ("unsteady",)
    found = measured(lines, format="paddleclas", batch_size=None, accept=accept)
    assert ids(found) == ["unsteady"]
    assert (found.records, found.iterations) == (29, 29)
    assert found.rate == pytest.approx(20 * 29 / (3.6 + 28 * 0.2), rel=1e-4)


@pytest.mark.parametrize(("if_stated", "rate"), [(False, 4.0), (True, None)])
def test_a_benchmark_that_the_user_did_not_name_gives_no_batch(
    if_stated: bool, rate: float | None
) -> None:
    found = measured(
        run([0.5] * 20), batch_size=None, batch_sizes={"fp32": 2}, if_stated=if_stated, by_user=True
    )
    figures = found.throughput or found.unverified
    assert (figures and figures.time_weighted) == rate
    assert ("batch-unverified" in ids(found, "reject")) is (rate is None)
