"""PaddleSeg: ``ips`` is samples/s of ONE card, a mean over the log interval, data wait included.

Evaluations and checkpoints lie between records, in the time of none. ``ips: 127.0.0.1`` is the
launcher's list of addresses and no rate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sbench.model.sample import Fact, Item, Mark, Record, Shape
from k8sbench.parse import stamps
from k8sbench.parse.families.paddle import PaddleReader
from k8sbench.parse.family import LOSS, Family, Reader, facts, number, positive, rule, share

SHAPE = Shape(name="paddleseg", number="rate", per="card", resolution=1.0)

_RECORD = re.compile(
    r"(?:(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s+\[INFO\]\s*)?"
    r"\[TRAIN\] epoch[:=] ?\d+, iter[:=] ?(?P<iteration>\d{1,12})/(?P<total>\d{1,12}), loss[:=] ?"
    + LOSS
    + r", [^\[\]]*?batch_cost[:=] ?(?P<cost>\d+\.\d+), reader_cost[:=] ?(?P<data>\d+\.\d+), "
    r"(?:[^\[\]]*?, )??ips[:=] ?(?P<ips>\d+\.\d{4,}) ?(?:samples/s(?:ec)?)?(?=[\s|]|$)"
)
_EVALUATION = re.compile(
    r"(?:(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s+\[INFO\]\s*)?"
    r"\[EVAL\] [^\[\]]*?\bmIoU[:=] ?(?P<value>\d+\.\d+|nan)"
)
_PARAMETERS = re.compile(r"Total Params: (?P<value>\d+)")

_FACTS = (
    rule("platform: ", r"^platform: (?P<platform>.+)"),
    rule("Python: ", r"^Python: (?P<python>\d[\d.]*)"),
    rule("cudnn: ", r"^cudnn: (?P<cudnn>[\d.]+)"),
    rule("GPUs used: ", r"^GPUs used: (?P<gpus>\d{1,12})"),
    rule("GPU: ['GPU ", r"^GPU: \['GPU \d+: (?P<gpu_model>[^']+)'"),
    rule("PaddlePaddle: ", r"^PaddlePaddle: (?P<framework_version>\S+)", program="PaddleSeg"),
    rule("PaddleSeg: ", r"^PaddleSeg: (?P<program_version>\S+)"),
    rule("batch_size: ", r"^batch_size: (?P<batch_size>\d{1,12})"),
    rule("iters: ", r"^iters: (?P<planned_iterations>\d{1,12})"),
    rule("to train", r"(?i)use amp to train", precision="amp", amp_dtype="fp16"),
    rule("fp16", r"--precision[= ']+fp16|'--fp16'|--fp16\b", precision="amp", amp_dtype="fp16"),
    rule("--precision", r"--precision[= ',]+(?P<precision>fp32)\b"),
    rule("Config Information", config="True"),
)
_SECTION = re.compile(r"^(?P<name>\w+):\s*$")
_MODEL = re.compile(r"^  type: (?P<model>\w+)\s*$")


class _Reader(PaddleReader):
    def __init__(self) -> None:
        super().__init__()
        self._section = ""
        self._config: Fact | None = None
        self._precision = False

    def head(self, line: int, text: str, source: str) -> Iterator[Fact]:
        for fact in facts(_FACTS, line, text, source):
            if fact.name == "config":
                self._config = fact
            else:
                self._precision |= fact.name == "precision"
                yield fact
        yield from super().head(line, text, source)
        if match := _SECTION.match(text):
            self._section = match["name"]
        elif self._section == "model" and (match := _MODEL.match(text)):
            yield Fact(line=line, text=text, name="model", value=match["model"], source=source)

    def settle(self) -> Iterator[Fact]:
        yield from super().settle()
        if self._config and not self._precision:
            at = self._config
            yield Fact(line=at.line, text=at.text, name="precision_assumed", value="fp32")

    def read(self, line: int, text: str, source: str) -> Iterator[Item]:
        for match in _RECORD.finditer(text):
            stamp, iteration, total, loss, cost, data, ips = match.groups()
            rate = positive(ips)
            if rate is None:
                continue
            seconds = positive(cost)
            yield Record(
                line=line,
                text=match[0],
                source=source,
                shape=SHAPE,
                iteration=int(iteration),
                total=int(total),
                rate=rate,
                seconds=seconds,
                loss=number(loss),
                waiting=share(number(data), seconds),
                stamp=None if stamp is None else stamps.seconds(stamp),
            )
        if "[EVAL]" in text:
            for match in _EVALUATION.finditer(text):
                stamp, value = match.groups()
                yield Reader.evaluation(line, source, match[0], "mIoU", value, stamp=stamp)
        if "Resume model from" in text:
            yield Mark(line=line, text=text, kind="restart", source=source)
        if "Start evaluating" in text:
            yield Mark(line=line, text=text, kind="evaluation", source=source)
        if "Total Params: " in text and (counted := _PARAMETERS.search(text)):
            yield Fact(
                line=line, text=counted[0], name="parameters", value=counted["value"], source=source
            )


FAMILY = Family(
    name="paddleseg",
    title="PaddleSeg",
    framework="paddle",
    unit="samples/s",
    needles=("[TRAIN] epoch", "[EVAL]", "Start evaluating", "Resume model from", "Total Params: "),
    reader=_Reader,
)
