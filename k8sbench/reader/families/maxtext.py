"""Logs of MaxText: the seconds of each step, and the tokens of one device by them."""

from __future__ import annotations

from k8sbench.model.sample import Shape
from k8sbench.reader.family import (
    LOSS_NUMBER,
    NUMBER,
    Family,
    MarkRule,
    RecordRule,
    amp,
    padded,
    rule,
)

_SHAPE = Shape(name="maxtext", number="rate", per="card", averaged="step", complete=False)
_RECORD = padded(
    rf"completed step: (?P<iteration>\d{{1,12}}), seconds: (?P<step_seconds>{NUMBER}), "
    rf"TFLOP/s(?:/device)?: (?P<tflops>{NUMBER}), Tokens/s(?:/device)?: (?P<rate>{NUMBER}),"
    rf"(?:.*?\bloss: {LOSS_NUMBER})?"
)
_TIMED = padded(
    rf"completed step: (?P<iteration>\d{{1,12}}), seconds: (?P<step_seconds>{NUMBER}), "
    rf"TFLOP/s(?:/device)?: (?P<tflops>{NUMBER}), (?:loss: {LOSS_NUMBER})"
)

FAMILY = Family(
    name="maxtext",
    title="MaxText",
    framework="jax",
    unit="tokens/s",
    facts=(
        rule("Num_devices: ", r"Num_devices: (?P<gpus>\d+)"),
        rule("max_target_length: ", r"Config param max_target_length: (?P<sequence_length>\d+)"),
        rule("global_batch_size_to_train_on: ", r"to_train_on: (?P<global_batch>\d+)"),
        rule("Config param steps: ", r"Config param steps: (?P<planned_iterations>\d+)"),
        rule("Config param dtype: ", r"Config param dtype: bfloat16", **amp("bf16")),
        rule("Config param dtype: ", r"Config param dtype: float32", precision="fp32"),
    ),
    records=(
        RecordRule("completed step: ", _RECORD, _SHAPE, first_iteration=0),
        RecordRule(
            "completed step: ",
            _TIMED,
            Shape(name="maxtext 2023", number="seconds", averaged="step", complete=False),
            first_iteration=0,
        ),
    ),
    marks=(
        MarkRule("eval metrics after step", "evaluation"),
        MarkRule("saved a checkpoint at step", "checkpoint"),
    ),
    shares_samples=True,
)
