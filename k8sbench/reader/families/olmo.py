"""Logs of OLMo and OLMo-core.

A record has several lines: its head has the step, later ones all tokens of the job so far, and the
tokens per second of one device, a mean of the last few steps. The first step has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from k8sbench.model.sample import Item, Shape
from k8sbench.reader.family import (
    DATED,
    NUMBER,
    Family,
    LineReader,
    LineRule,
    MarkRule,
    RecordRule,
    padded,
    plain_number,
    rule,
)
from k8sbench.reader.lines import CleanLine

_SHAPE = Shape(
    name="olmo", number="rate", per="card", begins_late=True, complete=False, resolution=1.0
)
_STEP = padded(
    r"(?:^\W?(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{3})?)\b.{1,200}?)?"
    r"\[step=(?P<iteration>\d{1,12})(?:/(?P<total>\d{1,12}))?[,\]]"
)
_TOTAL = padded(rf"\bthroughput/total[ _]tokens=(?P<tokens>{NUMBER})$")
"""Later versions may round it, and name its unit."""
_RATE = padded(rf"\bthroughput/device/(?:tokens_per_second|TPS)=(?P<rate>{NUMBER})")


class _OlmoReader(LineReader):
    def __init__(self, family: Family) -> None:
        self._steps: dict[str, dict[str, Any]] = {}
        """Groups of the latest head, by rank."""
        self._totals: dict[str, tuple[int, float]] = {}
        """Iteration, and all tokens so far, of the latest record that states them, by rank."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        _, *others = super().rules()
        heads = LineRule("[step=", self._head)
        return [
            heads,
            LineRule("throughput/total", self._total),
            LineRule("throughput/device/", self._rate),
            *others,
        ]

    def _head(self, line: CleanLine) -> Sequence[Item]:
        if match := _STEP.search(line.text):
            self._steps[line.source] = match.groupdict()
        return ()

    def _total(self, line: CleanLine) -> Sequence[Item]:
        """Add the tokens of a step, by those of the job since the record before."""
        match = _TOTAL.search(line.text)
        step = self._steps.get(line.source)
        if match and step:
            now = int(step["iteration"]), float(plain_number(match["tokens"]) or 0)
            iteration, tokens = self._totals.get(line.source, now)
            self._totals[line.source] = now
            if now[0] > iteration and now[1] > tokens:
                step["step_samples"] = (now[1] - tokens) / (now[0] - iteration)
        return ()

    def _rate(self, line: CleanLine) -> Iterator[Item]:
        match = _RATE.search(line.text)
        rule, *_ = self._family.records
        step = self._steps.get(line.source)
        if match and step:
            record = rule.build(line, match[0], step | {"rate": plain_number(match["rate"])})
            if record is not None:
                yield record


FAMILY = Family(
    name="olmo",
    title="OLMo, OLMo-core",
    framework="pytorch",
    unit="tokens/s",
    facts=(rule("[step=", rf"^{DATED}\b.*\[step="),),
    records=(RecordRule("throughput/device/", _RATE, _SHAPE),),
    marks=(
        MarkRule("Saving checkpoint", "checkpoint"),
        MarkRule("Running evaluation", "evaluation"),
    ),
    make_reader=_OlmoReader,
)
