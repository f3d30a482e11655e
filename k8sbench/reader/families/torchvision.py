"""Logs of torchvision's references, and of programs that took over their MetricLogger.

DETR, DeiT, MAE, DINO and ConvNeXt did. ``time`` is the mean of the last 20 iterations of the epoch,
of the job. ``img/s`` is of one process, without the wait for data, and is not read.
"""

from __future__ import annotations

import re

from k8sbench.model.sample import Shape
from k8sbench.reader.family import EvaluationRule, Family, MarkRule, RecordRule, padded, rule

_SHAPE = Shape(
    name="torchvision",
    number="seconds",
    averaged="last",
    last=20,
    empties=True,
    numbering="epoch",
    first_epoch=None,
)
_RECORD = padded(
    r"\bEpoch: \[(?P<epoch>\d{1,6})(?:/\d+)?\] +"
    r"\[ *(?P<iteration>\d{1,12})/(?P<total>\d{1,12})\] +eta: "
    r"(?:(?=.*? loss: (?P<loss>[-+.\deE]+|nan))|).*? time: (?P<step_seconds>\d+\.\d+) +"
    r"data: (?P<data_seconds>\d+\.\d+)(?: +max mem: (?P<memory>\d+))?"
)
_EPOCH = padded(
    r"Epoch: \[(?P<epoch>\d{1,6})(?:/\d+)?\] Total time: [\d:]+ "
    r"\((?P<mean_seconds>\d+\.\d+) s / it\)"
)

FAMILY = Family(
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
            _RECORD,
            _SHAPE,
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
        MarkRule("s / it)", "epoch-end", _EPOCH),
        MarkRule("Training time ", "finished"),
    ),
)
