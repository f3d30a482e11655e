"""One training line of every family and generation, number by number."""

import json
import math
import re
from collections.abc import Mapping

import pytest

from tests.reader.family_logs import (
    ALL,
    ARCFACE,
    DLE_2022,
    DLE_JSON,
    JSON_LINES,
    MMCV_JSON,
    MMENGINE,
    MMENGINE_JSON,
    MMSEG,
    PADDLECLAS_2021,
    PADDLEVIDEO,
    TIMM,
)
from tests.reader.support import evaluations, items, marks, record, records

PADDLECLAS_2023 = (
    "[2023/07/28 06:42:45] ppcls INFO: epoch:0   train step:10   lr: 0.100000, loss:  8.3496 "
    "top1:  0.0000 top5: -0.0156 batch_cost: 0.64841 s, reader_cost: 0.00067 s, "
    "ips: 394.81086 samples/sec."
)
PADDLECLAS_2_0 = (
    "2021-05-08 14:15:42 INFO: epoch:0   train step:7    top1: 0.0000 top5: 0.0000 loss:  8.8223 "
    "lr: 0.100000, batch_cost: 0.25680 s, reader_cost: 0.07931 s, ips: 373.83754 images/sec."
)
PLSC_V24 = (
    "[2023/01/12 12:00:00] plsc INFO: [Train][Epoch 1/20][Iter: 10/5682]lr: 0.099000, "
    "MarginLoss: 40.1, loss: 40.2, batch_cost: 0.40000s, reader_cost: 0.00100, "
    "ips: 2560.00000 images/sec, eta: 12:00:00"
)
PLSC_V24_AGAIN = PLSC_V24.replace(
    "/01/12 12:00:00] plsc INFO:", "-01-12 12:00:00,250] [    INFO] logger.py:80 -"
)


PADDLESEG_2024 = ALL["paddleseg"].replace(
    "2021-05-31 20:12:22 [INFO]\t", "[2021/05/31 20:12:22] INFO: "
)
PADDLESEG_2024 = PADDLESEG_2024.replace(
    " |", ", max_mem_reserved: 3988 MB, max_mem_allocated: 3542 MB |"
)
PADDLESEG_OLDER = (
    "[TRAIN] epoch=1, iter=10/80000, loss=1.5, lr=0.009999, batch_cost=0.49, reader_cost=0.0005, "
    "ips=4.0800 samples/sec | ETA 10:00:00"
)
PADDLECLAS_DYGRAPH = (
    "[2022/11/30 12:00:00] ppcls INFO: [Train][Epoch 1/120][Iter: 10/1251]lr(LinearWarmup): "
    "0.1, top1: 0.0, CELoss: 7.01, loss: 7.02, batch_cost: 0.55123s, reader_cost: 0.00100, "
    "ips: 116.10000 samples/s, eta: 1 day, 0:10:00"
)
PADDLEVIDEO_2021 = (
    "[01/18 17:31:26] epoch:[  3/50 ] train step:20   elapse: 0.245 reader: 0.049s "
    "loss: 4.75431 lr: 0.080000 top1: 0.18750 top5: 0.37500 ips: 65.41214 instance/sec."
)
MMENGINE_EPOCH = (
    "11/25 09:40:35 - mmengine - INFO - Epoch(train)   [3][ 4/16]  lr: 2.0000e-03  eta: 0:00:14  "
    "time: 1.2107  data_time: 0.0067  grad_norm: 192.4095  loss: 6.8457  top1_acc: 0.0000"
)
MMENGINE_SIX = MMENGINE.replace("0.4125", "0.412512").replace("0.0165", "0.016501")
MMENGINE_SIX = MMENGINE_SIX.replace("loss: 3.3517 ", "loss: 3.351748 ")
MMENGINE_STEP_JSON = MMENGINE_JSON.replace('"iter": 50, ', "")
MMENGINE_TREE_JSON = re.sub(r'"(lr|data_time|loss|time)"', r'"train/\1"', MMENGINE_JSON)
MMSEG_EPOCH = MMSEG.replace("Iter [10/100]", "Epoch [3][10/100]")
RUNNING = {"averaged": "running", "skips": 5}
STEP_OF_A_CARD: dict[str, object] = {
    "iteration": 21,
    "rate": 65.41214,
    "seconds": 0.245,
    "loss": 4.75431,
}
ARCFACE_OLD = re.sub(" LearningRate .*(Epoch.*Step: ..).*", r" \1   Required: 3 hours", ARCFACE)
LINES: dict[str, tuple[str, Mapping[str, object], dict[str, object]]] = {
    MMENGINE: (
        "mmengine",
        {"iteration": 50, "total": 160000, "seconds": 0.4125, "waiting": 0.04, "loss": 3.3517},
        {"averaged": "last", "last": 10, "numbering": "run", "dated": True},
    ),
    MMENGINE_EPOCH: (
        "mmengine",
        {"epoch": 3, "iteration": 4, "total": 16, "seconds": 1.2107, "loss": 6.8457},
        {"numbering": "epoch", "first_epoch": 1, "dated": False},
    ),
    MMENGINE.partition("INFO - ")[2]: ("mmengine", {"seconds": 0.4125, "stamp": None}, {}),
    MMENGINE_JSON: (
        "mmengine",
        {"iteration": 50, "seconds": 0.4125372, "waiting": 0.0165 / 0.4125372, "loss": 3.3517481}
        | {"memory_mib": 3774, "stamp": None, "epoch": None},
        {"averaged": "last", "last": 10, "numbering": "run"},
    ),
    MMENGINE_SIX: ("mmengine", {"seconds": 0.412512, "loss": 3.351748, "memory_mib": 3774}, {}),
    MMENGINE_STEP_JSON: ("mmengine", {"iteration": 50, "seconds": 0.4125372}, {}),
    MMENGINE_TREE_JSON: (
        "mmengine",
        {"iteration": 50, "seconds": 0.4125372, "loss": 3.3517481, "memory_mib": 3774},
        {"averaged": "last"},
    ),
    MMCV_JSON: (
        "mmseg",
        {"epoch": 3, "iteration": 10, "seconds": 2.04213, "loss": 3.35, "memory_mib": 18705},
        {"averaged": "interval"},
    ),
    DLE_JSON: (
        "dle-resnet50",
        {"epoch": 1, "iteration": 2, "rate": 300.0, "waiting": 0.25, "loss": 7.7502}
        | {"stamp": 1608118340.234886},
        {"averaged": "interval"},
    ),
    MMSEG_EPOCH: ("mmseg", {"epoch": 3, "iteration": 10}, {"numbering": "epoch"}),
    MMSEG.replace(" - mmseg", ""): ("mmseg", {"stamp": 1622419271.032, "seconds": 2.042}, {}),
    MMSEG.replace("memory: 18705, ", ""): ("mmseg", {"memory_mib": None, "loss": 3.3517}, {}),
    PADDLESEG_OLDER: ("paddleseg", {"rate": 4.08}, {}),
    PADDLESEG_2024: (
        "paddleseg",
        {"rate": 5.5365, "iteration": 20, "stamp": 1622491942.0, "memory_mib": 3542},
        {},
    ),
    PADDLECLAS_2021: ("paddleclas", {"iteration": 21, "mean_seconds": 0.38521}, RUNNING),
    PADDLECLAS_2023: ("paddleclas", {"iteration": 11, "loss": 8.3496}, RUNNING),
    PADDLECLAS_2_0: ("paddleclas", {"mean_seconds": 0.2568, "seconds": None}, RUNNING),
    PADDLECLAS_DYGRAPH: ("paddleclas", {"epoch": 1, "total": 1251, "mean_seconds": 0.55123}, {}),
    PLSC_V24: (
        "plsc",
        {"epoch": 1, "iteration": 11, "total": 5682, "rate": 2560.0, "loss": 40.2},
        {"averaged": "interval", "per": "job", "first_epoch": 1},
    ),
    PLSC_V24_AGAIN: ("plsc", {"iteration": 11, "stamp": 1673524800.25}, {}),
    PLSC_V24.partition("] ")[2]: ("plsc", {"rate": 2560.0, "stamp": None}, {}),
    PADDLEVIDEO: ("paddlevideo", STEP_OF_A_CARD | {"epoch": 1}, {"dated": False}),
    ARCFACE: ("arcface-torch", {"iteration": 60, "rate": 1889.25, "loss": 35.0278}, {}),
    ARCFACE_OLD: ("arcface-torch", {"iteration": 60, "rate": 1889.25}, {"numbering": "run"}),
    TIMM: (
        "timm",
        {"epoch": 3, "iteration": 101, "total": 1251, "rate": 423.84, "loss": 6.94},
        {"averaged": "running", "numbering": "epoch", "first_epoch": 0},
    ),
    PADDLEVIDEO_2021: ("paddlevideo", STEP_OF_A_CARD | {"epoch": 3}, {}),
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_a_release_is_read_number_by_number(line: str) -> None:
    family, numbers, shape = LINES[line]
    found = record(family, line)
    assert {name: getattr(found, name) for name in numbers} == numbers
    assert {name: getattr(found.shape, name) for name in shape} == shape
    assert len(records(family, line + line)) == 2


@pytest.mark.parametrize(
    "line", [line for line in (*ALL.values(), *LINES) if not line.startswith(("{", "DLLL"))]
)
@pytest.mark.parametrize("spaces", [3, 8])
def test_a_line_padded_by_more_spaces_has_the_same_numbers(line: str, spaces: int) -> None:
    family = next((name for name, each in ALL.items() if each == line), None) or LINES[line][0]
    # After a label, a comma or a bracket, and before a mean in brackets; not within a stamp.
    padded = re.sub(r"(?<=[:=,)]) (?=[\w.-])|(?<=[a-z]) (?=\d)|(?<=\d) (?=\()", " " * spaces, line)
    assert padded != line
    found, other = record(family, line), record(family, padded)
    numbers = ("iteration", "epoch", "total", "rate", "seconds", "mean_seconds", "loss", "waiting")
    for name in (*numbers, "stamp", "memory_mib"):
        assert getattr(other, name) == getattr(found, name), name


def test_the_wait_for_data_is_the_share_of_the_loader() -> None:
    for line in (PADDLEVIDEO, PADDLEVIDEO_2021):
        assert record("paddlevideo", line).waiting == pytest.approx(0.2)


NUMBERS = {
    "mmengine": ("[   50/", "[   70/", "time: 0.4125", "time: 0.9999"),
    "mmseg": ("[10/", "[70/", "time: 2.042", "time: 9.999"),
    "paddleseg": ("iter: 20/", "iter: 70/", "ips: 5.5365", "ips: 9.9999"),
    "paddleclas": ("step:20 ", "step:70 ", "cost: 0.38521", "cost: 0.99999"),
    "paddlevideo": ("step:20 ", "step:70 ", "ips: 65.41214", "ips: 99.99999"),
    "dle-resnet50": ("Iteration: 2 ", "Iteration: 70 ", "ips : 300.00", "ips : 999.99"),
    "tsm": ("][32/", "][70/", "(0.429)", "(0.999)"),
    "plsc": ("step: 200", "step: 700", "throughput: 6374.50", "throughput: 9999.99"),
    "arcface-torch": ("Step: 60", "Step: 70", "Speed 1889.25", "Speed 9999.99"),
    "timm": ("[ 100/", "[ 700/", " 423.84/s", " 999.99/s"),
}


@pytest.mark.parametrize("family", ALL)
def test_a_torn_line_is_read_right_or_not_at_all_and_lends_no_number(family: str) -> None:
    """A line torn anywhere, alone and followed by another's whole record."""
    whole = ALL[family]
    place, other_place, value, other_value = NUMBERS[family]
    torn = whole.replace(place, other_place).replace(value, other_value)
    own, stranger = record(family, whole), record(family, torn)
    truth = {
        each.iteration: (each.rate, each.seconds, each.mean_seconds) for each in (own, stranger)
    }
    for end in range(len(torn)):
        found = records(family, torn[:end] + whole)
        assert own.iteration in [each.iteration for each in found]
        for each in (*found, *records(family, torn[:end])):
            assert (each.rate, each.seconds, each.mean_seconds) == truth[each.iteration]


@pytest.mark.parametrize("family", ALL)
def test_a_loss_that_is_nan_is_read_as_nan(family: str) -> None:
    for line in filter(None, [JSON_LINES.get(family)]):
        loss = record(family, re.sub(r'(loss": )[\d.]+', r"\1NaN", line)).loss
        assert loss is not None
        assert math.isnan(loss)
    line = re.sub(r"(?i)(loss[ :]+)[\d.]+( \()?[\d.]*", r"\1nan\2nan", ALL[family])
    line = line.replace("nannan", "nan")
    loss = record(family, line).loss
    assert loss is not None
    assert math.isnan(loss)


@pytest.mark.parametrize(
    ("computed", "waiting"), [("400.00", 0.25), ("300.00", 0.0), ("299.00", 0.0), ("0.00", None)]
)
def test_dle_s_wait_is_the_rest_of_its_rate(computed: str, waiting: float | None) -> None:
    line = DLE_2022.replace("400.00", computed)
    assert record("dle-resnet50", line).waiting == waiting
    # Many lines are read together.
    lines = [line.replace("Iteration: 2 ", f"Iteration: {step} ") for step in range(1, 30)]
    assert [each.waiting for each in records("dle-resnet50", *lines)] == [waiting] * 29


def test_mmseg_prints_accuracy_as_a_fraction() -> None:
    line = "2021-04-04 06:32:44,846 - mmseg - INFO - Iter(val) [80000]\tmIoU: 0.7991, aAcc: 0.9647"
    found, other = evaluations(items("mmseg", MMSEG, line))
    assert (other.metric, other.value) == ("aAcc", 0.9647)
    assert (found.metric, found.value, found.unit) == ("mIoU", 0.7991, "fraction")


@pytest.mark.parametrize(("value", "unit"), [("1.0000", "fraction"), ("76.3", "%")])
def test_an_accuracy_of_one_is_all_of_the_samples(value: str, unit: str) -> None:
    line = f"2021-05-31 20:12:22 [INFO]\t[EVAL] #Images: 500 mIoU: {value} Acc: 0.9 Kappa: 0.9"
    (found, *_) = evaluations(items("paddleseg", ALL["paddleseg"], line))
    assert (found.value, found.unit) == (float(value), unit)


VAL = "2023/06/14 10:03:35 - mmengine - INFO - "


@pytest.mark.parametrize(
    ("line", "metric", "value", "unit"),
    [
        ("Iter(val) [500/500]    aAcc: 89.1700  mIoU: 0.7000  mAcc: 7.8", "mIoU", 0.7, "%"),
        (
            "Epoch(val) [1][16/16]    accuracy/top1: 0.9300  accuracy/top5: 4.1",
            "accuracy/top1",
            0.93,
            "%",
        ),
        ("Epoch(val) [1][5/5]  accuracy/top1: 53.6036", "accuracy/top1", 53.6036, "%"),
        ("Iter(val) [5/5]    val/aAcc: 89.1  val/mIoU: 68.70", "mIoU", 68.7, "%"),
        (
            "Epoch(val)  [2][9/9]    coco/bbox_mAP: 0.3640  coco/bbox_mAP_50: 0.5",
            "coco/bbox_mAP",
            0.364,
            "fraction",
        ),
        (
            "Epoch(val) [1][16/16]    acc/top1: 0.2500  acc/top5: 0.5000",
            "acc/top1",
            0.25,
            "fraction",
        ),
    ],
)
def test_mmengines_units_of_accuracy(line: str, metric: str, value: float, unit: str) -> None:
    found = items("mmengine", MMENGINE, f"{VAL}{line}  data_time: 0.0016  time: 0.0300")
    first = evaluations(found)[0]
    assert (first.metric, first.value, first.unit) == (metric, value, unit)
    assert "evaluation" in {mark.kind for mark in marks(found)}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Iter(val) [ 50/500]    eta: 0:00:05  time: 0.1000  data_time: 0.0010  ", "evaluation"),
        ("Iter(test) [500/500]    mIoU: 68.7000  data_time: 0.0016  time: 0.1", "evaluation"),
        ("Saving checkpoint at 500 iterations", "checkpoint"),
        ("The best checkpoint with 68.7000 mIoU at 500 iter is saved to best.pth.", "checkpoint"),
        ("resumed epoch: 4, iter: 500", "restart"),
    ],
)
def test_mmengine_says_what_happens_between_its_lines(line: str, kind: str) -> None:
    found = items("mmengine", MMENGINE, VAL + line)
    assert [mark.kind for mark in marks(found)] == [kind]
    assert evaluations(found) == []


def test_the_steps_of_paddlenlp_s_interval_are_whole() -> None:
    """Its rate is rounded: 10 s of 50 steps are printed as 4.98 steps/s, too."""
    line = (
        "[2024-03-02 10:00:00,000] [    INFO] - loss: 5.5, learning_rate: 0.0001, global_step: 50, "
        "interval_runtime: 10.0, interval_samples_per_second: 3.2, "
        "interval_steps_per_second: 4.98, epoch: 0.5"
    )
    assert record("paddlenlp", line).seconds == 10.0 / 50


@pytest.mark.parametrize(
    "head",
    [
        "2026-03-02 10:00:{}.500\tnode-a:0\tolmo.train:816\tINFO\t",
        "[2026-03-02 10:00:{}] INFO     [olmo.train:816, rank=0] ",
    ],
)
def test_a_record_of_olmo_has_the_stamp_of_its_head_and_the_tokens_since_the_one_before(
    head: str,
) -> None:
    lines = [
        f"{head.format(10 + 2 * step)}[step={step}/40]\n    throughput/total{join}tokens={total}\n"
        f"    throughput/device/tokens_per_second=4,000"
        for step, join, total in ((1, "_", "65,536"), (2, " ", "131,072"), (3, "_", "196.6K"))
    ]
    found = records("olmo", *"\n".join(lines).split("\n"))
    assert [each.step_samples for each in found] == [None, 65_536, None]
    stamps = [each.stamp or 0.0 for each in found]
    assert [stamp - stamps[0] for stamp in stamps] == [0.0, 2.0, 4.0]


def test_the_stamp_of_detectron2_is_its_own_where_two_lines_run_together() -> None:
    line = (
        "[03/02 10:00:{0} d2.utils.events]:  eta: 0:10:00  iter: {0}  total_loss: 1.8  time: 0.5"
        "  last_time: 0.5  data_time: 0.01  lr: 0.02  max_mem: 4000M"
    )
    alone, *both = records("detectron2", line.format(20), line.format(39) + line.format(59))
    assert [(each.stamp or 0.0) - (alone.stamp or 0.0) for each in both] == [19.0, 39.0]


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("Resuming from /checkpoints/gsm8k/global_step_20", ["restart"]),
        ("Resuming from scratch: there is no global_step_20", []),
    ],
)
def test_verl_resumes_from_the_folder_of_a_step(line: str, kinds: list[str]) -> None:
    step = (
        "step:21 - actor/pg_loss:-0.010000 - perf/total_num_tokens:1000000"
        " - perf/time_per_step:50.000 - perf/throughput:2500.000"
    )
    found = items("verl", f"(TaskRunner pid=4711) {line}", f"(TaskRunner pid=4711) {step}")
    assert [mark.kind for mark in marks(found)] == kinds


def test_mlperf_s_blocks_that_begin_with_their_own_samples_count_those_of_the_block() -> None:
    lines = [
        f":::MLLOG {json.dumps({'time_ms': at, 'key': key, 'metadata': {'samples_count': count}})}"
        for block in (0, 1, 2)
        for key, at, count in (
            ("block_start", 10_000 * block, 640),
            ("block_stop", 10_000 * (block + 1), 640 * (block + 1)),
        )
    ]
    assert [one.rate for one in records("mlperf", *lines)] == [64.0, 64.0]


def test_llama_factory_s_time_is_that_of_its_tokens_and_mean_rate_where_the_clock_is_whole() -> (
    None
):
    lines = [
        json.dumps(
            {
                "current_steps": step,
                "total_steps": 9,
                "loss": 1.5,
                "elapsed_time": f"0:00:{int(2.6 * step):02}",
                "throughput": round(8192 / 2.6, 2),
                "total_tokens": 8192 * step,
            }
        )
        for step in (1, 2, 3)
    ]
    found = [one.seconds for one in records("llama-factory", *lines)]
    assert found == pytest.approx([2.6, 2.6], abs=0.001)
