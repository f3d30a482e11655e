"""Logs without a training line: what they are of, and what to do."""

import pytest

from k8sbench.catalog.measure_options import MeasureOptions
from k8sbench.model.errors import InputError
from tests.reader.measuring.support import Lines, judged, measured

MMCV, MMENGINE = (
    f"2026{mark}03{mark}02 10:00:00{rest} - INFO - "
    for mark, rest in (("-", ",000 - mmdet"), ("/", " - mmengine"))
)
SAVED = "Saving checkpoint at {} epochs"
HOOKS = ["default_hooks = dict(", "    logger=dict(interval=100, type='LoggerHook'))"]
SHORT = [SAVED.format(1), "Epoch(val) [1][5/5]    coco/bbox_mAP: 0.7"]
TEST = ["Epoch(test) [50/500]    time: 0.1", "Epoch(test) [500/500]    accuracy/top1: 75.0"]
UNREADABLE = "Epoch(train)  [1][100/137]  lr: 1e-02  eta: 0:01:00  time: 0  data_time: 0  loss: 1"


def mmengine(*lines: str) -> list[str]:
    return ["    MMEngine: 0.10.7", *HOOKS, *(MMENGINE + line for line in lines)]


@pytest.mark.parametrize(
    ("lines", "says", "action"),
    [
        (
            [
                "log_config = dict(interval=50, hooks=[dict(type='TextLoggerHook')])",
                *(MMCV + SAVED.format(epoch) for epoch in (1, 2)),
                MMCV + "Epoch(val) [2][5]\tbbox_mAP: 0.7000",
            ],
            "its epochs are shorter than its log interval, 50 iterations.",
            "The log is complete.",
        ),
        (
            mmengine(*SHORT),
            "its epochs are shorter than its log interval, 100 iterations.",
            "The log is complete.",
        ),
        (
            [MMENGINE + line for line in SHORT],
            "has evaluations or checkpoints, and no training line.",
            "If it is complete, it is of a test, or its epochs are shorter than its log interval",
        ),
        (mmengine(*TEST), "is the log of a test.", "Measure the log of a training."),
        ([MMENGINE + TEST[0]], "is the log of a test.", "Measure the log of a training."),
        (mmengine(SHORT[0], UNREADABLE, SHORT[1]), "no training line of any family", "Check that"),
        (mmengine("Config:"), "no training line of any family", "Check that"),
    ],
    ids=["mmcv", "mmengine", "no header", "a test", "its line", "lines not read", "no event"],
)
def test_a_log_of_evaluations_alone_names_the_log_interval(
    lines: list[str], says: str, action: str
) -> None:
    with pytest.raises(InputError) as caught:
        judged([Lines(lines)], MeasureOptions())
    assert says in caught.value.message
    assert caught.value.action.startswith(action)


def test_a_program_around_another_is_named_whose_lines_are_not_used() -> None:
    around = "|E2E latency=4.00s |Gather latency=0.00s (0.00%) |CurSamplesPerSec=16.00"
    inner = "epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=64.0, MemAllocated=1GB"
    for lines, is_named in (([around, inner], True), ([around], False)):
        with pytest.raises(InputError) as raised:
            measured(lines, format="deepspeed", gpus=8, batch_size=None)
        assert ("|E2E latency=" in raised.value.message) is is_named
