"""Logs of llm.c.

The milliseconds are of that step of the job, exactly; ``tok/s`` is smoothed over steps, and so is
the share of the peak. Evaluations and checkpoints lie between the steps.
"""

from __future__ import annotations

import re

from k8sbench.model.sample import Shape
from k8sbench.reader.family import (
    LOSS_NUMBER,
    NUMBER,
    EvaluationRule,
    Family,
    MarkRule,
    RecordRule,
    amp,
    in_units,
    padded,
    rule,
)

_A_STEP = re.compile(r"step +\d")
_SHAPE = Shape(name="llm.c", number="seconds", averaged="step", complete=False)
_RECORD = padded(
    r"\bstep +(?P<iteration>\d{1,12})/(?P<total>\d{1,12}) \| "
    rf"(?:train )?loss +{LOSS_NUMBER}\b[^|]*"
    rf"\|.*?\| ?\(?(?P<step_seconds>{NUMBER}) ms \|(?: (?P<mfu>-?[\d.]+)% \w+ MFU \|)?"
    r" (?P<smoothed>\d+) tok/s"
)

FAMILY = Family(
    name="llm.c",
    title="llm.c",
    framework="cuda",
    unit="tokens/s",
    facts=(
        rule("total_batch_size ", r"\| total_batch_size +\| (?P<tokens_per_step>\d+)"),
        rule("total batch size ", r"\btotal batch size +\| (?P<tokens_per_step>\d+)"),
        rule("sequence length T ", r"\| sequence length T +\| (?P<sequence_length>\d+)"),
        rule("num_processes ", r"\| num_processes +\| (?P<gpus>\d+)"),
        rule("| device ", r"\| device +\| (?P<gpu_model>\S.*?) +\|"),
        rule("| precision ", r"\| precision +\| BF16", **amp("bf16")),
        rule("| precision ", r"\| precision +\| FP16", **amp("fp16")),
        rule("| precision ", r"\| precision +\| FP32", precision="fp32"),
    ),
    records=(
        RecordRule(
            " tok/s",
            _RECORD,
            _SHAPE,
            convert=in_units(1e-3, "step_seconds"),
            begins=_A_STEP,
        ),
    ),
    evaluations=(
        EvaluationRule(
            "HellaSwag: ",
            re.compile(r"HellaSwag: \d+/\d+ = (?P<value>[\d.]+)"),
            "HellaSwag",
            "fraction",
        ),
    ),
    marks=(
        MarkRule("val loss ", "evaluation"),
        MarkRule("Writing model to ", "checkpoint"),
    ),
)
