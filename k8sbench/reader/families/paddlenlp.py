"""Logs of PaddleNLP's Trainer.

Until version 2.4.0 the printed samples per second lack the log interval and the GPUs: the time of
the interval and the steps in it are exact. An evaluation lies in the next interval.
"""

from __future__ import annotations

from typing import Any

from k8sbench.model.sample import Shape
from k8sbench.reader.family import Family, MarkRule, RecordRule, number_in, padded, rule

_NLP_SHAPE = Shape(name="paddlenlp", number="seconds", holds_events=True, resolution=0.001)
_NLP_RECORD = padded(
    r"(?:\[(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\].*?)?"
    r"\bloss: (?P<loss>[-+.\deE]+|nan), .*?\bglobal_step: (?P<iteration>\d{1,12}), "
    r".*?\binterval_runtime: (?P<interval_seconds>\d+\.\d+), "
    r".*?\binterval_steps_per_second: (?P<steps_rate>\d+\.\d+)"
)


def _nlp(texts: dict[str, Any]) -> None:
    seconds = number_in(texts["interval_seconds"]) or 0.0
    steps = round(seconds * (number_in(texts["steps_rate"]) or 0.0))
    texts["step_seconds"] = seconds / steps if steps else None


FAMILY = Family(
    name="paddlenlp",
    title="PaddleNLP's Trainer",
    framework="paddle",
    unit="samples/s",
    facts=(
        rule("Total train batch size", r"Total train batch size \(.*\) = (?P<global_batch>[\d,]+)"),
        rule("world_size", r"\bworld_size +:(?P<gpus>\d+)"),
    ),
    records=(RecordRule("interval_runtime: ", _NLP_RECORD, _NLP_SHAPE, convert=_nlp),),
    marks=(
        MarkRule("eval_runtime: ", "evaluation"),
        MarkRule("Saving model checkpoint", "checkpoint"),
    ),
    shares_samples=True,
)
