"""Logs of PaddleSeg.

``ips`` is samples/s of ONE card, a mean over the log interval, data wait included. Evaluations
and checkpoints lie between records, in the time of none. ``ips: 127.0.0.1`` is the launcher's
list of addresses and no rate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from k8sbench.model.sample import Fact, Shape
from k8sbench.reader.families.paddle_launch import LAUNCH, gpus_of_job
from k8sbench.reader.family import (
    LOSS_NUMBER,
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

_SHAPE = Shape(
    name="paddleseg",
    number="rate",
    per="card",
    resolution=1.0,
    # 32 public logs: within one second each; printed time ÷ time by the stamps is 0.997–1.004 in
    # logs of more than 100 s. The program prints no checkpoints.
    tolerance=0.02,
)

# Its newer logger writes ``[2024/10/18 17:05:06] INFO: ``.
_STAMP = r"(?:\[?(?P<stamp>\d{4}[-/]\d\d[-/]\d\d \d\d:\d\d:\d\d)\]?\s+(?:\[INFO\]|INFO:)\s*)?"
_RECORD = padded(
    _STAMP + r"\[TRAIN\] epoch[:=] ?(?P<epoch>\d{1,6}), "
    r"iter[:=] ?(?P<iteration>\d{1,12})/(?P<total>\d{1,12}), loss[:=] ?" + LOSS_NUMBER + r", "
    r"[^\[\]]*?batch_cost[:=] ?(?P<step_seconds>\d+\.\d+), "
    r"reader_cost[:=] ?(?P<data_seconds>\d+\.\d+), "
    r"(?:[^\[\]]*?, )??ips[:=] ?(?P<rate>\d+\.\d{4,}) ?(?:samples/s(?:ec)?)?(?=[\s|,]|$)"
    r"(?:, max_mem_reserved: \d+ MB, max_mem_allocated: (?P<memory>\d+) MB)?"
)
_EVALUATION = padded(_STAMP + r"\[EVAL\] [^\[\]]*?\bmIoU[:=] ?(?P<value>\d+\.\d+|nan)")
_MODEL = re.compile(r"^  type: (?P<model>\w+)\s*$")


class _PaddlesegReader(LineReader):
    """Reads the model: the first type of the configuration's section ``model``."""

    _in_model = False

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self.head_needles |= {"model:", "  type: "}

    def facts(self, line: CleanLine) -> Iterator[Fact]:
        yield from super().facts(line)
        self._in_model |= line.text.rstrip() == "model:"
        if self._in_model and (match := _MODEL.match(line.text)):
            self._in_model = False
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
    facts=(
        rule("platform: ", r"^platform: (?P<platform>.+)"),
        rule("Python: ", r"^Python: (?P<python>\d[\d.]*)"),
        rule("cudnn: ", r"^cudnn: (?P<cudnn>[\d.]+)"),
        rule("GPUs used: ", r"^GPUs used: (?P<_gpus_program>\d{1,12})"),
        rule("GPU: ['GPU ", r"^GPU: \['GPU \d+: (?P<gpu_model>[^']+)'"),
        rule("PaddlePaddle: ", r"^PaddlePaddle: (?P<framework_version>\S+)", program="PaddleSeg"),
        rule("PaddleSeg: ", r"^PaddleSeg: (?P<program_version>\S+)"),
        rule("batch_size: ", r"^batch_size: (?P<batch_size>\d{1,12})"),
        rule("dataset_root: ", r"^ +dataset_root: (?:\S*/)?(?P<dataset>[^\s/]+)/?$"),
        rule("iters: ", r"^iters: (?P<planned_iterations>\d{1,12})"),
        rule("to train", r"(?i)use amp to train", precision="amp", amp_dtype="fp16"),
        rule("fp16", r"--precision[= ']+fp16|'--fp16'|--fp16\b", precision="amp", amp_dtype="fp16"),
        rule("--precision", r"--precision[= ',]+(?P<precision>fp32)\b"),
        rule("Config Information", _config="True"),
        *LAUNCH,
    ),
    late_facts=(rule("Total Params: ", r"Total Params: (?P<parameters>\d+)"),),
    derive=_derive,
    records=(RecordRule("[TRAIN] epoch", _RECORD, _SHAPE),),
    evaluations=(EvaluationRule("[EVAL]", _EVALUATION, "mIoU"),),
    marks=(
        MarkRule("Start evaluating", "evaluation"),
        MarkRule("Resume model from", "restart"),
    ),
    make_reader=_PaddlesegReader,
)
