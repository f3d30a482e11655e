"""Logs of DeepSpeed's engine.

The running average is the job's samples by the time in forward, backward and step since the
second step: loading, evaluations and checkpoints lie outside. Until 2022 the steps are those of
micro batches. The pipeline engine prints means since its line before.
"""

from __future__ import annotations

import msgspec

from k8sbench.model.sample import Shape
from k8sbench.reader.family import DATED, Family, MarkRule, RecordRule, amp, padded, rule

_SHAPE = Shape(
    name="deepspeed", number="rate", averaged="running", skips=2, complete=False, resolution=0.001
)
_MICRO_SHAPE = msgspec.structs.replace(
    _SHAPE, name="deepspeed by micro batch", counts_micro_batches=True
)
_STAMP = (
    r"(?:\[(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] \[INFO\] \[[\w.]+:\d+:\w+\] "
    r"(?:\[Rank \d+\] )?)?"
)
_RATE = (
    r"(?P<iteration>\d{1,12}), "
    r"(?:RunningAvgSamplesPerSec=(?=[-+.\de]+,)|SamplesPerSec=)(?P<rate>\d+\.\d+(?:e[-+]\d+)?)"
)
_PIPELINE_SHAPE = Shape(name="deepspeed pipeline", number="rate")
_PIPELINE_RECORD = padded(
    r"\bsteps: (?P<iteration>\d{1,12}) loss: (?P<loss>[-+.\deE]+|nan) "
    r"iter time \(s\): (?P<step_seconds>\d+\.\d+) samples/sec: (?P<rate>\d+\.\d+)"
)

FAMILY = Family(
    name="deepspeed",
    title="DeepSpeed's engine",
    framework="pytorch",
    unit="samples/s",
    facts=(
        rule("dist_world_size=", r"\bdist_world_size=(?P<gpus>\d+)"),
        rule("train_batch_size ..", r"\] +train_batch_size \.+ (?P<global_batch>\d+)$"),
        rule("train_batch_size ..", rf"^\[{DATED}\] .*\btrain_batch_size \.\."),
        rule("accumulation_steps ..", r"accumulation_steps \.+ (?P<accumulation>\d+)$"),
        rule("bfloat16_enabled ..", r"bfloat16_enabled \.+ True", **amp("bf16")),
        rule("fp16_enabled ..", r"fp16_enabled \.+ True", **amp("fp16")),
    ),
    records=(
        RecordRule(
            "global_step=", padded(rf"{_STAMP}epoch=\d+/micro_step=\d+/global_step={_RATE}"), _SHAPE
        ),
        RecordRule("SamplesPerSec=", padded(rf"{_STAMP}\b\d+/{_RATE}"), _MICRO_SHAPE),
        RecordRule("iter time (s): ", _PIPELINE_RECORD, _PIPELINE_SHAPE),
    ),
    marks=(MarkRule("Evaluating ", "evaluation"),),
    shares_samples=True,
    yields_to=(
        "{'loss': ",
        "using world size: ",
        "elapsed time per iteration",
        "|E2E latency=",
    ),
)
