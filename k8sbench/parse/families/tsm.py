"""temporal-shift-module: ``Time v (a)`` is seconds of that one iteration and their running mean
over the epoch, of the job. The batch is in no line. A later version adds a stamp at the end.

Every rank may print evaluations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sbench.model.sample import Fact, Item, Mark, Record, Shape
from k8sbench.parse import stamps
from k8sbench.parse.family import LOSS, Family, Reader, facts, number, positive, rule, share

SHAPE = Shape(name="tsm", number="seconds", averaged="running", numbering="epoch")
STAMPED = Shape(
    name="tsm, stamped",
    number="seconds",
    averaged="running",
    numbering="epoch",
    resolution=0.000001,
)

_RECORD = re.compile(
    r"Epoch: \[(?P<epoch>\d{1,6})\]\[\s*(?P<step>\d{1,12})/(?P<total>\d{1,12})\], lr: \S+\s+"
    r"Time\s+(?P<time>\d+\.\d+) \(\s*(?P<mean>\d+\.\d+)\)\s+"
    r"Data\s+(?P<data>\d+\.\d+) \(\s*(?P<data_mean>\d+\.\d+)\)\s+"
    r"(?:Loss\s+" + LOSS + r" \(\s*\S+\))?"
    r"(?:\s+Prec@\d\s+\d+\.\d+ \(\s*\d+\.\d+\))*"
    r"(?:\s+(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+))?"
)
_RESULT = re.compile(r"Testing Results: Prec@1 (?P<value>\d+\.\d+) Prec@5 \d+\.\d+")

_FACTS = (
    rule("storing name: ", r"storing name: (?P<model>\S+)", program="temporal-shift-module"),
    rule("Initializing TSN with base model", program="temporal-shift-module"),
    rule("first_conv_weight", program="temporal-shift-module"),
    rule("====rank=", r"====rank=(?P<rank>\d{1,12})"),
)
_EPOCHS = re.compile(r"_e(?P<epochs>\d{1,6})(?:_|$)")


class _Reader(Reader):
    def head(self, line: int, text: str, source: str) -> Iterator[Fact]:
        for fact in facts(_FACTS, line, text, source):
            yield fact
            if fact.name == "model" and (match := _EPOCHS.search(fact.value)):
                yield Fact(
                    line=line,
                    text=text,
                    name="planned_epochs",
                    value=match["epochs"],
                    source=source,
                )

    def read(self, line: int, text: str, source: str) -> Iterator[Item]:
        for match in _RECORD.finditer(text):
            epoch, step, total, time, mean, _, data_mean, loss, stamp = match.groups()
            seconds, mean_seconds = positive(time), positive(mean)
            if seconds is None or mean_seconds is None:
                continue
            yield Record(
                line=line,
                text=match[0],
                source=source,
                shape=SHAPE if stamp is None else STAMPED,
                epoch=int(epoch),
                iteration=int(step) + 1,
                total=int(total),
                seconds=seconds,
                mean_seconds=mean_seconds,
                loss=number(loss),
                waiting=share(number(data_mean), mean_seconds),
                stamp=None if stamp is None else stamps.seconds(stamp),
            )
        if "=> loaded checkpoint" in text:
            yield Mark(line=line, text=text, kind="restart", source=source)
        if "Test: [" in text:
            yield Mark(line=line, text=text, kind="evaluation", source=source)
        if "Testing Results:" in text:
            for match in _RESULT.finditer(text):
                yield Mark(line=line, text=match[0], kind="evaluation", source=source)
                yield Reader.evaluation(
                    line, source, match[0], "Prec@1", match["value"], percent=True
                )


FAMILY = Family(
    name="tsm",
    title="temporal-shift-module",
    framework="pytorch",
    unit="clips/s",
    needles=("Epoch: [", "Test: [", "Testing Results:", "=> loaded checkpoint"),
    reader=_Reader,
)
