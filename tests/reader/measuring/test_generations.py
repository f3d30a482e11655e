"""Releases of the programs whose training lines differ from those of the release before."""

import datetime
from collections.abc import Callable, Iterator

import pytest

from k8sbench.catalog.published import Accuracy
from k8sbench.model.errors import InputError
from tests.reader.measuring.support import ids, measured

BEGAN = datetime.datetime(2021, 8, 10, tzinfo=datetime.UTC)
EVALUATION = "aAcc: 0.7926, mIoU: 0.4183, mAcc: 0.5349, "
BOXES = "bbox_mAP: 0.0830, bbox_mAP_50: 0.2090, "


def mmcv13(
    every: int, batches: int, evaluation: str = EVALUATION, logger: str = "mmseg", last: int = 2000
) -> Iterator[str]:
    """Return mmcv 1.3 lines: 0.4 s an iteration, 100 s an evaluation.

    Evaluations come ``every`` iterations. A record with an evaluation has the number of validation
    ``batches`` for its iteration.
    """
    seconds = 0.0
    for iteration in range(50, last + 1, 50):
        is_evaluated = iteration % every == 0
        seconds += 20.0 + 100.0 * is_evaluated
        stamp = f"{BEGAN + datetime.timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S},000"
        number, time = (batches, 2.4) if is_evaluated else (iteration, 0.4)
        yield (
            f"{stamp} - {logger} - INFO - Iter [{number}/{last}]\tlr: 9.9e-04, eta: 0:10:00, "
            f"time: {time:.3f}, data_time: 0.004, memory: 6231, {evaluation * is_evaluated}"
            "decode.loss_seg: 0.5441, loss: 0.5441"
        )


@pytest.mark.parametrize("batches", [500, 5000], ids=["fewer than iterations", "more"])
@pytest.mark.parametrize(
    ("evaluation", "logger", "metric"),
    [(EVALUATION, "mmseg", "mIoU"), (BOXES, "mmdet.ssod", "bbox_mAP")],
)
def test_a_training_line_with_an_evaluation_is_that_of_the_next_interval(
    batches: int, evaluation: str, logger: str, metric: str
) -> None:
    """2 samples on each of 4 GPUs; 1,950 iterations and two evaluations."""
    found = measured(mmcv13(800, batches, evaluation, logger), gpus=4, batch_size=2, warmup=50)
    assert (found.verdict, ids(found, "reject")) == ("valid", [])
    assert found.rate == pytest.approx(8 * 1950 / 980)
    assert found.throughput is not None
    assert found.throughput.time_weighted_steady == pytest.approx(8 / 0.4)
    assert found.accuracy is not None
    assert found.accuracy.metric == metric


@pytest.mark.parametrize(("metric", "best"), [("mIoU", 0.4183), ("aAcc", 0.7926)])
def test_the_accuracy_is_of_the_benchmarks_metric(metric: str, best: float) -> None:
    target = Accuracy(metric=metric, value=79.0)
    found = measured(mmcv13(800, 500), gpus=4, batch_size=2, target=target)
    assert found.accuracy is not None
    assert (found.accuracy.metric, found.accuracy.best) == (metric, best)
    other = {"aAcc": ("mIoU (final)", 0.4183), "mIoU": ("aAcc (final)", 0.7926)}[metric]
    assert other in found.environment.items()


@pytest.mark.parametrize("counts_on", [True, False], ids=["by iteration", "by epoch"])
def test_the_json_of_mmcv_is_read_by_how_its_iterations_are_counted(counts_on: bool) -> None:
    """Epochs of 35 iterations, every tenth logged: 0.5 s, then 0.8 s."""
    lines = [
        f'{{"mode": "train", "epoch": {1 + (step - 1) // 35}, "iter": {number}, "loss": 2.0, '
        f'"time": {0.8 if 35 < step <= 70 else 0.5}}}'
        for step in range(1, 106)
        for number in [step if counts_on else 1 + (step - 1) % 35]
        if number % 10 == 0
    ]
    found = measured(lines, warmup=10)
    slow, fast = (40, 50) if counts_on else (30, 50)
    assert (found.verdict, found.iterations) == ("valid", slow + fast)
    assert found.rate == pytest.approx(4 * (slow + fast) / (slow * 0.8 + fast * 0.5))
    # mmcv 1.3 puts the number of validation batches in the place of the iteration.
    if counts_on:
        lines[4] = lines[4].replace('"iter": 50', '"iter": 500, "mIoU": 0.6')
        found = measured(lines, warmup=10)
        assert (found.verdict, found.iterations) == ("valid", slow + fast)


def logged_by(logger: str, mean: Callable[[int], float]) -> list[str]:
    """Return an epoch of 395 steps: 0.4 s, from 200 on 0.8 s."""
    return [
        f"[2022/11/25 09:{second // 60:02}:{second % 60:02}] {logger}"
        f"[Train][Epoch 1/20][Iter: {number}/395]lr: 0.099, loss: 40.1, "
        f"batch_cost: {mean(number):.5f}s, reader_cost: 0.00100, "
        f"ips: {1024 / mean(number):.5f} images/sec, eta: 12:00:00"
        for number in range(0, 400, 10)
        for second in [int(number * 0.4 + max(number - 200, 0) * 0.4)]
    ]


def interval(number: int) -> float:
    """Seconds of the steps since the line before."""
    return 0.8 if number > 200 else 0.4


def running(number: int) -> float:
    """Their mean since step 5."""
    return 0.4 + 0.4 * max(number - 200, 0) / max(number - 4, 1)


IMAGES, SECONDS = 1024 * 340, 150 * 0.4 + 190 * 0.8
"""Behind a warm-up of 50 steps."""
CLASSIFIES = "[2022/11/25 09:00:00] plsc INFO:     task_type : classification"


NAMED, AGAIN = "plsc INFO: ", "[    INFO] logger.py:80 - "


@pytest.mark.parametrize("loggers", [[NAMED], [AGAIN], [NAMED, AGAIN]], ids=len)
def test_plsc_2_4_prints_the_rate_of_the_job_over_the_log_interval(loggers: list[str]) -> None:
    both = zip(*(logged_by(logger, interval) for logger in loggers), strict=True)
    lines = [line for each in both for line in each]
    found = measured(lines, format="plsc", gpus=8, batch_size=128, warmup=50)
    assert (ids(found, "reject"), found.iterations) == ([], 340)
    assert found.rate == pytest.approx(IMAGES / SECONDS, rel=1e-4)
    with pytest.raises(InputError, match="no training line"):
        measured(lines, format="paddleclas", gpus=8, batch_size=None)


def test_plsc_2_4_prints_running_means_of_a_classification() -> None:
    lines = [CLASSIFIES, *logged_by(NAMED, running)]
    found = measured(lines, format="plsc", gpus=8, batch_size=128, warmup=50)
    assert ids(found, "reject") == []
    assert found.rate == pytest.approx(IMAGES / SECONDS, rel=1e-4)
    assert "clock-mismatch" in ids(measured(lines[1:], format="plsc", gpus=8, batch_size=128))
