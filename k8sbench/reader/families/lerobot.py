"""Logs of LeRobot.

``updt_s`` and ``data_s`` are means since the line before; a step is their sum. From a thousand
steps on the step is rounded, and the samples are exact no longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from k8sbench.model.sample import Item, Record, Shape
from k8sbench.reader.family import (
    Family,
    LineReader,
    LineRule,
    MarkRule,
    RecordRule,
    number_in,
    padded,
    rule,
)
from k8sbench.reader.lines import CleanLine

# One public log, of milliseconds: printed time ÷ time by the stamps is 0.98.
_SHAPE = Shape(name="lerobot", number="seconds", holds_events=False, resolution=1.0)
_RECORD = padded(
    r"(?:INFO (?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:\S{1,64} )?)?"
    r"\bstep:(?P<iteration>\d{1,12})[KMB]? smpl:\S{1,32} ep:\S{1,32} epch:\S{1,32} "
    r"loss:(?P<loss>[-+.\deE]+|nan) .{0,200}?\bupdt_s:(?P<update_seconds>\d+\.\d{3}) "
    r"data_s:(?P<data_seconds>\d+\.\d{3})"
)
_ROUNDED_STEP = padded(r"\bstep:\d+[KMB]")


def _add_times(texts: dict[str, Any]) -> None:
    update = number_in(texts["update_seconds"])
    data = number_in(texts["data_seconds"])
    texts["step_seconds"] = (update or 0.0) + (data or 0.0)


class _LerobotReader(LineReader):
    """Counts the lines on from step 1000, from which on steps are rounded to thousands."""

    def __init__(self, family: Family) -> None:
        self._latest: dict[str, tuple[int, int]] = {}
        """Step of the latest line, and its distance to the line before, by rank."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        (record, *others) = super().rules()

        def read(line: CleanLine) -> Iterator[Item]:
            for item in record.read(line):
                if isinstance(item, Record):
                    yield self._counted(item)

        return [record._replace(read=read), *others]

    def _counted(self, record: Record) -> Record:
        before, distance = self._latest.get(record.source, (0, 0))
        step = record.iteration
        if _ROUNDED_STEP.search(record.text):
            step = before + distance
        self._latest[record.source] = (step, step - before)
        return msgspec.structs.replace(record, iteration=step)


FAMILY = Family(
    name="lerobot",
    title="LeRobot",
    framework="pytorch",
    unit="samples/s",
    facts=(
        rule("Effective batch size", r"Effective batch size: .*= (?P<global_batch>\d+)"),
        rule("'batch_size': ", r"'batch_size': (?P<batch_size>\d+)"),
    ),
    records=(RecordRule(" updt_s:", _RECORD, _SHAPE, convert=_add_times),),
    make_reader=_LerobotReader,
    marks=(
        MarkRule("Eval policy at step", "evaluation"),
        MarkRule("Checkpoint policy after step", "checkpoint"),
        MarkRule("End of training", "finished"),
    ),
)
