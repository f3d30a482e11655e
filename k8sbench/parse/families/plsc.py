"""PLSC, both versions; every figure is the WHOLE JOB's images/s.

v1 (2020) prints ``qps`` since the print before, of the time inside the executor alone: the wait
for data is left out, so its times do not add up to the clock. Every worker prints. v2.2 (2021)
prints ``throughput`` over the log interval, validation and checkpoints included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sbench.model.sample import Fact, Item, Mark, Record, Shape
from k8sbench.parse import stamps
from k8sbench.parse.families.paddle import PaddleReader
from k8sbench.parse.family import LOSS, Family, Reader, facts, number, positive, rule

V1 = Shape(name="plsc v1", number="rate", numbering="epoch", complete=False, resolution=0.001)
V2 = Shape(name="plsc v2", number="rate", holds_events=True, resolution=0.001)

_STAMP = r"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})"
_V1 = re.compile(
    r"(?:" + _STAMP + r" [^:\]]*:?\d*\] ?)?"
    r"Pass:(?P<epoch>\d{1,6}) batch:(?P<batch>\d{1,12}) lr:\S+ loss:" + LOSS + r" "
    r"qps:(?P<qps>\d+\.\d\d)(?!\d)"
)
_V2 = re.compile(
    r"(?:" + _STAMP + r" - )?"
    r"loss " + LOSS + r", lr: \S+, epoch: \d+, step: (?P<step>\d{1,12}), [^,]*?"
    r"(?:eta: [^,]*, )?throughput: (?P<rate>\d+\.\d+) imgs/s(?:ec)?"
)
_ACCURACY = re.compile(
    r"(?:" + _STAMP + r" - )?\[(?P<subset>\w+)\]\[\d+\]Accuracy-Flip: (?P<value>\d+\.\d+)"
)

# v2 prints its arguments and what follows from them, one a line.
_ARGUMENT = re.compile(r"^Training: \S+ \S+ - (?P<key>\w+): (?P<value>\S.*?)\s*$")
_ARGUMENTS = {
    "batch_size": "batch_size",
    "world_size": "gpus",
    "total_steps": "planned_iterations",
    "backbone": "model",
    "loss": "head",
    "num_classes": "classes",
    "sample_ratio": "sample_ratio",
}
_FACTS = (
    rule("entry.py:", r"\bentry\.py:\d+\]", program="PLSC"),
    rule("=> ", r"total_batch_size: (?P<global_batch>\d{1,12})"),
)


class _Reader(PaddleReader):
    def head(self, line: int, text: str, source: str) -> Iterator[Fact]:
        yield from facts(_FACTS, line, text, source)
        yield from super().head(line, text, source)
        if not text.startswith("Training: ") or not (match := _ARGUMENT.match(text)):
            return

        def fact(name: str, value: str) -> Fact:
            return Fact(line=line, text=text, name=name, value=value, source=source)

        key, value = match["key"], match["value"]
        if key in _ARGUMENTS:
            yield fact(_ARGUMENTS[key], value)
        elif key == "fp16":
            yield fact("precision", "amp" if value == "True" else "fp32")
            if value == "True":
                yield fact("amp_dtype", "fp16")
        elif key == "use_synthetic_dataset":
            yield fact("data", "synthetic" if value == "True" else "real")
        elif key == "classifier":
            yield fact("program", "PLSC")

    def read(self, line: int, text: str, source: str) -> Iterator[Item]:
        if "qps:" in text:
            for match in _V1.finditer(text):
                if (rate := positive(match["qps"])) is not None:
                    yield Record(
                        line=line,
                        text=match[0],
                        source=source,
                        shape=V1,
                        epoch=int(match["epoch"]),
                        iteration=int(match["batch"]) + 1,
                        rate=rate,
                        loss=number(match["loss"]),
                        stamp=_stamp(match),
                    )
        if "throughput:" in text:
            for match in _V2.finditer(text):
                if (rate := positive(match["rate"])) is not None:
                    yield Record(
                        line=line,
                        text=match[0],
                        source=source,
                        shape=V2,
                        iteration=int(match["step"]),
                        rate=rate,
                        loss=number(match["loss"]),
                        stamp=_stamp(match),
                    )
        if "Accuracy-Flip: " in text:
            for match in _ACCURACY.finditer(text):
                yield Mark(line=line, text=match[0], kind="evaluation", source=source)
                stamp, subset, value = match.groups()
                yield Reader.evaluation(
                    line, source, match[0], "Accuracy-Flip", value, stamp=stamp, subset=subset
                )
        if "Save model to" in text:
            yield Mark(line=line, text=text, kind="checkpoint", source=source)


def _stamp(match: re.Match[str]) -> float | None:
    stamp = match["stamp"]
    return None if stamp is None else stamps.seconds(stamp)


FAMILY = Family(
    name="plsc",
    title="PLSC",
    framework="paddle",
    unit="images/s",
    needles=("qps:", "throughput:", "Accuracy-Flip: ", "Save model to"),
    reader=_Reader,
)
