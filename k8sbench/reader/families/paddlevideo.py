"""Logs of PaddleVideo.

``ips`` is clips/s of ONE card, of that single step; one step in twenty is printed. The mean over
all steps stands in the line that ends an epoch.
"""

from __future__ import annotations

from k8sbench.model.sample import Shape
from k8sbench.reader.families.paddle_launch import LAUNCH, gpus_of_job
from k8sbench.reader.family import (
    UNDATED_SPAN,
    EvaluationRule,
    Family,
    MarkRule,
    RecordRule,
    padded,
    rule,
)

_SHAPE = Shape(
    name="paddlevideo",
    number="rate",
    per="card",
    averaged="step",
    numbering="epoch",
    first_epoch=1,
    complete=False,
    resolution=1.0,
    wraps=UNDATED_SPAN,
)

_RECORD = padded(
    r"(?:\[(?P<stamp>\d\d/\d\d \d\d:\d\d:\d\d)\]\s+)?"
    r"epoch:\[\s*(?P<epoch>\d{1,6})/\d+\s*\]\s*train step:(?P<iteration>\d{1,12})\s+"
    # In January 2021 the loss stood behind the times; before and after, in front of them.
    r"(?=(?P<middle>(?:(?!epoch:).)*?ips: ))(?:(?!epoch:).)*?"
    r"(?:elapse|batch_cost): (?P<step_seconds>\d+\.\d+)(?: ?s(?:ec)?,?)?\s+"
    r"(?:reader|reader_cost): (?P<data_seconds>\d+\.\d+)(?: ?s(?:ec)?,?)?\s*"
    r"(?:(?!epoch:|ips: ).)*?ips: (?P<rate>\d+\.\d{5,}) ?(?:instance/s(?:ec)?)?"
)
_END = padded(
    r"END epoch:(?P<epoch>\d{1,6})\s+train\s.*?"
    r"(?:elapse_avg|batch_cost_avg|avg_batch_cost|batch_cost): \d+\.\d+"
    r"(?:.*?(?:elapse_sum|batch_cost_sum): (?P<sum_seconds>\d+\.\d+))?"
    r".*?ips: (?P<all_steps_rate>\d+\.\d+)"
)
_EVALUATION = padded(r"END epoch:\d{1,6}\s+val\s.*?\btop1_avg: (?P<value>\d+\.\d+)")

FAMILY = Family(
    name="paddlevideo",
    title="PaddleVideo",
    framework="paddle",
    unit="clips/s",
    facts=(
        rule("/PaddleVideo/", program="PaddleVideo"),
        rule("<paddlevideo.", program="PaddleVideo"),
        rule("batch_size : ", r"\bbatch_size : (?P<batch_size>\d{1,12})\s*$"),
        rule("--amp", r"(?:^|\s|')--amp\b", precision="amp", amp_dtype="fp16"),
        rule("Training in amp mode, ", precision="amp", amp_dtype="fp16"),
        rule("Training in fp32 mode.", precision="fp32"),
        rule("GradScaler", precision="amp", amp_dtype="fp16"),
        rule("loss_scaler.py", precision="amp", amp_dtype="fp16"),
        *LAUNCH,
    ),
    derive=gpus_of_job,
    records=(RecordRule("train step:", _RECORD, _SHAPE, first_iteration=0),),
    evaluations=(EvaluationRule("END epoch:", _EVALUATION, "top1"),),
    marks=(
        MarkRule("END epoch:", "epoch-end", _END),
        MarkRule("END epoch:", "evaluation", padded(r"END epoch:\d{1,6}\s+val\s")),
        MarkRule("val step:", "evaluation"),
    ),
)
