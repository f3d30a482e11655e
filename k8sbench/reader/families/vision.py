"""Logs of reference programs: torchvision and its kin, detectron2, LeRobot, HugeCTR.

Each is a table of expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from k8sbench.model.sample import Item, Mark, Record, Shape
from k8sbench.reader.family import (
    EvaluationRule,
    Family,
    LineReader,
    LineRule,
    MarkRule,
    RecordRule,
    number_in,
    padded,
    rule,
)
from k8sbench.reader.lines import CleanLine

# torchvision's references, and the programs that took over their MetricLogger: DETR, DeiT, MAE,
# DINO, ConvNeXt.
#
# ``time`` is the mean of the last 20 iterations of the epoch, of the job. ``img/s`` is of one
# process, without the wait for data, and is not read.

_TORCHVISION_SHAPE = Shape(
    name="torchvision",
    number="seconds",
    averaged="last",
    last=20,
    empties=True,
    numbering="epoch",
    first_epoch=None,
)
_TORCHVISION_RECORD = padded(
    r"\bEpoch: \[(?P<epoch>\d{1,6})(?:/\d+)?\] +"
    r"\[ *(?P<iteration>\d{1,12})/(?P<total>\d{1,12})\] +eta: "
    r"(?:(?=.*? loss: (?P<loss>[-+.\deE]+|nan))|).*? time: (?P<step_seconds>\d+\.\d+) +"
    r"data: (?P<data_seconds>\d+\.\d+)(?: +max mem: (?P<memory>\d+))?"
)
_TORCHVISION_EPOCH = padded(
    r"Epoch: \[(?P<epoch>\d{1,6})(?:/\d+)?\] Total time: [\d:]+ "
    r"\((?P<mean_seconds>\d+\.\d+) s / it\)"
)

TORCHVISION = Family(
    name="torchvision",
    title="torchvision's references, DETR, DeiT, MAE",
    framework="pytorch",
    unit="images/s",
    facts=(
        rule("Namespace(", r"Namespace\(.*\bbatch_size=(?P<batch_size>\d+)"),
        rule("Namespace(", r"Namespace\(.*\bworld_size=(?P<gpus>\d+)"),
        rule("Namespace(", r"Namespace\(.*\bamp=True", precision="amp"),
        rule("Namespace(", r"Namespace\(.*\bepochs=(?P<planned_epochs>\d{1,6})"),
        rule("Not using distributed mode", gpus="1"),
    ),
    records=(
        RecordRule(
            "Epoch: [",
            _TORCHVISION_RECORD,
            _TORCHVISION_SHAPE,
            first_iteration=0,
            begins=re.compile(r"Epoch: \["),
        ),
    ),
    evaluations=(
        EvaluationRule(
            "Acc@1 ", re.compile(r"Test:.* Acc@1 (?P<value>\d+\.\d+) Acc@5"), "Acc@1", "%"
        ),
    ),
    marks=(
        MarkRule("Test: ", "evaluation"),
        # MAE's and ConvNeXt's; torchvision's and DETR's own programs are silent.
        MarkRule("Resume checkpoint ", "restart"),
        MarkRule("s / it)", "epoch-end", _TORCHVISION_EPOCH),
        MarkRule("Training time ", "finished"),
    ),
)

# detectron2.
#
# ``time`` is the mean of all iterations since the process began, without the first two and without
# evaluations and checkpoints. Iterations count from 0.

_DETECTRON_SHAPE = Shape(
    name="detectron2", number="seconds", averaged="running", skips=2, complete=False
)
_DETECTRON_RECORD = padded(
    r"\beta: .*?\biter: (?P<iteration>\d{1,12}) .*?\btotal_loss: (?P<loss>[-+.\deE]+|nan) "
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


DETECTRON2 = Family(
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
            _DETECTRON_RECORD,
            _DETECTRON_SHAPE,
            first_iteration=0,
            begins=re.compile(r"\beta: "),
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

# LeRobot.
#
# ``updt_s`` and ``data_s`` are means since the line before; a step is their sum. From a thousand
# steps on the step is rounded, and the samples are exact no longer.

_LEROBOT_SHAPE = Shape(name="lerobot", number="seconds", holds_events=False, resolution=1.0)
_LEROBOT_RECORD = padded(
    r"(?:INFO (?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) )?\S*:?\d* ?"
    r"\bstep:(?P<iteration>\d+)[KMB]? smpl:\S+ ep:\S+ epch:\S+ "
    r"loss:(?P<loss>[-+.\deE]+|nan) .*?\bupdt_s:(?P<update_seconds>\d+\.\d{3}) "
    r"data_s:(?P<data_seconds>\d+\.\d{3})"
)
_ROUNDED_STEP = padded(r"\bstep:\d+[KMB]")


def _lerobot(texts: dict[str, Any]) -> None:
    update = number_in(texts["update_seconds"])
    data = number_in(texts["data_seconds"])
    texts["step_seconds"] = (update or 0.0) + (data or 0.0)


class _LerobotReader(LineReader):
    """Counts the lines on from step 1000, from which on steps are rounded to thousands."""

    def __init__(self, family: Family) -> None:
        self._latest: dict[str, tuple[int, int]] = {}
        """Step of the latest line, and its distance to the line before, by rank."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        (record, *others) = super().rules()

        def read(line: CleanLine) -> Iterator[Item]:
            for found in record.read(line):
                if isinstance(found, Record):
                    yield self._counted(found)

        return [record._replace(read=read), *others]

    def _counted(self, record: Record) -> Record:
        before, distance = self._latest.get(record.source, (0, 0))
        step = record.iteration
        if _ROUNDED_STEP.search(record.text):
            step = before + distance
        self._latest[record.source] = (step, step - before)
        return msgspec.structs.replace(record, iteration=step)


LEROBOT = Family(
    name="lerobot",
    title="LeRobot",
    framework="pytorch",
    unit="samples/s",
    facts=(
        rule("Effective batch size", r"Effective batch size: .*= (?P<global_batch>\d+)"),
        rule("'batch_size': ", r"'batch_size': (?P<batch_size>\d+)"),
    ),
    records=(RecordRule(" updt_s:", _LEROBOT_RECORD, _LEROBOT_SHAPE, convert=_lerobot),),
    make_reader=_LerobotReader,
    marks=(
        MarkRule("Eval policy at step", "evaluation"),
        MarkRule("Checkpoint policy after step", "checkpoint"),
        MarkRule("End of training", "finished"),
    ),
)

# HugeCTR.
#
# ``Time(100 iters)`` is of all of them, which the label states, an evaluation before them included.

_HUGECTR_SHAPE = Shape(name="hugectr", number="seconds", holds_events=True)
_HUGECTR_RECORD = padded(
    r"\[(?:HCTR|HUGECTR)\].*?\bIter: (?P<iteration>\d{1,12}) "
    r"Time\((?P<steps>\d+) iters\): (?P<all_seconds>\d+\.\d+)s Loss: (?P<loss>[-+.\deE]+|nan)"
)


def _hugectr(texts: dict[str, Any]) -> None:
    steps = number_in(texts["steps"])
    texts["step_seconds"] = (number_in(texts["all_seconds"]) or 0.0) / steps if steps else None


HUGECTR = Family(
    name="hugectr",
    title="HugeCTR",
    framework="hugectr",
    unit="samples/s",
    facts=(
        rule("batchsize", r"\bGlobal batchsize:? (?P<global_batch>\d+)"),
        rule("global_batch_size", r'"key": "global_batch_size", "value": (?P<global_batch>\d+)'),
    ),
    records=(RecordRule("Time(", _HUGECTR_RECORD, _HUGECTR_SHAPE, convert=_hugectr),),
    marks=(MarkRule("Evaluation, ", "evaluation"), MarkRule("Eval Time for", "evaluation")),
    yields_to=(":::MLLOG",),
)
