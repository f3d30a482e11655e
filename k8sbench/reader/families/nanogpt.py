"""Logs of nanoGPT.

The time is of that one iteration of the job, an evaluation before it included. Iterations count
from 0. The model's words on its FLOPs are of an A100, whatever the GPU is.
"""

from __future__ import annotations

import re

from k8sbench.model.sample import Shape
from k8sbench.reader.family import (
    LOSS_NUMBER,
    NUMBER,
    Family,
    MarkRule,
    RecordRule,
    amp,
    in_units,
    padded,
    rule,
)

_SHAPE = Shape(name="nanogpt", number="seconds", averaged="step", holds_events=True, complete=False)
_RECORD = padded(
    rf"\biter (?P<iteration>\d{{1,12}}): loss {LOSS_NUMBER}(?: [A-Za-z]\w{{0,15}})?, "
    rf"time (?P<step_seconds>{NUMBER})ms"
    r"(?:, mfu (?P<mfu>-?[\d.]+)%)?"
)

FAMILY = Family(
    name="nanogpt",
    title="nanoGPT",
    framework="pytorch",
    unit="tokens/s",
    facts=(
        rule("tokens per iteration will be: ", r"will be: (?P<tokens_per_step>[\d,]+)"),
        rule("block_size = ", r"\bblock_size = (?P<sequence_length>\d+)"),
        rule("dtype = ", r"\bdtype = '?bfloat16", **amp("bf16")),
    ),
    records=(
        RecordRule(
            "iter ",
            _RECORD,
            _SHAPE,
            first_iteration=0,
            convert=in_units(1e-3, "step_seconds"),
        ),
    ),
    marks=(
        MarkRule(", val loss ", "evaluation", re.compile(r"\bstep \d+: train loss ")),
        MarkRule("saving checkpoint to ", "checkpoint"),
        MarkRule("Resuming training from", "restart"),
    ),
)
