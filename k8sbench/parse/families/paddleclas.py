"""PaddleClas in its three shapes. All figures are ONE card's.

2020 prints ``elapse … ips`` and its documentation calls them those of that step. From 2021 on
``batch_cost … ips`` are running means since step 5 of the epoch, and begin anew in each epoch;
the dygraph engine prints the same numbers in lines of another form. The time of the switch to the
next epoch is in no record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from k8sbench.model.sample import Fact, Item, Mark, Record, Shape
from k8sbench.parse import stamps
from k8sbench.parse.families.paddle import PaddleReader
from k8sbench.parse.family import LOSS, Family, Reader, facts, number, positive, rule, share

STEP = Shape(
    name="paddleclas 2020",
    number="rate",
    per="card",
    averaged="step",
    skips=5,
    numbering="epoch",
    complete=False,
    resolution=1.0,
)
RUNNING = Shape(
    name="paddleclas",
    number="seconds",
    per="card",
    averaged="running",
    skips=5,
    numbering="epoch",
    resolution=1.0,
)
DYGRAPH = Shape(
    name="paddleclas dygraph",
    number="seconds",
    per="card",
    averaged="running",
    skips=5,
    numbering="epoch",
    first_epoch=1,
    resolution=1.0,
)

_STAMP = r"(?:\[?(?P<stamp>\d{4}[-/]\d\d[-/]\d\d \d\d:\d\d:\d\d)\]? (?:\w+ )?INFO: )?"
_RECORD = re.compile(
    _STAMP + r"epoch:(?P<epoch>\d{1,6})\s+train step:(?P<step>\d{1,12})\s"
    # What stands between differs by generation; another record's beginning must not.
    r"(?P<middle>(?:(?!epoch:).)*?)"
    r"(?:elapse: (?P<elapse>\d+\.\d+)s?,?|batch_cost: (?P<cost>\d+\.\d+) ?s, "
    r"reader_cost: (?P<data>\d+\.\d+) ?s,) ips: (?P<ips>\d+\.\d{5,}) ?(?:\w+/s(?:ec)?\b)?"
)
_DYGRAPH = re.compile(
    _STAMP
    + r"\[Train\]\[Epoch (?P<epoch>\d{1,6})/\d+\]\[Iter: ?(?P<step>\d{1,12})/(?P<total>\d{1,12})\]"
    r"(?P<middle>(?:(?!\[Train\]).)*?)"
    r"batch_cost: (?P<cost>\d+\.\d+) ?s, reader_cost: (?P<data>\d+\.\d+)(?: ?s)?, "
    r"ips: (?P<ips>\d+\.\d{5,}) ?(?:\w+/s(?:ec)?\b)?"
)
_LOSS = re.compile(r"\bloss:\s+" + LOSS)
_END = re.compile(
    _STAMP + r"END epoch:(?P<epoch>\d{1,6})\s+(?P<what>train|valid|eval)\s(?P<rest>.*)"
)
_END_COST = re.compile(r"batch_cost: (?P<cost>\d+\.\d+) ?s.*?batch_cost_sum: (?P<sum>\d+\.\d+) ?s")
_END_ELAPSE = re.compile(r"elapse_sum: (?P<sum>\d+\.\d+)s?\s*ips: (?P<ips>\d+\.\d+)")
_TOP1 = re.compile(r"\btop1:\s+(?P<value>\d+\.\d+)")
_EVAL_AVERAGE = re.compile(_STAMP + r"\[Eval\]\[Epoch \d+\]\[Avg\].*?\btop1: (?P<value>\d+\.\d+)")

_FACTS = (
    rule("PaddleClas is powered by", program="PaddleClas", config="True"),
    rule("AMP : ", r"INFO:\s+AMP : ", amp_section="True"),
    rule("use_amp : False", amp_off="True"),
    rule("fp16 : True", r"use_(?:pure_)?fp16 : True", half="True"),
    rule("num_shards", r"num_shards: (?P<gpus>\d{1,12})\b"),
    rule("PaddlePaddle", r"\bPaddlePaddle(?: version)?[: ]+(?P<framework_version>\d+\.\d+\.\d+)"),
)
_ARCHITECTURE = re.compile(r"INFO: ARCHITECTURE : |INFO: Arch : ")
_NAME = re.compile(r"INFO:\s+name : (?P<model>\S+)")


class _Reader(PaddleReader):
    def __init__(self) -> None:
        super().__init__()
        self._names_model = False
        self._settings: dict[str, Fact] = {}

    def head(self, line: int, text: str, source: str) -> Iterator[Fact]:
        for fact in facts(_FACTS, line, text, source):
            if fact.name in {"config", "half", "amp_section", "amp_off"}:
                self._settings.setdefault(fact.name, fact)
            else:
                yield fact
        yield from super().head(line, text, source)
        if _ARCHITECTURE.search(text):
            self._names_model = True
        elif self._names_model and (match := _NAME.search(text)):
            self._names_model = False
            yield Fact(line=line, text=text, name="model", value=match["model"], source=source)

    def settle(self) -> Iterator[Fact]:
        yield from super().settle()
        # The AMP section is printed where it is set, and may still switch AMP off; pure fp16 is
        # switched by a setting of its own.
        said = self._settings
        if "amp_off" in said and "half" not in said:
            yield replace(said["amp_off"], name="precision", value="fp32")
        elif "half" in said or "amp_section" in said:
            at = said.get("half") or said["amp_section"]
            yield replace(at, name="precision", value="amp")
            yield replace(at, name="amp_dtype", value="fp16")
        elif "config" in said:
            yield replace(said["config"], name="precision_assumed", value="fp32")

    def read(self, line: int, text: str, source: str) -> Iterator[Item]:
        if "train step:" in text:
            for match in _RECORD.finditer(text):
                if record := _record(line, source, match):
                    yield record
        if "[Train][Epoch " in text:
            for match in _DYGRAPH.finditer(text):
                if record := _dygraph(line, source, match):
                    yield record
        if "END epoch:" in text and (ended := _END.search(text)):
            yield from _end(line, source, ended)
        if "valid step:" in text or "[Eval][Epoch " in text:
            yield Mark(line=line, text=text, kind="evaluation", source=source)
            if mean := _EVAL_AVERAGE.search(text):
                stamp, value = mean.groups()
                yield Reader.evaluation(line, source, mean[0], "top1", value, stamp=stamp)
        if "save model in" in text:
            yield Mark(line=line, text=text, kind="checkpoint", source=source)


def _record(line: int, source: str, match: re.Match[str]) -> Record | None:
    stamp, epoch, step, middle, elapse, cost, data, ips = match.groups()
    rate, seconds = positive(ips), positive(elapse if cost is None else cost)
    if rate is None or seconds is None:
        return None
    loss = _LOSS.search(middle)
    return Record(
        line=line,
        text=match[0],
        source=source,
        shape=STEP if cost is None else RUNNING,
        epoch=int(epoch),
        iteration=int(step) + 1,
        rate=rate,
        seconds=seconds if cost is None else None,
        mean_seconds=None if cost is None else seconds,
        loss=number(loss["loss"]) if loss else None,
        waiting=share(number(data), seconds),
        stamp=None if stamp is None else stamps.seconds(stamp),
    )


def _dygraph(line: int, source: str, match: re.Match[str]) -> Record | None:
    rate, seconds = positive(match["ips"]), positive(match["cost"])
    if rate is None or seconds is None:
        return None
    loss, stamp = _LOSS.search(match["middle"]), match["stamp"]
    return Record(
        line=line,
        text=match[0],
        source=source,
        shape=DYGRAPH,
        epoch=int(match["epoch"]),
        iteration=int(match["step"]) + 1,
        total=int(match["total"]),
        rate=rate,
        mean_seconds=seconds,
        loss=number(loss["loss"]) if loss else None,
        waiting=share(number(match["data"]), seconds),
        stamp=None if stamp is None else stamps.seconds(stamp),
    )


def _end(line: int, source: str, match: re.Match[str]) -> Iterator[Item]:
    rest, stamp = match["rest"], match["stamp"]
    if match["what"] == "train":
        values: dict[str, float | str | None] = {"epoch": float(match["epoch"])}
        # The newer line's own ips is that of another batch: only its times are used.
        if times := _END_COST.search(rest):
            values |= {"mean_seconds": number(times["cost"]), "sum_seconds": number(times["sum"])}
        elif rates := _END_ELAPSE.search(rest):
            values |= {"mean_rate": number(rates["ips"]), "sum_seconds": number(rates["sum"])}
        yield Mark(line=line, text=match[0], kind="epoch-end", values=values, source=source)
        return
    yield Mark(line=line, text=match[0], kind="evaluation", source=source)
    if top1 := _TOP1.search(rest):
        yield Reader.evaluation(line, source, match[0], "top1", top1["value"], stamp=stamp)


FAMILY = Family(
    name="paddleclas",
    title="PaddleClas",
    framework="paddle",
    unit="images/s",
    needles=(
        "train step:",
        "[Train][Epoch ",
        "END epoch:",
        "valid step:",
        "[Eval][Epoch ",
        "save model in",
    ),
    reader=_Reader,
)
