"""Synthetic logs of the programs of the five published reports."""

import datetime
import itertools
from collections.abc import Iterator

START = 1_616_500_000.0
"""First stamp: 2021-03-23."""
V100 = "Tesla V100-SXM2-32GB"


def _stamp(at: float, form: str) -> str:
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return moment.strftime(form)


def _comma(at: float) -> str:
    return f"{_stamp(at, '%Y-%m-%d %H:%M:%S')},{int(at % 1 * 1000):03d}"


def mmseg(
    gpus: int,
    rate: float,
    batch: int,
    *,
    amp: bool = False,
    waits: float = 0.0,
    iterations: int = 600,
    accuracies: dict[int, float] | None = None,
    reached_after: float | None = None,
    day: int = 0,
) -> str:
    """Return a log of mmsegmentation 0.11.

    ``waits``: share of the time that every fourth line waits for data, beside a steady step.
    ``accuracies``: iteration → mIoU, as AI-Rank's lines; ``reached_after``: seconds to the best.
    """
    start = START + 86_400 * day
    visible = ",".join(map(str, range(min(gpus, 8))))
    evaluated = "evaluation = dict(interval=8000, metric='mIoU')\n" if accuracies else ""
    head = f"""{_comma(start)} - mmseg - INFO - Environment info:
------------------------------------------------------------
sys.platform: linux
Python: 3.6.10 |Anaconda, Inc.| (default, Mar 23 2020, 23:13:11) [GCC 7.3.0]
CUDA available: True
GPU {visible}: {V100}
PyTorch: 1.6.0a0+9907a3e
  - CUDA Runtime 11.0
  - CuDNN 8.0.1
MMCV: 1.2.7
MMSegmentation: 0.11.0+d0a71c1
------------------------------------------------------------

{_comma(start)} - mmseg - INFO - Distributed training: {gpus > 1}
{_comma(start)} - mmseg - INFO - Config:
    decode_head=dict(
        type='DepthwiseSeparableASPPHead',
data = dict(
    samples_per_gpu={batch},
{"optimizer_config = dict(type='Fp16OptimizerHook', loss_scale=512.0)" if amp else ""}
{evaluated}log_config = dict(
    interval=50,
gpu_ids = range(0, 1)

{_comma(start)} - mmseg - INFO - workflow: [('train', 1)], max: 80000 iters
- AI-Rank-log {start:.3f} load_data, checksum:37724b19b6e5d41f9f147936d60b3c29
- AI-Rank-log {start:.3f} test_begin"""
    mean = batch * gpus / rate
    slow_data = 4 * waits * mean
    fast = round(mean * (1 - waits), 3)
    slow = round(4 * mean - 3 * fast, 3)
    mean = (3 * fast + slow) / 4
    lines, at = [head], start
    evaluations = sorted(accuracies or {})
    pause = 0.0
    if reached_after is not None:
        best = max(evaluations, key=lambda n: (accuracies or {})[n])
        pause = (reached_after - best * mean) / (evaluations.index(best) + 1)
    for number in range(1, iterations // 50 + 1):
        step, data = (slow, slow_data) if number % 4 == 0 else (fast, 0.008)
        at += 50 * step
        lines.append(
            f"{_comma(at)} - mmseg - INFO - Iter [{50 * number}/80000]\tlr: 9.9e-03, eta: 1:00:00,"
            f" time: {step:.3f}, data_time: {data:.3f}, memory: 11000,"
            f" decode.loss_ce: 1.0000, decode.acc_seg: 50.0000, loss: {2 - number / 2000:.4f}"
        )
        if 50 * number in evaluations:
            at += pause
            value = (accuracies or {})[50 * number]
            epochs = 50 * number * batch * gpus // 2975
            lines.append(
                f"- AI-Rank-log {at:.3f} eval_accuracy:{value:.2f}, total_epoch_cnt:{epochs}"
            )
    return "\n".join([*lines, f"- AI-Rank-log {at:.3f} test_finish", ""])


def tsm(gpus: int, rate: float, *, top1: tuple[float, ...] = (), epochs: int = 50) -> str:
    """Return a log of temporal-shift-module; ``top1`` after each epoch that was trained."""
    total = -(-234584 // (16 * gpus))
    interval = 32 if gpus == 1 else 4
    step = 16 * gpus / rate
    lines = [
        f"storing name: TSM_kinetics_RGB_resnet50_shift8_blockres_avg_segment8_e{epochs}",
        "    Initializing TSN with base model: resnet50.",
    ]
    for epoch, value in enumerate(top1 or (None,)):
        lines += [
            f"Epoch: [{epoch}][{place}/{total}], lr: {0.0025 * min(gpus, 8):.5f}\t"
            f"Time {step:.3f} ({step:.6f})\tData 0.000 (0.001)\tLoss 2.0000 (2.1000)\t"
            "Prec@1 50.000 (48.000)\tPrec@5 75.000 (74.000)"
            for place in range(0, total, interval)
        ]
        if value is not None:
            lines.append("Test: [0/40]\tTime 0.138 (0.145)\tLoss 2.4 (2.1)\tPrec@1 40.0 (41.0)")
            lines.append(f"Testing Results: Prec@1 {value:.3f} Prec@5 89.500 Loss 1.20000")
    return "\n".join([*lines, ""])


def paddleseg(gpus: int, rate: float, batch: int, *, amp: bool = False) -> str:
    """Return a log of PaddleSeg; its rates are those of one card."""
    listed = ", ".join(f"'GPU {n}: {V100}'" for n in range(min(gpus, 8)))
    head = f"""{_stamp(START, "%Y-%m-%d %H:%M:%S")} [INFO]\t
------------Environment Information-------------
platform: Linux-5.10-x86_64
Python: 3.7.10 (default)
cudnn: 8.0
GPUs used: {gpus}
GPU: [{listed}]
PaddlePaddle: 2.1.0
------------------------------------------------
{_stamp(START, "%Y-%m-%d %H:%M:%S")} [INFO]\t
---------------Config Information---------------
batch_size: {batch}
iters: 100
train_dataset:
  dataset_root: data/cityscapes
  type: Cityscapes
model:
  num_classes: 19
  type: DeepLabV3P
------------------------------------------------"""
    lines, at = [head], START
    lines += [f"{_stamp(at, '%Y-%m-%d %H:%M:%S')} [INFO]\tuse amp to train"] * amp
    cost = batch * gpus / rate
    for number in range(5, 101, 5):
        at += 5 * cost
        lines.append(
            f"{_stamp(at, '%Y-%m-%d %H:%M:%S')} [INFO]\t[TRAIN] epoch: 1, iter: {number}/100,"
            f" loss: {2 - number / 200:.4f}, lr: 0.009820, batch_cost: {cost:.4f},"
            f" reader_cost: 0.00100, ips: {rate / gpus:.4f} samples/sec | ETA 00:00:10"
        )
    return "\n".join([*lines, "Total Flops: 228400000000     Total Params: 26794243", ""])


def dle(gpus: int, rate: float, run: int = 0) -> str:
    """Return a log of DeepLearningExamples' ResNet-50: 120 iterations at batch 128."""
    form = "%Y-%m-%d %H:%M:%S.%f"
    at = START + 600 * run
    asked = (
        "data : /imagenet  data_backend : dali-cpu  arch : resnet50  epochs : 1  batch_size : 128 "
        f" print_freq : 1  prof : 121  amp : False  fp16 : False  world_size : {gpus} "
    )
    lines = [f"DLL {_stamp(at, form)} - PARAMETER {asked}", "RUNNING EPOCHS FROM 0 TO 1"]
    for number in range(1, 121):
        at += 128 * gpus / rate
        lines.append(
            f"DLL {_stamp(at, form)} - Epoch: 0 Iteration: {number}  train.loss : 6.9 "
            f" train.total_ips : {rate:.2f} img/s"
        )
    return "\n".join([*lines, "Experiment ended", ""])


def plsc(gpus: int, rate: float, run: int = 0) -> str:
    """Return a log of PLSC 1: 150 batches, a line each ten."""
    lines = list(_plsc(gpus, rate, START + 600 * run))
    return "\n".join([*lines, ""])


def _plsc(gpus: int, rate: float, at: float) -> Iterator[str]:
    yield f'INFO {_comma(at)} entry.py:251] default value for model_save_dir: "./checkpoints"'
    at += 10
    for number in itertools.count(0, 10):
        if number > 150:
            return
        qps = rate if number else rate / 30
        yield (
            f"INFO {_comma(at)} entry.py:1023] Pass:0 batch:{number} lr:0.10000000"
            f" loss:{44 - number / 30:.6f} qps:{qps:.2f}"
        )
        at += 10 * 128 * gpus / rate
