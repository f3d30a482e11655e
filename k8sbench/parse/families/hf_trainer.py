"""Logs of Hugging Face's Trainer, whose last line has the run's rate."""

from __future__ import annotations

import re

from k8sbench.parse.family import Family, MarkRule

_LAST = re.compile(
    r"'train_samples_per_second': '?(?P<whole_run_rate>\d+\.?\d*)"
    r"(?:.*?'train_loss': '?(?P<final_loss>[-\d.e]+))?"
)

FAMILY = Family(
    name="hf-trainer",
    title="Hugging Face's Trainer",
    framework="pytorch",
    unit="samples/s",
    marks=(MarkRule("'train_samples_per_second'", "summary", _LAST),),
)
