"""PaddleVideo: ``ips`` is clips/s of ONE card, of that single step; one step in twenty is
printed. The truth about all steps stands in the line that ends an epoch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sbench.model.sample import Fact, Item, Mark, Record, Shape
from k8sbench.parse import stamps
from k8sbench.parse.families.paddle import PaddleReader
from k8sbench.parse.family import LOSS, Family, Reader, facts, number, positive, rule, share

SHAPE = Shape(
    name="paddlevideo",
    number="rate",
    per="card",
    averaged="step",
    numbering="epoch",
    first_epoch=1,
    complete=False,
    resolution=1.0,
    dated=False,
)

_STAMP = r"(?:\[(?P<stamp>\d\d/\d\d \d\d:\d\d:\d\d)\]\s+)?"
_RECORD = re.compile(
    _STAMP + r"epoch:\[\s*(?P<epoch>\d{1,6})/\d+\s*\]\s*train step:(?P<step>\d{1,12})\s+"
    r"(?P<middle>(?:(?!epoch:).)*?)"
    r"(?:elapse|batch_cost): (?P<cost>\d+\.\d+)(?: ?s(?:ec)?,?)?\s+"
    r"(?:reader|reader_cost): (?P<data>\d+\.\d+)(?: ?s(?:ec)?,?)?\s*"
    r"ips: (?P<ips>\d+\.\d{5,}) ?(?:instance/s(?:ec)?)?"
)
_LOSS = re.compile(r"\bloss: " + LOSS)
_END = re.compile(
    r"END epoch:(?P<epoch>\d{1,6})\s+(?P<what>train|val)\s(?P<rest>.*?)"
    r"(?:elapse_avg|batch_cost_avg|avg_batch_cost|batch_cost): (?P<average>\d+\.\d+).*?"
    r"ips: (?P<ips>\d+\.\d+)"
)
_TOP1 = re.compile(r"\btop1_avg: (?P<value>\d+\.\d+)")

_FACTS = (
    rule("/PaddleVideo/", program="PaddleVideo"),
    rule("<paddlevideo.", program="PaddleVideo"),
    rule("--amp", r"(?:^|\s|')--amp\b", precision="amp", amp_dtype="fp16"),
    rule("GradScaler", precision="amp", amp_dtype="fp16"),
    rule("loss_scaler.py", precision="amp", amp_dtype="fp16"),
)


class _Reader(PaddleReader):
    def head(self, line: int, text: str, source: str) -> Iterator[Fact]:
        yield from facts(_FACTS, line, text, source)
        yield from super().head(line, text, source)

    def read(self, line: int, text: str, source: str) -> Iterator[Item]:
        for match in _RECORD.finditer(text):
            rate, seconds = positive(match["ips"]), positive(match["cost"])
            if rate is None:
                continue
            loss, stamp = _LOSS.search(match["middle"]), match["stamp"]
            yield Record(
                line=line,
                text=match[0],
                source=source,
                shape=SHAPE,
                epoch=int(match["epoch"]),
                iteration=int(match["step"]) + 1,
                rate=rate,
                seconds=seconds,
                loss=number(loss["loss"]) if loss else None,
                waiting=share(number(match["data"]), seconds),
                stamp=None if stamp is None else stamps.seconds(stamp),
            )
        if "END epoch:" in text and (ended := _END.search(text)):
            yield from _end(line, source, ended)
        if "val step:" in text:
            yield Mark(line=line, text=text, kind="evaluation", source=source)


def _end(line: int, source: str, match: re.Match[str]) -> Iterator[Item]:
    if match["what"] == "train":
        yield Mark(
            line=line,
            text=match[0],
            kind="epoch-end",
            source=source,
            values={"epoch": float(match["epoch"]), "all_steps_rate": number(match["ips"])},
        )
        return
    yield Mark(line=line, text=match[0], kind="evaluation", source=source)
    if top1 := _TOP1.search(match["rest"]):
        yield Reader.evaluation(line, source, match[0], "top1", top1["value"])


FAMILY = Family(
    name="paddlevideo",
    title="PaddleVideo",
    framework="paddle",
    unit="clips/s",
    needles=("train step:", "END epoch:", "val step:"),
    reader=_Reader,
)
