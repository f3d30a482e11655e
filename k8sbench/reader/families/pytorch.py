"""Logs of PyTorch programs: TSM, InsightFace, timm, NVIDIA's ResNet-50.

Each is a table of expressions; none needs a reader of its own.
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

# Logs of temporal-shift-module.
#
# ``Time v (a)`` is seconds of that one iteration and their running mean over the epoch, of the job.
# The batch is in no line. A later version adds a stamp at the end. Every rank may print
# evaluations.

_TSM_SHAPE = Shape(
    name="tsm", number="seconds", averaged="running", numbering="epoch", resolution=0.000001
)

_TSM_RECORD = padded(
    r"Epoch: \[(?P<epoch>\d{1,6})\]\[\s*(?P<iteration>\d{1,12})/(?P<total>\d{1,12})\], lr: \S+\s+"
    r"Time\s+(?P<step_seconds>\d+\.\d+) \(\s*(?P<mean_seconds>\d+\.\d+)\)\s+"
    r"Data\s+\d+\.\d+ \(\s*(?P<data_seconds>\d+\.\d+)\)\s+"
    r"(?:Loss\s+" + LOSS_NUMBER + r" \(\s*\S+\))?"
    r"(?:\s+Prec@\d\s+\d+\.\d+ \(\s*\d+\.\d+\))*"
    r"(?:\s+(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+))?"
)
_TSM_RESULT = padded(r"Testing Results: Prec@1 (?P<value>\d+\.\d+) Prec@5 \d+\.\d+")

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
    evaluations=(EvaluationRule("Testing Results:", _TSM_RESULT, "top-1", "%"),),
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
_ARCFACE_RECORD = padded(
    r"Training: (?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})-Speed (?P<rate>\d+\.\d+) "
    rf"samples/sec +Loss {LOSS_NUMBER}(?: +LearningRate \d+\.\d+)? +Epoch: \d+ +"
    r"Global Step: (?P<iteration>[1-9]\d{0,11}) +[FR]"
)
_ARCFACE_VERIFIED = padded(r"\[(?P<subset>\w+)\]\[\d+\]Accuracy-Flip: (?P<value>\d\.\d+)\+-")

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
_TIMM_RECORD = padded(
    r"Train: (?P<epoch>\d{1,6}) \[ *(?P<iteration>\d{1,12})/(?P<total>\d{1,12}) \( *\d+%\)\] +"
    rf"Loss: +{LOSS_NUMBER} \( *\S+\) +Time: +\d+\.\d+s, +\d+\.\d+/s +\( *"
    r"(?P<mean_seconds>\d+\.\d+)s, +(?P<rate>\d+\.\d+)/s\)"
    r"(?: +LR: \S+ +Data: +\d+\.\d+ \( *(?P<data_seconds>\d+\.\d+)\))?"
)
_TIMM_TESTED = padded(r"Test: \[ *(\d+)/\1\] .*?Acc@1: +\S+ \( *(?P<value>\d+\.\d+)\)")

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
    marks=(
        MarkRule("Test: [", "evaluation"),
        MarkRule("Restoring model state from checkpoint", "restart"),
    ),
)

# Logs of NVIDIA DeepLearningExamples, image classification.
#
# ``train.total_ips`` is the WHOLE JOB's images/s since the print before, data wait included;
# ``train.compute_ips`` leaves the wait out.
#
# Iterations begin anew in each epoch, and its last few may be in no record. Lines that count
# ``Validation Iteration`` are none. ``raport.json`` has the same as JSON, each line behind
# ``DLLL``; its steps are ``[epoch, iteration]``, ``[epoch]`` and ``[]``.

# The rate is a mean of the rates of ranks, and of steps where a line is of several: it is above the
# job's where one of them stalls.
_DLE_SHAPE = Shape(
    name="dle-resnet50",
    number="rate",
    numbering="epoch",
    resolution=0.000001,
)

_DLE_STAMP = r"DLL (?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) - "
_DLE_RECORD = padded(
    _DLE_STAMP + r"Epoch: (?P<epoch>\d{1,6}) Iteration: (?P<iteration>\d{1,12})  "
    r"train\.loss : " + LOSS_NUMBER + r" "
    r"(?:(?!DLL ).)*?(?:train\.compute_ips : (?P<compute_rate>\d+\.\d+) \w+/s "
    r"(?:(?!DLL ).)*?)?train\.total_ips : (?P<rate>\d+\.\d+) (?:img|images)/s"
)
_DLE_EVALUATION = padded(
    _DLE_STAMP + r"Epoch: \d{1,6}  ?train\.loss .*?val\.top1 : (?P<value>\d+\.\d+) %"
)
_DLE_EPOCH = padded(
    r"Epoch: (?P<epoch>\d{1,6})  ?train\.loss (?:.*?train\.total_ips : (?P<records_rate>\d+\.\d+))?"
)
_DLE_VALIDATING = padded(r"Epoch: \d{1,6} Iteration: (?P<iteration>\d{1,12}) Validation Iteration")
_IS = r'(?: :|":) "?'
"""Between a parameter's name and its value, in either form."""


def _in_json(step: str, **paths: str) -> JsonFields:
    """Build a pattern for lines whose step has one, two or three numbers."""
    return JsonFields({"stamp": "datetime", **paths}, rf'"step": \[{step}\]')


_DLE_RECORD_IN_JSON = _in_json(
    r"\d+, \d+",
    epoch="step.0",
    iteration="step.1",
    loss="data.train.loss",
    compute_rate="data.train.compute_ips",
    rate="data.train.total_ips",
)
_DLE_EVALUATION_IN_JSON = _in_json(r"\d+", value="data.val.top1")
_DLE_EPOCH_IN_JSON = _in_json(r"\d+", epoch="step.0", records_rate="data.train.total_ips")
_DLE_VALIDATING_IN_JSON = _in_json(r"\d+, \d+, \d+", iteration="step.1")


def _parameter(pattern: str, **says: str) -> FactRule:
    return rule("PARAMETER", r"\bPARAMETER\b.*?\b" + pattern, **says)


def _derive(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    prof = stated.get("_prof")
    no_amp = stated.get("_no_amp")
    if prof is not None:
        # --prof N stops before it prints iteration N of an epoch.
        epochs = int(stated["_epochs"].value) if "_epochs" in stated else 1
        yield prof.like("planned_iterations", str(epochs * (int(prof.value) - 1)))
    if no_amp is not None and "precision" not in stated:
        yield no_amp.like("precision", "fp32")


DLE_RESNET50 = Family(
    name="dle-resnet50",
    title="NVIDIA DeepLearningExamples ResNet-50",
    framework="pytorch",
    unit="images/s",
    opening=" PARAMETER ",
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
        RecordRule(" Iteration: ", _DLE_RECORD, _DLE_SHAPE),
        RecordRule("DLLL {", _DLE_RECORD_IN_JSON, _DLE_SHAPE),
    ),
    evaluations=(
        EvaluationRule("val.top1 : ", _DLE_EVALUATION, "val.top1", "%"),
        EvaluationRule("DLLL {", _DLE_EVALUATION_IN_JSON, "val.top1", "%"),
    ),
    marks=(
        MarkRule("Validation Iteration", "evaluation", _DLE_VALIDATING),
        MarkRule("DLLL {", "evaluation", _DLE_VALIDATING_IN_JSON),
        MarkRule("train.loss", "epoch-end", _DLE_EPOCH),
        MarkRule("DLLL {", "epoch-end", _DLE_EPOCH_IN_JSON),
        MarkRule('"step": [], ', "finished"),
        MarkRule("Summary:", "finished", padded(r"- Summary:  ?train\.loss ")),
        MarkRule("RUNNING EPOCHS FROM", "restart", padded(r"RUNNING EPOCHS FROM [1-9]\d* TO ")),
        MarkRule("SAVING ", "checkpoint"),
        MarkRule("Experiment ended", "finished"),
    ),
)
