"""Logs of PaddleClas, in its three shapes. All figures are ONE card's.

2020 prints ``elapse … ips`` and its documentation calls them those of that step. From 2021 on
``batch_cost … ips`` are running means since step 5 of the epoch, and begin anew in each epoch.
The dygraph engine prints the same numbers in lines of another form; its means begin anew at
step 5 alone, so an epoch's first line goes on from the last one of the epoch before. The time
of the switch to the next epoch is in no record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from k8sbench.model.sample import Fact, Shape
from k8sbench.reader.families.paddle_launch import LAUNCH, gpus_of_job
from k8sbench.reader.family import (
    EvaluationRule,
    Family,
    LineReader,
    MarkRule,
    RecordRule,
    assumed_fp32,
    padded,
    rule,
)
from k8sbench.reader.lines import CleanLine

DYGRAPH_LINE = (
    r"\[Train\]\[Epoch (?P<epoch>\d{1,6})/(?P<epochs>\d{1,6})\]"
    r"\[Iter: ?(?P<iteration>\d{1,12})/(?P<total>\d{1,12})\](?P<middle>(?:(?!\[Train\]).)*?)"
    r"batch_cost: (?P<step_seconds>\d+\.\d+) ?s, "
    r"reader_cost: (?P<data_seconds>\d+\.\d+)(?: ?s)?, ips: (?P<rate>\d+\.\d{5,}) ?"
)
"""Training line of PaddleClas' newer engine and plsc 2.4, without unit."""

# -- configuration --------------------------------------------------------------------------------
#
# PaddleClas and plsc 2.4 print it as sections: ``[2023/07/28 06:42:45] ppcls INFO:     Train : ``.
# Paddle's own logger, which prints plsc's lines again on stderr, names the file in place of the
# program: ``[2026-11-25 09:22:11,141] [    INFO] logger.py:80 -     Train : ``.

SETTING = r"(?:INFO:|\blogger\.py:\d+ -)"
"""Expression for what stands in front of a setting."""
_MODEL = padded(SETTING + r" (?P<section>ARCHITECTURE|Arch|Model) : ")
_NAME = padded(SETTING + r"\s+name : (?P<model>\S+)")
_LOADER = padded(SETTING + r"\s+(?P<section>Train|Eval|Infer|TRAIN|VALID) : *$")
_BATCH = padded(SETTING + r"\s+batch_size : (?P<batch>\d{1,12})\s*$")
_BATCH_OF = {"Train": "batch_size", "TRAIN": "global_batch"}
"""Section → what its batch is of: of 2020's, all cards together."""
_CONFIGURED = "ARCHITECTURE Arch Model Train Eval Infer TRAIN VALID batch_size name"


class ConfigurationReader(LineReader):
    """Reads model and batch from the sections of a printed configuration."""

    _names_model = False
    _section = ""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self.head_needles |= {f"{name} : " for name in _CONFIGURED.split()}

    def facts(self, line: CleanLine) -> Iterator[Fact]:
        """Apply the rules, then the sections."""
        yield from super().facts(line)
        model, loader = _MODEL.search(line.text), _LOADER.search(line.text)
        if section := model or loader:
            self.open(f"{section['section']} : ")
        if model:
            self._names_model = True
        elif self._names_model and (match := _NAME.search(line.text)):
            self._names_model = False
            yield line.fact("model", match["model"])
        if loader:
            self._section = loader["section"]
        elif self._section in _BATCH_OF and (match := _BATCH.search(line.text)):
            yield line.fact(_BATCH_OF[self._section], match["batch"])
            self._section = ""


# -- training lines and evaluations ----------------------------------------------------------------

_SHAPE = Shape(
    name="paddleclas",
    number="seconds",
    per="card",
    averaged="running",
    skips=5,
    numbering="epoch",
    resolution=1.0,
    # 34 public logs: up to 1.6 s in 554 s, which is their stamps; printed time ÷ time by the stamps
    # is 0.998–1.001 in logs of more than 200 s.
    tolerance=0.01,
)
_STEP = msgspec.structs.replace(
    _SHAPE, name="paddleclas 2020", number="rate", averaged="step", complete=False
)
_DYGRAPH_SHAPE = msgspec.structs.replace(
    _SHAPE, name="paddleclas dygraph", first_epoch=1, carries=True
)

_STAMP = r"(?:\[?(?P<stamp>\d{4}[-/]\d\d[-/]\d\d \d\d:\d\d:\d\d)\]? (?:\w+ )?INFO: )?"
_BEGIN = (
    _STAMP + r"epoch:(?P<epoch>\d{1,6})\s+(?:, )?train step:(?P<iteration>\d{1,12})\s"
    # What stands between differs by generation; another record's beginning must not.
    r"(?P<middle>(?:(?!epoch:).)*?)"
)
_RATE = r"ips: (?P<rate>\d+\.\d{5,}) ?(?:\w+/s(?:ec)?\b)?"
_RECORD = padded(
    _BEGIN + r"batch_cost: (?P<step_seconds>\d+\.\d+) ?s, "
    r"reader_cost: (?P<data_seconds>\d+\.\d+) ?s, " + _RATE
)
_STEP_RECORD = padded(_BEGIN + r"elapse: (?P<step_seconds>\d+\.\d+)s?,? " + _RATE)
# plsc 2.4 prints lines of this form with other figures: the whole job's.
_DYGRAPH_RECORD = padded(_STAMP + r"(?<!plsc INFO: )(?<!\d - )" + DYGRAPH_LINE)
# The newer line's own ips is that of another batch: only its times are used.
_END_TIMES = padded(
    r"END epoch:(?P<epoch>\d{1,6})\s+train\s.*?batch_cost: (?P<mean_seconds>\d+\.\d+) ?s"
    r".*?batch_cost_sum: (?P<sum_seconds>\d+\.\d+) ?s"
)
_END_RATES = padded(
    r"END epoch:(?P<epoch>\d{1,6})\s+train\s"
    r".*?elapse_sum: (?P<sum_seconds>\d+\.\d+)s?\s*ips: (?P<mean_rate>\d+\.\d+)"
)
_END_EVALUATION = padded(
    _STAMP + r"END epoch:\d{1,6}\s+(?:valid|eval)\s.*?\btop1:\s+(?P<value>\d+\.\d+)"
)
_EVALUATION = padded(_STAMP + r"\[Eval\]\[Epoch \d+\]\[Avg\].*?\btop1: (?P<value>\d+\.\d+)")


def _derive(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    yield from gpus_of_job(stated)
    # The AMP section is printed where it is set, and may still switch AMP off; pure fp16 is
    # switched by a setting of its own.
    if "_amp_off" in stated and "_half" not in stated:
        yield stated["_amp_off"].like("precision", "fp32")
    elif setting := stated.get("_half") or stated.get("_amp_section"):
        yield setting.like("precision", "amp")
        yield setting.like("amp_dtype", "fp16")
    else:
        yield from assumed_fp32(stated)


FAMILY = Family(
    name="paddleclas",
    title="PaddleClas",
    framework="paddle",
    unit="images/s",
    facts=(
        rule("PaddleClas is powered by", program="PaddleClas", _config="True"),
        rule("AMP : ", r"INFO:\s+AMP : ", _amp_section="True"),
        rule("use_amp : False", _amp_off="True"),
        rule("fp16 : True", r"use_(?:pure_)?fp16 : True", _half="True"),
        rule("num_shards", r"num_shards: (?P<_gpus_program>\d{1,12})\b"),
        # Unless they are as many as the strategy is for.
        rule("number of gpu", r"the number of gpus? is (?P<_gpus_program>\d{1,12}) in current"),
        rule("train with paddle", r"and device (?:CPUPlace|Place\(cpu\))", device="cpu"),
        rule(
            "PaddlePaddle", r"\bPaddlePaddle(?: version)?[: ]+(?P<framework_version>\d+\.\d+\.\d+)"
        ),
        *LAUNCH,
    ),
    derive=_derive,
    records=(
        RecordRule("batch_cost: ", _RECORD, _SHAPE, first_iteration=0),
        RecordRule("elapse: ", _STEP_RECORD, _STEP, first_iteration=0),
        RecordRule("[Train][Epoch ", _DYGRAPH_RECORD, _DYGRAPH_SHAPE, first_iteration=0),
    ),
    evaluations=(
        EvaluationRule("END epoch:", _END_EVALUATION, "top1"),
        EvaluationRule("[Eval][Epoch ", _EVALUATION, "top1"),
    ),
    marks=(
        MarkRule("END epoch:", "epoch-end", _END_TIMES),
        MarkRule("END epoch:", "epoch-end", _END_RATES),
        MarkRule("END epoch:", "evaluation", padded(r"END epoch:\d{1,6}\s+(?:valid|eval)\s")),
        MarkRule("valid step:", "evaluation"),
        MarkRule("[Eval][Epoch ", "evaluation"),
        MarkRule("save model in", "checkpoint"),
        MarkRule("Finish load checkpoints from", "restart"),
    ),
    make_reader=ConfigurationReader,
)
