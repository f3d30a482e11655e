"""Logs of HugeCTR.

``Time(100 iters)`` is the time of all those iterations and of an evaluation before them.
"""

from __future__ import annotations

from typing import Any

from k8sbench.model.sample import Shape
from k8sbench.reader.family import Family, MarkRule, RecordRule, number_in, padded, rule

_SHAPE = Shape(name="hugectr", number="seconds", holds_events=True)
_RECORD = padded(
    r"\[(?:HCTR|HUGECTR)\].*?\bIter: (?P<iteration>\d{1,12}) "
    r"Time\((?P<steps>\d+) iters\): (?P<all_seconds>\d+\.\d+)s Loss: (?P<loss>[-+.\deE]+|nan)"
)


def _divide_time(texts: dict[str, Any]) -> None:
    steps = number_in(texts["steps"])
    texts["step_seconds"] = (number_in(texts["all_seconds"]) or 0.0) / steps if steps else None


FAMILY = Family(
    name="hugectr",
    title="HugeCTR",
    framework="hugectr",
    unit="samples/s",
    facts=(
        rule("batchsize", r"\bGlobal batchsize:? (?P<global_batch>\d+)"),
        rule("global_batch_size", r'"key": "global_batch_size", "value": (?P<global_batch>\d+)'),
    ),
    records=(RecordRule("Time(", _RECORD, _SHAPE, convert=_divide_time),),
    marks=(MarkRule("Evaluation, ", "evaluation"), MarkRule("Eval Time for", "evaluation")),
    yields_to=(":::MLLOG",),
)
