"""Logs of small training programs: TSM, InsightFace, timm, PaddleVideo.

Each is a table of expressions; none needs code of its own.
"""

from __future__ import annotations

import re

from k8sbench.model.sample import Shape
from k8sbench.parse.families.paddle import LAUNCH, gpus_of_job
from k8sbench.parse.family import EvaluationRule, Family, MarkRule, rule
from k8sbench.parse.records import LOSS_NUMBER, UNDATED_SPAN, RecordRule

# Logs of temporal-shift-module.
#
# ``Time v (a)`` is seconds of that one iteration and their running mean over the epoch, of the job.
# The batch is in no line. A later version adds a stamp at the end. Every rank may print
# evaluations.

_TSM_SHAPE = Shape(
    name="tsm", number="seconds", averaged="running", numbering="epoch", resolution=0.000001
)

_TSM_RECORD = re.compile(
    r"Epoch: \[(?P<epoch>\d{1,6})\]\[\s*(?P<iteration>\d{1,12})/(?P<total>\d{1,12})\], lr: \S+\s+"
    r"Time\s+(?P<step_seconds>\d+\.\d+) \(\s*(?P<mean_seconds>\d+\.\d+)\)\s+"
    r"Data\s+\d+\.\d+ \(\s*(?P<data_seconds>\d+\.\d+)\)\s+"
    r"(?:Loss\s+" + LOSS_NUMBER + r" \(\s*\S+\))?"
    r"(?:\s+Prec@\d\s+\d+\.\d+ \(\s*\d+\.\d+\))*"
    r"(?:\s+(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+))?"
)
_TSM_RESULT = re.compile(r"Testing Results: Prec@1 (?P<value>\d+\.\d+) Prec@5 \d+\.\d+")

TSM = Family(
    name="tsm",
    warmup=100,
    title="temporal-shift-module",
    framework="pytorch",
    unit="clips/s",
    opening="storing name: ",
    facts=(
        rule("storing name: ", r"storing name: (?P<model>\S+)", program="temporal-shift-module"),
        rule("storing name: ", r"storing name: \S*?_e(?P<planned_epochs>\d{1,6})(?:_|\s|$)"),
        rule("Initializing TSN with base model", program="temporal-shift-module"),
        rule("first_conv_weight", program="temporal-shift-module"),
    ),
    records=(RecordRule("Epoch: [", _TSM_RECORD, _TSM_SHAPE, first_iteration=0),),
    evaluations=(EvaluationRule("Testing Results:", _TSM_RESULT, "Prec@1", "%"),),
    marks=(
        MarkRule("Test: [", "evaluation"),
        MarkRule("Testing Results:", "evaluation"),
        MarkRule("=> loaded checkpoint", "restart"),
    ),
)

# Logs of InsightFace's arcface_torch.
#
# ``Speed`` is the job's samples per second since the line before, with verifications and
# checkpoints. The first interval has no line.

_ARCFACE_SHAPE = Shape(
    name="arcface-torch", number="rate", holds_events=True, begins_late=True, resolution=0.001
)
_ARCFACE_RECORD = re.compile(
    r"Training: (?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})-Speed (?P<rate>\d+\.\d+) "
    rf"samples/sec +Loss {LOSS_NUMBER}(?: +LearningRate \d+\.\d+)? +Epoch: \d+ +"
    r"Global Step: (?P<iteration>[1-9]\d{0,11}) +[FR]"
)
_ARCFACE_VERIFIED = re.compile(r"\[(?P<subset>\w+)\]\[\d+\]Accuracy-Flip: (?P<value>\d\.\d+)\+-")

ARCFACE_TORCH = Family(
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
    records=(RecordRule("-Speed ", _ARCFACE_RECORD, _ARCFACE_SHAPE),),
    evaluations=(EvaluationRule("Accuracy-Flip", _ARCFACE_VERIFIED, "Accuracy-Flip", "fraction"),),
)

# Logs of timm's train.py.
#
# The first time and rate of a line are of one step of the job; those in brackets are means since
# the epoch began. Epochs and steps count from 0.

_TIMM_SHAPE = Shape(
    name="timm", number="rate", averaged="running", numbering="epoch", complete=False
)
_TIMM_RECORD = re.compile(
    r"Train: (?P<epoch>\d{1,6}) \[ *(?P<iteration>\d{1,12})/(?P<total>\d{1,12}) \( *\d+%\)\] +"
    rf"Loss: +{LOSS_NUMBER} \( *\S+\) +Time: +\d+\.\d+s, +\d+\.\d+/s +\( *"
    r"(?P<mean_seconds>\d+\.\d+)s, +(?P<rate>\d+\.\d+)/s\)"
    r"(?: +LR: \S+ +Data: +\d+\.\d+ \( *(?P<data_seconds>\d+\.\d+)\))?"
)
_TIMM_TESTED = re.compile(r"Test: \[ *(\d+)/\1\] .*?Acc@1: +\S+ \( *(?P<value>\d+\.\d+)\)")

TIMM = Family(
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
    records=(RecordRule("Train: ", _TIMM_RECORD, _TIMM_SHAPE, first_iteration=0),),
    evaluations=(EvaluationRule("Test: [", _TIMM_TESTED, "Acc@1", "%"),),
    marks=(MarkRule("Test: [", "evaluation"),),
)

# Logs of PaddleVideo.
#
# ``ips`` is clips/s of ONE card, of that single step; one step in twenty is printed. The mean over
# all steps stands in the line that ends an epoch.

_VIDEO_SHAPE = Shape(
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

_VIDEO_RECORD = re.compile(
    r"(?:\[(?P<stamp>\d\d/\d\d \d\d:\d\d:\d\d)\]\s+)?"
    r"epoch:\[\s*(?P<epoch>\d{1,6})/\d+\s*\]\s*train step:(?P<iteration>\d{1,12})\s+"
    # In January 2021 the loss stood behind the times; before and after, in front of them.
    r"(?=(?P<middle>(?:(?!epoch:).)*?ips: ))(?:(?!epoch:).)*?"
    r"(?:elapse|batch_cost): (?P<step_seconds>\d+\.\d+)(?: ?s(?:ec)?,?)?\s+"
    r"(?:reader|reader_cost): (?P<data_seconds>\d+\.\d+)(?: ?s(?:ec)?,?)?\s*"
    r"(?:(?!epoch:|ips: ).)*?ips: (?P<rate>\d+\.\d{5,}) ?(?:instance/s(?:ec)?)?"
)
_VIDEO_END = re.compile(
    r"END epoch:(?P<epoch>\d{1,6})\s+train\s.*?"
    r"(?:elapse_avg|batch_cost_avg|avg_batch_cost|batch_cost): \d+\.\d+"
    r"(?:.*?(?:elapse_sum|batch_cost_sum): (?P<sum_seconds>\d+\.\d+))?"
    r".*?ips: (?P<all_steps_rate>\d+\.\d+)"
)
_VIDEO_EVALUATION = re.compile(r"END epoch:\d{1,6}\s+val\s.*?\btop1_avg: (?P<value>\d+\.\d+)")

PADDLEVIDEO = Family(
    name="paddlevideo",
    title="PaddleVideo",
    framework="paddle",
    unit="clips/s",
    facts=(
        rule("/PaddleVideo/", program="PaddleVideo"),
        rule("<paddlevideo.", program="PaddleVideo"),
        rule("batch_size : ", r"\bbatch_size : (?P<batch_size>\d{1,12})\s*$"),
        rule("--amp", r"(?:^|\s|')--amp\b", precision="amp", amp_dtype="fp16"),
        rule("GradScaler", precision="amp", amp_dtype="fp16"),
        rule("loss_scaler.py", precision="amp", amp_dtype="fp16"),
        *LAUNCH,
    ),
    derive=gpus_of_job,
    records=(RecordRule("train step:", _VIDEO_RECORD, _VIDEO_SHAPE, first_iteration=0),),
    evaluations=(EvaluationRule("END epoch:", _VIDEO_EVALUATION, "top1"),),
    marks=(
        MarkRule("END epoch:", "epoch-end", _VIDEO_END),
        MarkRule("END epoch:", "evaluation", re.compile(r"END epoch:\d{1,6}\s+val\s")),
        MarkRule("val step:", "evaluation"),
    ),
)
