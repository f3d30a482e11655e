"""Logs of temporal-shift-module.

``Time v (a)`` is seconds of that one iteration and their running mean over the epoch, of the job.
The batch is in no line. A later version adds a stamp at the end. Every rank may print evaluations.
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

_SHAPE = Shape(
    name="tsm",
    number="seconds",
    averaged="running",
    numbering="epoch",
    resolution=0.000001,
    # 3 public logs: printed time ÷ time by the stamps is 1.0000–1.0009.
    tolerance=0.01,
    digit=0.001,
)

_RECORD = padded(
    r"Epoch: \[(?P<epoch>\d{1,6})\]\[\s*(?P<iteration>\d{1,12})/(?P<total>\d{1,12})\], lr: \S+\s+"
    r"Time\s+(?P<step_seconds>\d+\.\d+) \(\s*(?P<mean_seconds>\d+\.\d+)\)\s+"
    r"Data\s+\d+\.\d+ \(\s*(?P<data_seconds>\d+\.\d+)\)\s+"
    r"(?:Loss\s+" + LOSS_NUMBER + r" \(\s*\S+\))?"
    r"(?:\s+Prec@\d\s+\d+\.\d+ \(\s*\d+\.\d+\))*"
    r"(?:\s+(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+))?"
)
_RESULT = padded(r"Testing Results: Prec@1 (?P<value>\d+\.\d+) Prec@5 \d+\.\d+")

FAMILY = Family(
    name="tsm",
    warmup=100,
    title="temporal-shift-module",
    framework="pytorch",
    unit="clips/s",
    facts=(
        rule("storing name: ", r"storing name: (?P<model>\S+)", program="temporal-shift-module"),
        rule("storing name: ", r"storing name: \S*?_e(?P<planned_epochs>\d{1,6})(?:_|\s|$)"),
        rule("Initializing TSN with base model", program="temporal-shift-module"),
        rule("first_conv_weight", program="temporal-shift-module"),
    ),
    records=(RecordRule("Epoch: [", _RECORD, _SHAPE, first_iteration=0),),
    evaluations=(EvaluationRule("Testing Results:", _RESULT, "top-1", "%"),),
    marks=(
        MarkRule("Test: [", "evaluation"),
        MarkRule("Testing Results:", "evaluation"),
        MarkRule("=> loaded checkpoint", "restart"),
    ),
)
