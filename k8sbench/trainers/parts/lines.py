"""Log lines in the format of each benchmark's upstream program.

Pure functions from a record to one line. The throughput in a line is that of the JSON line of the
same record, to the digits that its family prints. Upstream decides whether it is per card or per
job, whether counts begin at 0 or 1, and whether the wait for data is included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from k8sbench.trainers.parts.steps import StepRecord, StepValue


@dataclass(frozen=True)
class LineValues:
    """Everything that a line of a log family may contain."""

    at: datetime  # local time
    record: StepRecord
    batch_size_per_gpu: int
    world_size: int
    lr: float
    values: Mapping[str, StepValue]  # "loss" and the family's further values
    memory_mib: float | None = None
    grad_scale: float = 1.0
    epoch_steps: int | None = None  # None: the data have no epochs

    @property
    def epoch(self) -> int:
        """The epoch of the record's last step, from 0."""
        return 0 if self.epoch_steps is None else (self.record.step - 1) // self.epoch_steps

    @property
    def epoch_step(self) -> int:
        """The number of the record's last step in its epoch, from 1."""
        return self.record.step - self.epoch * (self.epoch_steps or 0)

    @property
    def global_samples(self) -> int:
        """The samples of the record, over all ranks."""
        return self.record.steps * self.batch_size_per_gpu * self.world_size


def mmseg(progress: LineValues) -> str:
    """Line of mmsegmentation 0.x: `time` is s/step, values are means."""
    record = progress.record
    left = timedelta(seconds=int(record.total_seconds / record.taken * (record.of - record.step)))
    parts = [
        f"lr: {progress.lr:.3e}",
        f"eta: {left}",
        f"time: {record.seconds / record.steps:.3f}",
        f"data_time: {record.data_seconds / record.steps:.3f}",
    ]
    if progress.memory_mib is not None:
        parts.append(f"memory: {progress.memory_mib:.0f}")
    parts += [f"{name}: {value.mean:.4f}" for name, value in progress.values.items()]
    stamp = f"{progress.at:%Y-%m-%d %H:%M:%S},{progress.at.microsecond // 1000:03d}"
    return f"{stamp} - mmseg - INFO - Iter [{record.step}/{record.of}]\t" + ", ".join(parts)


def paddleseg(progress: LineValues) -> str:
    """PaddleSeg: `ips` is samples per second of ONE card, with the wait for data."""
    record = progress.record
    cost = record.seconds / record.steps
    left = int(cost * (record.of - record.step))
    eta = f"{left // 3600:02d}:{left % 3600 // 60:02d}:{left % 60:02d}"
    ips = _per_second(progress.batch_size_per_gpu * record.steps, record.seconds)
    return (
        f"{progress.at:%Y-%m-%d %H:%M:%S} [INFO]\t[TRAIN] epoch: {progress.epoch + 1}, "
        f"iter: {record.step}/{record.of}, loss: {progress.values['loss'].mean:.4f}, "
        f"lr: {progress.lr:.6f}, batch_cost: {cost:.4f}, "
        f"reader_cost: {record.data_seconds / record.steps:.5f}, "
        f"ips: {ips:.4f} samples/sec | ETA {eta}"
    )


def dle_resnet50(progress: LineValues) -> str:
    """NVIDIA DeepLearningExamples: whole job; `compute_ips` leaves out the wait for data."""
    record = progress.record
    compute = record.seconds - record.data_seconds
    return (
        f"DLL {progress.at:%Y-%m-%d %H:%M:%S.%f} - "
        f"Epoch: {progress.epoch} Iteration: {progress.epoch_step}  "
        f"train.loss : {progress.values['loss'].mean:.5f} None "
        f"train.compute_ips : {_per_second(progress.global_samples, compute):.2f} images/s "
        f"train.total_ips : {_per_second(progress.global_samples, record.seconds):.2f} images/s "
        f"train.lr : {progress.lr:.6g}  train.grad_scale : {progress.grad_scale:.5f} None"
    )


def tsm(progress: LineValues) -> str:
    """temporal-shift-module: each value of the last step and, in brackets, its running mean."""
    record = progress.record

    def pair(last: float, mean: float, digits: int) -> str:
        return f"{last:.{digits}f} ({mean:.{digits}f})"

    def shown(name: str, digits: int) -> str:
        value = progress.values[name]
        return pair(value.last, value.running, digits)

    time = pair(record.last_seconds, record.total_seconds / record.taken, 3)
    data = pair(record.last_data_seconds, record.total_data_seconds / record.taken, 3)
    return (
        f"Epoch: [{progress.epoch}][{progress.epoch_step - 1}/"
        f"{progress.epoch_steps or record.of}], lr: {progress.lr:.5f}\t"
        f"Time {time}\tData {data}\tLoss {shown('loss', 4)}\t"
        f"Prec@1 {shown('top1', 3)}\tPrec@5 {shown('top5', 3)}"
    )


def plsc(progress: LineValues, *, source: str = "arcface.py:1") -> str:
    """PLSC v1: whole job, without the wait for data; batches are counted from 0."""
    record = progress.record
    compute = record.seconds - record.data_seconds
    stamp = f"{progress.at:%Y-%m-%d %H:%M:%S},{progress.at.microsecond // 1000:03d}"
    return (
        f"INFO {stamp} {source}] Pass:{progress.epoch} batch:{progress.epoch_step - 1} "
        f"lr:{progress.lr:.8f} "
        f"loss:{progress.values['loss'].mean:.6f} "
        f"qps:{_per_second(progress.global_samples, compute):.2f}"
    )


def _per_second(samples: int, seconds: float) -> float:
    # A clock that did not move gives "inf" in the text, which no parser takes for a rate.
    return samples / seconds if seconds > 0 else float("inf")
