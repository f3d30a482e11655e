"""Logs of timm's train.py.

The first time and rate of a line are of one step of the job; those in brackets are means since
the epoch began. Epochs and steps count from 0.
"""

from __future__ import annotations

from k8sbench.model.sample import Shape
from k8sbench.reader.family import (
    LOSS_NUMBER,
    EvaluationRule,
    Family,
    MarkRule,
    RecordRule,
    padded,
    rule,
)

_SHAPE = Shape(name="timm", number="rate", averaged="running", numbering="epoch", complete=False)
_RECORD = padded(
    r"Train: (?P<epoch>\d{1,6}) \[ *(?P<iteration>\d{1,12})/(?P<total>\d{1,12}) \( *\d+%\)\] +"
    rf"Loss: +{LOSS_NUMBER} \( *\S+\) +Time: +\d+\.\d+s, +\d+\.\d+/s +\( *"
    r"(?P<mean_seconds>\d+\.\d+)s, +(?P<rate>\d+\.\d+)/s\)"
    r"(?: +LR: \S+ +Data: +\d+\.\d+ \( *(?P<data_seconds>\d+\.\d+)\))?"
)
_TESTED = padded(r"Test: \[ *(\d+)/\1\] .*?Acc@1: +\S+ \( *(?P<value>\d+\.\d+)\)")

FAMILY = Family(
    name="timm",
    title="timm's train.py",
    framework="pytorch",
    unit="images/s",
    facts=(
        rule(" created, param count:", r"^Model (?P<model>\S+) created,", program="timm"),
        rule("a single process on 1 device (", r" device \((?P<device>cpu|cuda)", gpus="1"),
        rule(", total ", r"Process \d+, total (?P<gpus>\d+), device (?P<device>cpu|cuda)"),
        rule("global batch size (", r"global batch size \((?P<global_batch>\d+)\)"),
        rule("Scheduled epochs: ", r"Scheduled epochs: (?P<planned_epochs>\d{1,6})"),
        rule("AMP not enabled.", precision="fp32"),
        rule("Training in mixed precision.", precision="amp"),
    ),
    records=(RecordRule("Train: ", _RECORD, _SHAPE, first_iteration=0),),
    evaluations=(EvaluationRule("Test: [", _TESTED, "Acc@1", "%"),),
    marks=(
        MarkRule("Test: [", "evaluation"),
        MarkRule("Restoring model state from checkpoint", "restart"),
    ),
)
