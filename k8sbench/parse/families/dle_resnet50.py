"""NVIDIA DeepLearningExamples, image classification: ``train.total_ips`` is the WHOLE JOB's
images/s since the print before, data wait included; ``train.compute_ips`` leaves the wait out.

Iterations begin anew in each epoch, and its last few may be in no record. Lines that count
``Validation Iteration`` are none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from msgspec.structs import replace

from k8sbench.model.sample import Fact, Item, Mark, Record, Shape
from k8sbench.parse import stamps
from k8sbench.parse.family import LOSS, Family, Reader, facts, number, positive, rule

# The rate is a mean of the ranks' rates, which is above the job's where one of them stalls: up to
# 7 % on public logs of 8 GPUs.
SHAPE = Shape(
    name="dle-resnet50", number="rate", numbering="epoch", resolution=0.000001, strays=0.15
)

_RECORD = re.compile(
    r"DLL (?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) - "
    r"Epoch: (?P<epoch>\d{1,6}) Iteration: (?P<iteration>\d{1,12})  train\.loss : " + LOSS + r" "
    r"(?:(?!DLL ).)*?(?:train\.compute_ips : (?P<compute>\d+\.\d+) \w+/s "
    r"(?:(?!DLL ).)*?)?train\.total_ips : (?P<total>\d+\.\d+) (?:img|images)/s"
)
_VALIDATING = re.compile(
    r"Epoch: (?P<epoch>\d{1,6}) Iteration: (?P<iteration>\d{1,12}) Validation Iteration"
)
_EPOCH = re.compile(
    r"DLL (?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) - "
    r"(?P<what>Epoch: (?P<epoch>\d{1,6})|Summary:) (?P<rest> ?train\.loss .*)"
)
_RESUMED = re.compile(r"RUNNING EPOCHS FROM [1-9]\d* TO ")
_TOTAL = re.compile(r"train\.total_ips : (?P<value>\d+\.\d+)")
_TOP1 = re.compile(r"val\.top1 : (?P<value>\d+\.\d+) %")

_FACTS = (
    rule("PARAMETER", r" PARAMETER .*?\barch : (?P<model>\S+)", program="DeepLearningExamples"),
    rule("PARAMETER", r" PARAMETER .*? batch_size : (?P<batch_size>\d{1,12})"),
    rule("PARAMETER", r" PARAMETER .*?\bworld_size : (?P<gpus>\d{1,12})"),
    rule("PARAMETER", r" PARAMETER .*?\bprof : (?P<prof>\d{1,12})"),
    rule("PARAMETER", r" PARAMETER .*?\bprint_freq : (?P<log_interval>\d{1,12})"),
    rule("PARAMETER", r" PARAMETER .*?\b(?:amp|fp16) : True", precision="amp", amp_dtype="fp16"),
    rule("PARAMETER", r" PARAMETER .*?\bamp : False\b(?!.*\bfp16 : True)", no_amp="True"),
    rule("PARAMETER", r"\bdata_backend : (?:synth?etic|syntetic)\b", data="synthetic"),
)


class _Reader(Reader):
    def head(self, line: int, text: str, source: str) -> Iterator[Fact]:
        found = list(facts(_FACTS, line, text, source))
        names = {fact.name for fact in found}
        for fact in found:
            if fact.name == "prof":
                # --prof N stops before it prints iteration N.
                yield replace(fact, name="planned_iterations", value=str(int(fact.value) - 1))
            elif fact.name == "no_amp":
                if "precision" not in names:
                    yield replace(fact, name="precision", value="fp32")
            else:
                yield fact

    def read(self, line: int, text: str, source: str) -> Iterator[Item]:
        found = 0
        for match in _RECORD.finditer(text):
            stamp, epoch, iteration, loss, compute, total = match.groups()
            rate = float(total)
            if not 0 < rate < math.inf:
                continue
            found += 1
            without_data = positive(compute)
            yield Record(
                line=line,
                text=match[0],
                source=source,
                shape=SHAPE,
                epoch=int(epoch),
                iteration=int(iteration),
                rate=rate,
                loss=number(loss),
                waiting=None if without_data is None else max(1 - rate / without_data, 0.0),
                stamp=stamps.seconds(stamp),
            )
        if "Validation Iteration" in text and (validating := _VALIDATING.search(text)):
            yield Mark(
                line=line,
                text=validating[0],
                kind="evaluation",
                source=source,
                values={"iteration": float(validating["iteration"])},
            )
        elif text.count("train.loss") > found and (ended := _EPOCH.search(text)):
            yield from _epoch(line, source, ended)
        if "RUNNING EPOCHS" in text and (resumed := _RESUMED.search(text)):
            yield Mark(line=line, text=resumed[0], kind="restart", source=source)
        if "SAVING" in text:
            yield Mark(line=line, text=text, kind="checkpoint", source=source)
        if "Experiment ended" in text:
            yield Mark(line=line, text=text, kind="finished", source=source)


def _epoch(line: int, source: str, match: re.Match[str]) -> Iterator[Item]:
    total, top1 = _TOTAL.search(match["rest"]), _TOP1.search(match["rest"])
    if match["epoch"] is None:
        yield Mark(line=line, text=match[0], kind="finished", source=source)
        return
    if top1:
        yield Mark(line=line, text=match[0], kind="evaluation", source=source)
        value, stamp = top1["value"], match["stamp"]
        yield Reader.evaluation(
            line, source, match[0], "val.top1", value, stamp=stamp, percent=True
        )
    yield Mark(
        line=line,
        text=match[0],
        kind="epoch-end",
        source=source,
        values={
            "epoch": float(match["epoch"]),
            "records_rate": number(total["value"]) if total else None,
        },
    )


FAMILY = Family(
    name="dle-resnet50",
    title="NVIDIA DeepLearningExamples ResNet-50",
    framework="pytorch",
    unit="images/s",
    needles=(
        " Iteration: ",
        "train.loss",
        "RUNNING EPOCHS FROM",
        "SAVING ",
        "Experiment ended",
    ),
    reader=_Reader,
)
