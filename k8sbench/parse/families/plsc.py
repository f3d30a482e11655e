"""PLSC, both versions; every figure is the WHOLE JOB's images/s.

v1 (2020) prints ``qps`` since the print before, of the time inside the executor alone: the wait
for data is left out, so its times do not add up to the clock. Every worker prints. v2.2 (2021)
prints ``throughput`` over the log interval, validation and checkpoints included.
"""

from __future__ import annotations

import re

from k8sbench.model.sample import Shape
from k8sbench.parse.families.paddle import LAUNCH, PLSC_24, gpus_of_job
from k8sbench.parse.family import EvaluationRule, FactRule, Family, MarkRule, rule
from k8sbench.parse.records import LOSS_NUMBER, RecordRule

V1 = Shape(name="plsc v1", number="rate", numbering="epoch", complete=False, resolution=0.001)
V2 = Shape(name="plsc v2", number="rate", holds_events=True, resolution=0.001)

_STAMP = r"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})"
_V1 = re.compile(
    r"(?:" + _STAMP + r" [^:\]]*:?\d*\] ?)?"
    r"Pass:(?P<epoch>\d{1,6}) batch:(?P<iteration>\d{1,12}) lr:\S+ loss:" + LOSS_NUMBER + r" "
    r"qps:(?P<rate>\d+\.\d\d)(?!\d)"
)
_V2 = re.compile(
    r"(?:" + _STAMP + r" - )?loss " + LOSS_NUMBER + r", lr: \S+, epoch: \d+, "
    r"step: (?P<iteration>\d{1,12}), [^,]*?"
    r"(?:eta: [^,]*, )?throughput: (?P<rate>\d+\.\d+) imgs/s(?:ec)?"
)
_ACCURACY = re.compile(
    r"(?:" + _STAMP + r" - )?\[(?P<subset>\w+)\]\[\d+\]Accuracy-Flip: (?P<value>\d+\.\d+)"
)


def _argument(key: str, value: str, **says: str) -> FactRule:
    """Version 2 prints its arguments and what follows from them, one a line."""
    return rule(f" - {key}: ", rf"^Training: \S+ \S+ - {key}: {value}\s*$", **says)


FAMILY = Family(
    name="plsc",
    warmup=50,
    title="PLSC",
    framework="paddle",
    unit="images/s",
    opening="--------args----------",
    facts=(
        rule("entry.py:", r"\bentry\.py:\d+\]", program="PLSC"),
        rule("=> ", r"total_batch_size: (?P<global_batch>\d{1,12})"),
        _argument("batch_size", r"(?P<batch_size>\S.*?)"),
        _argument("world_size", r"(?P<_gpus_program>\d{1,12})"),
        _argument("total_steps", r"(?P<planned_iterations>\S.*?)"),
        _argument("log_interval_step", r"(?P<log_interval>\S.*?)"),
        _argument("backbone", r"(?P<model>\S.*?)"),
        _argument("loss", r"(?P<head>\S.*?)"),
        _argument("num_classes", r"(?P<classes>\S.*?)"),
        _argument("sample_ratio", r"(?P<sample_ratio>\S.*?)"),
        _argument("classifier", r"\S.*?", program="PLSC"),
        _argument("fp16", "True", precision="amp", amp_dtype="fp16"),
        _argument("fp16", "False", precision="fp32"),
        _argument("use_synthetic_dataset", "True", data="synthetic"),
        _argument("use_synthetic_dataset", "False", data="real"),
        *LAUNCH,
    ),
    derive=gpus_of_job,
    records=(
        RecordRule(" batch:", _V1, V1, first_iteration=0),
        RecordRule("throughput:", _V2, V2),
    ),
    evaluations=(EvaluationRule("Accuracy-Flip: ", _ACCURACY, "Accuracy-Flip"),),
    marks=(MarkRule("Save model to", "checkpoint"), PLSC_24),
)
