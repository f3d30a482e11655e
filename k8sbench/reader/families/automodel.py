"""Logs of NVIDIA NeMo Automodel, and its training.jsonl.

By ``nemo_automodel/recipes/llm/train_ft.py`` at 36044ad3 (August 2026), and at 1a5b183f and
db4c6227 (July and August 2025): ``tps`` is the tokens of the step of the whole job, without the
padding at their ends, by the time since the end of the step before. So a validation or a checkpoint
lies in the time of the step after it. Each step has a line. The number in brackets is ``tps`` by
the data-parallel ranks, which are fewer than the GPUs where several of these share a sample.

Only ``training.jsonl`` states the tokens of a step: ``num_label_tokens`` has those with a label.

Steps count from 0; in 2025 they counted from 1.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from k8sbench.model.sample import Shape
from k8sbench.reader.family import (
    LOSS_NUMBER,
    Family,
    MarkRule,
    RecordRule,
    number_in,
    padded,
    positive,
    rule,
)
from k8sbench.reader.json_fields import JsonFields
from k8sbench.reader.shares import SharesReader

_SHAPE = Shape(name="automodel", number="rate", averaged="step", holds_events=True, resolution=1.0)
_JSON_SHAPE = Shape(name="automodel", number="seconds", holds_events=True, resolution=0.001)
_RECORD = padded(
    r"(?:(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \| .{0,200}?)?"
    rf"\bstep (?P<iteration>\d{{1,12}}) \| epoch (?P<epoch>\d{{1,6}}) \| loss {LOSS_NUMBER} \|"
    r".{0,400}? tps (?P<rate>\d+\.\d\d)(?:\((?P<share_rate>\d+\.\d\d)/gpu\)| \||$)"
)
_JSON = JsonFields(
    {
        "iteration": "step",
        "epoch": "epoch",
        "stamp": "timestamp",
        "loss": "loss",
        "memory": "mem",
        "job_rate": "tps",
        "share_rate": "tps_per_gpu",
        "step_samples": "num_tokens_per_step",
    },
    '"num_tokens_per_step": ',
)


def _convert(texts: dict[str, Any]) -> None:
    texts["job_rate"] = texts["rate"]


def _convert_json(texts: dict[str, Any]) -> None:
    rate, tokens = positive(texts["job_rate"]), positive(texts["step_samples"])
    texts["step_seconds"] = tokens / rate if tokens and rate else None
    memory = number_in(texts["memory"])
    texts["memory"] = memory and memory * 1024


FAMILY = Family(
    name="automodel",
    title="NVIDIA NeMo Automodel",
    framework="pytorch",
    unit="tokens/s",
    facts=(rule("World size: ", r"\bWorld size: (?P<gpus>\d+)$"),),
    records=(
        RecordRule(
            "| tps ",
            _RECORD,
            _SHAPE,
            first_iteration=0,
            convert=_convert,
            begins=re.compile(r"\bstep \d+ \| epoch "),
        ),
        RecordRule(
            '"num_tokens_per_step": ',
            _JSON,
            _JSON_SHAPE,
            first_iteration=0,
            convert=_convert_json,
        ),
    ),
    marks=(
        MarkRule("[val] ", "evaluation", re.compile(r"\[val\] .{0,200}?\bstep \d{1,12} \| epoch ")),
        MarkRule("Saving checkpoint to ", "checkpoint"),
        MarkRule("Loading checkpoint from ", "restart"),
    ),
    shares_samples=True,
    make_reader=functools.partial(SharesReader, fact="data_parallel"),
)
