"""Logs of PaddleSeg.

``ips`` is samples/s of ONE card, a mean over the log interval, data wait included. Evaluations and
checkpoints lie between records, in the time of none. ``ips: 127.0.0.1`` is the launcher's list of
addresses and no rate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from k8sbench.model.sample import Fact, Shape
from k8sbench.parse.families.paddle import LAUNCH, gpus_of_job
from k8sbench.parse.family import (
    EvaluationRule,
    FactRule,
    Family,
    LineReader,
    MarkRule,
    assumed_fp32,
    rule,
)
from k8sbench.parse.lines import CleanLine
from k8sbench.parse.records import LOSS_NUMBER, RecordRule

SHAPE = Shape(name="paddleseg", number="rate", per="card", resolution=1.0)

_STAMP = r"(?:(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s+\[INFO\]\s*)?"
_RECORD = re.compile(
    _STAMP + r"\[TRAIN\] epoch[:=] ?(?P<epoch>\d{1,6}), "
    r"iter[:=] ?(?P<iteration>\d{1,12})/(?P<total>\d{1,12}), loss[:=] ?" + LOSS_NUMBER + r", "
    r"[^\[\]]*?batch_cost[:=] ?(?P<step_seconds>\d+\.\d+), "
    r"reader_cost[:=] ?(?P<data_seconds>\d+\.\d+), "
    r"(?:[^\[\]]*?, )??ips[:=] ?(?P<rate>\d+\.\d{4,}) ?(?:samples/s(?:ec)?)?(?=[\s|]|$)"
)
_EVALUATION = re.compile(_STAMP + r"\[EVAL\] [^\[\]]*?\bmIoU[:=] ?(?P<value>\d+\.\d+|nan)")
_SECTION = re.compile(r"^(?P<name>\w+):\s*$")
_MODEL = re.compile(r"^  type: (?P<model>\w+)\s*$")


LONGEST_SECTION = 1_000
"""Maximum lines of a section.

Another program's output under such a name may have no end.
"""


class _PaddlesegReader(LineReader):
    _section = ""
    _lines = 0
    """Lines of the section so far."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self.head_needles |= {"model:"}

    @property
    def reads_all(self) -> bool:
        return self._section == "model"

    def facts(self, line: CleanLine, rules: Sequence[FactRule]) -> Iterator[Fact]:
        yield from super().facts(line, rules)
        self._lines += 1
        if match := _SECTION.match(line.text):
            self._section, self._lines = match["name"], 0
        elif line.text.startswith("-----") or self._lines > LONGEST_SECTION:
            self._section = ""  # the end of the configuration
        elif self._section == "model" and (match := _MODEL.match(line.text)):
            yield line.fact("model", match["model"])


def _derive(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    yield from gpus_of_job(stated)
    # AMP is an option that no configuration holds: FP32 is no more than its default.
    yield from assumed_fp32(stated, "precision_default")


FAMILY = Family(
    name="paddleseg",
    title="PaddleSeg",
    framework="paddle",
    unit="samples/s",
    opening="Environment Information",
    facts=(
        rule("platform: ", r"^platform: (?P<platform>.+)"),
        rule("Python: ", r"^Python: (?P<python>\d[\d.]*)"),
        rule("cudnn: ", r"^cudnn: (?P<cudnn>[\d.]+)"),
        rule("GPUs used: ", r"^GPUs used: (?P<_gpus_program>\d{1,12})"),
        rule("GPU: ['GPU ", r"^GPU: \['GPU \d+: (?P<gpu_model>[^']+)'"),
        rule("PaddlePaddle: ", r"^PaddlePaddle: (?P<framework_version>\S+)", program="PaddleSeg"),
        rule("PaddleSeg: ", r"^PaddleSeg: (?P<program_version>\S+)"),
        rule("batch_size: ", r"^batch_size: (?P<batch_size>\d{1,12})"),
        rule("iters: ", r"^iters: (?P<planned_iterations>\d{1,12})"),
        rule("to train", r"(?i)use amp to train", precision="amp", amp_dtype="fp16"),
        rule("fp16", r"--precision[= ']+fp16|'--fp16'|--fp16\b", precision="amp", amp_dtype="fp16"),
        rule("--precision", r"--precision[= ',]+(?P<precision>fp32)\b"),
        rule("Config Information", _config="True"),
        *LAUNCH,
    ),
    late_facts=(rule("Total Params: ", r"Total Params: (?P<parameters>\d+)"),),
    derive=_derive,
    records=(RecordRule("[TRAIN] epoch", _RECORD, SHAPE),),
    evaluations=(EvaluationRule("[EVAL]", _EVALUATION, "mIoU"),),
    marks=(
        MarkRule("Start evaluating", "evaluation"),
        MarkRule("Resume model from", "restart"),
    ),
    make_reader=_PaddlesegReader,
)
