"""The families' lines: their shape, and the same throughput as the machine line's."""

import dataclasses
import datetime
import re
from collections.abc import Callable

import pytest

from k8sbench.trainers.parts import lines
from k8sbench.trainers.parts.lines import LineValues
from k8sbench.trainers.parts.steps import StepRecord, StepValue

WORLD, BATCH = 8, 4
RECORD = StepRecord(
    step=30,
    of=100,
    steps=10,
    seconds=4.79,
    data_seconds=0.08,
    last_seconds=0.4791,
    last_data_seconds=0.0081,
    total_seconds=16.5,
    total_data_seconds=0.9,
)
# What the machine line says of this record.
GLOBAL_RATE = 10 * BATCH * WORLD / 4.79
VALUES = {
    "decode.loss_seg": StepValue(2.1, 2.3076, 2.2),
    "decode.acc_seg": StepValue(20.0, 22.5851, 21.0),
    "aux.loss_seg": StepValue(1.0, 1.0441, 1.0),
    "aux.acc_seg": StepValue(20.0, 20.8697, 20.0),
    "loss": StepValue(3.2, 3.3517, 3.25),
    "top1": StepValue(6.25, 5.0, 1.933),
    "top5": StepValue(12.5, 6.0, 5.348),
}


def progress(*names: str, memory: float | None = 18705.4) -> LineValues:
    return LineValues(
        at=datetime.datetime(2021, 5, 31, 0, 1, 11, 32_456, tzinfo=datetime.UTC),
        record=RECORD,
        batch_size_per_gpu=BATCH,
        world_size=WORLD,
        lr=0.009194,
        values={name: VALUES[name] for name in names},
        memory_mib=memory,
        grad_scale=128.0,
    )


SEGMENTATION = ("decode.loss_seg", "decode.acc_seg", "aux.loss_seg", "aux.acc_seg", "loss")


def test_mmseg() -> None:
    line = lines.mmseg(progress(*SEGMENTATION))
    assert line == (
        "2021-05-31 00:01:11,032 - mmseg - INFO - Iter [30/100]\tlr: 9.194e-03, eta: 0:00:38, "
        "time: 0.479, data_time: 0.008, memory: 18705, decode.loss_seg: 2.3076, "
        "decode.acc_seg: 22.5851, aux.loss_seg: 1.0441, aux.acc_seg: 20.8697, loss: 3.3517"
    )
    (time,) = re.findall(r" time: ([\d.]+)", line)
    assert BATCH * WORLD / float(time) == pytest.approx(GLOBAL_RATE, rel=0.0005 / 0.479)
    assert "memory" not in lines.mmseg(progress(*SEGMENTATION, memory=None))


def test_paddleseg_counts_per_card() -> None:
    line = lines.paddleseg(progress("loss"))
    assert line == (
        "2021-05-31 00:01:11 [INFO]\t[TRAIN] epoch: 1, iter: 30/100, loss: 3.3517, lr: 0.009194, "
        "batch_cost: 0.4790, reader_cost: 0.00800, ips: 8.3507 samples/sec | ETA 00:00:33"
    )
    (ips,) = re.findall(r"ips: ([\d.]+) samples/sec", line)
    assert float(ips) * WORLD == pytest.approx(GLOBAL_RATE, rel=1e-5)


def test_dle_resnet50_counts_the_whole_job() -> None:
    line = lines.dle_resnet50(progress("loss"))
    assert line == (
        "DLL 2021-05-31 00:01:11.032456 - Epoch: 0 Iteration: 30  train.loss : 3.35170 None "
        "train.compute_ips : 67.94 images/s train.total_ips : 66.81 images/s "
        "train.lr : 0.009194  train.grad_scale : 128.00000 None"
    )
    (ips,) = re.findall(r"train.total_ips : ([\d.]+) images/s", line)
    assert float(ips) == pytest.approx(GLOBAL_RATE, abs=0.005)


def test_tsm_prints_the_last_step_and_running_means() -> None:
    assert lines.tsm(progress("loss", "top1", "top5")) == (
        "Epoch: [0][29/100], lr: 0.00919\tTime 0.479 (0.550)\tData 0.008 (0.030)\t"
        "Loss 3.2000 (3.2500)\tPrec@1 6.250 (1.933)\tPrec@5 12.500 (5.348)"
    )


def test_plsc_leaves_out_the_wait_for_data_and_counts_from_0() -> None:
    line = lines.plsc(progress("loss"))
    assert re.fullmatch(
        r"INFO 2021-05-31 00:01:11,032 \w+\.py:\d+\] Pass:0 batch:29 lr:0\.00919400 "
        r"loss:3\.351700 qps:67\.94",
        line,
    )
    (qps,) = re.findall(r"qps:([\d.]+)", line)
    waiting = RECORD.data_seconds / RECORD.seconds
    assert float(qps) * (1 - waiting) == pytest.approx(GLOBAL_RATE, abs=0.005)


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        (1, ("epoch: 1,", "Epoch: [0][0/12]", "Epoch: 0 Iteration: 1 ", "Pass:0 batch:0 ")),
        (12, ("epoch: 1,", "Epoch: [0][11/12]", "Epoch: 0 Iteration: 12 ", "Pass:0 batch:11 ")),
        (13, ("epoch: 2,", "Epoch: [1][0/12]", "Epoch: 1 Iteration: 1 ", "Pass:1 batch:0 ")),
        (30, ("epoch: 3,", "Epoch: [2][5/12]", "Epoch: 2 Iteration: 6 ", "Pass:2 batch:5 ")),
    ],
)
def test_real_data_steps_count_by_epochs_per_family(step: int, shown: tuple[str, ...]) -> None:
    families: list[Callable[[LineValues], str]]
    families = [lines.paddleseg, lines.tsm, lines.dle_resnet50, lines.plsc]
    record = dataclasses.replace(RECORD, step=step)
    told = progress("loss", "top1", "top5")
    told = dataclasses.replace(told, record=record, epoch_steps=12)
    for family, part in zip(families, shown, strict=True):
        assert part in family(told)
    assert f"Iter [{step}/100]" in lines.mmseg(told)
    assert "iter: " + f"{step}/100" in lines.paddleseg(told)


def test_a_resumed_runs_means_and_remaining_time_are_of_its_own_steps() -> None:
    """10 steps in 16.5 s are 1.65 s each; 70 are left."""
    told = dataclasses.replace(
        progress("loss", "top1", "top5"), record=dataclasses.replace(RECORD, done=20)
    )
    assert "Time 0.479 (1.650)\tData 0.008 (0.090)" in lines.tsm(told)
    assert "eta: 0:01:55" in lines.mmseg(told)
