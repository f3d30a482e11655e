"""NVIDIA DeepLearningExamples, image classification: ``train.total_ips`` is the WHOLE JOB's
images/s since the print before, data wait included; ``train.compute_ips`` leaves the wait out.

Iterations begin anew in each epoch, and its last few may be in no record. Lines that count
``Validation Iteration`` are none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from k8sbench.model.sample import Fact, Shape
from k8sbench.parse.family import EvaluationRule, Family, MarkRule, rule
from k8sbench.parse.records import LOSS_NUMBER, RecordRule

# The rate is a mean of the rates of ranks, and of steps where a line is of several: it is above the
# job's where one of them stalls.
SHAPE = Shape(
    name="dle-resnet50",
    number="rate",
    numbering="epoch",
    averages_rates=True,
    resolution=0.000001,
)

_STAMP = r"DLL (?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) - "
_RECORD = re.compile(
    _STAMP + r"Epoch: (?P<epoch>\d{1,6}) Iteration: (?P<iteration>\d{1,12})  "
    r"train\.loss : " + LOSS_NUMBER + r" "
    r"(?:(?!DLL ).)*?(?:train\.compute_ips : (?P<compute_rate>\d+\.\d+) \w+/s "
    r"(?:(?!DLL ).)*?)?train\.total_ips : (?P<rate>\d+\.\d+) (?:img|images)/s"
)
_EVALUATION = re.compile(
    _STAMP + r"Epoch: \d{1,6}  ?train\.loss .*?val\.top1 : (?P<value>\d+\.\d+) %"
)
_EPOCH = re.compile(
    r"Epoch: (?P<epoch>\d{1,6})  ?train\.loss (?:.*?train\.total_ips : (?P<records_rate>\d+\.\d+))?"
)
_VALIDATING = re.compile(r"Epoch: \d{1,6} Iteration: (?P<iteration>\d{1,12}) Validation Iteration")


def _derive(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    prof, no_amp = stated.get("_prof"), stated.get("_no_amp")
    if prof is not None:
        # --prof N stops before it prints iteration N.
        yield prof.like("planned_iterations", str(int(prof.value) - 1))
    if no_amp is not None and "precision" not in stated:
        yield no_amp.like("precision", "fp32")


FAMILY = Family(
    name="dle-resnet50",
    title="NVIDIA DeepLearningExamples ResNet-50",
    framework="pytorch",
    unit="images/s",
    opening=" PARAMETER ",
    facts=(
        rule("PARAMETER", r" PARAMETER .*?\barch : (?P<model>\S+)", program="DeepLearningExamples"),
        rule("PARAMETER", r" PARAMETER .*? batch_size : (?P<batch_size>\d{1,12})"),
        rule("PARAMETER", r" PARAMETER .*?\bworld_size : (?P<gpus>\d{1,12})"),
        rule("PARAMETER", r" PARAMETER .*?\bprof : (?P<_prof>\d{1,12})"),
        rule("PARAMETER", r" PARAMETER .*?\bprint_freq : (?P<log_interval>\d{1,12})"),
        rule(
            "PARAMETER", r" PARAMETER .*?\b(?:amp|fp16) : True", precision="amp", amp_dtype="fp16"
        ),
        rule("PARAMETER", r" PARAMETER .*?\bamp : False\b(?!.*\bfp16 : True)", _no_amp="True"),
        rule("PARAMETER", r"\bmemory_format : nchw\b", **{"option.channels_last": "False"}),
        rule("PARAMETER", r"\bmemory_format : nhwc\b", **{"option.channels_last": "True"}),
        rule("PARAMETER", r"\bdata_backend : (?:synth?etic|syntetic)\b", data="synthetic"),
    ),
    derive=_derive,
    records=(RecordRule(" Iteration: ", _RECORD, SHAPE),),
    evaluations=(EvaluationRule("val.top1 : ", _EVALUATION, "val.top1", "%"),),
    marks=(
        MarkRule("Validation Iteration", "evaluation", _VALIDATING),
        MarkRule("train.loss", "epoch-end", _EPOCH),
        MarkRule("Summary:", "finished", re.compile(r"- Summary:  ?train\.loss ")),
        MarkRule("RUNNING EPOCHS FROM", "restart", re.compile(r"RUNNING EPOCHS FROM [1-9]\d* TO ")),
        MarkRule("SAVING ", "checkpoint"),
        MarkRule("Experiment ended", "finished"),
    ),
)
