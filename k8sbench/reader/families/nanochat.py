"""Logs of nanochat and build-nanogpt.

Every step, with its time and the tokens by it. Some versions leave out the accumulation there;
in build-nanogpt an evaluation lies in the time of the step behind it.
"""

from __future__ import annotations

import re
from typing import Any

from k8sbench.model.sample import Shape
from k8sbench.reader.family import (
    DATED,
    LOSS_NUMBER,
    NUMBER,
    Family,
    MarkRule,
    RecordRule,
    in_units,
    padded,
    rule,
)

_A_STEP = re.compile(r"step +\d")
_SHAPE = Shape(
    name="nanochat", number="seconds", averaged="step", holds_events=True, complete=False
)
_RECORD = padded(
    r"\bstep +(?P<iteration>\d{1,12})(?:/(?P<total>\d{1,12}))?(?: \([\d.]+%\))? ?[|,] ?"
    rf"(?:train )?loss: {LOSS_NUMBER}\b.*?\bdt: (?P<step_seconds>{NUMBER})ms ?[|,] "
    rf"tok/sec: (?P<rate>{NUMBER})(?: \| (?:bf16_)?mfu: (?P<mfu>[\d.]+))?"
)


def _convert(texts: dict[str, Any]) -> None:
    in_units(1e-3, "step_seconds", "rate")(texts)
    rate = texts.pop("rate")
    seconds = texts["step_seconds"]
    texts["step_samples"] = rate and seconds and 1e3 * rate * seconds


FAMILY = Family(
    name="nanochat",
    title="nanochat, build-nanogpt",
    framework="pytorch",
    unit="tokens/s",
    facts=(
        rule(
            "total desired batch size: ", r"total desired batch size: (?P<tokens_per_step>[\d,]+)"
        ),
        rule("Total batch size ", r"Total batch size (?P<tokens_per_step>[\d,]+)"),
        rule(
            "Tokens / micro-batch / rank: ",
            r"micro-batch / rank: (?P<micro_batch>\d+) x (?P<sequence_length>\d+) = [\d,]+",
        ),
        rule("world size", r"\b[Ww]orld size[:=] ?(?P<gpus>\d+)"),
        rule("world size", rf"^{DATED}\b.*\bworld size\b"),
    ),
    records=(
        RecordRule(
            "tok/sec: ",
            _RECORD,
            _SHAPE,
            first_iteration=0,
            convert=_convert,
            begins=_A_STEP,
        ),
    ),
    marks=(
        MarkRule("validation loss: ", "evaluation"),
        MarkRule("Validation bpb: ", "evaluation"),
    ),
)
