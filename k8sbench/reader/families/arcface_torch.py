"""Logs of InsightFace's arcface_torch.

``Speed`` is the job's samples per second since the line before, with verifications and
checkpoints. The first interval has no line.
"""

from __future__ import annotations

from k8sbench.model.sample import Shape
from k8sbench.reader.family import LOSS_NUMBER, EvaluationRule, Family, RecordRule, padded, rule

_SHAPE = Shape(
    name="arcface-torch",
    number="rate",
    holds_events=True,
    begins_late=True,
    resolution=0.001,
    # 2 public logs of few lines: printed time ÷ time by the stamps is 0.999–1.001.
    tolerance=0.02,
)
_RECORD = padded(
    r"Training: (?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})-Speed (?P<rate>\d+\.\d+) "
    rf"samples/sec +Loss {LOSS_NUMBER}(?: +LearningRate \d+\.\d+)? +Epoch: \d+ +"
    r"Global Step: (?P<iteration>[1-9]\d{0,11}) +[FR]"
)
_VERIFIED = padded(r"\[(?P<subset>\w+)\]\[\d+\]Accuracy-Flip: (?P<value>\d\.\d+)\+-")

FAMILY = Family(
    name="arcface-torch",
    title="InsightFace's arcface_torch",
    framework="pytorch",
    unit="images/s",
    facts=(
        rule(": network ", r": network +(?P<model>\S+)", program="arcface_torch"),
        rule(": batch_size ", r": batch_size +(?P<batch_size>\d+)"),
        rule(": total_batch_size ", r": total_batch_size +(?P<global_batch>\d+)"),
        rule(": total_step ", r": total_step +(?P<planned_iterations>\d+)"),
        rule(": fp16 ", r": fp16 +True", precision="amp", amp_dtype="fp16"),
        rule(": fp16 ", r": fp16 +False", precision="fp32"),
    ),
    records=(RecordRule("-Speed ", _RECORD, _SHAPE),),
    evaluations=(EvaluationRule("Accuracy-Flip", _VERIFIED, "Accuracy-Flip", "fraction"),),
)
