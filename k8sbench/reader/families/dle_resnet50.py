"""Logs of NVIDIA DeepLearningExamples, image classification (ResNet-50).

``train.total_ips`` is the images/s of the WHOLE JOB since the print before, data wait included;
``train.compute_ips`` leaves the wait out.

Iterations begin anew in each epoch, and its last few may be in no record. Lines that count
``Validation Iteration`` are no records. ``raport.json`` has the same numbers as JSON, each line
behind ``DLLL``; its steps are ``[epoch, iteration]``, ``[epoch]`` and ``[]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from k8sbench.model.sample import Fact, Shape
from k8sbench.reader.family import (
    LOSS_NUMBER,
    EvaluationRule,
    FactRule,
    Family,
    MarkRule,
    RecordRule,
    padded,
    rule,
)
from k8sbench.reader.json_fields import JsonFields

_SHAPE = Shape(
    name="dle-resnet50",
    number="rate",
    numbering="epoch",
    resolution=0.000001,
    # The rate is a mean of the rates of ranks, and of steps where a line is of several: it is above
    # the job's where one of them stalls. 48 public logs: printed time ÷ time by the stamps is
    # 0.990–1.068.
    tolerance=0.15,
)

_STAMP = r"DLL (?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) - "
_RECORD = padded(
    _STAMP + r"Epoch: (?P<epoch>\d{1,6}) Iteration: (?P<iteration>\d{1,12})  "
    r"train\.loss : " + LOSS_NUMBER + r" "
    r"(?:(?!DLL ).)*?(?:train\.compute_ips : (?P<compute_rate>\d+\.\d+) \w+/s "
    r"(?:(?!DLL ).)*?)?train\.total_ips : (?P<rate>\d+\.\d+) (?:img|images)/s"
)
_EVALUATION = padded(_STAMP + r"Epoch: \d{1,6}  ?train\.loss .*?val\.top1 : (?P<value>\d+\.\d+) %")
_EPOCH = padded(
    r"Epoch: (?P<epoch>\d{1,6})  ?train\.loss (?:.*?train\.total_ips : (?P<records_rate>\d+\.\d+))?"
)
_VALIDATING = padded(r"Epoch: \d{1,6} Iteration: (?P<iteration>\d{1,12}) Validation Iteration")
_IS = r'(?: :|":) "?'
"""Between a parameter's name and its value, in either form."""


def _in_json(step: str, **paths: str) -> JsonFields:
    """Build a pattern for lines whose step has one, two or three numbers."""
    return JsonFields({"stamp": "datetime", **paths}, rf'"step": \[{step}\]')


_RECORD_IN_JSON = _in_json(
    r"\d+, \d+",
    epoch="step.0",
    iteration="step.1",
    loss="data.train.loss",
    compute_rate="data.train.compute_ips",
    rate="data.train.total_ips",
)
_EVALUATION_IN_JSON = _in_json(r"\d+", value="data.val.top1")
_EPOCH_IN_JSON = _in_json(r"\d+", epoch="step.0", records_rate="data.train.total_ips")
_VALIDATING_IN_JSON = _in_json(r"\d+, \d+, \d+", iteration="step.1")


def _parameter(pattern: str, **says: str) -> FactRule:
    return rule("PARAMETER", r"^(?:(?!\bPARAMETER\b).)*PARAMETER\b.*?\b" + pattern, **says)


def _derive(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    prof = stated.get("_prof")
    no_amp = stated.get("_no_amp")
    if prof is not None:
        # --prof N stops before it prints iteration N of an epoch.
        epochs = int(stated["_epochs"].value) if "_epochs" in stated else 1
        yield prof.like("planned_iterations", str(epochs * (int(prof.value) - 1)))
    if no_amp is not None and "precision" not in stated:
        yield no_amp.like("precision", "fp32")


FAMILY = Family(
    name="dle-resnet50",
    title="NVIDIA DeepLearningExamples ResNet-50",
    framework="pytorch",
    unit="images/s",
    facts=(
        _parameter(rf'arch{_IS}(?P<model>[^\s",]+)', program="DeepLearningExamples"),
        _parameter(rf"batch_size{_IS}(?P<batch_size>\d{{1,12}})"),
        _parameter(rf"world_size{_IS}(?P<gpus>\d{{1,12}})"),
        _parameter(rf"epochs{_IS}(?P<_epochs>\d{{1,6}})"),
        _parameter(rf"prof{_IS}(?P<_prof>\d{{1,12}})"),
        _parameter(rf"\bdata{_IS}/(?:[^\s\",]*/)?(?P<dataset>[^\s/\",]+)"),
        _parameter(rf"data_backend{_IS}(?P<data_backend>[\w-]+)"),
        _parameter(rf"print_freq{_IS}(?P<log_interval>\d{{1,12}})"),
        _parameter(rf"(?:amp|fp16){_IS}[Tt]rue", precision="amp", amp_dtype="fp16"),
        _parameter(rf"amp{_IS}[Ff]alse\b(?!.*\bfp16{_IS}[Tt]rue)", _no_amp="True"),
        _parameter(rf"memory_format{_IS}nchw\b", **{"option.channels_last": "False"}),
        _parameter(rf"memory_format{_IS}nhwc\b", **{"option.channels_last": "True"}),
        _parameter(rf"data_backend{_IS}(?:synth?etic|syntetic)\b", data="synthetic"),
    ),
    derive=_derive,
    records=(
        RecordRule(" Iteration: ", _RECORD, _SHAPE),
        RecordRule("DLLL {", _RECORD_IN_JSON, _SHAPE),
    ),
    evaluations=(
        EvaluationRule("val.top1 : ", _EVALUATION, "val.top1", "%"),
        EvaluationRule("DLLL {", _EVALUATION_IN_JSON, "val.top1", "%"),
    ),
    marks=(
        MarkRule("Validation Iteration", "evaluation", _VALIDATING),
        MarkRule("DLLL {", "evaluation", _VALIDATING_IN_JSON),
        MarkRule("train.loss", "epoch-end", _EPOCH),
        MarkRule("DLLL {", "epoch-end", _EPOCH_IN_JSON),
        MarkRule('"step": [], ', "finished"),
        MarkRule("Summary:", "finished", padded(r"- Summary:  ?train\.loss ")),
        MarkRule("RUNNING EPOCHS FROM", "restart", padded(r"RUNNING EPOCHS FROM [1-9]\d* TO ")),
        MarkRule("SAVING ", "checkpoint"),
        MarkRule("Experiment ended", "finished"),
    ),
)
