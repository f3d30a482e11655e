"""Logs of torchtune.

The tokens of the step just done by its time and by the GPUs. A space ends each line, which copies
lack: a number of few digits at the end may be torn.
"""

from __future__ import annotations

import re

from k8sbench.model.sample import Shape
from k8sbench.reader.family import Family, RecordRule, padded, rule

_SHAPE = Shape(name="torchtune", number="rate", per="card", averaged="step", complete=False)
_RECORD = padded(
    r"\bStep (?P<iteration>\d{1,12}) \| "
    r"(?=.*?\btokens_per_second_per_gpu:(?P<rate>[\d.eE+]+(?= )|\d+\.\d{4,}$))"
    r"(?:(?=.*?\bloss:(?P<loss>[-+.\deE]+|nan))|).*"
)

FAMILY = Family(
    name="torchtune",
    title="torchtune",
    framework="pytorch",
    unit="tokens/s",
    facts=(rule("log_every_n_steps: ", r"^ *log_every_n_steps: (?P<log_interval>\d{1,9}) *$"),),
    records=(
        RecordRule(
            "tokens_per_second_per_gpu:",
            _RECORD,
            _SHAPE,
            begins=re.compile(r"Step \d"),
        ),
    ),
)
