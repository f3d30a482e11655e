"""Logs of detectron2.

``time`` is the mean of all iterations since the process began, without the first two and without
evaluations and checkpoints. Iterations count from 0.
"""

from __future__ import annotations

import msgspec

from k8sbench.model.sample import Item, Mark, Record, Shape
from k8sbench.reader.family import (
    UNDATED_SPAN,
    Family,
    LineReader,
    MarkRule,
    RecordRule,
    padded,
    rule,
)
from k8sbench.reader.lines import CleanLine

_SHAPE = Shape(
    name="detectron2",
    number="seconds",
    averaged="running",
    skips=2,
    complete=False,
    resolution=1.0,
    wraps=UNDATED_SPAN,
)
_STAMP = r"(?:(?P<stamp>\d\d/\d\d \d\d:\d\d:\d\d) [\w.]{1,64}\]: )?"
_RECORD = padded(
    _STAMP + r"\beta: .*?\biter: (?P<iteration>\d{1,12}) "
    r".*?\btotal_loss: (?P<loss>[-+.\deE]+|nan) "
    r".*?\btime: (?P<mean_seconds>\d+\.\d+) .*?\bdata_time: (?P<data_seconds>\d+\.\d+)"
    r"(?:.*?\bmax_mem: (?P<memory>\d+)M)?"
)


class _DetectronReader(LineReader):
    def __init__(self, family: Family) -> None:
        self._begin = 0
        """Iterations before the process began."""
        super().__init__(family)

    def read(self, line: CleanLine) -> list[Item]:
        items = super().read(line)
        for place, item in enumerate(items):
            if isinstance(item, Mark) and item.kind == "restart":
                self._begin = int(item.number("iteration") or 0)
            elif isinstance(item, Record):
                items[place] = msgspec.structs.replace(item, mean_begin=self._begin)
        return items


FAMILY = Family(
    name="detectron2",
    title="detectron2",
    framework="pytorch",
    unit="images/s",
    facts=(
        rule("World size: ", r"Rank of current process: \d+\. World size: (?P<gpus>\d+)"),
        rule("IMS_PER_BATCH: ", r"^ *IMS_PER_BATCH: (?P<global_batch>\d+)"),
        rule("MAX_ITER: ", r"^ *MAX_ITER: (?P<planned_iterations>\d+)"),
    ),
    records=(
        RecordRule(
            " iter: ",
            _RECORD,
            _SHAPE,
            first_iteration=0,
            begins=padded(rf"{_STAMP}\beta: "),
        ),
    ),
    make_reader=_DetectronReader,
    marks=(
        MarkRule(
            "Starting training from iteration ",
            "restart",
            padded(r"Starting training from iteration (?P<iteration>[1-9]\d{0,11})"),
        ),
        MarkRule("Start inference on", "evaluation"),
        MarkRule("Saving checkpoint to", "checkpoint"),
        MarkRule("Overall training speed: ", "finished"),
    ),
)
