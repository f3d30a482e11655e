"""Logs of PLSC, three generations; every figure is the WHOLE JOB's images/s.

v1 (2020) prints ``qps`` since the print before, of the time inside the executor alone: the wait
for data is left out, so its times do not add up to the clock. Every worker prints. v2.2 (2021)
prints ``throughput`` over the log interval, validation and checkpoints included. v2.4 (2023)
prints PaddleClas' lines with ``ips`` over the log interval, evaluations left out; where it
trains a classification, they are running means as PaddleClas' are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from k8sbench.model.sample import Fact, Item, Shape
from k8sbench.reader.families.paddle_launch import LAUNCH, gpus_of_job
from k8sbench.reader.families.paddleclas import DYGRAPH_LINE, SETTING, ConfigurationReader
from k8sbench.reader.family import (
    LOSS_NUMBER,
    EvaluationRule,
    FactRule,
    Family,
    LineRule,
    MarkRule,
    RecordRule,
    padded,
    rule,
)
from k8sbench.reader.lines import CleanLine

_V1 = Shape(name="plsc v1", number="rate", numbering="epoch", complete=False, resolution=0.001)
_V2 = Shape(
    name="plsc v2",
    number="rate",
    holds_events=True,
    resolution=0.001,
    # 6 public logs: printed time ÷ time by the stamps is 0.9999.
    tolerance=0.005,
)
# One log of 174 s, on a CPU: printed time ÷ time by the stamps is 1.0000.
_V24 = Shape(name="plsc v2.4", number="rate", numbering="epoch", first_epoch=1, resolution=1.0)
_V24_RUNNING = msgspec.structs.replace(_V24, averaged="running", skips=5, carries=True)

_STAMP = r"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})"
_V1_RECORD = padded(
    r"(?:" + _STAMP + r" [^:\]]*:?\d*\] ?)?"
    r"Pass:(?P<epoch>\d{1,6}) batch:(?P<iteration>\d{1,12}) lr:\S+ loss:" + LOSS_NUMBER + r" "
    r"qps:(?P<rate>\d+\.\d\d)(?!\d)"
)
_V2_RECORD = padded(
    r"(?:" + _STAMP + r" - )?loss " + LOSS_NUMBER + r", lr: \S+, epoch: \d+, "
    r"step: (?P<iteration>\d{1,12}), [^,]*?"
    r"(?:eta: [^,]*, )?throughput: (?P<rate>\d+\.\d+) imgs/s(?:ec)?"
)
# Under a newer Paddle each line comes again in the form of Paddle's own logger, without the name.
_V24_RECORD = padded(
    r"(?:\[(?P<stamp>\d{4}[-/]\d\d[-/]\d\d \d\d:\d\d:\d\d(?:,\d{3})?)\] )?(?:\[ *INFO\] )?"
    r"(?:plsc INFO: |logger\.py:\d+ - )" + DYGRAPH_LINE + "images/sec"
)
_ACCURACY = padded(
    r"(?:" + _STAMP + r" - )?\[(?P<subset>\w+)\]\[\d+\]Accuracy-Flip: (?P<value>\d+\.\d+)"
)
_ACCURACY_24 = padded(
    r"\[Eval\]\[Epoch \d+\]\[Avg\].*?\b(?P<metric>accuracy-flip|accuracy|top1): (?P<value>\d\.\d+)"
)


def _argument(key: str, value: str, **says: str) -> FactRule:
    """Build the rule for an argument of version 2, which prints one a line."""
    return rule(f" - {key}: ", rf"^Training: \S+ \S+ - {key}: {value}\s*$", **says)


def _setting(name: str, default: str, said: str, value: str) -> tuple[FactRule, FactRule]:
    """Build the rules for a setting of version 1: its default, and the line that changes it."""
    return (
        rule("entry.py:", rf"\]\s+{default}: (?P<_default_{name}>{value})\s*$"),
        rule("entry.py:", rf"\] Set {said} to (?P<_set_{name}>{value})\.$"),
    )


def _derive(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    yield from gpus_of_job(stated)
    for name in ("batch_size", "head", "classes"):
        if fact := stated.get(f"_set_{name}") or stated.get(f"_default_{name}"):
            yield fact.like(name, fact.value)


class _PlscReader(ConfigurationReader):
    """Reads the lines of version 2.4 by the task that the configuration states."""

    def rules(self) -> list[LineRule]:
        v1, v2, means, running, *others = super().rules()

        def read(line: CleanLine) -> Iterable[Item]:
            return (running if "_classifies" in self._stated else means).read(line)

        return [v1, v2, means._replace(read=read), *others]


FAMILY = Family(
    name="plsc",
    warmup=50,
    title="PLSC",
    framework="paddle",
    unit="images/s",
    facts=(
        rule("entry.py:", r"\bentry\.py:\d+\]", program="PLSC"),
        rule("=> ", r"total_batch_size: (?P<global_batch>\d{1,12})"),
        _argument("dataset", r"(?P<dataset>\S.*?)"),
        _argument("batch_size", r"(?P<batch_size>\S.*?)"),
        _argument("world_size", r"(?P<_gpus_program>\d{1,12})"),
        _argument("total_steps", r"(?P<planned_iterations>\S.*?)"),
        _argument("log_interval_step", r"(?P<log_interval>\S.*?)"),
        _argument("backbone", r"(?P<model>\S.*?)"),
        _argument("loss", r"(?P<head>\S.*?)"),
        _argument("num_classes", r"(?P<classes>\S.*?)"),
        _argument("sample_ratio", r"(?P<sample_ratio>\S.*?)"),
        _argument("classifier", r"\S.*?", program="PLSC", program_version="2"),
        _argument("fp16", "True", precision="amp", amp_dtype="fp16"),
        _argument("fp16", "False", precision="fp32"),
        _argument("use_synthetic_dataset", "True", data="synthetic"),
        _argument("use_synthetic_dataset", "False", data="real"),
        rule("entry.py:", r"\]\s+model_name: (?P<model>\S+)"),
        *_setting("batch_size", "train_batch_size", "train batch size", r"\d{1,12}"),
        *_setting("head", "loss_type", "loss_type", r"\w+"),
        *_setting("classes", "num_classes", "num_classes", r"\d{1,12}"),
        rule("num_trainers: ", r"trainer_id: \d+, num_trainers: (?P<_gpus_program>\d{1,12})"),
        rule("plsc INFO: ", program="PLSC", program_version="2"),
        rule("world_size : ", SETTING + r"\s+world_size : (?P<_gpus_program>\d{1,12})\s*$"),
        rule("class_num : ", SETTING + r"\s+class_num : (?P<classes>\d{1,12})\s*$"),
        rule("task_type : classification", _classifies="True"),
        rule("level : O0", precision="fp32"),
        rule("level : O", SETTING + r"\s+level : O[12]", precision="amp", amp_dtype="fp16"),
        rule(
            "train with paddle",
            r"train with paddle (?P<framework_version>\d[\d.]*\d)",
            program="PLSC",
        ),
        rule("device Place(cpu)", device="cpu"),
        *LAUNCH,
    ),
    derive=_derive,
    records=(
        RecordRule(" batch:", _V1_RECORD, _V1, first_iteration=0),
        RecordRule("throughput:", _V2_RECORD, _V2),
        RecordRule("[Train][Epoch ", _V24_RECORD, _V24, first_iteration=0),
        RecordRule("[Train][Epoch ", _V24_RECORD, _V24_RUNNING, first_iteration=0),
    ),
    evaluations=(
        EvaluationRule("Accuracy-Flip: ", _ACCURACY, "Accuracy-Flip"),
        EvaluationRule("[Eval][Epoch ", _ACCURACY_24, unit="fraction"),
    ),
    marks=(
        MarkRule("Save model to", "checkpoint"),
        MarkRule("[Eval][Epoch ", "evaluation"),
        MarkRule("Already save ", "checkpoint"),
        MarkRule("Finish load checkpoint from", "restart"),
    ),
    make_reader=_PlscReader,
)
